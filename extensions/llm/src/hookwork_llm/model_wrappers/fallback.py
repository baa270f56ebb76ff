"""A model that goes on with the next one when one fails (models WRP-1, WRP-2)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from hookwork.errors import ConfigurationError, ModelError, UnsupportedOperationError
from hookwork.model import Model, ModelRequest
from hookwork.records.metadata import ModelResponse
from hookwork_llm.model_wrappers.live_pins import PinnedConnection, unpinned
from hookwork_llm.model_wrappers.shared import addressed_to, answers, check, close_all, common, resolved, with_live

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from hookwork.live import LiveConnection, LiveRunConfig


class FallbackModel(Model):
    """Asks its candidates in order until one answers; by name ``fallback:a,b,c``.

    It moves on when a candidate raises a retryable `ModelError` before its first response; after that nothing is
    switched. Every candidate gets the same request, with its own name as ``request.model``. Usage and events name the
    model that answered. When all fail, the last error is raised and the others are notes on it.

    Args:
        candidates: models or names, best first.
        on_auth: move on too when a candidate refuses the credentials (kind ``auth``).
        name: default ``fallback:`` and the names of the candidates.

    Raises:
        UnknownModelError: nobody takes one of the names.
        ConfigurationError: no candidate, or two of one name.
    """

    def __init__(self, candidates: Iterable[Model | str], *, on_auth: bool = False, name: str = "") -> None:
        self.candidates = resolved(candidates, "FallbackModel")
        self.on_auth = on_auth
        self.name = name or "fallback:" + ",".join(candidate.name for candidate in self.candidates)
        live = any(candidate.capabilities.live for candidate in self.candidates)
        self.capabilities = with_live(common(self.candidates), live)

    def __repr__(self) -> str:
        return f"FallbackModel({[candidate.name for candidate in self.candidates]})"

    def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        """See `Model.generate`."""
        return self._generate(request, stream)

    async def _generate(self, request: ModelRequest, stream: bool) -> AsyncGenerator[ModelResponse, None]:
        failures: list[ModelError] = []
        for candidate in self.candidates:
            begun = False
            try:
                async with aclosing(answers(candidate, request, stream=stream)) as responses:
                    async for response in responses:
                        begun = True
                        yield response
                return
            except ModelError as error:
                if begun or not self._passes(error):
                    raise
                failures.append(error)
        raise _all_failed(failures)

    def _passes(self, error: ModelError) -> bool:
        return error.retryable or (self.on_auth and error.kind == "auth")

    def connect(self, request: ModelRequest, config: LiveRunConfig) -> AbstractAsyncContextManager[LiveConnection]:
        """The first candidate that connects; a resumption handle goes to the one that gave it (models WRP-2)."""
        return self._connected(request, config)

    @asynccontextmanager
    async def _connected(self, request: ModelRequest, config: LiveRunConfig) -> AsyncGenerator[LiveConnection, None]:
        owner, settings = unpinned(config)
        failures: list[ModelError] = []
        for candidate in self._live_candidates(owner):
            async with AsyncExitStack() as stack:
                try:
                    opened = candidate.connect(addressed_to(candidate, request), settings)
                    connection = await stack.enter_async_context(opened)
                except ModelError as error:
                    if not self._passes(error):
                        raise
                    failures.append(error)
                    continue
                yield PinnedConnection(candidate, connection)
                return
        raise _all_failed(failures)

    def _live_candidates(self, owner: str) -> list[Model]:
        able = [candidate for candidate in self.candidates if candidate.capabilities.live]
        if not able:
            raise UnsupportedOperationError(f"no candidate of model {self.name!r} supports live; use runner.run()")
        if not owner:
            return able
        asked = [candidate for candidate in able if candidate.name == owner]
        if not asked:
            raise ConfigurationError(
                f"the resumption handle belongs to the model {owner!r}, which is no live candidate of {self.name!r}; "
                "connect without a handle"
            )
        return asked

    async def check(self) -> None:
        """Whether a call would find an answer: every candidate is ready, or those that are not are passed over.

        Raises:
            ModelError: of the first candidate at which a call would end; ConfigurationError …: whatever one raises.
        """
        failures: list[ModelError] = []
        for candidate in self.candidates:
            try:
                await check(candidate)
            except ModelError as error:
                if not self._passes(error):
                    raise
                failures.append(error)
        if len(failures) == len(self.candidates):
            raise _all_failed(failures)

    async def close(self) -> None:
        """Close every candidate."""
        await close_all(self.candidates)


def _all_failed(failures: list[ModelError]) -> ModelError:
    last = failures[-1]
    for earlier in failures[:-1]:
        last.add_note(f"before it, candidate {earlier.model or 'unnamed'!r} failed: {earlier}")
    return last
