"""The contract of live (bidirectional) sessions: settings, what is sent, a model's connection (core LIVE, models §7).

Who does what: an adapter (`hookwork.model.Model.connect`) translates single messages, in both directions, and knows
nothing of reconnecting, tools or sessions. Whoever drives the connection puts fragments together, runs tools, stores
events, keeps the resumption handle and opens the next connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from hookwork.errors import ConfigurationError, ValidationError
from hookwork.records.base import Record, frozen_map, set_field
from hookwork.records.content import Blob, Content, Part, user_content
from hookwork.records.metadata import ModelResponse

#: Close codes after which a session may go on with a new connection (models LIVE-10; numbers of RFC 6455 §7.4.1 and
#: the IANA registry). 1000 only when it was not our own close; 1006 stands for "no close frame was received".
RESUMABLE_CLOSE_CODES = frozenset({1000, 1001, 1006, 1008, 1011, 1012, 1013, 1014})

#: Keys of ``ModelResponse.custom_metadata`` that a connection sets (models LIVE-7).
#: ``{"live_go_away": seconds}``: the server will close soon; the value is the time left, 0 where it does not say.
GO_AWAY = "live_go_away"
#: ``{"live_cancelled_calls": [id, …]}``: the model wants no answer to these calls any more.
CANCELLED_CALLS = "live_cancelled_calls"
#: ``True``: everything of this turn was generated (it may still be played).
GENERATION_COMPLETE = "live_generation_complete"
#: Text, as the provider names it.
TURN_COMPLETE_REASON = "live_turn_complete_reason"
#: Text or object, as the provider gives it.
INTERACTION_STATUS = "live_interaction_status"
#: Object, as the provider gives it: that the user began or ceased to speak, and where in the audio.
VOICE_ACTIVITY = "live_voice_activity"

_PNG = b"\x89PNG\r\n\x1a\n"


class SessionResumption(Record):
    """Whether a connection may be resumed, and which one is.

    ``handle``: what a `ModelResponse.session_resumption_handle` said before; None asks for handles without resuming.
    ``transparent``: the caller's wish; an adapter whose backend needs it to resume sets it itself (models LIVE-9).
    """

    handle: str | None = None
    transparent: bool | None = None


class LiveRunConfig(Record):
    """Settings of a live run (core §6). A value given here wins over the same one of the request's ``config``.

    Attributes:
        response_modalities: e.g. ``("AUDIO",)`` or ``("TEXT",)``; None: the provider's default.
        speech_config: voice and language (genai SpeechConfig).
        input_audio_transcription, output_audio_transcription: an object (``{}`` is enough) turns them on
            (genai AudioTranscriptionConfig).
        realtime_input_config: how activity is detected (genai RealtimeInputConfig).
        enable_affective_dialog: let the voice follow the user's mood.
        proactivity: let the model decide whether to answer (genai ProactivityConfig).
        session_resumption: a `SessionResumption`, or a dict of its fields.
        context_window_compression: genai ContextWindowCompressionConfig.
        save_live_blob: keep the audio of both sides as artifacts (models LIVE-16).
        max_llm_calls: model turns of the session, all agents together; what the model says after the answers to its
            calls counts as another one. None: the runner's own limit; 0 or less: unlimited.
        custom_metadata: merged into every event of the run, like `hookwork.RunConfig.custom_metadata`.
    """

    response_modalities: tuple[str, ...] | None = None
    speech_config: dict[str, Any] | None = None
    input_audio_transcription: dict[str, Any] | None = None
    output_audio_transcription: dict[str, Any] | None = None
    realtime_input_config: dict[str, Any] | None = None
    enable_affective_dialog: bool | None = None
    proactivity: dict[str, Any] | None = None
    session_resumption: SessionResumption | None = None
    context_window_compression: dict[str, Any] | None = None
    save_live_blob: bool = False
    max_llm_calls: int | None = None
    custom_metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        modalities = self.response_modalities
        if isinstance(modalities, str):
            raise ConfigurationError(f"response_modalities is a list of names; write [{modalities!r}]")
        if modalities is not None:
            set_field(self, "response_modalities", tuple(modalities))
        for name in _MAPPINGS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                raise ConfigurationError(f"{name} is an object, not {type(value).__name__}")
            set_field(self, name, frozen_map(value))
        resumption: Any = self.session_resumption
        if isinstance(resumption, Mapping):
            try:
                set_field(self, "session_resumption", SessionResumption(**resumption))
            except TypeError as error:
                raise ConfigurationError(f"session_resumption has handle and transparent: {error}") from error
        elif resumption is not None and not isinstance(resumption, SessionResumption):
            raise ConfigurationError(f"session_resumption is a SessionResumption, not {type(resumption).__name__}")
        if self.max_llm_calls is not None and type(self.max_llm_calls) is not int:
            raise ConfigurationError(f"max_llm_calls is a whole number, not {self.max_llm_calls!r}")

    def resuming(self, handle: str) -> LiveRunConfig:
        """These settings with a handle to resume; everything else the caller said of resumption stays."""
        present = self.session_resumption if self.session_resumption is not None else SessionResumption()
        return self.replace(session_resumption=present.replace(handle=handle))


_MAPPINGS = (
    "speech_config",
    "input_audio_transcription",
    "output_audio_transcription",
    "realtime_input_config",
    "proactivity",
    "context_window_compression",
    "custom_metadata",
)


class ActivityStart(Record):
    """The user began to speak; for sessions without automatic activity detection."""


class ActivityEnd(Record):
    """The user stopped speaking."""


#: What goes to the model as it happens: never stored, never sent again (core LIVE-3, models LIVE-12).
RealtimeInput = Blob | ActivityStart | ActivityEnd


class LiveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What `LiveRun.send` takes: a content (text, media, answers to calls), a realtime input, or both (core LIVE-1)."""

    content: Content | None = None
    realtime_input: RealtimeInput | None = None

    def __post_init__(self) -> None:
        if self.content is None and self.realtime_input is None:
            raise ValidationError("a live request holds a content, a realtime input, or both; this one is empty")
        if self.content is not None and not isinstance(self.content, Content):
            raise ValidationError(f"content is a Content, not {type(self.content).__name__}", path="content")
        if self.realtime_input is not None:
            check_realtime(self.realtime_input)


