"""A lab for trees of agents: runs that crash behind any stored event, and what is stored as short lines.

Every run is a new process: new agents, a new runner, the same store. What would outlive a process (bodies that ran, a
service that failed once) is kept in a `World`.

A line is ``path what``: ``coord@1/book@c1 call finish_task#a1 =mon ✓ [c1]``. ``✓`` is the end stamp, ``{b}`` the
branch, ``[s]`` the scope, ``→t`` a hand-over, ``=v`` an output. Approval requests are ``r1``, ``r2`` … in order.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from hookwork import Agent, Content, Event, FunctionResponse, Part, RunConfig, Runner, RunOutcome, Session, ToolContext
from hookwork.errors import NothingToResume, SessionNotFoundError
from hookwork.resolve import resolve_session_service
from hookwork.settings import NO_SETTINGS
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, stream, text

APP = "case"
WHO: dict[str, Any] = {"user_id": "u", "session_id": "s"}


class Crash(BaseException):
    """The process is gone: nothing that would catch an error may go on."""


class World:
    """What outlives a process: names of bodies that ran, and the prompts of all models."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.failed: set[str] = set()
        self.models: list[ScriptedModel] = []

    def check_prompts(self) -> None:
        for model in self.models:
            for prompt in model.prompts:
                assert_valid_prompt(prompt, ids=False)

    def llm(self, name: str, *steps: Any, tools: Sequence[Any] = (), **more: Any) -> LlmAgent:
        """An agent whose n-th model turn in its prompt is the n-th step; texts are streamed if that is asked."""

        def respond(request: Any) -> Any:
            turns = sum(content.role == "model" for content in request.contents)
            step = steps[turns] if turns < len(steps) else f"{name} has no more to say"
            step = step(request) if callable(step) else step
            return stream(text(step[:2]), text(step[2:])) if isinstance(step, str) else step

        model = ScriptedModel(respond, name=name)
        self.models.append(model)
        return LlmAgent(name=name, model=model, tools=list(tools), **more)

    def tool(self, name: str, result: Any = "ok", **options: Any) -> Any:
        """A tool that notes each run of its body."""

        def body() -> Any:
            self.ran.append(name)
            if isinstance(result, Exception):
                raise result
            return result

        body.__name__ = name
        body.__doc__ = f"Does {name}."
        return tool(**{"inline": True, **options})(body)

    def asker(self, name: str, *children: Agent) -> Any:
        """A tool that runs agents one after the other and gives their outputs."""

        async def body(ctx: ToolContext) -> list[Any]:
            self.ran.append(name)
            return [await ctx.run_node(child) for child in children]

        body.__name__ = name
        body.__doc__ = f"Asks for {name}."
        return tool(body)


