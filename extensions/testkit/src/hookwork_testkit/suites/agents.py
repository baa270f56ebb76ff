"""The agent suite: core §1 (AGT), the invariants of core §0 and standings (activations ACT-13), for any agent type."""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from hookwork.agent import Agent, AgentTree
from hookwork.errors import NothingToResume
from hookwork.invocation import Invocation, Setup
from hookwork.node import Standing
from hookwork.platform import use_clock, use_uuids
from hookwork.records.content import Content, FunctionResponse, Part, user_content
from hookwork.records.event import Event, new_event
from hookwork.records.history import Call
from hookwork.records.session import Session
from hookwork.resolve import resolve_session_service
from hookwork.run import RunOutcome
from hookwork.runner import Runner
from hookwork.services import SessionService
from hookwork.settings import NO_SETTINGS
from hookwork.view import View, segment_name
from hookwork_testkit.contexts import make_context
from hookwork_testkit.pytest_plugin import CountedIds, FixedTime
from hookwork_testkit.suites.leftovers import PATIENCE, assert_cancellable, attributes_of, no_tasks_left, take, within

APP, USER, SESSION = "suite", "u1", "s-1"
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
#: How often the suite answers what an agent asks before it says that this never ends.
MOST_ROUNDS = 10


class Story(msgspec.Struct):
    """One run: its events, how it ended, and the session as a new handle shows it afterwards."""

    events: list[Event]
    outcome: RunOutcome
    session: Session

    @property
    def lines(self) -> list[str]:
        """What happened, without ids and times: author, content and state of each event that is not partial."""
        return [_line(event) for event in self.events if not event.partial]