def live_request(value: Any) -> LiveRequest:
    """A `LiveRequest` from any accepted form: one itself, text, a Content, a list of Parts, or a realtime input.

    Raises:
        ValidationError: it is of no such form, or says nothing.
    """
    if isinstance(value, LiveRequest):
        request = value
    elif isinstance(value, RealtimeInput):
        request = LiveRequest(realtime_input=value)
    elif isinstance(value, str | Content):
        request = LiveRequest(content=user_content(value))
    elif isinstance(value, Sequence) and all(isinstance(part, Part) for part in value):
        request = LiveRequest(content=user_content(list(value)))
    else:
        raise ValidationError(
            f"a live run takes text, a Content, a list of Parts, a Blob, ActivityStart or ActivityEnd, not "
            f"{type(value).__name__}"
        )
    if request.content is not None:
        check_content(request.content)
    return request


def check_realtime(item: Any) -> RealtimeInput:
    """``item`` if it can be sent as realtime input. Raises ValidationError (models LIVE-5)."""
    if not isinstance(item, RealtimeInput):
        raise ValidationError(
            f"realtime input is a Blob, ActivityStart or ActivityEnd, not {type(item).__name__}", path="realtime_input"
        )
    if isinstance(item, Blob) and not item.data:
        raise ValidationError("a realtime Blob holds no data", path="realtime_input")
    return item


def check_content(content: Content) -> Content:
    """``content`` if it says anything. Raises ValidationError (models LIVE-4)."""
    if not any(part.text.strip() if part.text is not None else not part.is_empty() for part in content.parts):
        raise ValidationError("the content is empty: give text, media or an answer to a call", path="content")
    return content


def with_mime_type(blob: Blob) -> Blob:
    """A blob that names its type: PNG bytes are ``image/png``, anything else unnamed ``audio/pcm`` (models LIVE-5)."""
    if blob.mime_type:
        return blob
    return blob.replace(mime_type="image/png" if (blob.data or b"").startswith(_PNG) else "audio/pcm")


