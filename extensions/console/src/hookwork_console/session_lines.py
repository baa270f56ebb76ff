"""Sessions as JSON Lines in the wire form of ADK: a line for the session, one for each of its events and files.

Camel case and epoch seconds, by the kernel's codec (services COD-1). A file holds any number of sessions. Read are the
other spellings of ADK too, and a session that brings its events inside, as ``hookwork chat --save-session`` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import msgspec

from hookwork.errors import ValidationError
from hookwork.records.base import Record, set_field
from hookwork.records.codec import dump_json, load
from hookwork.records.event import Event, frozen_delta
from hookwork.records.frozen import FrozenDict
from hookwork_console.session_artifacts import ArtifactLine, checked_artifact

if TYPE_CHECKING:
    from hookwork.records.session import Session

_BOM = b"\xef\xbb\xbf"
#: Keys, spelt without case and underscores, that every event has and no session.
_OF_EVENTS = frozenset({"actions", "author", "invocationid"})


class SessionLine(Record):
    """The line in front of a session's events; its five keys are always written.

    Attributes:
        state: the merged state: keys of the session, then those of its app (``app:``) and user (``user:``).
        last_update_time: epoch seconds.
    """

    id: str = msgspec.field(default_factory=str)
    app_name: str = msgspec.field(default_factory=str)
    user_id: str = msgspec.field(default_factory=str)
    state: dict[str, Any] = msgspec.field(default_factory=lambda: FrozenDict({}))
    last_update_time: float = msgspec.field(default_factory=float)

    def __post_init__(self) -> None:
        set_field(self, "state", frozen_delta(self.state))


class Entry(NamedTuple):
    """What stands on one line: a session, an event, a file of it, or a problem that says what is wrong with the line.

    Attributes:
        number: of the line, from 1.
        session: an empty one when the line is a session's and there is a problem with it.
        remark: what is right but will not be kept; ``""`` for nothing.
    """

    number: int
    session: SessionLine | None = None
    event: Event | None = None
    artifact: ArtifactLine | None = None
    problem: str = ""
    remark: str = ""


def session_line(session: Session) -> SessionLine:
    """The line of a session; a ``temp:`` value is never part of it."""
    return SessionLine(
        id=session.id,
        app_name=session.app_name,
        user_id=session.user_id,
        state={key: value for key, value in session.state.items() if not key.startswith("temp:")},
        last_update_time=session.last_update_time.timestamp(),
    )


def lines_of(session: Session) -> Iterator[bytes]:
    """A session and the events of the handle as lines with their end, one at a time.

    Raises:
        ValidationError: a record that JSON cannot hold.
    """
    yield dump_json(session_line(session)) + b"\n"
    for event in session.events:
        yield dump_json(event) + b"\n"


def entries(stream: BinaryIO) -> Iterator[Entry]:
    """What a file holds, line by line, from where the stream stands; blank lines are passed over.

    One document spread over many lines is read as well; it is held in memory.
    """
    for number, line in _lines(stream):
        yield from _of_line(number, line)


def by_session(found: Iterable[Entry]) -> Iterator[tuple[SessionLine, Iterator[Event | ArtifactLine]]]:
    """Each session of a sound file with its events and files, read as they are asked for and passed over if not."""
    begun = 0

    def number(entry: Entry) -> int:
        nonlocal begun
        begun += entry.session is not None
        return begun

    for _, group in groupby(found, number):
        line = next(group).session
        if line is not None:
            yield line, (item for entry in group if (item := entry.event or entry.artifact) is not None)


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    for number, read in enumerate(stream, 1):
        line = read.removeprefix(_BOM) if number == 1 else read
        if number == 1 and line.strip() == b"{":
            yield 1, line + stream.read()
            return
        if not line.isspace():
            yield number, line.strip()


def _of_line(number: int, line: bytes) -> Iterator[Entry]:
    kind = _kind_of(line)
    of_session = kind is SessionLine
    try:
        if kind is ArtifactLine:
            artifact = load(ArtifactLine, line)
            yield Entry(number, artifact=artifact, problem=checked_artifact(artifact))
            return
        if not of_session:
            yield Entry(number, event=load(Event, line))
            return
        session = load(SessionLine, line)
    except ValidationError as error:
        yield Entry(number, session=SessionLine() if of_session else None, problem=_told(error))
        return
    extra = dict(session.extra or {})
    inside = extra.pop("events", None)
    remark = f"no store keeps {', '.join(map(repr, extra))} of a session; left out" if extra else ""
    yield Entry(number, session=session.replace(extra=None), remark=remark)
    if inside is not None:
        yield from _inside(number, inside)


def _inside(number: int, events: Any) -> Iterator[Entry]:
    """The events that a session brings inside."""
    if not isinstance(events, Iterable) or isinstance(events, str | dict):
        yield Entry(number, problem="Session at events: expected a list")
        return
    for i, document in enumerate(events):
        try:
            if not isinstance(document, dict):
                raise ValidationError("Event: expected an object")
            yield Entry(number, event=load(Event, document))
        except ValidationError as error:
            yield Entry(number, problem=f"events[{i}]: {_told(error)}")


def _told(error: ValidationError) -> str:
    """The text of an error as a person knows the file: a session there is no class, and a line is one line."""
    return (
        str(error)
        .replace("SessionLine", "Session", 1)
        .replace("ArtifactLine", "Artifact", 1)
        .replace("(line 1, column", "(column", 1)
    )


def _kind_of(line: bytes) -> type[SessionLine | ArtifactLine | Event]:
    """What a line is, told by its keys; what is no object at all is left to the reader of events."""
    try:
        keys: Iterable[str] = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        # msgspec refuses lone surrogates, which the codec replaces.
        try:
            keys = json.loads(line)
        except (ValueError, RecursionError):
            return Event
        if not isinstance(keys, dict):
            return Event
    names = {key.replace("_", "").lower() for key in keys}
    if names & _OF_EVENTS:
        return Event
    if "artifact" in names:
        return ArtifactLine
    return SessionLine if "appname" in names else Event
