"""Settings and tools as the fields of ``interactions.create``: what is mapped, refused, or left out with a warning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hookwork.records.frozen import thaw
from hookwork.records.request import FunctionDeclaration, GenerateContentConfig
from hookwork_gemini.conversion import warn_once
from hookwork_gemini.identity import without_identity
from hookwork_gemini.strictness import Strictness
from hookwork_modelkit import to_json_schema

Json = dict[str, Any]

_GENERATION = ("temperature", "top_p", "seed", "max_output_tokens")
#: Settings without a counterpart, each of which would change the answer.
_LACKING = (
    "top_k",
    "response_logprobs",
    "logprobs",
    "presence_penalty",
    "frequency_penalty",
    "media_resolution",
    "speech_config",
)
#: Built-in tools that are declared by their name alone.
_BUILT_IN = ("google_search", "google_maps", "url_context", "code_execution")
_SETTINGS = {"service_tier", "serviceTier"}
#: Settings of the SDK itself.
_LOCAL = {"automatic_function_calling", "automaticFunctionCalling", "should_return_http_response"}


def body_of(config: GenerateContentConfig, model: str, strictness: Strictness) -> Json:
    """All fields but model and input; what is not set is not there.

    Raises:
        ModelError: of kind ``invalid_request``: a setting that the API lacks.
    """

    def lacking(code: str, what: str) -> None:
        strictness.lacking(model, code, what)

    for name in _LACKING:
        if getattr(config, name) is not None:
            lacking(f"unsupported_{name}", f"interactions have no {name}")
    if (config.candidate_count or 0) > 1:
        warn_once("candidates", "only the first candidate of an answer is read; candidate_count is for others")
    fields: Json = {
        "system_instruction": _instruction(config),
        "generation_config": _generation(config, lacking) or None,
        "tools": list(_tools(config, lacking)) or None,
        "response_format": _format(config),
        "response_modalities": [str(name).lower() for name in config.response_modalities or ()] or None,
        "safety_settings": [_safety(setting) for setting in config.safety_settings or ()] or None,
        "labels": thaw(config.labels) if config.labels else None,
        "cached_content": config.cached_content,
    }
    for name, value in (config.extra or {}).items():
        if name in _SETTINGS:
            fields["service_tier"] = str(value).lower()
        elif name not in _LOCAL and value is not None:
            lacking(f"unsupported_{name}", f"interactions have no {name!r}")
    return {name: value for name, value in fields.items() if value is not None}


def transport_of(config: GenerateContentConfig) -> Json:
    """What ``http_options`` say about one call, as arguments of the SDK; ``timeout`` is in seconds there."""
    options = {str(name): value for name, value in (config.http_options or {}).items() if value is not None}
    headers = without_identity(options.get("headers") or {})
    milliseconds = options.get("timeout")
    extra = options.get("extra_body", options.get("extraBody"))
    version = options.get("api_version", options.get("apiVersion"))
    found = {
        "extra_headers": headers or None,
        "timeout": milliseconds / 1000 if milliseconds else None,
        "extra_body": thaw(extra) if extra else None,
        "api_version": version or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _instruction(config: GenerateContentConfig) -> str | None:
    instruction = config.system_instruction
    return "\n".join([part.text for part in instruction.parts if part.text]) or None if instruction else None


def _generation(config: GenerateContentConfig, lacking: Any) -> Json:
    found: Json = {name: getattr(config, name) for name in _GENERATION if getattr(config, name) is not None}
    if config.stop_sequences:
        found["stop_sequences"] = list(config.stop_sequences)
    thinking = config.thinking_config or {}
    level = _either(thinking, "thinking_level", "thinkingLevel")
    if level and str(level).upper() != "THINKING_LEVEL_UNSPECIFIED":
        found["thinking_level"] = str(level).lower()
    if _either(thinking, "include_thoughts", "includeThoughts"):
        found["thinking_summaries"] = "auto"
    if _either(thinking, "thinking_budget", "thinkingBudget") is not None:
        lacking("unsupported_thinking_budget", "interactions have no thinking budget in tokens, but levels")
    choice = _choice(config.tool_config or {})
    if choice is not None:
        found["tool_choice"] = choice
    return found


def _choice(tool_config: Mapping[str, Any]) -> Any:
    calling = _either(tool_config, "function_calling_config", "functionCallingConfig")
    if not isinstance(calling, Mapping):
        return None
    mode = str(_either(calling, "mode") or "MODE_UNSPECIFIED").lower()
    names = [str(name) for name in _either(calling, "allowed_function_names", "allowedFunctionNames") or () if name]
    if mode == "mode_unspecified":
        if not names:
            return None
        mode = "auto"
    return {"allowed_tools": {"mode": mode, "tools": names}} if names else mode


def _tools(config: GenerateContentConfig, lacking: Any) -> Iterator[Json]:
    for tool in config.tools:
        for declaration in tool.function_declarations or ():
            yield _function(declaration)
        for name in tool.__struct_fields__:
            value = getattr(tool, name)
            if name in ("function_declarations", "extra") or value is None:
                continue
            if name in _BUILT_IN:
                yield {"type": name, **thaw(value)}
            else:
                lacking("unsupported_tool", f"interactions have no tool {name!r} in this form")
        for name, value in (tool.extra or {}).items():
            if value is not None:
                lacking("unsupported_tool", f"interactions have no tool {name!r} in this form")


def _function(declaration: FunctionDeclaration) -> Json:
    schema: Any = declaration.parameters_json_schema
    if declaration.parameters is not None and schema is None:
        schema = to_json_schema(declaration.parameters)
    found = {
        "type": "function",
        "name": declaration.name,
        "description": declaration.description,
        "parameters": thaw(schema) if schema is not None else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _format(config: GenerateContentConfig) -> Json | None:
    """The wanted form of the text; None: any."""
    schema: Any = config.response_json_schema
    if schema is None and config.response_schema is not None:
        schema = to_json_schema(config.response_schema)
    if schema is not None:
        return {"type": "text", "mime_type": "application/json", "schema": thaw(schema)}
    mime = config.response_mime_type
    return {"type": "text", "mime_type": mime} if mime and mime != "text/plain" else None


def _safety(setting: Mapping[str, Any]) -> Json:
    """``HARM_CATEGORY_HATE_SPEECH`` is ``hate_speech`` here."""
    found = {"type": str(setting.get("category", "")).lower().removeprefix("harm_category_")}
    for name in ("threshold", "method"):
        if setting.get(name):
            found[name] = str(setting[name]).lower()
    return found


def _either(table: Mapping[str, Any], *names: str) -> Any:
    return next((table[name] for name in names if table.get(name) is not None), None)
