"""Content and its parts, in the JSON form of the genai types (services §1, models §1)."""

# No postponed annotations here: the codec asks for them at its first use, and evaluating texts took it half its time.

from collections.abc import Iterable
from typing import Any

from hookwork.records.base import Record, clean_text_fields, frozen_map, set_field
from hookwork.records.frozen import FrozenDict, FrozenList, freeze
from hookwork.records.text import clean, report_cleaned

_NO_PARTS: FrozenList = FrozenList(())
_NO_ARGS: FrozenDict = FrozenDict({})


class Blob(Record):
    """Inline bytes; base64 (standard alphabet, padded) on the wire."""

    data: bytes | None = None
    mime_type: str | None = None
    display_name: str | None = None

    def __post_init__(self) -> None:
        clean_text_fields(self, "mime_type", "display_name")


class FileData(Record):
    """Bytes that live elsewhere."""

    file_uri: str | None = None
    mime_type: str | None = None
    display_name: str | None = None

    def __post_init__(self) -> None:
        clean_text_fields(self, "file_uri", "mime_type", "display_name")


class PartialArg(Record):
    """One streamed fragment of a function call's arguments (models AGG-15)."""

    json_path: str | None = None
    string_value: str | None = None
    number_value: float | None = None
    bool_value: bool | None = None
    null_value: str | None = None
    will_continue: bool | None = None


class FunctionCall(Record):
    """A model's wish to call a function. ``args`` is a frozen JSON object."""

    id: str | None = None
    name: str | None = None
    args: dict[str, Any] | None = None
    partial_args: tuple[PartialArg, ...] | None = None
    will_continue: bool | None = None

    def __post_init__(self) -> None:
        args = self.args
        if args is not None and type(args) is not FrozenDict:
            set_field(self, "args", freeze(args, (None, "args")))
        name = self.name
        if name is not None and not name.isidentifier():
            clean_text_fields(self, "name")


class FunctionResponseBlob(Record):
    """Media inside a function response."""

    data: bytes | None = None
    mime_type: str | None = None
    display_name: str | None = None


class FunctionResponsePart(Record):
    """One media part of a function response."""

    inline_data: FunctionResponseBlob | None = None
    file_data: FileData | None = None


class FunctionResponse(Record):
    """The answer to a function call. ``response`` is a frozen JSON object (or None: the call answered with nothing)."""

    id: str | None = None
    name: str | None = None
    response: dict[str, Any] | None = None
    parts: tuple[FunctionResponsePart, ...] | None = None
    scheduling: str | None = None
    will_continue: bool | None = None

    def __post_init__(self) -> None:
        response = self.response
        if response is not None and type(response) is not FrozenDict:
            set_field(self, "response", freeze(response, (None, "response")))
        name = self.name
        if name is not None and not name.isidentifier():
            clean_text_fields(self, "name")


class ExecutableCode(Record):
    """Code that the model's own executor will run."""

    id: str | None = None
    code: str | None = None
    language: str | None = None

    def __post_init__(self) -> None:
        clean_text_fields(self, "code")


class CodeExecutionResult(Record):
    """What that code gave; ``outcome`` is ``OUTCOME_OK``, ``OUTCOME_FAILED`` …"""

    id: str | None = None
    outcome: str | None = None
    output: str | None = None

    def __post_init__(self) -> None:
        clean_text_fields(self, "output")


class VideoMetadata(Record):
    """Which piece of a video is meant."""

    start_offset: str | None = None
    end_offset: str | None = None
    fps: float | None = None


class Part(Record):
    """One piece of a content; exactly one of the kinds is set, `thought` and its signature may come with any."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: bytes | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    executable_code: ExecutableCode | None = None
    code_execution_result: CodeExecutionResult | None = None
    video_metadata: VideoMetadata | None = None
    media_resolution: dict[str, Any] | None = None
    part_metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        text = self.text
        if text is not None:
            cleaned = clean(text)
            if cleaned is not text:
                report_cleaned("text", 1)
                set_field(self, "text", cleaned)
        if self.media_resolution is not None or self.part_metadata is not None:
            set_field(self, "media_resolution", frozen_map(self.media_resolution))
            set_field(self, "part_metadata", frozen_map(self.part_metadata))

    def is_empty(self) -> bool:
        """True when no kind is set at all, or only an empty text."""
        return self in (_EMPTY_PART, _EMPTY_TEXT)


_EMPTY_PART = Part()
_EMPTY_TEXT = Part(text="")


class Content(Record):
    """A turn's worth of parts. ``role`` is ``user`` or ``model``; ``parts`` is frozen, in order."""

    role: str | None = None
    parts: list[Part] = _NO_PARTS  # one object, so that the encoder leaves it out

    def __post_init__(self) -> None:
        parts = self.parts
        if type(parts) is not FrozenList:
            set_field(self, "parts", FrozenList(parts) if parts else _NO_PARTS)

    @property
    def text(self) -> str:
        """The non-thought text, joined without separator."""
        parts = self.parts
        if len(parts) == 1:
            part = parts[0]
            return (part.text or "") if not part.thought else ""
        return "".join([part.text for part in parts if part.text and not part.thought])

    @property
    def function_calls(self) -> list[FunctionCall]:
        """The calls among the parts, in order."""
        return [part.function_call for part in self.parts if part.function_call is not None]

    @property
    def function_responses(self) -> list[FunctionResponse]:
        """The responses among the parts, in order."""
        return [part.function_response for part in self.parts if part.function_response is not None]


def user_content(message: str | Content | Iterable[Part]) -> Content:
    """A message in any accepted form as a Content of role ``user`` (core RUN-3, RUN-16)."""
    if isinstance(message, str):
        return Content(role="user", parts=[Part(text=message)])
    if isinstance(message, Content):
        return message if message.role == "user" else message.replace(role="user")
    return Content(role="user", parts=list(message))


def text_content(text: str, role: str = "model") -> Content:
    """A content of one text part."""
    return Content(role=role, parts=[Part(text=text)])
