"""The settings of a session, as ``session.update`` carries them (models RT-1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookwork.live import LiveRunConfig
from hookwork.model import ModelRequest
from hookwork.records.request import GenerateContentConfig
from hookwork_openai import config as settings
from hookwork_openai.call import Call, lookup, set_items
from hookwork_openai.tools import Choice, choice, functions, reserve_names

#: The formats that the API takes, with the one rate that each has (samples per second).
RATES = {"audio/pcm": 24000, "audio/pcmu": 8000, "audio/pcma": 8000}
#: Transcribes what the user says, unless an option or the request names another.
TRANSCRIPTION_MODEL = "gpt-transcribe"


def session_settings(call: Call, request: ModelRequest, live: LiveRunConfig) -> dict[str, Any]:
    """The ``session`` object. A value of ``live`` wins over the same one of the request's config (models LIVE-2).

    Raises:
        ModelError: of kind ``invalid_request``: something that the API lacks.
    """
    config = request.config
    _refuse_unsupported(call, config, live)
    reserve_names(call, request)
    declared = functions(call, config)
    optional = {
        "instructions": settings.system_text(call, config),
        "output_modalities": _modalities(call, live.response_modalities or config.response_modalities),
        "tools": [
            {"type": "function", "name": call.names.wire(function.name), "parameters": function.parameters}
            | ({"description": function.description} if function.description is not None else {})
            for function in declared
        ]
        or None,
        "tool_choice": _choice(call, choice(call, config)) if declared else None,
        "max_output_tokens": config.max_output_tokens if (config.max_output_tokens or 0) > 0 else None,
        "parallel_tool_calls": call.options.parallel_tool_calls if declared else None,
        "reasoning": _reasoning(call, config),
    }
    session: dict[str, Any] = {name: value for name, value in optional.items() if value is not None}
    return {
        "type": "realtime",
        **session,
        "audio": {"input": _audio_input(call, live), "output": _audio_output(call, config, live)},
    }


def audio_format(call: Call, mime: str) -> dict[str, Any]:
    """The format of a mime type such as ``audio/pcm;rate=24000``.

    Raises:
        ModelError: a format or rate that the API does not take; it is named.
    """
    kind, _, rest = mime.lower().replace(" ", "").partition(";")
    rate = RATES.get(kind)
    if rate is None:
        raise call.refused("unsupported_audio", f"audio of type {mime!r} is not taken; send {', '.join(RATES)}")
    parameters = dict(item.partition("=")[::2] for item in rest.split(";") if item)
    if parameters.get("rate", str(rate)) != str(rate):
        raise call.refused(
            "unsupported_audio", f"audio at {parameters['rate']} Hz is not taken; resample {kind} to {rate} Hz"
        )
    return {"type": kind, "rate": rate} if kind == "audio/pcm" else {"type": kind}


def has_turn_detection(session: Mapping[str, Any]) -> bool:
    """Whether the service finds out itself when the user begins and stops to speak."""
    detection = session["audio"]["input"].get("turn_detection", True)
    return detection is not None


def _refuse_unsupported(call: Call, config: GenerateContentConfig, live: LiveRunConfig) -> None:
    settings.refuse_unsupported(call, config.replace(response_modalities=None, speech_config=None))
    for name in ("temperature", "top_p"):
        if getattr(config, name) is not None:
            call.unsupported(f"unsupported_{name}", f"a Realtime session has no {name}")
    if settings.response_format(call, config) is not None:
        call.unsupported("unsupported_schema", "a Realtime session has no response schema")
    for name in ("enable_affective_dialog", "proactivity", "context_window_compression"):
        if getattr(live, name):
            call.unsupported(f"unsupported_{name}", f"a Realtime session has no {name}")
    resumption = live.session_resumption
    if resumption is not None and resumption.handle:
        call.unsupported(
            "unsupported_resumption", "a Realtime session cannot be resumed, only told again (models RT-4)"
        )


def _modalities(call: Call, wanted: tuple[str, ...] | None) -> list[str] | None:
    names = [str(name).lower() for name in wanted or ()]
    if not names:
        return None
    if len(names) > 1 or names[0] not in ("text", "audio"):
        raise call.refused(
            "unsupported_modalities", f"a Realtime session gives text or audio, one of them, not {', '.join(names)}"
        )
    return names


def _choice(call: Call, wanted: Choice | None) -> Any:
    if wanted is None:
        return None
    if wanted.mode == "required" and len(wanted.names) == 1:
        return {"type": "function", "name": call.names.wire(wanted.names[0])}
    if wanted.names:
        call.unsupported("unsupported_tool_choice", "a Realtime session cannot be limited to some of its functions")
    return wanted.mode


def _reasoning(call: Call, config: GenerateContentConfig) -> dict[str, Any] | None:
    found = settings.reasoning(call, config)
    if "summary" in found:
        call.warn("reasoning.summary", "a Realtime session shows no thoughts")
    return {"effort": found["effort"]} if "effort" in found else None


def _audio_input(call: Call, live: LiveRunConfig) -> dict[str, Any]:
    found: dict[str, Any] = {"format": audio_format(call, call.options.input_audio_format or "audio/pcm")}
    transcription = live.input_audio_transcription
    if transcription is not None:
        model = lookup(transcription, "model") or call.options.transcription_model or TRANSCRIPTION_MODEL
        found["transcription"] = {"model": model}
        languages = lookup(transcription, "language_codes")
        language = lookup(transcription, "language") or (languages[0] if languages else None)
        if language:
            found["transcription"]["language"] = str(language).partition("-")[0]
        if lookup(transcription, "prompt"):
            found["transcription"]["prompt"] = lookup(transcription, "prompt")
    if live.realtime_input_config is not None:
        found["turn_detection"] = _turn_detection(call, live.realtime_input_config)
    return found


def _turn_detection(call: Call, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The genai RealtimeInputConfig as turn detection; None: off, the client marks activity itself."""
    detection = lookup(wanted, "automatic_activity_detection") or {}
    if lookup(detection, "disabled"):
        return None
    found: dict[str, Any] = {"type": "server_vad"}
    for name, value in set_items(detection):
        if name in ("prefix_padding_ms", "silence_duration_ms"):
            found[name] = value
        elif name != "disabled":
            call.warn(f"realtime_input_config.{name}", f"{name} has no counterpart; it is left out")
    if str(lookup(wanted, "activity_handling") or "").upper() == "NO_INTERRUPTION":
        found["interrupt_response"] = False
    if lookup(wanted, "turn_coverage"):
        call.warn("realtime_input_config.turn_coverage", "turn_coverage has no counterpart; it is left out")
    return found


def _audio_output(call: Call, config: GenerateContentConfig, live: LiveRunConfig) -> dict[str, Any]:
    found: dict[str, Any] = {"format": audio_format(call, call.options.output_audio_format or "audio/pcm")}
    speech = live.speech_config if live.speech_config is not None else config.speech_config
    prebuilt = lookup(lookup(speech, "voice_config"), "prebuilt_voice_config")
    voice = lookup(prebuilt, "voice_name") or call.options.voice
    if voice:
        found["voice"] = voice
    if lookup(speech, "language_code"):
        call.warn("speech_config.language_code", "the language of speech follows the conversation; it is left out")
    return found
