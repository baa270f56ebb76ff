"""The model of a weight file (models LOC-1, LOC-2)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from hookwork.errors import ConfigurationError
from hookwork.model import Model, ModelCapabilities, ModelRequest
from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.metadata import ModelResponse, UsageMetadata
from hookwork_local.choice import Choice, ReplyReader
from hookwork_local.llama import PROVIDER, LlamaEngine, acquire, engine_for, release
from hookwork_local.options import Options
from hookwork_local.prompt import body_of
from hookwork_local.strictness import Strictness
from hookwork_modelkit.aggregation import StreamAggregator
from hookwork_modelkit.errors import model_error

_TOOL = re.compile(r'"tool"\s*:\s*"([^"]+)"')
_FINISH = {"stop": "STOP", "length": "MAX_TOKENS"}


class LocalModel(Model):
    """A chat model from a ``.gguf`` file, computed here by llama.cpp; ``local/path.gguf`` by name.

    Args:
        path: of the weight file; relative ones start at the working directory.
        options: see `hookwork_local.options.Options`.

    Raises:
        ConfigurationError: the path does not end in ``.gguf``, or an option is wrong. Whether the file is there is seen
            at the first call.
    """

    capabilities = ModelCapabilities(provider=PROVIDER, output_schema=True, output_schema_with_tools=True)

    def __init__(self, path: str, **options: Any) -> None:
        if not path.endswith(".gguf"):
            raise ConfigurationError(f"local/{path}: a local model is a weight file, local/path/to/model.gguf")
        self.path = path
        self.name = f"local/{path}"
        self.options = Options.of(options)
        self._strictness = Strictness(self.name, warns=self.options.unsupported == "warn")
        self._engine: LlamaEngine | None = None
        self._counted = False

    def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        """See `Model.generate`. A streamed answer shows prose as it is written, and a call when it is complete."""
        return self._generate(request, stream)

    async def _generate(self, request: ModelRequest, stream: bool) -> AsyncGenerator[ModelResponse, None]:
        if self._engine is None:
            self._engine, self._counted = acquire(self.path, self.options), True
        choice = Choice.of(request.config)
        body = body_of(request, choice, self.options, self.name, self._strictness)
        answer = Answer(self.name, choice)
        async with aclosing(self._engine.complete(body)) as chunks:
            async for chunk in chunks:
                shown = answer.add(chunk)
                if shown is not None and stream:
                    yield shown
        last = answer.call()
        if last is not None and stream:
            yield last
        yield answer.finish()

    async def check(self) -> None:
        """See whether engine and file are there, without loading; `hookwork doctor` asks this. Raises ModelError."""
        await asyncio.to_thread(engine_for, self.path)

    async def close(self) -> None:
        """Give the weights up; the last model of a file in this process frees them."""
        self._engine = None
        if self._counted:
            self._counted = False
            release(self.path, self.options)


class Answer:
    """What the chunks of one call come to."""

    def __init__(self, name: str, choice: Choice) -> None:
        self._name = name
        self._choice = choice
        self._reader = ReplyReader(choice)
        self._written: list[str] = []
        self._shown: list[str] = []
        self._whole = StreamAggregator(provider=PROVIDER, model=name)
        self._whole.model_version = name
        self._whole.chunks = 1  # an answer without a single token is an answer: the engine says so by its usage

    def add(self, chunk: dict[str, Any]) -> ModelResponse | None:
        """Take one chunk in; the partial to show for it."""
        usage = chunk.get("usage")
        if usage:
            self._whole.usage_metadata = UsageMetadata(
                prompt_token_count=usage.get("prompt_tokens"),
                candidates_token_count=usage.get("completion_tokens"),
                total_token_count=usage.get("total_tokens"),
                cached_content_token_count=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
            )
        for entry in chunk.get("choices") or ():
            reason = entry.get("finish_reason")
            if reason:
                self._whole.finish_reason = _FINISH.get(reason, "OTHER")
            piece = (entry.get("delta") or {}).get("content")
            if piece:
                self._written.append(piece)
                prose = self._reader.feed(piece)
                if prose:
                    self._shown.append(prose)
                    return self._partial(Part(text=prose))
        return None

    def _partial(self, part: Part) -> ModelResponse:
        return self._whole.add(ModelResponse(content=Content(role="model", parts=[part])))

    def call(self) -> ModelResponse | None:
        """The part that could not be shown while it was written: a call, or a reply that is an object.

        Raises:
            ModelError: (``invalid_response``) the output is none of what the schema allows.
        """
        text = "".join(self._written)
        if not self._choice.tools or not text:
            return None
        try:
            tool, arguments, reply = self._choice.read(text)
        except ValueError as error:
            if self._whole.finish_reason == "MAX_TOKENS":
                if not self._shown:
                    named = _TOOL.search(text)
                    self._whole.cut_call(named[1] if named is not None else "a tool")
                return None
            raise model_error(
                PROVIDER, self._name, kind="invalid_response", retryable=False, detail="it wrote no call and no reply"
            ) from error
        if tool is not None:
            return self._partial(Part(function_call=FunctionCall(name=tool, args=arguments)))
        shown = "".join(self._shown)  # nothing of a reply that is an object
        rest = reply[len(shown) :] if reply.startswith(shown) else ""
        return self._partial(Part(text=rest)) if rest else None

    def finish(self) -> ModelResponse:
        """The whole response."""
        return self._whole.finish()
