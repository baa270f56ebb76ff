"""The plugin: large inline data becomes artifacts, what is still too large is refused (services BEY-15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork import Content, Event, FileData, ModelResponse, Part, Plugin, hookimpl
from hookwork.errors import ConfigurationError
from hookwork_size_guard.kept import KeptParts
from hookwork_size_guard.limits import check_event, check_state
from hookwork_size_guard.moving import Mover, has_references, loaded, resolved

if TYPE_CHECKING:
    from hookwork import CallbackContext, InvocationContext
    from hookwork.effects import EffectCall, WriteResult
    from hookwork.model import ModelRequest


class SizeGuard(Plugin):
    """Keeps the bytes of files out of sessions, and sessions within limits.

    Inline data above ``inline_bytes`` (of messages, of agents' events, of tools' media) is saved as an artifact, and a
    reference ``artifact://…`` stands in its place in the session. Before a model call the references are resolved, so
    the model sees what was sent. An event or a state that is too large all the same is an error, before anything of it
    is stored.

    Args:
        inline_bytes: inline data with more bytes is moved; 0 moves all, None nothing.
        max_event_bytes: most bytes of an event as JSON; 0: no limit.
        max_state_bytes: most bytes of a session's state as JSON, ``app:`` and ``user:`` keys included; 0: no limit.
        kept_bytes: how many bytes of moved data are kept in the process for the next model call.
        name: the plugin's name.

    Raises:
        ConfigurationError: a number is negative, or none; in a run: data is to be moved, and the runner has no artifact
            service.
        SizeLimitError: in a run: an event or the state is too large.
    """

    def __init__(
        self,
        *,
        inline_bytes: int | None = 65_536,
        max_event_bytes: int = 4_000_000,
        max_state_bytes: int = 1_000_000,
        kept_bytes: int = 32_000_000,
        name: str = "size_guard",
    ) -> None:
        limits = {"max_event_bytes": max_event_bytes, "max_state_bytes": max_state_bytes, "kept_bytes": kept_bytes}
        if inline_bytes is not None:
            limits["inline_bytes"] = inline_bytes
        for option, value in limits.items():
            if type(value) is not int or value < 0:
                raise ConfigurationError(f"plugin {name!r}: {option} is a whole number from 0, not {value!r}")
        self.name = name
        self._inline_bytes = inline_bytes
        self._max_event_bytes = max_event_bytes
        self._max_state_bytes = max_state_bytes
        self._kept = KeptParts(kept_bytes)

    # --- on the way into the session ----------------------------------------------------------------------------------

    @hookimpl(trylast=True)
    async def on_user_message(self, ctx: InvocationContext, message: Content) -> Content | None:
        """The message with references for its files; None when it has no large ones."""
        if self._inline_bytes is None:
            return None
        return await Mover(ctx.artifacts, self._inline_bytes).moved(message)

    @hookimpl(trylast=True)
    async def on_event(self, ctx: InvocationContext, event: Event) -> Event | None:
        """The event with references for its files, which join its artifact delta; None when it has no large ones."""
        if self._inline_bytes is None or event.partial or event.content is None:
            return None
        mover = Mover(ctx.artifacts, self._inline_bytes)
        content = await mover.moved(event.content)
        if content is None:
            return None
        delta = {**event.actions.artifact_delta, **mover.versions}
        return event.replace(content=content, actions=event.actions.replace(artifact_delta=delta))

    async def perform_write(self, call: EffectCall) -> WriteResult:
        """Refuse an event that is too large, or that makes the state so; pass every other write on."""
        if call.op == "append_event":
            event: dict[str, Any] = call.payload
            if self._max_event_bytes:
                check_event(event, self._max_event_bytes)
            delta = event.get("actions", {}).get("stateDelta")
            if delta and self._max_state_bytes:
                check_state(call.state, delta, self._max_state_bytes)
        result: WriteResult = await call.default()
        return result

    # --- on the way to the model --------------------------------------------------------------------------------------

    @hookimpl(tryfirst=True)
    async def before_model(self, ctx: CallbackContext, request: ModelRequest) -> ModelResponse | None:
        """Put what references stand for into the prompt; the session keeps the references."""
        contents = list(request.contents)
        if has_references(contents):

            async def load(file: FileData) -> Part | None:
                return await self._loaded(ctx, file)

            request.contents = [await resolved(content, load) for content in contents]
        return None

    async def _loaded(self, ctx: CallbackContext, file: FileData) -> Part | None:
        uri = file.file_uri or ""
        place = ctx.app_name, ctx.user_id, ctx.session_id, uri
        part = self._kept.get(place)
        if part is None:
            part = await loaded(ctx.artifacts, file)
            if part is not None and "/artifacts/inline_" in uri:  # the name of moved bytes is their hash
                self._kept.put(place, part)
        return part
