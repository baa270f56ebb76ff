"""Generation settings: what is mapped, what is refused, what is left out with a warning (models OAI-15…18, 24)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hookwork.records.request import GenerateContentConfig
from hookwork_modelkit.schemas import to_json_schema
from hookwork_openai.call import Call, is_reasoning_model, lookup, set_items, snake
from hookwork_openai.strict import schema_name, strict_schema

#: Settings without a counterpart that do no harm when they are left out.
_IGNORED = ("media_resolution", "speech_config", "audio_timestamp", "enable_enhanced_civic_answers", "seed")
#: Settings that change what is asked for, so that leaving them out would give another answer.
_REFUSED = ("cached_content", "routing_config", "model_selection_config", "image_config")
#: Settings of the genai SDK itself; no service sees them.
_LOCAL = frozenset({"automatic_function_calling", "should_return_http_response"})
_LEVELS = {"MINIMAL": "minimal", "LOW": "low", "MEDIUM": "medium", "HIGH": "high"}


class Transport(msgspec.Struct, frozen=True):
    """What ``http_options`` say about one call. ``timeout`` is in seconds."""

    headers: dict[str, str] = {}
    timeout: float | None = None
    extra_body: dict[str, Any] = {}


def system_text(call: Call, config: GenerateContentConfig) -> str | None:
    """The texts of the system instruction joined by newlines; None when there is none.

    Raises:
        ModelError: a part that is no text.
    """
    instruction = config.system_instruction
    if instruction is None:
        return None
    for part in instruction.parts:
        if part.text is None:
            raise call.refused("unsupported_part", "the system instruction holds a part that is no text")
    return "\n".join([part.text or "" for part in instruction.parts]) or None


def sampling(call: Call, config: GenerateContentConfig) -> dict[str, Any]:
    """``temperature`` and ``top_p``; reasoning models of the official service refuse any but 1 (models SDK-13)."""
    found: dict[str, Any] = {}
    reasons = call.official and is_reasoning_model(call.model)
    for name in ("temperature", "top_p"):
        value = getattr(config, name)
        if value is None:
            continue
        if reasons and value != 1:
            call.warn(name, f"{name} is left out: a reasoning model takes none but 1")
        else:
            found[name] = value
    return found


def refuse_unsupported(call: Call, config: GenerateContentConfig) -> None:
    """Go through the settings that have no counterpart in the API of this call.

    Raises:
        ModelError: ``unsupported_*``; with ``unsupported="warn"`` each is left out instead.
    """
    if config.top_k is not None:
        call.unsupported("unsupported_top_k", "top_k has no counterpart (compatible servers: extra_body)")
    if (config.candidate_count or 0) > 1:
        call.unsupported("unsupported_candidates", "only one candidate is used")
    if config.safety_settings:
        call.unsupported("unsupported_safety_settings", "safety_settings have no counterpart")
    if config.labels and not call.options.store:
        call.unsupported("unsupported_labels", "labels are sent only as metadata of stored responses (store=True)")
    mime = config.response_mime_type
    if mime and mime not in ("text/plain", "application/json"):
        call.unsupported("unsupported_mime_type", f"response_mime_type {mime!r} has no counterpart")
    if any(str(name).upper() != "TEXT" for name in config.response_modalities or ()):
        call.unsupported("unsupported_modalities", "only text comes back")
    if not call.chat:
        _refuse_what_chat_alone_has(call, config)
    _rest(call, config)


def _refuse_what_chat_alone_has(call: Call, config: GenerateContentConfig) -> None:
    if config.stop_sequences:
        call.unsupported("unsupported_stop_sequences", "the Responses API has no stop sequences (api='chat' has)")
    if config.frequency_penalty is not None or config.presence_penalty is not None:
        call.unsupported("unsupported_penalties", "the Responses API has no penalties (api='chat' has)")


def _rest(call: Call, config: GenerateContentConfig) -> None:
    extra = {snake(name): value for name, value in (config.extra or {}).items() if value is not None}
    for name in _REFUSED:
        if extra.pop(name, None) is not None or getattr(config, name, None) is not None:
            call.unsupported(f"unsupported_{name}", f"{name} has no counterpart")
    for name in _IGNORED:
        value = extra.pop(name, None)
        if name == "seed" and call.chat:
            continue
        if value is not None or getattr(config, name, None) is not None:
            call.warn(name, f"{name} has no counterpart; it is left out")
    if config.logprobs is not None and not config.response_logprobs:
        call.warn("logprobs", "logprobs is left out without response_logprobs=True")
    for name in extra:
        if name not in _LOCAL and name != "service_tier":
            call.warn(name, f"the setting {name!r} is not known here; it is left out")


def service_tier(call: Call, config: GenerateContentConfig) -> str | None:
    """The tier that the request, else the model asks for."""
    return lookup(config.extra, "service_tier") or call.options.service_tier


def response_format(call: Call, config: GenerateContentConfig) -> dict[str, Any] | None:
    """The wanted form of the answer: ``{type: json_object}``, or ``{type: json_schema, name, strict, schema}``.

    Raises:
        ModelError: an empty JSON schema.
    """
    raw = config.response_json_schema
    title: Any = None
    if raw is not None:
        if not raw:
            raise call.refused("empty_json_schema", "response_json_schema is empty")
        schema: Mapping[str, Any] = raw
        title = (config.response_schema or {}).get("title") or raw.get("title")
    elif config.response_schema:
        schema = to_json_schema(config.response_schema)
        title = config.response_schema.get("title")
    else:
        return {"type": "json_object"} if config.response_mime_type == "application/json" else None
    return {"type": "json_schema", "name": schema_name(title), "strict": True, "schema": strict_schema(schema)}


def reasoning(call: Call, config: GenerateContentConfig) -> dict[str, Any]:
    """``effort`` and ``summary`` as the request, else the model's options want them; empty: nothing is sent.

    Raises:
        ModelError: a token budget, or a level that does not exist.
    """
    found: dict[str, Any] = dict(call.options.reasoning or {})
    thinking = config.thinking_config
    if not thinking:
        return found
    level = lookup(thinking, "thinking_level")
    if level and str(level).upper() != "THINKING_LEVEL_UNSPECIFIED":
        effort = _LEVELS.get(str(level).upper())
        if effort is None:
            call.unsupported("unsupported_thinking_level", f"thinking level {level!r} has no counterpart")
        else:
            found["effort"] = effort
    budget = lookup(thinking, "thinking_budget")
    if budget == 0:
        found["effort"] = "none"
    elif isinstance(budget, int) and budget > 0:
        call.unsupported("unsupported_thinking_budget", "a thinking budget in tokens has no counterpart; set a level")
    if lookup(thinking, "include_thoughts"):
        found["summary"] = "auto"
    return found


def transport(call: Call, config: GenerateContentConfig) -> Transport:
    """Headers, timeout and extra body of one call; the rest of ``http_options`` belongs to the genai SDK."""
    options = dict(set_items(config.http_options))
    headers = {**(call.options.headers or {}), **(options.pop("headers", None) or {})}
    milliseconds = options.pop("timeout", None)
    extra = {**(call.options.extra_body or {}), **(options.pop("extra_body", None) or {})}
    for name in options:
        call.warn(f"http_options.{name}", f"http_options.{name} is for another service; it is left out")
    return Transport(
        headers=headers, timeout=milliseconds / 1000 if milliseconds else call.options.timeout, extra_body=extra
    )
