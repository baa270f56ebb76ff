"""Every scene in plain and in streaming mode, ended at every event and at any time (core B-28, INV-1, 3, 7)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pytest

from hookwork.agent import Agent
from hookwork.errors import NothingToResume, SessionNotFoundError
from hookwork.invocation import RunConfig
from hookwork.model import Model
from hookwork.records.event import Event
from hookwork.records.session import Session
from hookwork.run import RunOutcome
from hookwork.runner import Runner
from hookwork.services import SessionService
from hookwork_testkit.prompts import assert_valid_prompt
from hookwork_testkit.scene_crashes import Crash, Deadline
from hookwork_testkit.scene_plays import NotMade, Staged
from hookwork_testkit.scene_trees import SCENES
from hookwork_testkit.scripted import ScriptedModel
from hookwork_testkit.suites.leftovers import PATIENCE, no_tasks_left, settle, take, within

USER, SESSION = "u1", "s1"
MODES = ("none", "sse")
WAYS = ("leave", "stop", "cancel")


def line(event: Event) -> str:
    """An event as ``author: what``: text, partial, call NAME, response NAME, joined by ``+``."""
    said: list[str] = []
    for part in event.content.parts if event.content is not None else ():
        if part.function_call is not None:
            said.append(f"call {part.function_call.name}")
        elif part.function_response is not None:
            said.append(f"response {part.function_response.name}")
        elif part.text and not part.thought:
            said.append("partial" if event.partial else "text")
    return f"{event.author}: {' + '.join(said) or 'nothing to see'}"


class SceneEnds(ABC):
    """The part of `RunnerScenes` that plays the scenes of `scene_plays` and cuts them."""

    #: Turns of the event loop after which a scene is cancelled, at most; a slow backend may want fewer.
    most_turns: int = 120

    #: Whether the root of `runner` is a conversation. Under any other one (a graph, a sequence) an open task keeps the
    #: run waiting, and the next message continues the run that was cut, so a tool that had acted and whose response was
    #: not stored yet runs again, with the same key (ACT-41 b).
    root_is_a_conversation: bool = True

    @abstractmethod
    async def make_sessions(self) -> SessionService:
        """A session service on an empty store."""

    @abstractmethod
    async def reopen_sessions(self, sessions: SessionService) -> SessionService:
        """A second service on the same store."""

    @abstractmethod
    def make_agent(
        self, name: str, model: Model, *, tools: Sequence[Any] = (), sub_agents: Sequence[Agent] = ()
    ) -> Agent:
        """An agent of the flow under test."""

    def make_task(
        self, name: str, model: Model, *, tools: Sequence[Any] = (), sub_agents: Sequence[Agent] = ()
    ) -> Agent | None:
        """An agent that its parent hands tasks over to (core MODE-8), with a description; None: the flow has none."""
        return None

    def make_sequence(self, name: str, sub_agents: Sequence[Agent]) -> Agent | None:
        """An agent that runs its children one after the other (core §1.2); None: not under test."""
        return None

    def make_parallel(self, name: str, sub_agents: Sequence[Agent]) -> Agent | None:
        """An agent that runs its children side by side; None: not under test."""
        return None

    @abstractmethod
    def runner(self, agent: Agent, sessions: SessionService) -> Runner:
        """A runner whose settings are nobody's."""

    @abstractmethod
    async def play(
        self, agent: Agent, sessions: SessionService, message: Any, **options: Any
    ) -> tuple[list[Event], RunOutcome]:
        """One run from the first event to the outcome."""

    @abstractmethod
    async def stored(self, sessions: SessionService) -> Session:
        """The session as a new handle shows it."""

    def assert_valid(self, *models: ScriptedModel) -> None:
        """Assert that every prompt of these models was valid (core INV-7)."""
        for model in models:
            for prompt in model.prompts:
                assert_valid_prompt(prompt, ids=model.capabilities.pairs_calls_by_id)

    def stage(self, scene: str) -> Staged:
        """A scene, ready to be played; one that needs agents which the suite does not make is skipped."""
        try:
            return SCENES[scene](_Makers(self))
        except NotMade as missing:
            pytest.skip(f"the suite makes no {missing}")

    # --- whole --------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("scene", SCENES)
    async def test_scene(self, scene: str, mode: str) -> None:
        """The same events are stored in both modes; a streamed run shows partials as well."""
        sessions = await self.make_sessions()
        staged = self.stage(scene)
        events = await self._turns(staged, sessions, len(staged.turns), mode)
        partials = [event for event in events if event.partial]
        assert dict((await self.stored(sessions)).state) == staged.state
        assert bool(partials) == (mode == "sse"), f"{len(partials)} partial events in mode {mode}"
        self.assert_valid(*staged.models)
        await sessions.close()

    async def _turns(self, staged: Staged, sessions: SessionService, count: int, mode: str) -> list[Event]:
        """The first turns of a scene, each in a runner of its own; their events."""
        shown: list[Event] = []
        for turn in range(count):
            _, lines, ends = staged.turns[turn]
            service = await self.reopen_sessions(sessions)
            events, outcome = await self.play(
                staged.agent, service, staged.message(turn), config=RunConfig(streaming_mode=mode)
            )
            staged.assert_lines([line(event) for event in events if not event.partial], lines, f"turn {turn + 1}")
            if outcome.open_delegations and not self.root_is_a_conversation:
                ends = "paused"
            assert outcome.kind == ends, f"the turn ended {outcome}"
            staged.last = outcome
            shown += events
        return shown

    # --- cut ----------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("scene", SCENES)
    async def test_inv_3_a_scene_ended_at_each_event(self, scene: str, mode: str, way: str) -> None:
        """What was yielded is stored, nothing is left behind, and the next turn has a valid prompt."""
        for turn in range(len(self.stage(scene).turns)):
            count, ended = 0, False
            while not ended:
                ended = await self._ended_at(scene, mode, way, turn, count)
                count += 1

    async def _ended_at(self, scene: str, mode: str, way: str, turn: int, count: int) -> bool:
        """Cut one turn after some events; whether the turn was over before that."""
        what = f"{scene}: turn {turn + 1} ended ({way}) after {count} events"
        sessions = await self.make_sessions()
        staged = self.stage(scene)
        await self._turns(staged, sessions, turn, mode)
        before = len((await self.stored(sessions)).events) if turn else 0
        message = staged.message(turn)
        async with no_tasks_left(what), self.runner(staged.agent, sessions) as runner:
            config = RunConfig(streaming_mode=mode)
            run = runner.run(user_id=USER, session_id=SESSION, message=message, config=config)
            taken = await within(PATIENCE, what, take(run, count, way))
            assert run.outcome is not None, f"{what}: no outcome"
            live = dict(run.session.state) if run.session is not None else None
        if taken:
            stored = await self.stored(sessions)
            whole = [event for event in taken if not event.partial]
            new = list(stored.events)[before + 1 :]  # the first one is the user's message
            assert new[: len(whole)] == whole, f"{what}: what was yielded is not what is stored"
            sealed = new[len(whole) :]
            assert all(event.function_responses for event in sealed), f"{what}: stored, not yielded: {sealed}"
            assert dict(stored.state) == live, f"{what}: live and stored state differ"
        await self._go_on(what, staged, sessions)
        await sessions.close()
        return len(taken) < count

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("scene", SCENES)
    async def test_inv_3_a_scene_cancelled_at_any_time(self, scene: str, mode: str) -> None:
        """Cancelled after 1, 2, 3 … turns of the event loop, wherever it is then."""
        for turns in range(1, self.most_turns):
            what = f"{scene}, cancelled after {turns} turns of the loop,"
            sessions = await self.make_sessions()
            staged = self.stage(scene)
            async with no_tasks_left(what):
                task = asyncio.create_task(self._turns(staged, sessions, len(staged.turns), mode))
                await settle(turns)
                over = task.done()
                task.cancel()
                await asyncio.wait([task], timeout=PATIENCE)
                assert task.done(), f"{what} goes on after {PATIENCE:g} s"
            if over:
                task.result()
                return
            assert task.cancelled(), f"{what} swallowed its cancellation: {task}"
            await self._go_on(what, staged, sessions)
            await sessions.close()

    # --- crashed ------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("scene", SCENES)
    async def test_act_41_a_scene_crashed_behind_each_event(self, scene: str, mode: str) -> None:
        """The process dies behind a stored event and the invocation is continued by its id: the story is the same."""
        count, crashed = 1, True
        while crashed:
            crashed = await self._crashed_behind(scene, mode, count)
            count += 1
        assert count > 3, f"{scene}: {count} events are no scene"

    async def _crashed_behind(self, scene: str, mode: str, count: int) -> bool:
        """Play a scene with one crash; whether it came to that."""
        what = f"{scene}: crashed behind event {count}"
        sessions = await self.make_sessions()
        staged = self.stage(scene)
        config = RunConfig(streaming_mode=mode)
        left, before = count, 0
        for turn, (_, lines, _) in enumerate(staged.turns):
            if turn:
                staged.take_up(await self.stored(sessions))
            if left > 0 and await self._dies(staged, sessions, staged.message(turn), config, left):
                await self._resume(what, staged, await self.reopen_sessions(sessions), config)
                left = 0
            elif left <= 0:
                await self.play(staged.agent, await self.reopen_sessions(sessions), staged.message(turn), config=config)
            events = list((await self.stored(sessions)).events)
            new = events[before + 1 :]  # the first one is the user's message
            staged.assert_lines([line(event) for event in new], lines, what)
            left -= len(events) - before if left > 0 else 0
            before = len(events)
        for tool in staged.tools:
            assert len(tool.calls) <= 1, f"{what}: {tool.name} ran {len(tool.calls)} times"
        assert dict((await self.stored(sessions)).state) == staged.state, f"{what}: another state"
        self.assert_valid(*staged.models)
        await sessions.close()
        return left <= 0

    async def _resume(self, what: str, staged: Staged, sessions: SessionService, config: RunConfig) -> None:
        """Continue the newest invocation by its id; a long-running call that never began is run again (ACT-43)."""
        session = await self.stored(sessions)
        begun = {tool.name for tool in staged.tools if tool.calls}
        never_begun = [
            call.id for call in session.open_calls.values() if call.kind == "tool" and call.name not in begun
        ]
        async with self.runner(staged.agent, sessions) as runner:
            run = runner.run(
                user_id=USER,
                session_id=SESSION,
                invocation_id=session.events[-1].invocation_id,
                rerun=never_begun,
                config=config,
            )
            try:
                await within(PATIENCE, what, run.wait())
            except NothingToResume:
                pass  # it had come to its end, or to where it waits

    async def _dies(self, staged: Staged, sessions: SessionService, message: Any, config: RunConfig, left: int) -> bool:
        """Play a turn with a process that dies behind that many stored events; False when it came to its end before."""
        service = await self.reopen_sessions(sessions)
        Deadline(service, left)
        try:
            async with self.runner(staged.agent, service) as runner:
                await runner.run(user_id=USER, session_id=SESSION, message=message, config=config).wait()
        except Crash:
            return True
        finally:
            Deadline.lift(service)
        return False

    async def _go_on(self, what: str, staged: Staged, sessions: SessionService) -> None:
        """Take another turn on what a cut scene left: it ends, on valid prompts, and no tool runs again.

        But for one: see `root_is_a_conversation`.
        """
        service = await self.reopen_sessions(sessions)
        unheard = set() if self.root_is_a_conversation else await self._unheard(staged, sessions)
        async with self.runner(staged.agent, service) as runner:
            run = runner.run(user_id=USER, session_id=SESSION, message="and now?")
            outcome = await within(PATIENCE, f"{what}: the next turn", run.wait())
        assert outcome.kind in ("completed", "paused"), f"{what}: the next turn ended {outcome}"
        self.assert_valid(*staged.models)
        for tool in staged.tools:
            times = 2 if tool.name in unheard else 1
            assert len(tool.calls) <= times, f"{what}: {tool.name} ran {len(tool.calls)} times"
            assert len(set(tool.keys)) <= 1, f"{what}: {tool.name} ran under several keys: {tool.keys}"

    async def _unheard(self, staged: Staged, sessions: SessionService) -> set[str]:
        """Names of tools that acted in a run that was cut, but whose response was not stored (ACT-41 b)."""
        try:
            calls = (await self.stored(sessions)).history().calls
        except SessionNotFoundError:
            return set()
        heard = {call.name for call in calls if any(not response.placeholder for response in call.responses)}
        return {tool.name for tool in staged.tools if len(tool.calls) == 1 and tool.name not in heard}


class _Makers:
    """What a scene makes its agents with."""

    def __init__(self, suite: SceneEnds) -> None:
        self._suite = suite

    def __call__(self, name: str, model: Model, **fields: Any) -> Agent:
        return self._suite.make_agent(name, model, **fields)

    def task(self, name: str, model: Model, **fields: Any) -> Agent:
        return self._made(self._suite.make_task(name, model, **fields), "agents for tasks")

    def sequence(self, name: str, *sub_agents: Agent) -> Agent:
        return self._made(self._suite.make_sequence(name, sub_agents), "sequences")

    def parallel(self, name: str, *sub_agents: Agent) -> Agent:
        return self._made(self._suite.make_parallel(name, sub_agents), "parallel agents")

    @staticmethod
    def _made(agent: Agent | None, kind: str) -> Agent:
        if agent is None:
            raise NotMade(kind)
        return agent
