"""Resumption handles that remember whose they are (models WRP-2): only the model that gave one can resume by it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from hookwork.live import LiveConnection

if TYPE_CHECKING:
    from hookwork.live import LiveRunConfig, RealtimeInput
    from hookwork.model import Model
    from hookwork.records.content import Content
    from hookwork.records.metadata import ModelResponse

#: Between a candidate's name and its own handle. Names of models hold no control characters.
_SEPARATOR = "\x1f"


def pinned_to(model: Model, handle: str) -> str:
    """A handle that names its model."""
    return f"{model.name}{_SEPARATOR}{handle}"


def unpinned(config: LiveRunConfig) -> tuple[str, LiveRunConfig]:
    """Whose handle the settings hold, and the settings as that model understands them; ``""``: nobody's in particular.

    A handle without a name was made before the wrapper was there: whoever is asked may know it.
    """
    resumption = config.session_resumption
    if resumption is None or resumption.handle is None:
        return "", config
    name, separator, handle = resumption.handle.partition(_SEPARATOR)
    return (name, config.resuming(handle)) if separator else ("", config)


class PinnedConnection(LiveConnection):
    """A candidate's connection whose handles name the candidate."""

    def __init__(self, model: Model, inner: LiveConnection) -> None:
        self._model = model
        self._inner = inner

    @property
    def session_id(self) -> str:
        """See `LiveConnection.session_id`."""
        return self._inner.session_id

    async def send_history(self, contents: Sequence[Content]) -> None:
        """See `LiveConnection.send_history`."""
        await self._inner.send_history(contents)

    async def send_content(self, content: Content) -> None:
        """See `LiveConnection.send_content`."""
        await self._inner.send_content(content)

    async def send_realtime(self, item: RealtimeInput) -> None:
        """See `LiveConnection.send_realtime`."""
        await self._inner.send_realtime(item)

    def receive(self) -> AsyncIterator[ModelResponse]:
        """See `LiveConnection.receive`."""
        return self._received()

    async def _received(self) -> AsyncGenerator[ModelResponse, None]:
        source = cast("AsyncGenerator[ModelResponse, None]", self._inner.receive())
        async with aclosing(source) as responses:
            async for response in responses:
                yield self._signed(response)

    def _signed(self, response: ModelResponse) -> ModelResponse:
        """A message that says who it is from: usage counts for that model."""
        handle = response.session_resumption_handle
        if handle:
            response = response.replace(session_resumption_handle=pinned_to(self._model, handle))
        if response.model_version or (response.content is None and response.usage_metadata is None):
            return response
        return response.replace(model_version=self._model.name)

    async def close(self) -> None:
        """See `LiveConnection.close`."""
        await self._inner.close()
