"""A model that is not told secrets: they are taken out of each request before it leaves (models Beyond, WRP-3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from hookwork.model import Model, ModelRequest
from hookwork.records.content import Content
from hookwork.records.metadata import ModelResponse
from hookwork_llm.model_wrappers.live_pins import PinnedConnection, unpinned
from hookwork_llm.model_wrappers.secrets import DEFAULT_KINDS, Redactor
from hookwork_llm.model_wrappers.shared import addressed_to, answers, check, resolved

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from hookwork.live import LiveConnection, LiveRunConfig


class RedactedModel(Model):
    """Asks another model without the secrets in instruction, texts, arguments and results; ``redacted:NAME`` by name.

    What is stored, and what hooks and tools see, stays as it is: only what leaves for the model is changed, and the
    same way each time, so that caches of the provider go on to fit.

    Args:
        model: a model or a name.
        patterns: kinds by name (``keys``, ``emails``, ``cards``) and regular expressions.
        replacement: what stands in their place.
        name: default ``redacted:`` and the model's name.

    Raises:
        UnknownModelError: nobody takes the name.
        ConfigurationError: no pattern, or one that is no regular expression.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        patterns: Iterable[str] = DEFAULT_KINDS,
        replacement: str = "[redacted]",
        name: str = "",
    ) -> None:
        (self.model,) = resolved([model], "RedactedModel")
        self.name = name or f"redacted:{self.model.name}"
        self.capabilities = self.model.capabilities
        self._redactor = Redactor(patterns, replacement)

    def __repr__(self) -> str:
        return f"RedactedModel({self.model.name!r})"

    def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        """See `Model.generate`."""
        return self._generate(request, stream)

    async def _generate(self, request: ModelRequest, stream: bool) -> AsyncGenerator[ModelResponse, None]:
        async with aclosing(answers(self.model, self._clean(request), stream=stream)) as responses:
            async for response in responses:
                yield response

    def _clean(self, request: ModelRequest) -> ModelRequest:
        """The request without secrets; the one that was handed in stays as it is (MOD-6)."""
        config, instruction = request.config, request.config.system_instruction
        if instruction is not None:
            clean = self._redactor.content(instruction)
            config = config if clean is instruction else config.replace(system_instruction=clean)
        contents = [self._redactor.content(content) for content in request.contents]
        return ModelRequest(model=request.model, contents=contents, config=config, tools=request.tools)

    def connect(self, request: ModelRequest, config: LiveRunConfig) -> AbstractAsyncContextManager[LiveConnection]:
        """The model's connection; texts are redacted on their way, sound and pictures cannot be."""
        return self._connected(request, config)

    @asynccontextmanager
    async def _connected(self, request: ModelRequest, config: LiveRunConfig) -> AsyncGenerator[LiveConnection, None]:
        _, settings = unpinned(config)
        async with self.model.connect(addressed_to(self.model, self._clean(request)), settings) as connection:
            yield _RedactedConnection(self.model, connection, self._redactor)

    async def check(self) -> None:
        """Whether the model is ready. Raises what it says."""
        await check(self.model)

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()


class _RedactedConnection(PinnedConnection):
    """A connection that is told no secrets in texts."""

    def __init__(self, model: Model, inner: LiveConnection, redactor: Redactor) -> None:
        super().__init__(model, inner)
        self._redactor = redactor

    async def send_history(self, contents: Sequence[Content]) -> None:
        """See `LiveConnection.send_history`."""
        await super().send_history([self._redactor.content(content) for content in contents])

    async def send_content(self, content: Content) -> None:
        """See `LiveConnection.send_content`."""
        await super().send_content(self._redactor.content(content))
