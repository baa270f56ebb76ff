"""Effect hooks: the one seam through which model, tool, node and store effects are carried out (tools-plugins §7.2).

Without an implementer no call object is built and the default runs directly. With one, it gets an `EffectCall`: a
JSON-able snapshot with a `default()` that carries the effect out here and now.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hookwork.errors import PluginError, RemoteEffectError
from hookwork.plugins.dispatch import Chain
from hookwork.records.event import NO_ACTIONS, Event, EventActions, route_texts
from hookwork.records.metadata import ModelResponse


class EffectCall:
    """One effect, described by JSON-able data only: no live object, no ephemeral value, no credential (EFF-2).

    ``data`` holds the fields of the kind: model (``model``, ``request``, ``stream``), tool (``tool``, ``call_id``,
    ``args``, ``confirmation``), node (``node``, ``run_id``, ``attempt``, ``input``, ``answers``), write (``op``,
    ``payload``). ``key`` is the same in a replay, a resume and every attempt at that effect.
    """

    __slots__ = (
        "_default",
        "_emit",
        "agent",
        "app_name",
        "branch",
        "data",
        "invocation_id",
        "isolation_scope",
        "key",
        "kind",
        "path",
        "session_id",
        "state",
        "user_id",
    )

    def __init__(
        self,
        *,
        kind: str,
        key: str,
        app_name: str,
        user_id: str,
        session_id: str,
        invocation_id: str,
        agent: str,
        branch: str,
        isolation_scope: str,
        path: str,
        state: dict[str, Any],
        data: dict[str, Any],
        default: Callable[[], Awaitable[Any]],
        emit: Callable[[ModelResponse], None] | None = None,
    ) -> None:
        self.kind = kind
        self.key = key
        self.app_name = app_name
        self.user_id = user_id
        self.session_id = session_id
        self.invocation_id = invocation_id
        self.agent = agent
        self.branch = branch
        self.isolation_scope = isolation_scope
        self.path = path
        self.state = state
        self.data = data
        self._default = default
        self._emit = emit

    def __getattr__(self, name: str) -> Any:
        # The fields of the kind read as attributes: call.tool, call.request, call.op …
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(f"a {self.kind} effect has no {name!r}; it has: {', '.join(self.data)}") from None

    async def default(self) -> Any:
        """Carry the effect out: through the next plugin that implements the hook, finally here and now."""
        return await self._default()

    def emit(self, response: ModelResponse) -> None:
        """Pass a partial response on to the consumer while a streamed model call goes on (EFF-4)."""
        if self._emit is not None:
            self._emit(response)

    def to_json(self) -> dict[str, Any]:
        """The description as plain JSON."""
        names = ("kind", "key", "app_name", "user_id", "session_id", "invocation_id", "agent", "branch",
                 "isolation_scope", "path", "state")  # fmt: skip
        return {**{name: getattr(self, name) for name in names}, **self.data}


class ToolResult(msgspec.Struct, kw_only=True):
    """What a tool effect gave. ``result`` None: no result; ``finished``: a long-running tool is done (core RES-2).

    ``media``: parts of the function response beside it, as records or in their wire form.
    """

    result: Any = None
    finished: bool = False
    error: dict[str, Any] | None = None
    actions: EventActions = NO_ACTIONS
    media: tuple[Any, ...] = ()


class NodeResult(msgspec.Struct, kw_only=True):
    """What one attempt at a node gave; ``routes`` may be given as one or a list of text, ints and bools (EDGE-3)."""

    output: Any = None
    routes: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    error: dict[str, Any] | None = None
    actions: EventActions = NO_ACTIONS

    def __post_init__(self) -> None:
        if self.routes != ():
            self.routes = route_texts(self.routes)


class WriteResult(msgspec.Struct, kw_only=True):
    """What a write gave, in wire form: the stored event, the artifact version, nothing."""

    payload: Any = None


async def perform(chain: Chain, hook: str, describe: Callable[[Callable[[], Awaitable[Any]]], EffectCall],
                  default: Callable[[], Awaitable[Any]]) -> tuple[Any, str]:  # fmt: skip
    """Carry an effect out through its implementers (EFF-1); (result, who decided)."""
    owner = chain[0][1]

    def level(depth: int) -> Callable[[], Awaitable[Any]]:
        if depth == len(chain):
            return default
        call, name = chain[depth]

        async def ask() -> Any:
            beneath = level(depth + 1)
            passed: BaseException | None = None

            async def further() -> Any:
                nonlocal passed
                try:
                    return await beneath()
                except Exception as error:
                    passed = error
                    raise

            try:
                result = await call(describe(further))
            except Exception as error:
                # What only passed through on its way up from the effect was not raised by this plugin.
                if error is not passed:
                    error.add_note(f"raised by plugin {name!r} in {hook!r}")
                raise
            if result is None:
                raise PluginError(f"plugin {name!r}: {hook!r} returned None; return the effect's result")
            if hook == "perform_write" and not isinstance(result, WriteResult):
                raise PluginError(
                    f"plugin {name!r}: {hook!r} returned {type(result).__name__}; return a WriteResult, or what "
                    "`await call.default()` gave"
                )
            return result

        return ask

    result = await level(0)()
    error = getattr(result, "error", None)
    if error is not None and not isinstance(result, ModelResponse):
        raise _raised_elsewhere(error)
    return result, owner


def _raised_elsewhere(error: dict[str, Any]) -> Exception:
    """The error of a result (EFF-7). One that asks for a person's consent stays what it is: its call waits (AUTH-5)."""
    consent = error.get("consent")
    if consent:
        from hookwork.credentials import required_consent

        return required_consent(consent)
    return RemoteEffectError(
        str(error.get("message", "the effect failed elsewhere")),
        error_type=str(error.get("type", "")),
        retryable=bool(error.get("retryable", False)),
    )
