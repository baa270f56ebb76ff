"""A lab for composed agents: runs that crash after any stored event, and what is stored as short lines.

A line is ``path what``: ``seq@1/ask@1 call wait#a1``. ``✓`` is the end stamp, ``{b}`` the branch, ``→t`` a hand-over,
``^`` an escalate. Ids that the kernel makes up for approval requests are shown as ``r1``, ``r2`` … in order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from hookwork import (
    Agent,
    Content,
    Event,
    FunctionResponse,
    Part,
    RunConfig,
    Runner,
    RunOutcome,
    Session,
    SessionService,
)
from hookwork.errors import NothingToResume
from hookwork.resolve import resolve_session_service
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, stream, text


class Crash(BaseException):
    """The process is gone: nothing that would catch an error may go on."""


class Store:
    """A session store that outlives processes. Behind the n-th stored event the process dies, if that is asked for.

    ``url``: a store that each process opens for itself, with nothing kept in memory; else one object serves all.
    """

    def __init__(self, service: SessionService | None, url: str) -> None:
        self.url = url
        self.stored = 0
        self.crash_after: int | None = None
        self.dead = False
        self._service = service if service is not None or url else InMemorySessionService()
        if self._service is not None:
            self._watch(self._service)

    def revive(self) -> None:
        """The next process."""
        self.crash_after, self.dead = None, False

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[SessionService]:
        if self._service is not None:
            yield self._service
            return
        service, _ = resolve_session_service(self.url)
        self._watch(service)
        try:
            yield service
        finally:
            await service.close()

    def _watch(self, service: Any) -> None:
        append = service.append_event

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
    """One run: what it yielded and how it ended."""

    events: list[Event]
    outcome: RunOutcome | None
    error: BaseException | None = None

    @property
    def waits_for(self) -> list[str]:
        assert self.outcome is not None
        return [call.id for call in self.outcome.open_calls]


class Lab:
    """One session; every run is a new process: new agents, new runner, the same store."""

    def __init__(self, build: Callable[[], Agent], service: SessionService | None = None, url: str = "") -> None:
        self.build = build
        self.store = Store(service, url)
        self.app_name = build().name

    async def run(
        self,
        message: Any = None,
        *,
        invocation_id: str | None = None,
        streaming: bool = False,
        plugins: Sequence[Any] = (),
        on_event: Callable[[Event], Awaitable[None]] | None = None,
    ) -> Turn:
        config = RunConfig(streaming_mode="sse" if streaming else "none")
        seen: list[Event] = []
        async with (
            self.store.opened() as service,
            Runner(self.build(), sessions=service, config=config, plugins=list(plugins)) as runner,
        ):
            run = runner.run(user_id="u", session_id="s", message=message, invocation_id=invocation_id)
            try:
                async with run:
                    async for event in run:
                        seen.append(event)
                        if on_event is not None:
                            await on_event(event)
            except (Exception, Crash) as error:
                return Turn(events=seen, outcome=run.outcome, error=error)
            return Turn(events=seen, outcome=run.outcome)

    async def session(self) -> Session:
        async with self.store.opened() as service:
            return await service.get_session(app_name=self.app_name, user_id="u", session_id="s")

    async def events(self) -> list[Event]:
        return list((await self.session()).events)

    async def lines(self) -> list[str]:
        return lines_of(await self.events())

    async def first_invocation(self) -> str:
        return (await self.events())[0].invocation_id

    async def answer(self, given: Mapping[str, Any]) -> Content:
        """A message with answers by call id; ``r1`` … are the approval requests in order."""
        names = {short: full for full, short in request_names(await self.events()).items()}
        calls = {call.id: call for call in (await self.session()).history().calls}
        parts = []
        for short, payload in given.items():
            call = calls[names.get(short, short)]
            response = FunctionResponse(id=call.id, name=call.name, response=payload)
            parts.append(Part(function_response=response))
        return Content(role="user", parts=parts)

    async def is_open(self, given: Mapping[str, Any]) -> bool:
        names = {short: full for full, short in request_names(await self.events()).items()}
        open_calls = (await self.session()).open_calls
        return all(names.get(short, short) in open_calls for short in given)


def request_names(events: Sequence[Event]) -> dict[str, str]:
    """Id of an approval request → ``r<n>``."""
    names: dict[str, str] = {}
    for event in events:
        for call in event.function_calls:
            if call.name == "adk_request_confirmation" and call.id not in names:
                names[call.id or ""] = f"r{len(names) + 1}"
    return names


def lines_of(events: Sequence[Event]) -> list[str]:
    """Events as short lines."""
    names = request_names(events)
    return [_line(event, names) for event in events]


def _line(event: Event, names: Mapping[str, str]) -> str:
    parts = [event.path or ("U" if event.author == "user" else event.author)]
    if event.author == "user" and event.path:
        parts.insert(0, "U")
    if event.branch:
        parts.append(f"{{{event.branch}}}")
    for part in event.content.parts if event.content is not None else ():
        if part.text is not None:
            parts.append(repr(part.text))
        elif part.function_call is not None:
            call = part.function_call
            parts.append(f"call {call.name}#{names.get(call.id or '', call.id)}")
        elif part.function_response is not None:
            response = part.function_response
            parts.append(f"response {response.name}#{names.get(response.id or '', response.id)}")
    if event.actions.transfer_to_agent:
        parts.append(f"→{event.actions.transfer_to_agent}")
    if event.actions.escalate:
        parts.append("^")
    if event.node_info is not None and event.node_info.status == "completed":
        parts.append("✓")
    return " ".join(parts)


class Scene(msgspec.Struct):
    """A tree, what is said to it turn by turn, and what is stored meanwhile.

    ``turns``: (message or answers, lines, what is open afterwards). ``ran``: how often each tool body runs in all.
    ``unsure``: long-running bodies that a crash right behind their call leaves unrun (ACT-41 a). ``answers_meet``: an
    answer that a crash kept from being used is used together with the next one.
    """

    build: Callable[[list[str]], Agent]
    turns: list[tuple[str | dict[str, Any], list[str], list[str]]]
    ran: list[str]
    unsure: list[str] = []
    order_is_free: bool = False
    answers_meet: bool = False

    @property
    def lines(self) -> list[str]:
        return [line for _, lines, _ in self.turns for line in lines]


async def play(scene: Scene, *, streaming: bool = False, url: str = "") -> Lab:
    """Play a scene and compare it turn by turn."""
    ran: list[str] = []
    lab = Lab(lambda: scene.build(ran), url=url)
    before = 0
    for said, expected, waits in scene.turns:
        message = said if isinstance(said, str) else await lab.answer(said)
        turn = await lab.run(message, streaming=streaming)
        if turn.error is not None:
            raise turn.error
        lines = await lab.lines()
        assert _order(lines[before:], scene) == _order(expected, scene)
        before = len(lines)
        names = request_names(await lab.events())
        assert [names.get(call, call) for call in turn.waits_for] == waits
        assert turn.outcome is not None
        assert turn.outcome.kind == ("paused" if waits else "completed")
    assert sorted(ran) == sorted(scene.ran)
    return lab


async def play_crashed(scene: Scene, crash_after: int, *, by_id: bool, url: str = "") -> None:
    """The same with a crash behind the n-th stored event: the end is the same, no body runs twice.

    ``by_id``: the crashed invocation is continued by its id; else by the next answer, where that can be given already.
    """
    ran: list[str] = []
    lab = Lab(lambda: scene.build(ran), url=url)
    lab.store.crash_after = crash_after
    for number, (said, _, _) in enumerate(scene.turns):
        message = said if isinstance(said, str) else await lab.answer(said)
        turn = await lab.run(message)
        if turn.error is None:
            continue
        assert isinstance(turn.error, Crash)
        lab.store.revive()
        following = scene.turns[number + 1][0] if number + 1 < len(scene.turns) else None
        if not by_id and isinstance(following, dict) and await lab.is_open(following):
            continue
        again = await lab.run(invocation_id=await lab.first_invocation())
        assert again.error is None or isinstance(again.error, NothingToResume)
    assert lab.store.stored >= crash_after
    lines = await lab.lines()
    if scene.answers_meet and not by_id:
        assert lines[-1] == scene.lines[-1]
    else:
        assert _order(lines, scene) == _order(scene.lines, scene)
    missing = [name for name in scene.unsure if name not in ran]
    assert sorted([*ran, *missing]) == sorted(scene.ran)
    with pytest.raises(NothingToResume):
        raise (await lab.run(invocation_id=await lab.first_invocation())).error or AssertionError("it ran again")


def _order(lines: Sequence[str], scene: Scene) -> Any:
    """The lines, or each place's lines where the order between places is free."""
    if not scene.order_is_free:
        return list(lines)
    places: dict[str, list[str]] = {}
    for line in lines:
        places.setdefault(line.split(" ")[0], []).append(line)
    return places


