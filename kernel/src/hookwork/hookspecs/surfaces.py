"""Provider hooks of command line, web and telemetry: all implementations are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookspec

if TYPE_CHECKING:
    from hookwork.cli import CommandRegistry


class SurfaceProviders:
    """Who adds commands, routes and span processors."""

    @hookspec
    def register_commands(self, cli: CommandRegistry) -> None:
        """Called when the command line starts: ``cli.add(name, help, "module:attribute")``. Import nothing here."""

    @hookspec
    def register_routes(self, server: Any) -> None:
        """Called when a server is built: ``server.mount(prefix, asgi_app, name=…)`` (servers SRV-10)."""

    @hookspec
    def configure_telemetry(self, settings: dict[str, Any]) -> Any:
        """Called when telemetry is set up; contributed processors are joined (crosscutting TEL-2)."""
