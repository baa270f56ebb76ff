"""Look through a file of sessions before anything of it is stored."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from hookwork.errors import SessionNotFoundError
from hookwork.records.deleted import DELETED, delta_of
from hookwork_console.session_lines import Entry, SessionLine, entries

if TYPE_CHECKING:
    from hookwork.records.event import Event
    from hookwork.services import SessionService
    from hookwork_console.session_artifacts import ArtifactLine

#: How many problems are told one by one.
MOST_PROBLEMS = 20

_SHARED = ("app:", "user:")
_NOT_OF_THE_SESSION = (*_SHARED, "temp:")


class Planned(NamedTuple):
    """One session of a file, and where it is to be stored.

    Attributes:
        line: number of its line.
        events: how many will be stored.
        artifacts: how many versions of files stand behind them.
        exists: the store holds a session of this name.
        stored: how many events of an interrupted import it holds: those, in order, and no other; None: something else.
    """

    app_name: str
    user_id: str
    id: str
    line: int
    events: int = 0
    artifacts: int = 0
    exists: bool = False
    stored: int | None = None

    def deletion(self, session_id: str) -> str:
        """The command that deletes a session of this app and user."""
        words = ("delete", session_id, "--app", self.app_name, "--user", self.user_id)
        return f"hookwork sessions {shlex.join(words)}"

    def __str__(self) -> str:
        return f"session {self.id!r} of user {self.user_id!r} in app {self.app_name!r}"


class Checked(NamedTuple):
    """What a look through a file found.

    Attributes:
        problems: why nothing of it can be stored, each with file and line; the first `MOST_PROBLEMS`.
        broken: how many problems there are.
        remarks: what will not be kept.
    """

    planned: list[Planned]
    problems: list[str]
    broken: int
    remarks: list[str]


async def check(
    service: SessionService, stream: BinaryIO, file: str, *, app_name: str | None = None, user_id: str | None = None
) -> Checked:
    """Read a file of sessions to its end and look up which of them the store holds already; nothing is written.

    Args:
        stream: the file, from where it stands.
        file: what to call it.
        app_name, user_id: where to store the sessions, in place of what the file says.

    Raises:
        BackendError: the store cannot be read.
    """
    checker = _Checker(service, file, app_name, user_id)
    for entry in entries(stream):
        if entry.problem:
            checker.problem(entry.number, entry.problem)
        if entry.remark:
            checker.remark(entry.number, entry.remark)
        if entry.session is not None:
            await checker.end_session()
            await checker.session(entry.number, entry.session, broken=bool(entry.problem))
        elif entry.event is not None:
            checker.event(entry, entry.event)
        elif entry.artifact is not None:
            checker.artifact(entry, entry.artifact)
    await checker.end_session()
    return checker.checked()


class _Checker:
    """What is known of the file so far; of events only those ids that belong to the session being read."""

    def __init__(self, service: SessionService, file: str, app_name: str | None, user_id: str | None) -> None:
        self._service = service
        self._file = file
        self._place = (app_name, user_id)
        self._planned: list[Planned] = []
        self._problems: list[str] = []
        self._broken = 0
        self._remarks: list[str] = []
        self._lines: dict[tuple[str, str, str], int] = {}
        self._current: Planned | None = None
        self._line: SessionLine | None = None
        self._ids: dict[str, int] = {}
        self._unnamed = self._partial = self._versions = 0
        self._newest: dict[str, int] = {}
        self._muted = False
        self._last: dict[str, object] = {}
        self._dropped: set[str] = set()

    def problem(self, number: int, text: str) -> None:
        self._broken += 1
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(f"{self._file}, line {number}: {text}")

    def remark(self, number: int, text: str) -> None:
        self._remarks.append(f"{self._file}, line {number}: {text}")

    def checked(self) -> Checked:
        if not self._planned and not self._broken:
            self.problem(1, "there is no session in it; write files with `hookwork sessions export`")
        return Checked(self._planned, self._problems, self._broken, self._remarks)

    async def session(self, number: int, line: SessionLine, *, broken: bool) -> None:
        """A session begins; of a broken one nothing more is told, its events are not taken for another's."""
        self._muted = broken
        if broken:
            return
        app_name, user_id = self._place[0] or line.app_name, self._place[1] or line.user_id
        planned = Planned(app_name, user_id, line.id, number)
        self._current, self._line = planned, line
        self._ids, self._unnamed, self._partial, self._last = {}, 0, 0, {}
        self._versions, self._newest = 0, {}
        wrong = list(self._wrong_ids(planned))
        for text in wrong:
            self.problem(number, text)
        if wrong:
            return
        first = self._lines.setdefault((app_name, user_id, line.id), number)
        if first != number:
            self.problem(number, f"{planned} stands on line {first} already")
        elif await self._is_stored(planned):
            self._current = planned._replace(exists=True)

    def _wrong_ids(self, planned: Planned) -> Iterator[str]:
        capabilities = self._service.capabilities
        longest, pattern = capabilities.max_id_length, capabilities.session_id_pattern
        for name, value in (("appName", planned.app_name), ("userId", planned.user_id), ("id", planned.id)):
            if not value.strip() or value != value.strip():
                yield f"{name} is {'empty' if not value.strip() else 'surrounded by blanks'}"
            elif longest is not None and len(value) > longest:
                yield f"{name} has {len(value)} characters; this store takes at most {longest}"
        if capabilities.user_provided_session_id and pattern and not re.fullmatch(pattern, planned.id):
            yield f"id does not have the form {pattern} that this store wants"

    async def _is_stored(self, planned: Planned) -> bool:
        if not self._service.capabilities.user_provided_session_id:
            return False
        try:
            await self._service.get_session(
                app_name=planned.app_name, user_id=planned.user_id, session_id=planned.id, num_recent_events=0
            )
        except SessionNotFoundError:
            return False
        return True

    def event(self, entry: Entry, event: Event) -> None:
        """An event of the session that was begun last."""
        number, longest = entry.number, self._service.capabilities.max_id_length
        if self._muted:
            return
        if self._current is None:
            self.problem(number, "an event stands before the first session; a session's line has id, appName, userId")
        elif event.partial:
            self._partial += 1
        elif event.id in self._ids:
            self.problem(number, f"event id {event.id!r} stands on line {self._ids[event.id]} already")
        elif longest is not None and len(event.id) > longest:
            self.problem(number, f"the event's id has {len(event.id)} characters; this store takes at most {longest}")
        else:
            if event.id:
                self._ids[event.id] = number
            else:
                self._unnamed += 1
            self._last.update(delta_of(event))
            for name in self._service.capabilities.dropped_event_fields - self._dropped:
                if getattr(event, name, None):
                    self._dropped.add(name)
                    self.remark(number, f"this store does not keep {name} of events")

    def artifact(self, entry: Entry, line: ArtifactLine) -> None:
        """A version of a file of the session that was begun last."""
        if self._muted or entry.problem:
            return
        newest = self._newest.get(line.artifact, -1)
        if self._current is None:
            self.problem(entry.number, "an artifact stands before the first session; a session's line comes first")
        elif line.version <= newest:
            self.problem(entry.number, f"version {line.version} of {line.artifact!r} stands behind version {newest}")
        else:
            self._newest[line.artifact] = line.version
            self._versions += 1

    async def end_session(self) -> None:
        """The session that was begun last is over."""
        planned, line = self._current, self._line
        self._current = None
        if planned is None or line is None:
            return
        if self._partial:
            self.remark(planned.line, f"{self._partial} partial event(s) are not stored")
        differing = [key for key, value in self._last.items() if self._ends_differently(line, key, value)]
        if differing:
            names = ", ".join(map(repr, differing))
            self.remark(planned.line, f"the events end with other values of {names} than the state; theirs are stored")
        if planned.exists:
            planned = planned._replace(stored=await self._interrupted(planned))
        events = len(self._ids) + self._unnamed
        self._planned.append(planned._replace(events=events, artifacts=self._versions))

    @staticmethod
    def _ends_differently(line: SessionLine, key: str, value: object) -> bool:
        if key.startswith(_NOT_OF_THE_SESSION):
            return False
        return key in line.state if value is DELETED else key not in line.state or line.state[key] != value

    async def _interrupted(self, planned: Planned) -> int | None:
        """How many events of an import that broke off the store holds; None when it holds anything else."""
        session = await self._service.get_session(
            app_name=planned.app_name, user_id=planned.user_id, session_id=planned.id
        )
        stored = [event.id for event in session.events]
        known = list(self._ids)
        return len(stored) if len(stored) < len(known) and stored == known[: len(stored)] else None
