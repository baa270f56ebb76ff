"""The run handle and its outcome (core §3.0)."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from concurrent import futures
from typing import TYPE_CHECKING, Any

from hookwork.errors import RunStateError, ValidationError
from hookwork.invocation import Usage
from hookwork.records.content import Content, Part, user_content
from hookwork.records.event import Event
from hookwork.records.history import Call
from hookwork.records.session import Session

if TYPE_CHECKING:
    from hookwork.lifecycle import RunCore


class RunOutcome:
    """How a run ended; fixed before ``after_run`` (core §3.0).

    ``kind``: ``completed``, ``paused``, ``ended``, ``limit``, ``failed`` or ``closed``. ``open_calls`` are in order of
    raising. ``final_event``: the last final response. ``output``: what a root that gives one gave.
    ``open_tasks``: paths of nodes that work on a task with the user, who hear the next message (workflow WB-6).
    """

    __slots__ = (
        "error",
        "final_event",
        "invocation_id",
        "kind",
        "open_calls",
        "open_delegations",
        "open_tasks",
        "output",
        "reason",
        "usage",
    )

    def __init__(
        self,
        kind: str,
        *,
        invocation_id: str = "",
        final_event: Event | None = None,
        output: Any = None,
        open_calls: Sequence[Call] = (),
        open_delegations: Sequence[Call] = (),
        open_tasks: Sequence[str] = (),
        error: BaseException | None = None,
        reason: str = "",
        usage: Usage | None = None,
    ) -> None:
        self.kind = kind
        self.invocation_id = invocation_id
        self.final_event = final_event
        self.output = output
        self.open_calls = tuple(open_calls)
        self.open_delegations = tuple(open_delegations)
        self.open_tasks = tuple(open_tasks)
        self.error = error
        self.reason = reason
        self.usage = usage if usage is not None else Usage()

    def __repr__(self) -> str:
        waits = f", open_calls={[call.id for call in self.open_calls]}" if self.open_calls else ""
        why = f", reason={self.reason!r}" if self.reason else ""
        failed = f", error={self.error!r}" if self.error is not None else ""
        return f"RunOutcome({self.kind!r}{waits}{why}{failed})"


class Run:
    """A run: iterate it for its events, once. Nothing happens before iteration (core HND).

        async with runner.run(user_id="u", session_id="s", message="hi") as run:
            async for event in run:
                ...
        run.outcome

    Also usable as ``async for event in runner.run(...)``.
    """

    __slots__ = ("__weakref__", "_core", "_events", "_open", "_shown")

    def __init__(self, core: RunCore) -> None:
        self._core = core
        self._events = core.events()
        self._open = False
        core.generator = weakref.ref(self._events)

    # --- identity and state -------------------------------------------------------------------------------------------

    @property
    def user_id(self) -> str:
        return self._core.user_id

    @property
    def session_id(self) -> str:
        return self._core.session_id

    @property
    def invocation_id(self) -> str | None:
        """None until it was decided (RUN-12)."""
        return self._core.invocation_id

    @property
    def session(self) -> Session | None:
        """The run's live session handle, to read; None before the run began."""
        return self._core.session

    @property
    def outcome(self) -> RunOutcome | None:
        """How the run ended; None until then."""
        return self._core.outcome if self._core.over else None

    @property
    def open_calls(self) -> list[Call]:
        """What the session waits for now, in order of raising."""
        session = self._core.session
        return list(session.open_calls.values()) if session is not None else []

    @property
    def usage(self) -> Usage:
        """Token usage so far (models USE)."""
        inv = self._core.inv
        return inv.usage if inv is not None else Usage()

    # --- iteration ----------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Event]:
        core = self._core
        if core.started or self._open:
            raise RunStateError("a run is iterated once; start another one with runner.run(...)")
        self._open = True
        return self

    def __anext__(self) -> Awaitable[Event]:
        core = self._core
        if core.over or core.stop_reason or core.ending:
            return self._no_more()
        core.started = True
        return self._events.__anext__()

    async def _no_more(self) -> Event:
        """The run is over, or being stopped by somebody else: the iterator ends normally."""
        await self._core.wait_finished()
        raise StopAsyncIteration

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the run if it still goes on; running work is cancelled and awaited, ``after_run`` has run.

        Raises:
            RuntimeError: called from inside the run.
        """
        await self._core.close()

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None and core.spans:
            core.end_spans()

    async def stop(self, reason: str = "stopped") -> None:
        """Stop the run from any task of its loop; returns after ``after_run``. The iterator ends normally (HND-4).

        Raises:
            RuntimeError: called from inside the run.
        """
        await self._core.stop(reason)

    def stop_threadsafe(self, reason: str = "stopped") -> futures.Future[None]:
        """`stop` from a thread that is not the run's loop; wait with ``.result()`` if you like (HND-4).

        A run that has not begun never starts.
        """
        loop = self._core.loop
        if loop is None:
            stopped: futures.Future[None] = futures.Future()
            self._core.never_start(reason)
            stopped.set_result(None)
            return stopped
        return asyncio.run_coroutine_threadsafe(self._core.stop(reason), loop)

    async def wait(self) -> RunOutcome:
        """Run to the end without looking at the events."""
        begun = self._open or self._core.started
        async for _ in self._rest() if begun else self:
            pass
        assert self._core.outcome is not None
        return self._core.outcome

    async def _rest(self) -> AsyncIterator[Event]:
        while True:
            try:
                yield await self.__anext__()
            except StopAsyncIteration:
                return

    async def text(self) -> AsyncIterator[str]:
        """The visible text as it comes, each character once: thoughts are left out, a final event adds only what its
        partials did not show (HND-6)."""
        shown: dict[str, str] = {}
        async for event in self:
            piece = event.text
            if event.partial:
                if piece:
                    shown[event.id] = shown.get(event.id, "") + piece
                    yield piece
                continue
            before = shown.pop(event.id, "")
            rest = piece[len(before) :] if piece.startswith(before) else piece
            if rest and event.author != "user":
                yield rest


def read_message(message: Any) -> Content | None:
    """A message in any accepted form (core RUN-3). Raises ValidationError: it is of no such form, or says nothing."""
    if message is None:
        return None
    if type(message) is str and message.strip():  # what nearly every message is
        return user_content(message)
    if not isinstance(message, str | Content):
        parts = list(message) if isinstance(message, Iterable) else [message]
        strange = next((part for part in parts if not isinstance(part, Part)), None)
        if strange is not None or isinstance(message, Mapping):
            raise ValidationError(
                f"a message is text, a Content or a list of Parts, not {type(message).__name__}"
                + (f" with {type(strange).__name__}" if strange is not None and strange is not message else ""),
                path="message",
            )
        message = parts
    content = user_content(message)
    check_message(content)
    return content


def check_message(message: Content | None) -> None:
    """Refuse a message that says nothing (RUN-5)."""
    if message is None:
        return
    if not any(part.text is None or part.text.strip() for part in message.parts if part != Part()):
        raise ValidationError(
            "the message is empty: give text, a file or an answer; nothing was stored", path="message"
        )
