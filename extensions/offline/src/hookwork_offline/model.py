"""The offline model: the Model contract on top of the rules."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from hookwork.errors import ConfigurationError
from hookwork.model import Model, ModelCapabilities, ModelRequest
from hookwork.platform import sleep
from hookwork.records.content import Content, FunctionCall, Part, text_content
from hookwork.records.metadata import ModelResponse, UsageMetadata
from hookwork.records.request import FunctionDeclaration, GenerateContentConfig
from hookwork.tool import RESERVED_TOOL_NAMES
from hookwork_offline.conversation import last_turns
from hookwork_offline.matching import tool_option
from hookwork_offline.planning import MEMORY, Planner
from hookwork_offline.transfer import TRANSFER, read_targets
from hookwork_offline.wording import word

_PIECE = re.compile(r"\s*\S+\s*")


class OfflineModel(Model):
    """A deterministic, rule-based model that runs without network and key.

    It matches the person's words with the declared tools, fills arguments by their JSON types, asks for what is
    missing and words the results. It understands nothing; the README lists the rules.

    Args:
        name: the name that responses carry when the request names no model.
        delay: seconds to wait before each streamed piece (0: none), to make streaming visible in demos.
    """

    capabilities = ModelCapabilities(provider="offline")

    def __init__(self, name: str = "offline", *, delay: float = 0.0) -> None:
        if not isinstance(delay, int | float) or isinstance(delay, bool) or not 0 <= delay < float("inf"):
            raise ConfigurationError(f"the offline model's delay is {delay!r}; it takes seconds, 0 or more")
        self.name = name
        self.delay = float(delay)

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> OfflineModel:
        """A model as ``[tool.hookwork.offline]`` describes it: ``delay``, in seconds.

        Raises:
            ConfigurationError: an unknown key, or a delay that is no number of seconds.
        """
        unknown = sorted(set(settings) - {"delay"})
        if unknown:
            raise ConfigurationError(f"[tool.hookwork.offline] has an unknown key {unknown[0]!r}; it knows 'delay'")
        return cls(delay=settings.get("delay", 0.0))

    async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        """Answer one request; see `hookwork.model.Model.generate`. Nothing is raised for any valid request."""
        content = respond(request.contents, request.config)
        version = request.model or self.name
        if stream:
            for piece in _pieces(content.text):
                if self.delay:
                    await sleep(self.delay)
                yield ModelResponse(content=text_content(piece), partial=True, model_version=version)
        yield ModelResponse(
            content=content,
            turn_complete=True,
            finish_reason="STOP",
            usage_metadata=_usage(request, content),
            model_version=version,
        )


def respond(contents: Sequence[Content], config: GenerateContentConfig) -> Content:
    """The model's turn for these contents: function calls, or one text. A pure function."""
    declared = config.function_declarations()
    allowed = _allowed(declared, config)
    options = [tool_option(d) for d in allowed if d.name and d.name not in RESERVED_TOOL_NAMES]
    targets = read_targets([d for d in allowed if d.name == TRANSFER], config)
    turns = last_turns(contents, MEMORY)
    decision = Planner(options, targets, turns).decide()
    if decision.calls:
        return Content(
            role="model",
            parts=[Part(function_call=FunctionCall(name=call.name, args=call.args)) for call in decision.calls],
        )
    return text_content(word(decision, turns[-1], options, targets))


def _allowed(declared: list[FunctionDeclaration], config: GenerateContentConfig) -> list[FunctionDeclaration]:
    """The functions that ``tool_config`` lets the model call: mode NONE means none, a list of names means those."""
    calling = (config.tool_config or {}).get("functionCallingConfig") or (config.tool_config or {}).get(
        "function_calling_config"
    )
    if not isinstance(calling, dict):
        return declared
    if str(calling.get("mode", "")).upper() == "NONE":
        return []
    names = calling.get("allowedFunctionNames") or calling.get("allowed_function_names")
    return [d for d in declared if d.name in names] if isinstance(names, list) and names else declared


def _pieces(text: str) -> Iterator[str]:
    """A text word by word, blanks kept: joined, they are the text."""
    for match in _PIECE.finditer(text):
        yield match.group()


def _usage(request: ModelRequest, content: Content) -> UsageMetadata:
    """Counts of blank-separated words, this model's tokens: the same for the same request, streamed or not."""
    prompt = sum(_tokens(item) for item in request.contents)
    if request.config.system_instruction is not None:
        prompt += _tokens(request.config.system_instruction)
    answer = _tokens(content)
    return UsageMetadata(prompt_token_count=prompt, candidates_token_count=answer, total_token_count=prompt + answer)


def _tokens(content: Content) -> int:
    count = 0
    for part in content.parts:
        if part.text:
            count += len(part.text.split())
        if part.function_call is not None:
            count += 1 + _words_in(part.function_call.args)
        if part.function_response is not None:
            count += 1 + _words_in(part.function_response.response)
    return count


def _words_in(value: Any) -> int:
    if isinstance(value, dict):
        return sum(_words_in(key) + _words_in(item) for key, item in value.items())
    if isinstance(value, list):
        return sum(_words_in(item) for item in value)
    return 0 if value is None else len(str(value).split())
