"""Events: what a session's history is made of (core §7, services §1)."""

# No postponed annotations here: the codec asks for them at its first use, and evaluating texts took it half its time.

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from hookwork.errors import ValidationError
from hookwork.platform import new_uuid, timestamp
from hookwork.records.base import Record, clean_text_fields, frozen_map, set_field
from hookwork.records.content import Content, FunctionCall, FunctionResponse
from hookwork.records.frozen import FrozenDict, freeze, freeze_at
from hookwork.records.metadata import ModelResponse

_EMPTY: FrozenDict = FrozenDict({})


def _empty_map() -> FrozenDict:
    return _EMPTY


def route_texts(value: Any) -> tuple[str, ...]:
    """One route or several as they travel: text; a bool as ``true`` or ``false``, an int in decimal (workflow EDGE-3).

    Raises:
        ValidationError: a route is none of these.
    """
    if value is None:
        return ()
    several = value if isinstance(value, list | tuple | set | frozenset) else (value,)
    found = [_route_text(route) for route in several]
    return tuple(sorted(found) if isinstance(value, set | frozenset) else found)


def _route_text(route: Any) -> str:
    if isinstance(route, bool):
        return "true" if route else "false"
    if isinstance(route, str):
        return str.__str__(route)
    if isinstance(route, int):
        return str(int(route))
    kind = type(route).__name__
    raise ValidationError(f"routes: a route is text, a whole number or a boolean, not {kind}", path="routes")


class ToolConfirmation(Record):
    """A request for a person's approval, or the answer to one. All three keys are always on the wire."""

    hint: str = msgspec.field(default_factory=str)
    confirmed: bool = msgspec.field(default_factory=bool)
    payload: Any = msgspec.field(default_factory=lambda: None)

    def __post_init__(self) -> None:
        set_field(self, "payload", freeze(self.payload, (None, "payload")))


class ExcludedEvent(Record):
    """An event inside a compaction's span that was not summarised."""

    invocation_id: str = msgspec.field(default_factory=str)
    timestamp: float = msgspec.field(default_factory=float)


class EventCompaction(Record):
    """A summary in place of the events from ``start_timestamp`` to ``end_timestamp``, both inclusive (core CMP-3)."""

    start_timestamp: float = msgspec.field(default_factory=float)
    end_timestamp: float = msgspec.field(default_factory=float)
    compacted_content: Content | None = None
    excluded_events: tuple[ExcludedEvent, ...] = ()


class EventActions(Record):
    """Side effects that an event carries (services §1.3). Both deltas are never None and always on the wire.

    Attributes:
        state_delta: state key → new value; None is a value, not a deletion.
        artifact_delta: file name → version that was saved.
        requested_tool_confirmations: call id → what a person is asked.
    """

    state_delta: dict[str, Any] = msgspec.field(default_factory=_empty_map)
    artifact_delta: dict[str, int] = msgspec.field(default_factory=_empty_map)
    requested_tool_confirmations: dict[str, ToolConfirmation] | None = None
    skip_summarization: bool | None = None
    transfer_to_agent: str | None = None
    escalate: bool | None = None
    compaction: EventCompaction | None = None
    rewind_before_invocation_id: str | None = None

    def __post_init__(self) -> None:
        if type(self.state_delta) is not FrozenDict:
            set_field(self, "state_delta", frozen_delta(self.state_delta))
        if type(self.artifact_delta) is not FrozenDict:
            set_field(self, "artifact_delta", freeze(self.artifact_delta or {}))
        confirmations = self.requested_tool_confirmations
        if confirmations is not None and type(confirmations) is not FrozenDict:
            set_field(self, "requested_tool_confirmations", FrozenDict(confirmations))

    @property
    def is_empty(self) -> bool:
        """Nothing at all is set."""
        return self == NO_ACTIONS


def frozen_delta(delta: Mapping[str, Any] | None) -> FrozenDict:
    """A state delta with checked keys (non-empty text) and frozen values (services STA-8)."""
    if not delta:
        return _EMPTY
    if type(delta) is FrozenDict:
        return delta
    for key in delta:
        if not isinstance(key, str) or not key:
            raise ValidationError("state keys are non-empty text", path="state_delta")
        if key in ("app:", "user:", "temp:"):
            raise ValidationError(f"state key {key!r} has a scope but no name", path="state_delta")
    plain = {key: freeze_at(value, key) for key, value in delta.items()}
    return freeze(plain)  # type: ignore[no-any-return]


NO_ACTIONS = EventActions()


def no_actions() -> EventActions:
    return NO_ACTIONS


class NodeInfo(Record):
    """Where an event was made: path of its activation, and what it says about that activation (activations §1)."""

    path: str = ""
    message_as_output: bool | None = None
    output_for: tuple[str, ...] | None = None
    status: str | None = None