class Store:
    """The store of one session. Behind the n-th stored event the process dies, if that is asked for."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self.stored = 0
        self.crash_after: int | None = None
        self.dead = False
        if not isinstance(backend.sessions, str):
            self._watch(backend.sessions)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Any]:
        kept = self._backend.sessions
        if not isinstance(kept, str):
            yield kept
            return
        service, _ = resolve_session_service(kept)
        self._watch(service)
        try:
            yield service
        finally:
            await service.close()

    def revive(self) -> None:
        """The next process."""
        self.crash_after, self.dead = None, False

    def _watch(self, service: Any) -> None:
        append = type(service).append_event.__get__(service)

        async def append_event(session: Any, event: Event, *, redelivery: bool = False) -> Event:
            if self.dead:
                raise Crash
            done: Event = await append(session, event, redelivery=redelivery)
            if not event.partial:
                self.stored += 1
                if self.stored == self.crash_after:
                    self.dead = True
                    raise Crash
            return done

        service.append_event = append_event


class Turn(msgspec.Struct):
    """One run: what it yielded, how it ended, what it raised."""

    events: list[Event]
    outcome: RunOutcome | None
    error: BaseException | None = None
    invocation_id: str | None = None


class Lab:
    """One session that is talked to by one process after the other."""

    def __init__(self, build: Callable[[World], Agent], backend: Any) -> None:
        self.build = build
        self.store = Store(backend)
        self.world = World()

    async def run(
        self,
        message: Any = None,
        *,
        invocation_id: str | None = None,
        streaming: bool = False,
        on_event: Callable[[Any, Event], Awaitable[bool]] | None = None,
        **more: Any,
    ) -> Turn:
        """One run in a process of its own; ``on_event(run, event)`` says whether the consumer leaves."""
        seen: list[Event] = []
        config = RunConfig(streaming_mode="sse" if streaming else "none", max_llm_calls=200)
        options: dict[str, Any] = {"app_name": APP, "settings": NO_SETTINGS, "config": config}
        async with (
            self.store.opened() as service,
            Runner(self.build(self.world), sessions=service, **options) as runner,
        ):
            run = runner.run(**WHO, message=message, invocation_id=invocation_id, **more)
            error: BaseException | None = None
            try:
                async with run:
                    async for event in run:
                        seen.append(event)
                        if on_event is not None and await on_event(run, event):
                            break
            except (Exception, Crash) as raised:
                error = raised
            return Turn(events=seen, outcome=run.outcome, error=error, invocation_id=run.invocation_id)

    async def session(self) -> Session:
        async with self.store.opened() as service:
            session: Session = await service.get_session(app_name=APP, **WHO)
            return session

    async def lines(self) -> list[str]:
        return lines_of((await self.session()).events)

    async def newest_invocation(self) -> str:
        return (await self.session()).events[-1].invocation_id

    async def holds(self, message: str | Content) -> bool:
        """Whether a message was stored as the newest one of the user."""
        try:
            events = (await self.session()).events
        except SessionNotFoundError:
            return False
        said = [event.content for event in events if event.author == "user" and not event.path]
        if not said or said[-1] is None:
            return False
        if isinstance(message, str):
            return said[-1].text == message
        ids = [answer.id for answer in said[-1].function_responses]
        return ids == [answer.id for answer in message.function_responses]

    async def answer(self, given: Mapping[str, Any]) -> Content:
        """A message with answers by call id; ``r1`` … are the approval requests in order."""
        session = await self.session()
        names = {short: full for full, short in request_names(session.events).items()}
        calls = {call.id: call for call in session.history().calls}
        parts = []
        for short, payload in given.items():
            call = calls[names.get(short, short)]
            parts.append(Part(function_response=FunctionResponse(id=call.id, name=call.name, response=payload)))
        return Content(role="user", parts=parts)

    async def is_open(self, given: Mapping[str, Any]) -> bool:
        session = await self.session()
        names = {short: full for full, short in request_names(session.events).items()}
        return all(names.get(short, short) in session.open_calls for short in given)


def request_names(events: Sequence[Event]) -> dict[str, str]:
    """Id of an approval request → ``r<n>``."""
    names: dict[str, str] = {}
    for event in events:
        for call in event.function_calls:
            if call.name == "adk_request_confirmation":
                names.setdefault(call.id or "", f"r{len(names) + 1}")
    return names


def lines_of(events: Sequence[Event]) -> list[str]:
    """Events as short lines."""
    names = request_names(events)
    return [_line(event, names) for event in events]


def _line(event: Event, names: Mapping[str, str]) -> str:
    parts = [event.path or ("U" if event.author == "user" else event.author)]
    if event.branch:
        parts.append(f"{{{event.branch}}}")
    for part in event.content.parts if event.content is not None else ():
        if part.text is not None:
            parts.append(repr(part.text))
        elif part.function_call is not None:
            call = part.function_call
            parts.append(f"call {_short(call.name)}#{names.get(call.id or '', call.id)}")
        elif part.function_response is not None:
            response = part.function_response
            parts.append(f"response {_short(response.name)}#{names.get(response.id or '', response.id)}")
    if event.actions.transfer_to_agent:
        parts.append(f"→{event.actions.transfer_to_agent}")
    if event.output is not None:
        parts.append(f"={event.output}")
    if event.node_info is not None and event.node_info.status == "completed":
        parts.append("✓")
    if event.isolation_scope:
        parts.append(f"[{event.isolation_scope}]")
    return " ".join(parts)


def _short(name: str | None) -> str | None:
    return "approve" if name == "adk_request_confirmation" else name


class Scene(msgspec.Struct):
    """A tree, what is said to it turn by turn, what is stored meanwhile and how each run ends.

    ``turns``: (message or answers, lines, outcome: ``completed``, ``paused r1,a2`` or ``completed +c1``, where ``+``
    names open delegations). ``ran``: how often each tool body runs in all. ``unsure``: long-running bodies that a crash
    right behind their call leaves unrun (ACT-41 a). ``again``: bodies that start children and run from their top on
    every entry (ACT-41 e). ``answers_meet``: an answer that a crash kept from being used is used with the next one.
    """

    build: Callable[[World], Agent]
    turns: list[tuple[str | dict[str, Any], list[str], str]]
    ran: list[str] = []
    unsure: list[str] = []
    again: list[str] = []
    order_is_free: bool = False
    answers_meet: bool = False

    @property
    def lines(self) -> list[str]:
        return [line for _, lines, _ in self.turns for line in lines]


async def play(scene: Scene, backend: Any, *, streaming: bool = False) -> Lab:
    """Play a scene and compare it turn by turn."""
    lab = Lab(scene.build, backend)
    before = 0
    for said, expected, end in scene.turns:
        message = said if isinstance(said, str) else await lab.answer(said)
        turn = await lab.run(message, streaming=streaming)
        if turn.error is not None:
            raise turn.error
        session = await lab.session()
        lines = lines_of(session.events)
        same(lines[before:], expected, scene, f"after {said!r}")
        before = len(lines)
        found = ending(turn.outcome, session)
        assert found == end, f"after {said!r}: {found}, not {end}"
    assert _ran(lab, scene) == sorted(scene.ran), lab.world.ran
    lab.world.check_prompts()
    return lab


def ending(outcome: RunOutcome | None, session: Session) -> str:
    """An outcome in short."""
    assert outcome is not None
    names = request_names(session.events)
    waits = [names.get(call.id, call.id) for call in outcome.open_calls]
    waits += [f"+{call.id}" for call in outcome.open_delegations]
    return f"{outcome.kind} {','.join(waits)}".strip()


async def play_crashed(scene: Scene, backend: Any, crash_after: int, *, by_id: bool) -> None:
    """The same with a crash behind the n-th stored event: the end is the same, no body runs twice.

    ``by_id``: the crashed invocation is continued by its id; else by the next answer, where that can be given already.
    """
    lab = Lab(scene.build, backend)
    lab.store.crash_after = crash_after
    for number, (said, _, _) in enumerate(scene.turns):
        turn = await lab.run(said if isinstance(said, str) else await lab.answer(said))
        if turn.error is None:
            continue
        assert isinstance(turn.error, Crash), turn.error
        lab.store.revive()
        following = scene.turns[number + 1][0] if number + 1 < len(scene.turns) else None
        if not by_id and isinstance(following, dict) and await lab.is_open(following):
            continue
        again = await lab.run(invocation_id=await lab.newest_invocation())
        if again.error is not None and not isinstance(again.error, NothingToResume):
            raise again.error
    assert lab.store.stored >= crash_after
    lines = await lab.lines()
    if scene.answers_meet and not by_id:
        assert lines[-1] == scene.lines[-1], (crash_after, lines)
    else:
        same(lines, scene.lines, scene, f"crashed behind event {crash_after}")
    missing = [name for name in scene.unsure if name not in lab.world.ran]
    assert sorted([*_ran(lab, scene), *missing]) == sorted(scene.ran), (crash_after, lab.world.ran)
    lab.world.check_prompts()
    with pytest.raises(NothingToResume):
        raise (await lab.run(invocation_id=await lab.newest_invocation())).error or AssertionError("it ran again")


async def play_ended(scene: Scene, backend: Any, after: int, way: str, *, streaming: bool) -> bool:
    """The same with one run ended from outside and continued by its id: the end is the same, nothing is left behind.

    ``way``: ``leave``, ``stop`` or ``cancel`` at the n-th event that passes, partial ones included; ``any time``:
    cancelled after n turns of the event loop. Returns whether the scene was over before that.
    """
    lab = Lab(scene.build, backend)
    outer = asyncio.all_tasks()
    left = after
    for said, _, _ in scene.turns:
        if scene.unsure and not isinstance(said, str) and not await lab.is_open(said):
            continue  # the call was closed when its body was cut off (HND-5)
        message = said if isinstance(said, str) else await lab.answer(said)
        passed, ended = await _ended_run(lab, message, left, way, streaming)
        left -= passed
        if not ended:
            continue
        left = 0
        assert asyncio.all_tasks() <= outer, asyncio.all_tasks() - outer
        if not await lab.holds(message):  # ended before the message was stored: it is sent again
            await lab.run(message)
            continue
        again = await lab.run(invocation_id=await lab.newest_invocation())
        if again.error is not None and not isinstance(again.error, NothingToResume):
            raise again.error
    if not scene.unsure:  # another story follows when a long-running call was closed
        same(await lab.lines(), scene.lines, scene, f"ended ({way}) after {after}")
    lab.world.check_prompts()
    return left > 0


async def _ended_run(lab: Lab, message: Any, after: int, way: str, streaming: bool) -> tuple[int, bool]:
    """How many events (turns of the loop) passed, and whether the run was ended."""
    passed = 0
    stopping: list[asyncio.Task[None]] = []

    async def on_event(run: Any, event: Event) -> bool:
        nonlocal passed
        passed += 1
        if passed != after:
            return False
        if way == "cancel":
            running.cancel()
            await asyncio.sleep(0)
        elif way == "stop":
            stopping.append(asyncio.create_task(run.stop()))
        return way == "leave"

    watch = on_event if way != "any time" else None
    running = asyncio.create_task(lab.run(message, streaming=streaming, on_event=watch))
    if way == "any time":
        while passed < after and not running.done():
            await asyncio.sleep(0)
            passed += 1
        if after > 0:
            running.cancel()
    try:
        turn = await running
    except asyncio.CancelledError:
        return passed, True
    for task in stopping:
        await task
    if turn.error is not None:
        raise turn.error
    return passed, turn.outcome is not None and turn.outcome.kind == "closed"


def _ran(lab: Lab, scene: Scene) -> list[str]:
    return sorted(name for name in lab.world.ran if name not in scene.again)


def same(found: Sequence[str], expected: Sequence[str], scene: Scene, when: str) -> None:
    """Compare lines; where the order between places is free, each place's lines alone, one response a line."""
    if scene.order_is_free:
        found, expected = (sorted(_apart(lines), key=lambda line: line.split(" ")[0]) for lines in (found, expected))
    if list(found) != list(expected):
        difference = difflib.ndiff(list(expected), list(found))
        raise AssertionError("\n".join([f"{when}: -missing +unexpected", *difference]))


def _apart(lines: Sequence[str]) -> list[str]:
    """Responses that share an event, as lines of their own: calls that finish in one entry are answered together."""
    apart: list[str] = []
    for line in lines:
        place, *responses = line.split(" response ")
        apart += [f"{place} response {response}" for response in responses] or [place]
    return apart
