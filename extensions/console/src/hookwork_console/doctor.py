"""`hookwork doctor [AGENT]`: is everything in place, and if not, what to do (servers §7)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click
import msgspec

from hookwork.cli import command_settings
from hookwork_console.diagnosis import FAILURE, NOTE, OK, WARNING, Finding, diagnose
from hookwork_console.options import Options, shared_options
from hookwork_console.terminal import Terminal

_STYLES = {OK: "green", NOTE: "bright_black", WARNING: "yellow", FAILURE: "red"}
_EPILOG = """
Looks at settings, extensions, plugins, the agent, its models and services. Services are asked for something that is not
there; nothing is written. Models are only called with --call. Exit code 1 when something fails.
"""


@click.command("doctor", epilog=_EPILOG)
@click.argument("agent", required=False)
@shared_options
@click.option("--call", "call_models", is_flag=True, help="Send each model one short request; it may cost money.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(agent: str | None, call_models: bool, as_json: bool, **shared: Any) -> int:
    """Check settings, extensions, models and services, and say what to do."""
    return asyncio.run(_examine(agent, Options(**shared), call_models=call_models, as_json=as_json))


async def _examine(agent: str | None, options: Options, *, call_models: bool, as_json: bool) -> int:
    terminal = Terminal()
    findings: list[Finding] = []
    async for finding in diagnose(agent, options, command_settings, call_models=call_models):
        findings.append(finding)
        if not as_json:
            terminal.result_row(finding.state, f"{finding.area:<10}  {finding.text}", style=_STYLES[finding.state])
    if as_json:
        terminal.result(json.dumps([msgspec.to_builtins(finding) for finding in findings], ensure_ascii=False))
    return 1 if any(finding.state == FAILURE for finding in findings) else 0