class RequestInput(Record):
    """A node's question to a person (workflow §5).

    ``payload``: what the person is shown beside the message; JSON, or an object of a dataclass, an attrs class, a
    Struct or a pydantic model, which is kept as JSON (PER-2).
    """

    interrupt_id: str = msgspec.field(default_factory=str)
    message: str | None = None
    response_schema: dict[str, Any] | None = None
    payload: Any = None

    def __post_init__(self) -> None:
        set_field(self, "payload", _frozen_value(self.payload, "payload"))
        set_field(self, "response_schema", frozen_map(self.response_schema))


def _frozen_value(value: Any, name: str) -> Any:
    """A value in its JSON form; objects of dataclasses, attrs classes, Structs and pydantic models too (PER-2)."""
    try:
        return freeze(value, (None, name))
    except ValidationError:
        return freeze(_written(value), (None, name))  # refused again, in its own words, if that is no help


def _written(value: Any) -> Any:
    """A value with its objects written as plain ones, as it is when that cannot be done."""

    def of_pydantic(part: Any) -> Any:
        return type(part).__pydantic_serializer__.to_python(part, mode="json", by_alias=True)

    try:  # bytes stay what they are: an artifact's, not text in disguise
        return msgspec.to_builtins(value, builtin_types=(bytes, bytearray, memoryview), enc_hook=of_pydantic)
    except Exception:  # noqa: BLE001 - whatever it is, JSON cannot hold the value
        return value


class Event(ModelResponse):
    """One step of a conversation. ``id``, ``timestamp``, ``invocationId``, ``author``, ``actions`` are always written.

    ``timestamp`` is epoch seconds rounded to microseconds, `time` the same as an aware UTC datetime. The bare
    constructor leaves ``""`` and ``0.0``, which mean "not set yet": the kernel fills them in (core AGT-17).
    """

    id: str = msgspec.field(default_factory=str)
    timestamp: float = msgspec.field(default_factory=float)
    invocation_id: str = msgspec.field(default_factory=str)
    author: str = msgspec.field(default_factory=str)
    actions: EventActions = msgspec.field(default_factory=no_actions)
    branch: str = ""
    isolation_scope: str = ""
    long_running_tool_ids: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    requested_input: RequestInput | None = None
    output: Any = None
    node_info: NodeInfo | None = None

    def __post_init__(self) -> None:
        if self.error_message is not None or self.error_code is not None:
            clean_text_fields(self, "error_code", "error_message")
        if self.output is not None:
            set_field(self, "output", _frozen_value(self.output, "output"))
        if self.custom_metadata is not None:
            set_field(self, "custom_metadata", frozen_map(self.custom_metadata))
        info = self.node_info
        if info is not None and not (
            info.path or info.message_as_output or info.output_for or info.status or info.extra
        ):
            set_field(self, "node_info", None)
        if type(self.long_running_tool_ids) is not tuple:
            set_field(self, "long_running_tool_ids", tuple(self.long_running_tool_ids or ()))
        if self.routes != ():
            set_field(self, "routes", route_texts(self.routes))

    @property
    def time(self) -> datetime:
        """`timestamp` as an aware UTC datetime."""
        return datetime.fromtimestamp(self.timestamp, UTC)

    @property
    def path(self) -> str:
        """The path of the activation that made the event, ``""`` when unknown."""
        return "" if self.node_info is None else self.node_info.path

    @property
    def function_calls(self) -> list[FunctionCall]:
        """The calls in the content, in order."""
        return [] if self.content is None else self.content.function_calls

    @property
    def function_responses(self) -> list[FunctionResponse]:
        """The responses in the content, in order."""
        return [] if self.content is None else self.content.function_responses

    def is_final_response(self) -> bool:
        """Whether this may be shown as an agent's answer (core EVT-20). Never stored, always computed."""
        if self.partial:
            return False
        actions = self.actions
        if actions is not NO_ACTIONS:
            if actions.compaction is not None or actions.rewind_before_invocation_id:
                return False
            if actions.skip_summarization:
                return True
        if self.long_running_tool_ids or self.error_code:
            return True
        parts = self.content.parts if self.content is not None else ()
        for part in parts:
            if part.function_call is not None or part.function_response is not None:
                return False
        if not parts:
            return (
                self.input_transcription is not None or self.output_transcription is not None or self.output is not None
            )
        return parts[-1].code_execution_result is None


def new_event(invocation_id: str, **fields: Any) -> Event:
    """An event with a fresh id and the current time."""
    return Event(invocation_id=invocation_id, id=new_uuid(), timestamp=timestamp(), **fields)


def is_compaction(event: Event) -> bool:
    """A compaction record (author ``user``, but no person spoke)."""
    return event.actions.compaction is not None


def is_rewind(event: Event) -> bool:
    """A rewind record (core REW-1)."""
    return bool(event.actions.rewind_before_invocation_id)


def is_task_result(event: Event) -> bool:
    """The response that closes a delegation: author ``user``, written by the kernel, not by a person (core MODE-9)."""
    return event.author == "user" and event.node_info is not None and bool(event.function_responses)


def is_human_input(event: Event) -> bool:
    """A person (or the client on a person's behalf) said this."""
    return event.author == "user" and not is_compaction(event) and not is_rewind(event) and not is_task_result(event)
