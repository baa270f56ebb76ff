"""The plugin: shortens the contents of model requests (tools-plugins SP-43)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookwork import Plugin
from hookwork.errors import ConfigurationError
from hookwork_context_filter.turns import last_turns

if TYPE_CHECKING:
    from hookwork import CallbackContext, ModelRequest


class ContextFilter(Plugin):
    """Sends a model the last turns of the conversation instead of all of it. The session keeps everything.

    Args:
        turns: how many turns are sent, the present one included, from 1.
        name: the plugin's name.

    Raises:
        ConfigurationError: ``turns`` is no whole number from 1.
    """

    def __init__(self, *, turns: int = 10, name: str = "context_filter") -> None:
        if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
            raise ConfigurationError(f"plugin {name!r}: turns is a whole number from 1, not {turns!r}")
        self.name = name
        self._turns = turns

    def before_model(self, ctx: CallbackContext, request: ModelRequest) -> None:
        kept = last_turns(request.contents, self._turns)
        if len(kept) < len(request.contents):
            request.contents = list(kept)
