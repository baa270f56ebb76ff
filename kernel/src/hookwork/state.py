"""Live state: what is stored, overlaid by writes that are not appended yet (core §5.1).

Each writer (a tool call, a callback stage, a model stage) has a buffer. Every write takes the next number of one
counter per run and is seen by all contexts of the run at once. When a writer's event leaves, its buffer is *settled*
into the event's delta; once the event is stored the writes leave the overlay, and when it cannot be stored they are
forgotten. So live state and stored state can only differ by what is still to be appended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, NoReturn

from hookwork.errors import ContextClosedError, StateMutationError, UnsupportedInContext, ValidationError
from hookwork.records.deleted import DELETED
from hookwork.records.frozen import freeze_at, thaw
from hookwork.records.session import Session

_MISSING: Any = object()

#: (stored value when it was written, value written, value that others stored meanwhile) → the value to store.
Rule = Callable[[Any, Any, Any], Any]


def check_state_key(key: Any) -> None:
    """Raise `ValidationError` unless ``key`` can name a state value (services STA-8)."""
    if not isinstance(key, str) or not key:
        raise ValidationError(f"a state key is non-empty text, not {key!r}", path="state")
    if key in ("app:", "user:", "temp:"):
        raise ValidationError(f"state key {key!r} has a scope but no name", path="state")


class DeltaBuffer:
    """The writes of one writer: key → (number, value), and the artifact versions it saved."""

    __slots__ = ("artifacts", "closed", "writes")

    def __init__(self) -> None:
        self.writes: dict[str, tuple[int, Any]] = {}
        self.artifacts: dict[str, int] = {}
        self.closed = False

    def __bool__(self) -> bool:
        return bool(self.writes or self.artifacts)

    def note_artifact(self, filename: str, version: int) -> None:
        """Record a successful save; the higher version stays (CTX-2)."""
        if version > self.artifacts.get(filename, -1):
            self.artifacts[filename] = version


class Settled:
    """A delta taken from buffers, on its way into an event: key → number of its write."""

    __slots__ = ("artifacts", "delta", "numbers")

    def __init__(self, delta: dict[str, Any], numbers: dict[str, int], artifacts: dict[str, int]) -> None:
        self.delta = delta
        self.numbers = numbers
        self.artifacts = artifacts


class LiveState:
    """The state that all contexts of one run share.

    Args:
        check: called with every key and value that is written; raises for one that the app does not declare (BEY-3).
        rules: state key → how a concurrent write of it is merged (`hookwork.state_merge`); None: no key is.
    """

    __slots__ = ("_appended", "_lock", "_number", "_outstanding", "check", "rules", "session")

    def __init__(
        self, session: Session, check: Callable[[str, Any], None] | None = None, rules: Mapping[str, Rule] | None = None
    ) -> None:
        self.session = session
        self.check = check
        self.rules = rules
        self._number = 0
        self._lock = threading.Lock()
        #: key → its writes that are not appended yet, by number.
        self._outstanding: dict[str, dict[int, Any]] = {}
        #: key → number of the newest write that was appended.
        self._appended: dict[str, int] = {}

    def read(self, key: str) -> Any:
        """The newest value of a key, or `_MISSING`."""
        if key in self._outstanding:
            with self._lock:
                writes = self._outstanding.get(key)
                if writes:
                    value = writes[max(writes)]
                    return _MISSING if value is DELETED else value
        try:
            return self.session.state[key]
        except KeyError:
            return _MISSING

    def keys(self) -> list[str]:
        """All keys, outstanding ones included."""
        keys = list(self.session.state)
        known = set(keys)
        with self._lock:
            keys += [key for key in self._outstanding if key not in known]
            gone = {key for key, writes in self._outstanding.items() if writes[max(writes)] is DELETED}
        return [key for key in keys if key not in gone] if gone else keys

    def as_dict(self) -> dict[str, Any]:
        """The whole live state."""
        return {key: self.read(key) for key in self.keys()}

    def write(self, buffer: DeltaBuffer, key: str, value: Any) -> None:
        """Write a checked and frozen value, or `DELETED`; seen by everyone at once (DLT-1, DLT-3)."""
        check_state_key(key)
        frozen = value if value is DELETED else freeze_at(value, key)
        if self.check is not None and frozen is not DELETED:
            self.check(key, frozen)
        with self._lock:
            if buffer.closed:
                raise ContextClosedError(
                    f"state[{key!r}] was written after its call had ended; the write is dropped. "
                    "Await background work before the tool or callback returns."
                )
            self._number += 1
            # A key that is about to be written counts as written: no foreign write of it is absorbed (SES-18).
            self.session.written_keys.add(key)
            outstanding = self._outstanding.setdefault(key, {})
            previous = buffer.writes.get(key)
            if previous is not None:
                outstanding.pop(previous[0], None)
            outstanding[self._number] = frozen
            buffer.writes[key] = (self._number, frozen)

    def check_delta(self, delta: Mapping[str, Any]) -> None:
        """Check the delta of an event that was made by hand against what the app declares (BEY-3)."""
        if self.check is not None:
            for key, value in delta.items():
                if value is not DELETED:
                    self.check(key, value)

    def settle(self, buffers: Iterable[DeltaBuffer], explicit: Mapping[str, Any] | None = None) -> Settled:
        """Take the buffers: per key the newest write, unless a newer one was appended already (DLT-5).

        ``explicit`` is the delta of a hand-made event; it counts as written now (DLT-9). Keys come in the order of
        their writes.
        """
        newest: dict[str, tuple[int, Any]] = {}
        artifacts: dict[str, int] = {}
        with self._lock:
            for buffer in buffers:
                for key, write in buffer.writes.items():
                    known = newest.get(key)
                    if known is not None:  # the older of two writes of one batch is outstanding no longer
                        self._forget(key, min(known[0], write[0]))
                    if known is None or known[0] < write[0]:
                        newest[key] = write
                buffer.writes = {}
                for name, version in buffer.artifacts.items():
                    if version > artifacts.get(name, -1):
                        artifacts[name] = version
                buffer.artifacts = {}
            for key, value in (explicit or {}).items():
                self._number += 1
                if key in newest:
                    self._forget(key, newest[key][0])
                newest[key] = (self._number, value)
                self._outstanding.setdefault(key, {})[self._number] = value
            delta: dict[str, Any] = {}
            numbers: dict[str, int] = {}
            for key, (number, value) in sorted(newest.items(), key=lambda item: item[1][0]):
                if self._appended.get(key, 0) > number:
                    self._forget(key, number)
                    continue
                if self.rules:  # a foreign write may have moved what the writer wrote (`rebase`)
                    value = self._outstanding.get(key, {}).get(number, value)
                delta[key] = value
                numbers[key] = number
        return Settled(delta, numbers, artifacts)

    def appended(self, settled: Settled) -> None:
        """The settled writes are stored now: they leave the overlay."""
        with self._lock:
            for key, number in settled.numbers.items():
                if self._appended.get(key, 0) < number:
                    self._appended[key] = number
                # Older writes of other writers go too: `settle` will leave them out, so they are live no longer.
                for older in [n for n in self._outstanding.get(key, ()) if n <= number]:
                    self._forget(key, older)

    def drop(self, settled: Settled) -> None:
        """The settled writes will never be stored: they leave the live state (DLT-7)."""
        with self._lock:
            for key, number in settled.numbers.items():
                self._forget(key, number)

    def rebase(self, merged: Mapping[str, Callable[[Any], Any]]) -> None:
        """Bring outstanding writes of keys that others wrote meanwhile to what is stored now (BEY-10).

        Args:
            merged: key → what gives the value in place of one that was written. All are asked before any is changed.
        """
        with self._lock:
            moved = {
                key: {number: at(value) for number, value in self._outstanding[key].items()}
                for key, at in merged.items()
                if key in self._outstanding
            }
            self._outstanding.update(moved)

    def discard(self, buffer: DeltaBuffer, *, close: bool = True) -> None:
        """Forget what a writer wrote; with ``close`` later writes of it raise."""
        with self._lock:
            for key, (number, _) in buffer.writes.items():
                self._forget(key, number)
            buffer.writes = {}
            buffer.artifacts = {}
            if close:
                buffer.closed = True

    def _forget(self, key: str, number: int) -> None:
        writes = self._outstanding.get(key)
        if writes is not None:
            writes.pop(number, None)
            if not writes:
                del self._outstanding[key]
                if key not in self._appended:  # nothing of this run will be, or is, stored under it
                    self.session.written_keys.discard(key)


class State(MutableMapping[str, Any]):
    """The state as one call site sees it: reads are live, writes go to that call site's buffer.

    Values are frozen. To change a nested value::

        with ctx.state.edit("cart") as cart:
            cart["lines"].append(line)
    """

    __slots__ = ("_buffer", "_live")

    def __init__(self, live: LiveState, buffer: DeltaBuffer | None) -> None:
        self._live = live
        self._buffer = buffer

    def __getitem__(self, key: str) -> Any:
        value = self._live.read(key)
        if value is _MISSING:
            raise KeyError(f"no state value {key!r}; use state.get({key!r}, default) for one that may be absent")
        return value

    def get(self, key: str, default: Any = None) -> Any:
        value = self._live.read(key)
        return default if value is _MISSING else value

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._live.read(key) is not _MISSING

    def __setitem__(self, key: str, value: Any) -> None:
        if self._buffer is None:
            raise UnsupportedInContext(
                f"state is read-only here, so {key!r} was not written; write it in an agent, model or tool callback, "
                "or in a tool"
            )
        self._live.write(self._buffer, key, value)

    def __delitem__(self, key: str) -> NoReturn:
        raise StateMutationError(
            f"`del` takes no state value away (core DLT-1); assign None, which every kit reads alike: "
            f"ctx.state[{key!r}] = None, or delete the key for good: ctx.state.delete({key!r})"
        )

    def delete(self, key: str) -> None:
        """Delete a value: the key is absent from now on, and after it is stored for every reader (BEY-13).

        An absent key is no error. Readers of other kits see null where they do not know about deletion.
        """
        if self._buffer is None or key in self:
            State.__setitem__(self, key, DELETED)

    def __iter__(self) -> Iterator[str]:
        return iter(self._live.keys())

    def __len__(self) -> int:
        return len(self._live.keys())

    def to_dict(self) -> dict[str, Any]:
        """The live state as a plain, mutable dict."""
        return {key: thaw(value) for key, value in self._live.as_dict().items()}

    @contextmanager
    def edit(self, key: str, default: Any = _MISSING) -> Iterator[Any]:
        """A mutable copy of a value, assigned back when the block ends without an error."""
        present = self._live.read(key)
        if present is _MISSING:
            if default is _MISSING:
                raise KeyError(f"no state value {key!r} to edit; give edit() a default")
            present = default
        copy = thaw(present)
        yield copy
        self[key] = copy

    def __repr__(self) -> str:
        return repr(self._live.as_dict())