def llm(name: str, *steps: Any, tools: Sequence[Any] = (), sub_agents: Sequence[Agent] = (), **more: Any) -> LlmAgent:
    """An LLM agent whose n-th model turn is the n-th step, in whatever process; texts are streamed if that is asked.

    One step that is a function of the request gives every turn instead.
    """

    def respond(request: Any) -> Any:
        own_turns = sum(content.role == "model" for content in request.contents)
        step = steps[0](request) if callable(steps[0]) else steps[own_turns]
        return stream(*[text(piece) for piece in (step[:2], step[2:])]) if isinstance(step, str) else step

    return LlmAgent(name=name, model=ScriptedModel(respond), tools=list(tools), sub_agents=list(sub_agents), **more)


def body_of(ran: list[str], name: str, result: Any = "ok", **options: Any) -> Any:
    """A tool that notes each run of its body."""

    def body() -> Any:
        ran.append(name)
        return result

    body.__name__ = name
    body.__doc__ = f"Does {name}."
    return tool(**options)(body)


class Kit(msgspec.Struct):
    """What tests of this folder share."""

    Lab: Any = Lab
    Crash: Any = Crash
    Scene: Any = Scene
    lines_of: Any = staticmethod(lines_of)
    llm: Any = staticmethod(llm)
    body_of: Any = staticmethod(body_of)
    play: Any = staticmethod(play)
    play_crashed: Any = staticmethod(play_crashed)


@pytest.fixture
def kit() -> Kit:
    return Kit()