def without_audio(contents: Sequence[Content]) -> list[Content]:
    """A history as it is sent over a connection: no inline audio, no content that this leaves empty (models LIVE-3)."""
    kept: list[Content] = []
    for content in contents:
        parts = [part for part in content.parts if not is_audio(part)]
        if len(parts) == len(content.parts):
            kept.append(content)
        elif parts:
            kept.append(content.replace(parts=parts))
    return kept


def is_audio(part: Part) -> bool:
    """Whether a part is inline audio."""
    blob = part.inline_data
    return blob is not None and (blob.mime_type or "").lower().startswith("audio/")


class LiveConnection(ABC):
    """One open connection to a live model; `Model.connect` gives it, entered and ready for `send_history`.

    Sends and `receive` run in different tasks at once. Two sends never overlap.

    **Lost connections.** When the line ends and `close` was not called, `receive` raises
    `hookwork.errors.LiveConnectionClosed` with the WebSocket close code (1006 when no close frame came), and so does a
    send that finds it gone. Any other failure is a `hookwork.errors.ModelError` of its own kind; it ends the session.
    """

    @property
    def session_id(self) -> str:
        """What the service calls this session, ``""`` where it does not say, or not yet."""
        return ""

    @abstractmethod
    async def send_history(self, contents: Sequence[Content]) -> None:
        """Send the conversation so far, once, before anything else (models LIVE-3).

        Inline audio, and contents it leaves empty, are left out (`without_audio`); nothing left: nothing is sent. The
        model is to answer if, and only if, the last remaining content has the role ``user``. Not called on a connection
        that resumed by a handle.
        """

    @abstractmethod
    async def send_content(self, content: Content) -> None:
        """Send one content; the model's turn follows (models LIVE-4).

        If its first part is a function response, all function responses in it go as one answer to the model's calls
        and other parts are left out.

        Raises:
            ValidationError: the content says nothing (`check_content`).
        """

    @abstractmethod
    async def send_realtime(self, item: RealtimeInput) -> None:
        """Send audio, an image or an activity mark as it happens (models LIVE-5; `with_mime_type`).

        Raises:
            ValidationError: anything else (`check_realtime`).
        """

    @abstractmethod
    def receive(self) -> AsyncIterator[ModelResponse]:
        """Everything the server says, over the whole connection, turn after turn (models LIVE-17).

        An async generator, iterated once; closing it leaves the connection open. One response per server message, as
        it comes; fragments are *not* put together here (the driver does, models LIVE-6, LIVE-8):

        * text and thoughts: ``content`` with that fragment, ``partial=True``.
        * audio and other media: ``content`` with inline data, ``partial`` unset.
        * function calls: all calls of the message as parts of one ``content`` of role ``model``, ``partial`` unset,
          each with the id the server gave, if any.
        * speech as text: ``input_transcription`` / ``output_transcription``, ``partial=True``, ``text`` the new
          fragment, ``finished`` unset. A server that sends the whole transcript of an utterance: that text with
          ``finished=True`` and ``partial`` unset; it replaces the fragments of the utterance.
        * ``turn_complete=True``: the model is done with its turn; ``interrupted=True``: the user cut it off. They may
          come on a message with content, or alone. Where a turn ends with the calls in it (OpenAI Realtime) it is said
          there; the model goes on in another turn once it has the answers.
        * ``session_resumption_handle``: alone, only handles that can be used now.
        * ``usage_metadata``: normalised (models MOD-16); each token is reported once: the counts of a session's
          responses are added up. ``finish_reason``, ``model_version`` as usual.
        * ``grounding_metadata``: what of it came; the driver puts together what comes in one turn.
        * ``error_code``: what the server reports as a result; the session goes on.
        * ``custom_metadata`` with the keys `GO_AWAY`, `CANCELLED_CALLS`, `GENERATION_COMPLETE`,
          `TURN_COMPLETE_REASON`, `INTERACTION_STATUS`, `VOICE_ACTIVITY`. A message with nothing else is
          ``partial=True``.
        * messages without any of this give nothing.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the line; idempotent. `receive` then ends without an error, in whatever task it runs."""
