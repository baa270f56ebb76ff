"""Which events a summary takes in (core CMP-4, CMP-5, CMP-6, B-13), on histories made by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part
from hookwork.records.event import Event, EventActions, EventCompaction, ExcludedEvent, NodeInfo, ToolConfirmation
from hookwork.records.session import EventLog, Session
from hookwork_llm.compaction.links import free_runs
from hookwork_llm.compaction.record import span_of
from hookwork_llm.compaction.timeline import Timeline
from hookwork_llm.compaction.windows import MAX_SUMMARIES, Fit, Window, sliding_window, tail_window
from hookwork_llm.contents import build_contents
from hookwork_testkit import assert_valid_prompt

CONFIRM = "adk_request_confirmation"


class History:
    """Events written by hand; what is due is asked of it, and can be carried out with a made-up summary."""

    def __init__(self) -> None:
        self.session = Session(
            app_name="app",
            user_id="u",
            id="s",
            log=EventLog(),
            last_update_time=datetime(2026, 1, 1, tzinfo=UTC),
            revision="0",
        )

    def add(self, invocation: str, author: str, *parts: Part | str, **fields: Any) -> int:
        at = self.session.length
        made = [Part(text=part) if isinstance(part, str) else part for part in parts]
        role = "user" if author == "user" or any(part.function_response for part in made) else "model"
        content = Content(role=role, parts=made) if made else None
        fields = {"id": f"ev{at}", "timestamp": 100.0 + at, "content": content, **fields}
        self.session.log.append(Event(invocation_id=invocation, author=author, **fields))
        self.session.length += 1
        return at

    def turn(self, invocation: str, **fields: Any) -> None:
        self.add(invocation, "user", f"question {invocation}", **fields)
        self.add(invocation, "me", f"answer {invocation}", **fields)

    def ask_approval(self, invocation: str, call_id: str) -> None:
        """What the flow stores of a call that waits for a person (core CNF-2): four events."""
        self.add(invocation, "user", "do it")
        self.add(invocation, "me", call(call_id))
        self.add(
            invocation,
            "me",
            answer(call_id, {"error": "asks"}),
            actions=EventActions(requested_tool_confirmations={call_id: ToolConfirmation()}),
        )
        original = {"id": call_id, "name": "f", "args": {}}
        request = FunctionCall(id=f"r-{call_id}", name=CONFIRM, args={"originalFunctionCall": original})
        self.add(invocation, "me", Part(function_call=request), long_running_tool_ids=(f"r-{call_id}",))

    def approve(self, invocation: str, call_id: str) -> None:
        reply = FunctionResponse(id=f"r-{call_id}", name=CONFIRM, response={"confirmed": True})
        self.add(invocation, "user", Part(function_response=reply))
        self.add(invocation, "me", answer(call_id, {"r": 1}))
        self.add(invocation, "me", "done")

    def slide(self, interval: int, overlap: int = 0, **options: Any) -> Window | None:
        return sliding_window(Timeline(self.session), interval=interval, overlap=overlap, **options)

    def due(self, interval: int, overlap: int = 0, **options: Any) -> list[int]:
        window = self.slide(interval, overlap, **options)
        return [] if window is None else list(window.positions)

    def tail(
        self, retention: int, *, question: int | None = None, branch: str = "", fit: Fit | None = None
    ) -> Window | None:
        return tail_window(
            Timeline(self.session),
            visible=lambda lane: lane[1] == "" and (not lane[0] or not branch or lane[0] == branch),
            retention=retention,
            question=question,
            measure=lambda position: len(self.session.events[position].text) + 1,
            fit=fit,
        )

    def carry_out(self, window: Window | None, words: str = "") -> int:
        """Store the record of a window; its position."""
        assert window is not None
        span = span_of(Timeline(self.session), window)
        record = EventCompaction(
            start_timestamp=span.start,
            end_timestamp=span.end,
            compacted_content=Content(role="model", parts=[Part(text=words or f"summary {self.session.length}")]),
            excluded_events=span.excluded,
        )
        branch, scope = window.lane
        at = self.session.length
        actions = EventActions(compaction=record)
        return self.add(f"c{at}", "user", actions=actions, branch=branch, isolation_scope=scope)

    def prompt(self, **options: Any) -> list[str]:
        prompt = build_contents(self.session, agent=self, agent_name="me", compaction=True, **options)
        assert_valid_prompt(prompt)
        return ["+".join(short(part) for part in content.parts) for content in prompt]


def short(part: Part) -> str:
    if part.function_call is not None:
        return f"call {part.function_call.id}"
    if part.function_response is not None:
        return f"response {part.function_response.id}"
    return part.text or ""


def call(call_id: str, name: str = "f") -> Part:
    return Part(function_call=FunctionCall(id=call_id, name=name, args={}))


def answer(call_id: str, payload: Any, name: str = "f") -> Part:
    return Part(function_response=FunctionResponse(id=call_id, name=name, response=payload))


@pytest.fixture
def history() -> History:
    return History()


# --- sliding window (CMP-4) -------------------------------------------------------------------------------------------


def test_cmp_4_a_window_is_due_with_the_interval_th_invocation(history: History) -> None:
    history.turn("e1")
    history.turn("e2")
    assert history.due(3) == []
    history.turn("e3")
    assert history.due(3) == [0, 1, 2, 3, 4, 5]
    assert history.due(2) == [0, 1, 2, 3]


def test_cmp_4_the_next_window_shares_its_overlap(history: History) -> None:
    for name in ("e1", "e2"):
        history.turn(name)
    history.carry_out(history.slide(2, 1))
    history.turn("e3")
    assert history.due(2, 1) == []
    history.turn("e4")
    assert history.due(2, 0) == [5, 6, 7, 8]
    assert history.due(2, 1) == [2, 3, 5, 6, 7, 8]
    assert history.due(2, 2) == [0, 1, 2, 3, 5, 6, 7, 8]
    assert history.due(2, 9) == [0, 1, 2, 3, 5, 6, 7, 8]


def test_cmp_4_an_invocation_is_not_its_own_overlap(history: History) -> None:
    history.turn("e1")
    history.turn("e2")
    history.carry_out(history.slide(2))
    history.add("e1", "me", "by the way")
    history.turn("e3")
    assert history.due(2, 2) == [2, 3, 5, 6, 7]


def test_cmp_4_a_backlog_drains_step_by_step(history: History) -> None:
    for n in range(7):
        history.turn(f"e{n}")
    windows = []
    while (window := history.slide(2)) is not None:
        windows.append(window.positions)
        history.carry_out(window)
    assert windows == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)]
    assert history.prompt() == ["summary 14", "summary 15", "summary 16", "question e6", "answer e6"]


def test_cmp_4_an_invocation_resumed_later_counts_once(history: History) -> None:
    history.add("e1", "user", "hi")
    history.add("e1", "me", call("c1"), long_running_tool_ids=("c1",))
    history.turn("e2")
    history.add("e1", "user", answer("c1", {"r": 1}))
    history.add("e1", "me", "done")
    assert history.due(3) == []
    history.turn("e3")
    assert history.due(3) == list(range(8))


def test_cmp_4_events_of_a_rewound_invocation_count_for_nothing(history: History) -> None:
    history.turn("e1")
    history.turn("e2")
    history.turn("e3")
    history.add("x", "user", actions=EventActions(rewind_before_invocation_id="e2"))
    assert history.due(2) == []
    history.turn("e4")
    assert history.due(2) == [0, 1, 7, 8]


def test_rew_2_a_rewound_summary_no_longer_covers(history: History) -> None:
    history.turn("e1")
    history.turn("e2")
    history.carry_out(history.slide(2))
    history.add("x", "user", actions=EventActions(rewind_before_invocation_id="e2"))
    history.turn("e3")
    assert history.due(2) == [0, 1, 6, 7]
    assert history.prompt() == ["question e1", "answer e1", "question e3", "answer e3"]


def test_cmp_4_a_long_history_of_summaries_is_carried_on_in_one(history: History) -> None:
    for n in range(MAX_SUMMARIES + 1):
        history.turn(f"e{n}")
        window = history.slide(1)
        assert window is not None
        assert len(window.seeds) == (MAX_SUMMARIES if n == MAX_SUMMARIES else 0)
        history.carry_out(window)
    assert history.prompt() == [f"summary {history.session.length - 1}"]
    history.turn("next")
    assert history.prompt()[1:] == ["question next", "answer next"]


# --- what a window does not part (CMP-6) ------------------------------------------------------------------------------


def test_cmp_6_a_window_ends_before_a_call_without_answer(history: History) -> None:
    history.turn("e1")
    history.add("e2", "user", "go")
    history.add("e2", "me", call("c1"))
    assert history.due(2) == [0, 1, 2]


def test_cmp_6_a_free_head_goes_before_a_longer_run_behind(history: History) -> None:
    history.turn("e1")
    history.add("e2", "me", call("c1"))
    history.turn("e3")
    history.turn("e4")
    assert history.due(4) == [0, 1]


def test_cmp_6_invocations_that_hang_together_go_together(history: History) -> None:
    history.add("e1", "me", call("a"), long_running_tool_ids=("a",))
    history.add("e2", "me", call("b"), long_running_tool_ids=("b",))
    history.add("e1", "user", answer("a", {}))
    history.add("e2", "user", answer("b", {}))
    history.turn("e3")
    assert history.due(1) == [4, 5]
    history.carry_out(history.slide(1))
    assert history.due(1) == [0, 1, 2, 3]


def test_cmp_6_parallel_calls_need_all_their_answers(history: History) -> None:
    history.add("e1", "user", "go")
    history.add("e1", "me", call("a"), call("b"))
    history.add("e1", "me", answer("a", {}))
    history.add("e1", "user", "and?")
    assert history.due(1) == []
    history.add("e1", "me", answer("b", {}))
    assert history.due(1) == [0, 1, 2, 3, 4]


def test_cmp_6_a_status_is_no_answer_to_a_long_running_call(history: History) -> None:
    history.turn("e1")
    history.add("e2", "me", call("c1"), long_running_tool_ids=("c1",))
    history.add("e2", "me", answer("c1", {"status": "started"}))
    history.add("e2", "me", "I started it")
    assert history.due(2) == [0, 1]
    history.add("e2", "user", answer("c1", {"r": 1}))
    assert history.due(2) == [0, 1, 2, 3, 4, 5]


def test_cmp_6_a_confirmation_request_is_answered_first(history: History) -> None:
    history.turn("e1")
    history.ask_approval("e2", "c1")
    assert history.due(2) == [0, 1, 2]
    history.approve("e2", "c1")
    assert history.due(2) == list(range(9))


def test_case_cmp_1_blocked_at_its_head_it_takes_the_longest_run_behind(history: History) -> None:
    history.ask_approval("e1", "c1")
    history.turn("e2")
    history.turn("e3")
    window = history.slide(3, 1)
    assert window is not None
    assert window.positions == (4, 5, 6, 7)
    history.carry_out(window)
    for name in ("e4", "e5"):
        history.turn(name)
    assert history.due(3, 1) == [6, 7, 9, 10, 11, 12]
    history.carry_out(history.slide(3, 1))
    history.approve("e1", "c1")
    history.turn("e6")
    assert history.due(3, 1) == []  # e1 and e6 are two
    history.turn("e7")
    assert history.due(3, 1)[0] == 0
    history.carry_out(history.slide(3, 1), "all of it")
    assert history.prompt() == ["all of it"]


def test_cmp_6_the_run_behind_answers_nothing_that_was_opened_before(history: History) -> None:
    history.add("e1", "me", call("a"), call("b"))
    history.turn("e2")
    history.add("e1", "me", answer("a", {}))
    history.turn("e3")
    history.turn("e4")
    assert history.due(4) == [4, 5, 6, 7]  # longer than [1, 2], and not the answer at 3


def test_cmp_6_many_waiting_approvals_do_not_stall_what_comes_later(history: History) -> None:
    for n in range(5):
        history.ask_approval(f"w{n}", f"c{n}")
    for n in range(4):
        history.turn(f"e{n}")
    first = history.slide(3)
    assert first is not None
    assert first.positions == (20, 21, 22, 23, 24, 25)
    history.carry_out(first)
    assert history.due(3) == []  # a single turn is not worth a summary of its own
    history.turn("e4")
    assert history.due(3) == [26, 27, 29, 30]


def test_cmp_6_events_of_one_moment_stay_together(history: History) -> None:
    history.add("e1", "user", "a")
    history.add("e1", "me", "b")
    history.add("e2", "user", "c", timestamp=101.0)
    history.add("e2", "me", "d")
    history.add("e3", "user", "e")
    history.add("e3", "me", "f")
    assert history.due(2) == [0, 1, 2, 3]
    assert history.due(1) == [4, 5]  # neither e1 nor e2 can go alone


def test_cmp_6_a_window_has_one_branch(history: History) -> None:
    for name in ("e1", "e2"):
        history.add(name, "user", "both of you")
        history.add(name, "a", "from a", branch="p.a")
        history.add(name, "b", "from b", branch="p.b")
        history.add(name, "a", "more from a", branch="p.a")
    lanes = []
    while (window := history.slide(2)) is not None:
        lanes.append((window.lane[0], window.positions))
        history.carry_out(window, f"of {window.lane[0] or 'root'}")
    assert lanes == [("", (0, 4)), ("p.a", (1, 3, 5, 7)), ("p.b", (2, 6))]
    assert history.prompt() == ["of root", "of p.a", "of p.b"]
    assert history.prompt(branch="p.a") == ["of root", "of p.a"]


def test_cmp_6_an_answer_of_a_person_goes_with_the_branch_of_its_call(history: History) -> None:
    for name in ("e1", "e2"):
        history.add(name, "a", call(name), branch="p.a", long_running_tool_ids=(name,))
        history.add(name, "user", answer(name, {"r": 1}))
        history.add(name, "a", "done", branch="p.a")
    window = history.slide(2)
    assert window is not None
    assert window.lane == ("p.a", "")
    assert window.positions == (0, 1, 2, 3, 4, 5)
    history.carry_out(window, "a's work")
    assert history.prompt() == ["a's work"]


def test_cmp_6_a_finished_task_is_nobodys_history(history: History) -> None:
    history.add("e1", "user", "go")
    history.add("e1", "me", call("t", "helper"))
    history.add("e1", "helper", "question?", isolation_scope="t")
    history.add("e2", "user", "reply", isolation_scope="t")
    window = history.slide(2)
    assert window is not None
    assert window.lane == ("", "t")
    assert window.positions == (2, 3)
    history.add("e2", "user", answer("t", {"r": 1}, "helper"), node_info=NodeInfo(path="me@1"))
    history.add("e2", "me", "done")
    found = history.slide(2)
    assert found is not None
    assert found.lane == ("", "")
    history.carry_out(found)
    assert history.due(2) == []


def test_b_13_a_call_that_can_never_be_answered_blocks_nothing(history: History) -> None:
    history.add("e1", "user", "go")
    history.add("e1", "me", call("cut"), error_code="MAX_TOKENS")
    history.turn("e2")
    assert history.due(2) == [0, 1, 2, 3]
    history.add("e3", "me", call("lost"), node_info=NodeInfo(path="me@1"))
    history.add("e3", "me", "never mind", node_info=NodeInfo(path="me@1", status="completed"))
    history.carry_out(history.slide(2))
    history.turn("e4")
    assert history.due(2) == [4, 5, 7, 8]


def test_b_13_one_event_is_not_worth_a_summary(history: History) -> None:
    history.add("e1", "user", "hello?")
    assert history.due(1) == []
    history.turn("e2")
    assert history.due(2) == [0, 1, 2]


# --- tail retention (CMP-5) -------------------------------------------------------------------------------------------


def test_cmp_5_all_but_the_newest_and_the_question(history: History) -> None:
    for name in ("e1", "e2", "e3"):
        history.turn(name)
    question = history.add("e4", "user", "the question")
    history.add("e4", "me", call("c1"))
    history.add("e4", "me", answer("c1", {}))
    window = history.tail(2, question=question)
    assert window is not None
    assert window.positions == (0, 1, 2, 3, 4, 5)
    assert window.seeds == ()
    assert history.tail(8, question=question) is not None
    assert history.tail(9, question=question) is None


def test_cmp_5_the_question_stays_even_when_it_is_old(history: History) -> None:
    history.turn("e1")
    question = history.add("e2", "user", "the question")
    for n in range(3):
        history.add("e2", "me", call(f"c{n}"))
        history.add("e2", "me", answer(f"c{n}", {}))
    window = history.tail(2, question=question)
    assert window is not None
    assert window.positions == (0, 1, 3, 4, 5, 6)
    span = span_of(Timeline(history.session), window)
    assert span.excluded == (ExcludedEvent(invocation_id="e2", timestamp=102.0),)
    history.carry_out(window, "before")
    assert history.prompt() == ["before", "the question", "call c2", "response c2"]


def test_cmp_5_the_previous_summary_is_carried_on_and_superseded(history: History) -> None:
    history.turn("e1")
    history.turn("e2")
    first = history.carry_out(history.tail(2), "first")
    history.turn("e3")
    window = history.tail(2)
    assert window is not None
    assert window.positions == (2, 3)
    assert window.seeds == (first,)
    history.carry_out(window, "second")
    assert history.prompt() == ["second", "question e3", "answer e3"]
    record = history.session.events[-1].actions.compaction
    assert record is not None
    assert (record.start_timestamp, record.end_timestamp, record.excluded_events) == (100.0, 103.0, ())


def test_cmp_5_what_waits_stays_and_is_excluded(history: History) -> None:
    history.turn("e1")
    history.ask_approval("e2", "c1")
    history.turn("e3")
    history.turn("e4")
    window = history.tail(2)
    assert window is not None
    assert window.positions == (0, 1, 2)  # the head is free up to what waits
    history.carry_out(window, "first")
    window = history.tail(2)
    assert window is not None
    assert window.positions == (6, 7)
    history.carry_out(window, "second")
    assert history.prompt() == ["second", "call c1", "response c1", "question e4", "answer e4"]
    history.approve("e2", "c1")
    history.turn("e5")
    history.carry_out(history.tail(2), "third")
    assert history.prompt() == ["third", "question e5", "answer e5"]


def test_cmp_5_among_the_visible_branches_the_largest_is_taken(history: History) -> None:
    for n in range(4):
        history.add(f"e{n}", "user", "long " * 20)
        history.add(f"e{n}", "a", "x", branch="p.a")
        history.add(f"e{n}", "b", "much " * 90, branch="p.b")
    window = history.tail(1, branch="p.a")
    assert window is not None
    assert window.lane == ("", "")
    assert window.positions == (0, 3, 6, 9)


# --- what the summarizer can take -------------------------------------------------------------------------------------


def test_cmp_12_a_window_is_cut_to_what_the_summarizer_takes(history: History) -> None:
    for name in ("e1", "e2", "e3"):
        history.turn(name)
    fit = Fit(5, lambda position: 1)
    assert history.due(3, fit=fit) == [0, 1, 2, 3, 4]
    assert history.due(3, fit=Fit(1, lambda position: 1)) == [0]
    assert history.due(3, fit=Fit(0, lambda position: 1)) == []
    assert history.due(3, fit=Fit(4, lambda position: 9 if position == 1 else 1)) == [2, 3, 4, 5]
    window = history.tail(1, fit=Fit(3, lambda position: 1))
    assert window is not None
    assert window.positions == (0, 1, 2)


def test_cmp_12_the_cut_parts_no_pair(history: History) -> None:
    history.add("e1", "user", "go")
    history.add("e1", "user", "please")
    history.add("e1", "me", call("c1"))
    history.add("e1", "me", answer("c1", {}))
    assert history.due(1, fit=Fit(3, lambda position: 1)) == [0, 1]


# --- excluded events (CMP-3, CMP-11) ----------------------------------------------------------------------------------


def test_cmp_3_what_lies_between_and_is_not_summarised_is_excluded(history: History) -> None:
    history.turn("e1")
    history.add("e2", "a", "elsewhere", branch="p.a")
    history.add("e2", "b", "a task", isolation_scope="t")
    history.turn("e2")
    window = Window(("", ""), (0, 1, 4, 5))
    span = span_of(Timeline(history.session), window)
    assert (span.start, span.end) == (100.0, 105.0)
    assert span.excluded == (ExcludedEvent(invocation_id="e2", timestamp=102.0),)


def test_cmp_11_a_record_is_not_replaced_by_a_wider_one_that_leaves_its_events_out(history: History) -> None:
    history.add("e1", "user", "one")
    history.add("e1", "a", "two", branch="p.a")
    history.add("e1", "a", "three", branch="p.a")
    history.add("e1", "user", "four")
    history.carry_out(Window(("p.a", ""), (1, 2)), "narrow")
    history.carry_out(Window(("", ""), (0, 3)), "wide")
    assert history.prompt() == ["wide", "narrow"]
    assert Timeline(history.session).uncovered == []


# --- the pieces -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("links", "blocked", "runs"),
    [
        ([], [], [(0, 5)]),
        ([], [12], [(0, 2), (3, 5)]),
        ([[10, 13]], [], [(0, 5)]),
        ([[10, 13]], [12], [(1, 2), (4, 5)]),
        ([[11, 99]], [], [(0, 1), (2, 5)]),
        ([[10, 12], [11, 14], [13, 99]], [], []),
        ([[99, 98]], [77], [(0, 5)]),
    ],
)
def test_cmp_6_free_runs(links: list[list[int]], blocked: list[int], runs: list[tuple[int, int]]) -> None:
    assert free_runs([10, 11, 12, 13, 14], links, blocked) == runs


def test_the_uncovered_events_are_carried_on_with_the_log(history: History) -> None:
    seen: list[list[int]] = []

    def look(change: Callable[[], Any]) -> None:
        change()
        carried = Timeline(history.session).uncovered
        history.session.log.slots.clear()
        assert Timeline(history.session).uncovered == carried
        seen.append(carried)

    look(lambda: history.turn("e1"))
    look(lambda: history.turn("e2"))
    look(lambda: history.carry_out(history.slide(2)))
    look(lambda: history.turn("e3"))
    look(lambda: history.add("x", "user", actions=EventActions(rewind_before_invocation_id="e2")))
    assert seen == [[0, 1], [0, 1, 2, 3], [], [5, 6], [0, 1]]


def test_an_older_view_of_the_log_has_its_own_answer(history: History) -> None:
    history.turn("e1")
    history.turn("e2")
    older = history.session.view(length=2)
    assert Timeline(history.session).uncovered == [0, 1, 2, 3]
    assert Timeline(older).uncovered == [0, 1]
    assert Timeline(history.session).uncovered == [0, 1, 2, 3]
