"""The plugin: looks requests up before the model, keeps answers after it (tools-plugins SP-40)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookwork import Plugin, hookimpl
from hookwork.errors import ConfigurationError
from hookwork.platform import replaying
from hookwork_cache.answers import as_hit, is_complete, without_ids
from hookwork_cache.keys import request_key
from hookwork_cache.store import Store, check_bounds

if TYPE_CHECKING:
    from hookwork import CallbackContext, InvocationContext, ModelRequest, ModelResponse, RunOutcome

SCOPES = ("user", "app")


class Cache(Plugin):
    """Answers a model request that was asked before with the answer it got.

    List it behind plugins that change requests, so that it sees what the model would see.

    Args:
        ttl: seconds an answer may be used.
        max_entries: number of answers kept; the least recently used one goes first.
        max_bytes: bytes of their JSON text together.
        scope: ``user``: each user of an app has answers of their own; ``app``: all users of an app share them.
        include_tools: keep answers with function calls too. The calls are then made again, with new ids.
        name: the plugin's name.

    Attributes:
        hits, misses: how often a request was, or was not, found.

    Raises:
        ConfigurationError: a bound that is not positive, or an unknown scope.
    """

    def __init__(
        self,
        *,
        ttl: float = 3600.0,
        max_entries: int = 1000,
        max_bytes: int = 64 * 1024 * 1024,
        scope: str = "user",
        include_tools: bool = False,
        name: str = "cache",
    ) -> None:
        check_bounds(f"plugin {name!r}", ttl=ttl, max_entries=max_entries, max_bytes=max_bytes)
        if scope not in SCOPES:
            raise ConfigurationError(f"plugin {name!r}: scope is one of {', '.join(SCOPES)}, not {scope!r}")
        self.name = name
        self._scope = scope
        self._include_tools = include_tools
        self._store = Store(ttl=ttl, max_entries=max_entries, max_bytes=max_bytes)
        self.hits = 0
        self.misses = 0
        #: invocation id → idempotency key of the model stage → cache key; what was asked and not answered yet.
        self._asked: dict[str, dict[str, str]] = {}

    def clear(self) -> None:
        """Forget all answers."""
        self._store.clear()

    def before_model(self, ctx: CallbackContext, request: ModelRequest) -> ModelResponse | None:
        """The kept answer, or None."""
        if replaying():
            return None  # the first time the model was asked, and an engine holds what it said
        key = request_key(ctx, request, self._scope)
        response = self._store.get(key)
        if response is None:
            self.misses += 1
            self._asked.setdefault(ctx.invocation_id, {})[ctx.idempotency_key] = key
            return None
        self.hits += 1
        return as_hit(response)

    @hookimpl(tryfirst=True)
    def on_model_error(self, ctx: CallbackContext) -> None:
        """What answers an error in the model's place is not kept."""
        self._asked.get(ctx.invocation_id, {}).pop(ctx.idempotency_key, None)

    def after_model(self, ctx: CallbackContext, response: ModelResponse) -> None:
        """Keep a final, complete answer."""
        if response.partial:
            return
        key = self._asked.get(ctx.invocation_id, {}).pop(ctx.idempotency_key, None)
        if key is not None and is_complete(response, tools=self._include_tools):
            self._store.put(key, without_ids(response))

    def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        self._asked.pop(ctx.invocation_id, None)
