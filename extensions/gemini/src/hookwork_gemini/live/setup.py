"""The settings a live connection is opened with (models LIVE-1, LIVE-2, LIVE-3, LIVE-9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hookwork.live import LiveRunConfig, without_audio
from hookwork.model import ModelRequest
from hookwork.records.codec import dump
from hookwork.records.frozen import thaw
from hookwork_gemini.capabilities import version_of
from hookwork_gemini.conversion import parsed, warn_once
from hookwork_gemini.requests import Door
from hookwork_modelkit import refusal

#: Settings of a request that a connection has too, under the same name.
_SHARED = (
    *("temperature", "topP", "topK", "maxOutputTokens", "seed", "mediaResolution", "thinkingConfig", "speechConfig"),
    *("safetySettings", "responseModalities"),
)
#: Settings of a request that are put in their place apart.
_APART = frozenset({"systemInstruction", "tools", "httpOptions", "labels"})
#: Settings of a live run, which win.
_LIVE = ("responseModalities", "speechConfig", "inputAudioTranscription", "outputAudioTranscription",
         "realtimeInputConfig", "enableAffectiveDialog", "proactivity", "sessionResumption",
         "contextWindowCompression")  # fmt: skip
#: HTTP options a connection can have.
_HTTP = ("base_url", "api_version", "headers")


def connect_config(door: Door, request: ModelRequest, live: LiveRunConfig) -> Any:
    """The SDK's LiveConnectConfig.

    Raises:
        ModelError: of kind ``invalid_request``: a setting that live connections do not have.
    """
    from google.genai import types

    model = request.model or door.name
    data = _settings(door, model, request, live)
    config = request.config
    try:
        encoded = msgspec.json.encode(thaw(data))
        result = parsed(types.LiveConnectConfig, encoded, refused=door.refusing(model, "config"))
        options = door.http_options(model, config.http_options)
        result.http_options = types.HttpOptions(**{name: getattr(options, name) for name in _HTTP})
        if config.system_instruction is not None:
            result.system_instruction = door.content(config.system_instruction)
        if config.tools:
            result.tools = door.tools(model, config.tools)
    except ValueError as error:
        raise door.wrong(model, error) from error
    result.labels = _labels(door, config.labels)
    return result


def _settings(door: Door, model: str, request: ModelRequest, live: LiveRunConfig) -> dict[str, Any]:
    """All plain settings in JSON form: the request's, and over them those of the live run."""
    given = dump(request.config)
    data = {name: given.pop(name) for name in _SHARED if name in given}
    data |= {_camel(name): given.pop(name) for name in list(request.config.extra or ()) if name in given}
    lacking = sorted(set(given) - _APART)
    if lacking:
        raise refusal(
            door.provider, model, f"a live connection does not have the settings {', '.join(lacking)}; leave them out"
        )
    wanted = dump(live)
    data |= {name: wanted[name] for name in _LIVE if name in wanted}
    _resume(door, data)
    if _tells_history(model, request, data):
        data["historyConfig"] = {"initialHistoryInClientContent": True}
    return data


def _resume(door: Door, data: dict[str, Any]) -> None:
    """Vertex AI resumes in its transparent mode only; elsewhere the caller's wish stands (LIVE-9)."""
    resumption = data.get("sessionResumption")
    if door.vertexai and isinstance(resumption, Mapping) and resumption.get("handle"):
        data["sessionResumption"] = {**resumption, "transparent": True}


def _tells_history(model: str, request: ModelRequest, data: Mapping[str, Any]) -> bool:
    """Gemini 3 takes a history only when it was announced; a resumed session has its own (LIVE-3, LIVE-11).

    Without one nothing is announced: a server to which it was waits for the end of a history before it listens.
    """
    resumption = data.get("sessionResumption")
    resumes = isinstance(resumption, Mapping) and bool(resumption.get("handle"))
    version = version_of(model)
    return version is not None and version >= 3 and not resumes and bool(without_audio(request.contents))


def _labels(door: Door, labels: Mapping[str, str] | None) -> dict[str, str] | None:
    if labels and door.vertexai:
        warn_once("live labels", "left labels out of a live connection: Vertex AI does not take them there")
        return None
    return dict(labels) if labels else None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
