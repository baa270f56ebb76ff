"""A request as a chat that any chat template can render: three roles, text only, no two neighbours of one role."""

from __future__ import annotations

import json
from typing import Any

from hookwork.errors import ModelError
from hookwork.model import ModelRequest
from hookwork.records.content import Content, Part
from hookwork.records.frozen import thaw
from hookwork.records.request import GenerateContentConfig
from hookwork_local.choice import Choice, described
from hookwork_local.llama import PROVIDER
from hookwork_local.options import Options
from hookwork_local.strictness import Strictness
from hookwork_modelkit.errors import refusal

_HOW = (
    'You can use these tools:\n{tools}\n\nWrite one JSON object and nothing else: {{"tool": NAME, "arguments": {{…}}}} '
    'to use a tool, or {{"reply": ANSWER}} when no tool is needed or the results are there.'
)
_ONLY_CALLS = (
    'You can use these tools:\n{tools}\n\nWrite one JSON object and nothing else: {{"tool": NAME, "arguments": {{…}}}}.'
)

#: Settings of the request → llama.cpp's; what is None is left to the engine.
_SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
_REFUSED = ("cached_content", "speech_config", "response_logprobs")
#: Settings that mean nothing here and change no answer for the worse.
_IGNORED = ("labels", "safety_settings", "thinking_config", "media_resolution", "http_options")
#: Settings of the genai SDK itself.
_OTHERS = frozenset({"automatic_function_calling", "automaticFunctionCalling"})


def body_of(
    request: ModelRequest, choice: Choice, options: Options, name: str, strictness: Strictness | None = None
) -> dict[str, Any]:
    """The engine's request. Raises ModelError (``invalid_request``): media, or a setting that the engine lacks."""
    config = request.config
    _look_at(config, choice, strictness if strictness is not None else Strictness(name))
    body: dict[str, Any] = {
        "messages": _messages(request, choice, name),
        "max_tokens": config.max_output_tokens or options.max_output_tokens,
        "cache_prompt": True,
    }
    for setting, key in _SETTINGS.items():
        value = getattr(config, setting)
        if value is not None:
            body[key] = int(value) if key in ("top_k", "seed") else value
    if config.stop_sequences and not choice.tools:  # inside a call they would cut its JSON
        body["stop"] = list(config.stop_sequences)
    schema = choice.schema
    if schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    return body


def _look_at(config: GenerateContentConfig, choice: Choice, strictness: Strictness) -> None:
    """Go through the settings that have no counterpart here: none is left out without a word (T-18)."""
    for setting in _REFUSED:
        if getattr(config, setting):
            strictness.lacking(setting, f"{setting} is")
    if config.candidate_count is not None and config.candidate_count > 1:
        strictness.lacking("candidates", "candidate_count above 1 is")
    if any(tool.function_declarations is None for tool in config.tools):
        strictness.lacking("tool", "tools that a service carries out itself are")
    if any(str(name).upper() != "TEXT" for name in config.response_modalities or ()):
        strictness.lacking("modalities", "answers other than text are")
    for setting in _IGNORED:
        if getattr(config, setting):
            strictness.ignored(setting, f"{setting} means nothing to a local model")
    if config.stop_sequences and choice.tools:
        strictness.ignored("stop_sequences", "stop_sequences would cut the JSON of a call")
    for setting, value in (config.extra or {}).items():
        if value is not None and setting not in _OTHERS:
            strictness.ignored(setting, f"the setting {setting!r} is not known here")


def _messages(request: ModelRequest, choice: Choice, name: str) -> list[dict[str, str]]:
    messages: list[dict[str, str]] = []
    instruction = request.config.system_instruction
    system = [part.text for part in instruction.parts if part.text] if instruction is not None else []
    if choice.tools:
        how = _HOW if choice.may_reply else _ONLY_CALLS
        system.append(how.format(tools=described(list(choice.tools.values()))))
    if system:
        messages.append({"role": "system", "content": "\n\n".join(system)})
    for content in request.contents:
        role = "assistant" if content.role == "model" else "user"
        text = "\n".join(written for part in content.parts if (written := _text(part, content, choice, name)))
        if not text:
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += f"\n{text}"
        else:
            messages.append({"role": role, "content": text})
    if not messages or messages[-1]["role"] == "system":
        raise refusal(PROVIDER, name, "the request has no contents to answer")
    return messages


def _text(part: Part, content: Content, choice: Choice, name: str) -> str:
    if part.thought:
        return ""
    if part.text is not None:
        spoken = content.role == "model" and choice.tools and choice.may_reply
        return json.dumps({"reply": part.text}, ensure_ascii=False) if spoken and part.text else part.text
    if part.function_call is not None:
        call = {"tool": part.function_call.name, "arguments": thaw(part.function_call.args or {})}
        return json.dumps(call, ensure_ascii=False)
    if part.function_response is not None:
        result = json.dumps(thaw(part.function_response.response), ensure_ascii=False)
        return f"Result of {part.function_response.name}: {result}"
    if part.executable_code is not None:
        return part.executable_code.code or ""
    if part.code_execution_result is not None:
        return part.code_execution_result.output or ""
    if part.inline_data is not None or part.file_data is not None:
        raise _no_media(name)
    return ""


def _no_media(name: str) -> ModelError:
    return refusal(PROVIDER, name, "this model reads text only; leave files and images out", code="unsupported_media")