class AgentSuite(ABC):
    """Subclass it in a test module and say how an agent is made.

    A model that the agent asks must answer by what it is asked (a `ScriptedModel` of a function, not of a list), for
    one agent serves many runs, also at once.

    Attributes:
        message: what the user says.
        deterministic: the same message leads to the same events; False: stories are not compared with each other.
    """

    pytestmark = pytest.mark.asyncio

    message: str = "hello"
    deterministic: bool = True

    @abstractmethod
    def make_agent(self) -> Agent:
        """A fresh root agent, with all that is under it."""

    async def make_sessions(self) -> SessionService:
        """A session service on an empty store; default: in memory."""
        service, _ = resolve_session_service("memory:", NO_SETTINGS)
        return service

    def make_answer(self, call: Call) -> dict[str, Any] | None:
        """What a person answers to an open call; None: the suite cannot answer, and resuming is not tested."""
        return None

    # --- steps --------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def sessions(self) -> AsyncIterator[SessionService]:
        """A session service, closed afterwards."""
        service = await self.make_sessions()
        try:
            yield service
        finally:
            await service.close()

    def runner(self, agent: Agent, sessions: SessionService) -> Runner:
        """A runner whose settings are nobody's."""
        return Runner(agent, app_name=APP, sessions=sessions, settings=NO_SETTINGS)

    async def play(
        self, agent: Agent, sessions: SessionService, message: Any = None, *, session_id: str = SESSION, **options: Any
    ) -> Story:
        """One run in a runner of its own."""
        said = self.message if message is None else message
        async with (
            self.runner(agent, sessions) as runner,
            runner.run(user_id=USER, session_id=session_id, message=said, **options) as run,
        ):
            events = await within(PATIENCE, "the run", _all(run))
        assert run.outcome is not None
        return Story(events, run.outcome, await self.stored(sessions, session_id))

    async def stored(self, sessions: SessionService, session_id: str = SESSION) -> Session:
        """The session as a new handle shows it."""
        return await sessions.get_session(app_name=APP, user_id=USER, session_id=session_id)

    # --- what an agent is ---------------------------------------------------------------------------------------------

    async def test_agt_1_a_runner_takes_the_agent(self) -> None:
        agent = self.make_agent()
        assert isinstance(agent, Agent), f"{type(agent).__name__} is no hookwork.Agent"
        assert isinstance(agent.description, str), "a description is a string"
        agent.check_root()
        async with self.sessions() as sessions, self.runner(agent, sessions) as runner:
            assert runner.tree.root is agent

    async def test_inv_4_a_run_changes_no_agent(self) -> None:
        agent = self.make_agent()
        with pytest.raises(AttributeError):
            agent.name = "another"  # type: ignore[misc]
        before = [(one, attributes_of(one)) for one in AgentTree(agent)]
        async with self.sessions() as sessions:
            await self.play(agent, sessions)
        for one, attributes in before:
            after = attributes_of(one)
            changed = sorted(
                name for name in attributes.keys() | after.keys() if attributes.get(name) is not after.get(name)
            )
            assert not changed, f"agent {one.name!r} was changed by a run: {', '.join(changed)}"

    async def test_gen_4_what_an_agent_holds_closes_twice(self) -> None:
        agent = self.make_agent()
        async with self.sessions() as sessions:
            await self.play(agent, sessions)
        for one in AgentTree(agent):
            for closable in one.closables():
                for _ in range(2):
                    await within(PATIENCE, f"close() of {closable!r}", closable.close())

    # --- a run --------------------------------------------------------------------------------------------------------

    async def test_agt_17_events_are_complete(self) -> None:
        agent = self.make_agent()
        names = {one.name for one in AgentTree(agent)} | {"user"}
        async with self.sessions() as sessions:
            story = await self.play(agent, sessions)
        assert story.outcome.kind in ("completed", "paused", "ended", "limit"), f"the run ended {story.outcome}"
        assert story.events, "the agent gave no event"
        for event in story.events:
            assert event.id, f"an event without an id: {event}"
            assert event.timestamp > 0, f"an event without a time: {event}"
            assert event.invocation_id == story.outcome.invocation_id, f"an event of another invocation: {event}"
            assert event.author in names, f"author {event.author!r} is no agent of the tree"
            assert event.path.partition("@")[0].partition("/")[0] in names, f"path {event.path!r} begins nowhere"
        whole = [event.id for event in story.events if not event.partial]
        assert len(whole) == len(set(whole)), "two events share one id"

    async def test_agt_3_one_agent_serves_two_runners_at_once(self) -> None:
        agent = self.make_agent()
        async with self.sessions() as sessions:
            alone = await self.play(self.make_agent(), sessions, session_id="alone")
        async with self.sessions() as one, self.sessions() as two:
            work = [self.play(agent, service, session_id=f"s-{i}") for i in range(4) for service in (one, two)]
            stories = await asyncio.gather(*work)
        kinds = {story.outcome.kind for story in stories}
        assert kinds == {alone.outcome.kind}, f"outcomes {kinds} instead of {alone.outcome.kind}"
        if self.deterministic:
            for story in stories:
                assert story.lines == alone.lines, "another story beside other runs"

    async def test_inv_5_fixed_providers_make_equal_histories(self) -> None:
        if not self.deterministic:
            pytest.skip("the agent's stories differ from run to run")
        stories = []
        for _ in range(2):
            async with self.sessions() as sessions:
                with use_clock(FixedTime()), use_uuids(CountedIds()):
                    stories.append(await self.play(self.make_agent(), sessions))
        first, second = (story.events for story in stories)
        assert first == second, "with a fixed clock and counted ids two runs make equal events"

    async def test_run_a_second_turn_follows_the_first(self) -> None:
        agent = self.make_agent()
        async with self.sessions() as sessions:
            first = await self.play(agent, sessions)
            if first.outcome.kind == "paused":
                pytest.skip("the agent waits for an answer")
            second = await self.play(agent, sessions)
        assert second.outcome.kind != "failed"
        assert second.outcome.invocation_id != first.outcome.invocation_id, "a message begins a new invocation"
        ids = [event.id for event in second.session.events]
        assert len(ids) == len(set(ids)), "an id is used twice in one session"

    async def test_agt_5_the_agent_runs_without_a_runner(self) -> None:
        agent = self.make_agent()
        async with self.sessions() as sessions:
            story = await self.play(self.make_agent(), sessions)
        if any(event.function_calls for event in story.events):
            pytest.skip("the agent makes calls; without a runner nobody stores them")
        said = new_event("e-test", author="user", content=user_content(self.message))
        ctx = make_context("invocation", agent=agent, message=self.message, events=[said])
        events = await within(PATIENCE, "the agent without a runner", _all(agent.run(ctx)))
        texts = [event.text for event in events if event.text and not event.partial]
        wanted = [event.text for event in story.events if event.text and not event.partial]
        assert bool(texts) == bool(wanted), f"without a runner: {texts}, in a runner: {wanted}"
        assert not self.deterministic or texts == wanted, f"without a runner: {texts}, in a runner: {wanted}"

    # --- where it stands ----------------------------------------------------------------------------------------------

    async def test_act_13_an_agent_is_done_when_it_completed_and_waits_when_it_paused(self) -> None:
        agent = self.make_agent()
        async with self.sessions() as sessions:
            story = await self.play(agent, sessions)
            again = await self.stored(sessions)
        expected = {"completed": Standing.DONE, "paused": Standing.WAITING}.get(story.outcome.kind)
        for session in (story.session, again):
            view = self._root_view(agent, session, story)
            events = list(session.events)
            standings = [view.standing() for _ in range(3)]
            assert len(set(standings)) == 1, f"standing is not pure, it said {standings}"
            assert list(session.events) == events, "asking for the standing changed the session"
            assert expected is None or standings[0] is expected, f"{story.outcome.kind}, but {standings[0]}"

    def _root_view(self, agent: Agent, session: Session, story: Story) -> View:
        """What the stored events say about the place where the run began."""
        own = next(event for event in story.events if event.path)
        inv = Invocation(
            app_name=APP,
            user_id=USER,
            session=session,
            invocation_id=story.outcome.invocation_id,
            setup=Setup(tree=AgentTree(agent)),
            known=True,
        )
        place = own.path.partition("/")[0]
        tree = inv.setup.tree
        assert tree is not None
        assert tree.find(segment_name(place)) is not None, f"{place!r} is no place of the tree"
        return View(inv, story.outcome.invocation_id, place)

    async def test_res_an_answer_goes_on_in_another_process_and_counts_once(self) -> None:
        async with self.sessions() as sessions:
            story = await self.play(self.make_agent(), sessions)
            if story.outcome.kind != "paused":
                pytest.skip("the agent asks nothing")
            last: Content | None = None
            for _ in range(MOST_ROUNDS):
                replies = [(call, self.make_answer(call)) for call in story.outcome.open_calls]
                if not replies or any(response is None for _, response in replies):
                    pytest.skip("the suite was not told what a person answers")
                last = Content(role="user", parts=[_reply(call, response) for call, response in replies])
                story = await self.play(self.make_agent(), sessions, last)
                if story.outcome.kind != "paused":
                    break
            assert story.outcome.kind == "completed", f"after its answers the run ended {story.outcome}"
            if any(call.kind == "tool" for call, _ in replies):
                return  # a later answer to a plain long-running call takes the place of the earlier one (RES-7)
            before = len(story.session.events)
            with pytest.raises(NothingToResume):
                await self.play(self.make_agent(), sessions, last)
            assert len((await self.stored(sessions)).events) == before, "a re-sent answer was stored"

    # --- ends ---------------------------------------------------------------------------------------------------------

    async def test_inv_3_a_run_left_after_any_event_leaves_nothing_behind(self) -> None:
        async with self.sessions() as sessions:
            length = len((await self.play(self.make_agent(), sessions)).events)
        for taken in range(length):
            for way in ("leave", "stop", "cancel"):
                await self._leave(taken, way)

    async def _leave(self, taken: int, way: str) -> None:
        """End a run after some events, look at what it left, and take another turn."""
        agent = self.make_agent()
        what = f"a run ended ({way}) after {taken} events"
        async with self.sessions() as sessions:
            async with no_tasks_left(what), self.runner(agent, sessions) as runner:
                run = runner.run(user_id=USER, session_id=SESSION, message=self.message)
                events = await within(PATIENCE, what, take(run, taken, way))
                assert run.outcome is not None, f"{what} has no outcome"
            if events:
                stored = list((await self.stored(sessions)).events)
                whole = [event for event in events if not event.partial]
                assert stored[1 : 1 + len(whole)] == whole, f"{what}: what was yielded is not what is stored"
            after = await self.play(agent, sessions)
            assert after.outcome.kind != "failed", f"{what}: the next one failed"

    async def test_inv_3_a_run_cancelled_at_any_time_ends(self) -> None:
        agent = self.make_agent()
        async with self.sessions() as sessions:

            async def whole_run() -> None:
                await self.play(agent, sessions)

            await assert_cancellable("a run", whole_run)
            assert (await self.play(agent, sessions, session_id="s-2")).outcome.kind != "failed"


async def _all(events: Any) -> list[Event]:
    return [event async for event in events]


def _reply(call: Call, response: dict[str, Any] | None) -> Part:
    return Part(function_response=FunctionResponse(id=call.id, name=call.name, response=response))


def _line(event: Event) -> str:
    """An event without what differs from run to run: ids, times."""
    parts: Sequence[Part] = event.content.parts if event.content is not None else ()
    shown = (event.author, event.path, list(parts), dict(event.actions.state_delta), event.output)
    return _UUID.sub("<id>", repr(shown))
