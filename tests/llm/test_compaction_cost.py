"""What prompts over a compacted tree cost, counted in steps of the interpreter (core CMP-3, CMP-11, CON-16)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.llm.counted_steps import counted_in

import hookwork_llm
from hookwork import Content, Event, EventActions, NodeInfo, Runner, Session, text_content
from hookwork.records.event import EventCompaction, ExcludedEvent
from hookwork.records.metadata import UsageMetadata
from hookwork.settings import NO_SETTINGS
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import EventsCompaction, LlmAgent
from hookwork_llm.compaction.size import reported_size
from hookwork_llm.contents import build_contents
from hookwork_llm.contents.cache import rebuild_contents
from hookwork_llm.contents.compaction import plan_compaction
from hookwork_llm.contents.kept import Kept
from hookwork_llm.contents.summaries import Survivors, standing_summaries, visible_summaries
from hookwork_testkit import ScriptedModel
from hookwork_workflow import ParallelAgent

HOME = str(Path(hookwork_llm.__file__).parent)
BRANCHES = ("par.a", "par.b", "par.c")
SHAPES = ("windows", "carried on", "merged")


class History:
    """Rounds of three branches side by side; behind every second round a summary of each branch's newest two.

    ``shape``: ``windows``, each summary beside the last one; ``carried on``, each takes the place of those before it;
    ``merged``, windows and at the end one for each branch that takes the place of all.
    """

    def __init__(self, rounds: int, shape: str = "windows") -> None:
        self.events: list[Event] = []
        self._begin: dict[str, float] = {}
        for number in range(rounds):
            for branch in BRANCHES:
                self._add(number, branch)
            if number % 2:
                for branch in BRANCHES:
                    self._summarise(branch, self._begin[branch])
                if shape != "carried on":
                    self._begin.clear()
        if shape == "merged":
            for number, branch in enumerate(BRANCHES, 1):
                self._summarise(branch, float(number))

    def _add(self, number: int, branch: str) -> None:
        at = float(len(self.events) + 1)
        self._begin.setdefault(branch, at)
        name = branch[-1]
        self.events.append(
            Event(
                id=f"ev-{at}",
                invocation_id=f"e-{number}",
                author=name,
                branch=branch,
                timestamp=at,
                content=text_content(f"{name}{number}", role="model"),
                node_info=NodeInfo(path=f"par@1/{name}@1"),
            )
        )

    def _summarise(self, branch: str, start: float) -> None:
        own = [event for event in self.events if event.branch == branch and event.content is not None]
        end = own[-1].timestamp
        others = [
            ExcludedEvent(invocation_id=event.invocation_id, timestamp=event.timestamp)
            for event in self.events
            if start <= event.timestamp <= end and event.branch != branch and event.content is not None
        ]
        record = EventCompaction(
            start_timestamp=start,
            end_timestamp=end,
            compacted_content=text_content(f"summary of {branch}", role="model"),
            excluded_events=tuple(others),
        )
        at = float(len(self.events) + 1)
        self.events.append(
            Event(
                id=f"ev-{at}",
                invocation_id=f"e-summary-{at}",
                author="user",
                branch=branch,
                timestamp=at,
                actions=EventActions(compaction=record),
            )
        )

    @property
    def size(self) -> int:
        """Events, and what the records exclude."""
        records = [event.actions.compaction for event in self.events if event.actions.compaction is not None]
        return len(self.events) + sum(len(record.excluded_events) for record in records)


def plan(events: Sequence[Event], branch: str) -> Any:
    return plan_compaction(events, range(len(events)), branch=branch, scope="")


@pytest.mark.parametrize("branch", ["", "par.a"])
@pytest.mark.parametrize("shape", SHAPES)
def test_cmp_11_a_plan_costs_what_the_history_holds_and_no_product_of_it(branch: str, shape: str) -> None:
    costs = []
    for rounds in (20, 80):
        history = History(rounds, shape)
        with counted_in(HOME) as steps:
            plan(history.events, branch)
        costs.append(steps.count / history.size)
    assert costs[0] > 0
    assert costs[1] <= 1.5 * costs[0], costs  # per event and exclusion; a product would be four times as much


@pytest.mark.parametrize("branch", ["", "par.a"])
def test_cmp_11_con_16_a_new_record_costs_what_it_says_itself_whatever_was_replaced(branch: str) -> None:
    """The records are carried on, so that each excludes everything beside it: nothing but the last is read again."""
    costs = []
    for rounds in (20, 80):
        events = History(rounds, "carried on").events
        last = max(i for i, event in enumerate(events) if branch in ("", event.branch))
        record = events[last].actions.compaction
        assert record is not None
        kept = Kept(branch)
        kept.extend(events[:last], range(last))
        with counted_in(HOME) as steps:
            kept.extend(events, range(last, len(events)))
            assert sum(not isinstance(item, int) for item in kept.items()) == (1 if branch else 3)
        costs.append(steps.count / (20 + len(record.excluded_events)))
    assert 0 < costs[1] <= 1.1 * costs[0], costs


async def test_con_16_prompts_of_a_compacted_chat_cost_the_same_at_any_length() -> None:
    """Sixteen turns with their new records, in front of which 32 or 240 turns lie."""

    class Short:
        async def summarize(self, events: Sequence[Event]) -> tuple[Content, None]:
            return text_content("short", role="model"), None

    root = LlmAgent(name="chat", model=ScriptedModel(lambda request: "said"))
    config = EventsCompaction(compaction_interval=2, overlap_size=1, summarizer=Short())
    costs: dict[int, int] = {32: 0, 240: 0}
    # Summarising asks `visibility` as well, about its span: that is no cost of a prompt.
    prompts = [str(path) for path in Path(HOME, "contents").glob("*.py") if path.name != "visibility.py"]
    async with Runner(root, sessions="memory:", settings=NO_SETTINGS, events_compaction=config) as runner:
        for turn in range(256):
            run = runner.run(user_id="u", session_id="s", message="go")
            begin = next((begin for begin in costs if begin <= turn < begin + 16), None)
            if begin is None:
                await run.wait()
                continue
            with counted_in(*prompts) as steps:
                await run.wait()
            costs[begin] += steps.count
    assert 0 < costs[240] <= 1.1 * costs[32], costs


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("branch", ["", "par", "par.b"])
def test_cmp_11_what_is_carried_on_is_what_a_look_at_everything_gives(branch: str, shape: str) -> None:
    events = History(24, shape).events
    survivors = Survivors()
    for end in range(1, len(events) + 1):
        survivors.extend(events[:end], [end - 1], branch=branch, scope="")
        seen = events[:end]
        whole = standing_summaries(visible_summaries(seen, range(end), branch=branch, scope=""), seen)
        assert [one.position for one in survivors.summaries] == [one.position for one in whole]


async def test_cmp_4_con_16_a_turn_of_a_branched_tree_costs_no_more_than_its_events() -> None:
    """The whole of a turn, window and prompts, after 8 and after 32 turns with a summary behind each."""

    class Short:
        async def summarize(self, events: Sequence[Event]) -> tuple[Content, None]:
            return text_content("short", role="model"), None

    children = [LlmAgent(name=name, model=ScriptedModel(lambda request: "said")) for name in "abc"]
    root = ParallelAgent(name="par", sub_agents=children)
    sessions = InMemorySessionService()
    costs: list[float] = []
    config = EventsCompaction(compaction_interval=2, overlap_size=1, summarizer=Short())
    async with Runner(root, sessions=sessions, settings=NO_SETTINGS, events_compaction=config) as runner:
        for turn in range(1, 33):
            run = runner.run(user_id="u", session_id="s", message="go")
            if turn not in (8, 32):
                await run.wait()
                continue
            with counted_in(HOME) as steps:
                await run.wait()
            stored = await sessions.get_session(app_name="par", user_id="u", session_id="s")
            costs.append(steps.count / len(stored.events))
    assert costs[1] <= 1.8 * costs[0], costs


async def test_cmp_4_con_16_windows_and_prompts_of_a_branched_tree_cost_the_same_at_any_length() -> None:
    """All of a compacted tree's turns, windows and prompts of three branches, behind 16 and behind 112 turns.

    In between a window is merged with its lane's earlier summaries: that one costs what its record excludes (CMP-3).
    """

    class Short:
        async def summarize(self, events: Sequence[Event]) -> tuple[Content, None]:
            return text_content("short", role="model"), None

    children = [LlmAgent(name=name, model=ScriptedModel(lambda request: "said")) for name in "abc"]
    root = ParallelAgent(name="par", sub_agents=children)
    config = EventsCompaction(compaction_interval=6, overlap_size=1, summarizer=Short())
    costs: dict[int, int] = {16: 0, 112: 0}
    async with Runner(root, sessions="memory:", settings=NO_SETTINGS, events_compaction=config) as runner:
        for turn in range(128):
            run = runner.run(user_id="u", session_id="s", message="go")
            begin = next((begin for begin in costs if begin <= turn < begin + 16), None)
            if begin is None:
                await run.wait()
                continue
            with counted_in(HOME) as steps:
                await run.wait()
            costs[begin] += steps.count
    assert 0 < costs[112] <= 1.1 * costs[16], costs


async def test_con_16_the_prompt_is_the_same_with_what_is_carried_on_and_without() -> None:
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="par", user_id="u", session_id="s")
    agents = {branch: object() for branch in ("", *BRANCHES)}

    def prompt(build: Callable[..., Any], handle: Session, branch: str) -> list[Content]:
        arguments = {"agent": agents[branch], "agent_name": branch[-1:] or "root", "branch": branch, "compaction": True}
        return list(build(handle, **arguments))

    for event in History(16, "carried on").events:
        await sessions.append_event(session, event)
        for branch in agents:
            assert prompt(build_contents, session, branch) == prompt(rebuild_contents, session, branch)


async def test_cmp_5_the_size_of_a_prompt_is_told_by_what_is_new() -> None:
    """Nobody reports tokens, so the look back for a report would go through everything; in steps, at both ends."""
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="a", user_id="u", session_id="s")
    costs: dict[int, int] = {}
    events = [event for event in History(200).events if event.content is not None]
    for number, event in enumerate(events, 1):
        await sessions.append_event(session, event)
        with counted_in(HOME) as steps:
            assert reported_size(session, branch="", scope="") is None
        costs[number] = steps.count
    assert costs[600] == costs[100] > 0


@pytest.mark.parametrize("branch", ["", "par.a", "par.b"])
async def test_cmp_5_the_size_carried_on_is_that_of_a_look_at_everything(branch: str) -> None:
    """The last report of a visible model turn and a quarter of the characters since; a handle behind the log too."""
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="a", user_id="u", session_id="s")
    for number, event in enumerate(History(24).events, 1):
        if number % 7 == 0 and event.content is not None:
            event = event.replace(usage_metadata=UsageMetadata(prompt_token_count=10 * number))
        await sessions.append_event(session, event)
        expected = looked_up(session.events, branch)
        assert reported_size(session, branch=branch, scope="") == expected
    behind = session.view(length=70, state={}, revision=session.revision)
    assert reported_size(behind, branch=branch, scope="") == looked_up(behind.events, branch) is not None


def looked_up(events: Sequence[Event], branch: str) -> float | None:
    later = 0
    for event in reversed(events):
        if event.content is None or (branch and event.branch and event.branch != branch):
            continue
        usage = event.usage_metadata
        if usage is not None:
            assert usage.prompt_token_count is not None
            return usage.prompt_token_count + later / 4
        later += len(event.text)
    return None
