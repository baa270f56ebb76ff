"""A model that asks a function which model is to answer (models WRP-3)."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from hookwork.errors import ConfigurationError
from hookwork.model import Model, ModelCapabilities, ModelRequest
from hookwork.records.metadata import ModelResponse
from hookwork.resolve import resolve_model
from hookwork.settings import settings_in_force
from hookwork_llm.model_wrappers.live_pins import PinnedConnection, unpinned
from hookwork_llm.model_wrappers.shared import (
    addressed_to,
    answers,
    check,
    close_all,
    common,
    resolved,
)

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from hookwork.live import LiveConnection, LiveRunConfig

Choice = Model | str
Choose = Callable[[ModelRequest], Choice | Awaitable[Choice]]


class RouterModel(Model):
    """Asks ``choose(request)`` for every call which model answers it.

        RouterModel(lambda request: "gpt-5.2" if len(request.contents) > 40 else "gemini-3-flash",
                    ["gemini-3-flash", "gpt-5.2"])

    Args:
        choose: a function (plain or async) of the request, which it only reads; gives a Model or a name.
        candidates: what it chooses from. The request is made to suit all of them: their common capabilities are this
            model's. Empty: ``capabilities`` says what every model it gives can do.
        capabilities: in place of the candidates' common ones.
        name: default ``router``.

    A name is turned into a model once and kept. Raises like `hookwork_llm.FallbackModel`.
    """

    def __init__(
        self,
        choose: Choose,
        candidates: Iterable[Choice] = (),
        *,
        capabilities: ModelCapabilities | None = None,
        name: str = "router",
    ) -> None:
        self.choose = choose
        self.name = name
        self.candidates = resolved(candidates, "RouterModel") if candidates else ()
        if capabilities is None:
            capabilities = common(self.candidates) if self.candidates else ModelCapabilities()
        self.capabilities = capabilities
        self._settings = settings_in_force()
        self._named = {candidate.name: candidate for candidate in self.candidates}

    async def _chosen(self, request: ModelRequest) -> Model:
        choice = self.choose(request)
        if inspect.isawaitable(choice):
            choice = await choice
        if isinstance(choice, Model):
            return choice
        if not isinstance(choice, str):
            raise ConfigurationError(
                f"choose of model {self.name!r} gave {type(choice).__name__}; return a Model or the name of one"
            )
        return self._model_of(choice)

    def _model_of(self, name: str) -> Model:
        if name not in self._named:
            self._named[name] = resolve_model(name, self._settings)
        return self._named[name]

    def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        """See `Model.generate`."""
        return self._generate(request, stream)

    async def _generate(self, request: ModelRequest, stream: bool) -> AsyncGenerator[ModelResponse, None]:
        model = await self._chosen(request)
        async with aclosing(answers(model, request, stream=stream)) as responses:
            async for response in responses:
                yield response

    def connect(self, request: ModelRequest, config: LiveRunConfig) -> AbstractAsyncContextManager[LiveConnection]:
        """The chosen model's connection; a resumption handle goes to the candidate that gave it."""
        return self._connected(request, config)

    @asynccontextmanager
    async def _connected(self, request: ModelRequest, config: LiveRunConfig) -> AsyncGenerator[LiveConnection, None]:
        owner, settings = unpinned(config)
        model = self._named.get(owner) if owner else None
        if model is None:
            model = await self._chosen(request)
            if owner and model.name != owner:
                # Handles come back from clients: they pick among the models that are here, they do not name others.
                raise ConfigurationError(
                    f"the resumption handle belongs to {owner!r}, which is no candidate of model {self.name!r}; "
                    "connect without a handle"
                )
        async with model.connect(addressed_to(model, request), settings) as connection:
            yield PinnedConnection(model, connection)

    async def check(self) -> None:
        """Whether every candidate is ready. Raises what the first one that is not says."""
        for candidate in self._named.values():
            await check(candidate)

    async def close(self) -> None:
        """Close the candidates and every model that was made from a name."""
        await close_all(self._named.values())
