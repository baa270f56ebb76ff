"""google-adk's schema version 0, read by the migration only: ``actions`` holds a pickle (services ADKDB-7, DB-9).

A pickle is a program. It is run by an unpickler that knows google-adk's data classes by name, builds a stand-in that
only keeps their fields, and refuses every other name, so nothing of the file's choosing is ever called.
"""

from __future__ import annotations

import io
import pickle
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

import msgspec

from hookwork.errors import ValidationError
from hookwork.records.codec import load
from hookwork.records.event import Event
from hookwork_database.layouts.base import Layout
from hookwork_database.moments import micros_of

#: Modules whose classes hold nothing but fields. A name that is no class of theirs only makes an empty stand-in.
_MODULES = (
    "google.adk.events.event_actions",
    "google.adk.events.ui_widget",
    "google.adk.tools.tool_confirmation",
    "google.adk.auth.",
    "google.genai.types",
)
_CONTAINERS = {("builtins", "set"): set, ("builtins", "frozenset"): frozenset}
_JSON = {
    "content": "content",
    "grounding_metadata": "grounding_metadata",
    "custom_metadata": "custom_metadata",
    "usage_metadata": "usage_metadata",
    "citation_metadata": "citation_metadata",
    "input_transcription": "input_transcription",
    "output_transcription": "output_transcription",
    "long_running_tool_ids_json": "long_running_tool_ids",
}
_PLAIN = ("author", "branch", "error_code", "error_message")
_FLAGS = ("partial", "turn_complete", "interrupted")

_decode = msgspec.json.Decoder().decode


class _Fields:
    """Stands in for a data class; an enum's member is just its value."""

    def __new__(cls, *arguments: Any) -> Any:
        return arguments[0] if arguments else object.__new__(cls)

    def __setstate__(self, state: Any) -> None:
        kept = state.get("__dict__", state) if isinstance(state, dict) else {}
        self.fields: dict[str, Any] = kept if isinstance(kept, dict) else {}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """A stand-in for google-adk's data classes; nothing else is known."""
        if (module, name) in _CONTAINERS:
            return _CONTAINERS[module, name]
        if "." not in name and any(
            module == known or (known.endswith(".") and module.startswith(known)) for known in _MODULES
        ):
            return _Fields
        raise ValidationError(
            f"the pickled actions name {module}.{name}, which is not one of google-adk's data classes"
        )

    def persistent_load(self, pid: Any) -> NoReturn:
        """References to outside are refused."""
        raise ValidationError("the pickled actions refer to something outside of them")


def unpickled(data: bytes) -> dict[str, Any]:
    """The actions of a pickle as plain JSON.

    Raises:
        ValidationError: it names anything but data classes of google-adk, or is no pickle of actions.
    """
    try:
        found = _Unpickler(io.BytesIO(data)).load()
    except ValidationError:
        raise
    except Exception as error:
        raise ValidationError(f"the pickled actions cannot be read: {error!r}") from error
    plain = _plain(found)
    if not isinstance(plain, dict):
        raise ValidationError("the pickle holds no actions")
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, _Fields):
        fields = getattr(value, "fields", {})
        return {name: _plain(item) for name, item in fields.items() if item is not None}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value), key=repr)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value


class PickledLayout(Layout):
    """Version 0 in SQLite, for reading only.

    Args:
        zone: the zone in which its times were written; google-adk 2 writes UTC, older releases wrote local time.
    """

    name = "google-adk version 0"
    payload = ("invocation_id", "actions", *_JSON, *_PLAIN, *_FLAGS)

    def __init__(self, zone: str = "UTC") -> None:
        super().__init__()
        self._zone = UTC if zone == "UTC" else ZoneInfo(zone)

    def encode(self, event: Event) -> tuple[Any, ...]:
        raise TypeError("version 0 is read only")

    def decode(self, columns: tuple[Any, ...], id: str) -> Event:
        invocation_id, actions, *rest = columns
        document: dict[str, Any] = {"id": id, "invocation_id": invocation_id or ""}
        if actions is not None:
            document["actions"] = unpickled(actions)
        for key, value in zip((*_JSON.values(), *_PLAIN, *_FLAGS), rest, strict=True):
            if value is None:
                continue
            if key in _FLAGS:
                document[key] = bool(value)
            else:
                document[key] = value if key in _PLAIN else _decode(value)
        if document.get("long_running_tool_ids"):
            document["long_running_tool_ids"] = sorted(document["long_running_tool_ids"])
        return load(Event, document)

    def time(self, micros: int) -> Any:
        raise TypeError("version 0 is read only")

    def micros(self, raw: Any) -> int:
        moment = datetime.fromisoformat(raw)
        return micros_of(moment if moment.tzinfo is not None else moment.replace(tzinfo=self._zone))
