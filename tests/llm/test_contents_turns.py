"""Where a prompt begins, summaries in it, the sequence itself and its cache (core CON-9, CON-16, CON-30, CMP-11)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.llm.histories import AGENT, History, call, response, text

from hookwork.records.content import Content, Part
from hookwork.records.event import Event, EventActions, EventCompaction, ExcludedEvent
from hookwork.records.session import EventLog
from hookwork_llm.contents import build_contents


@pytest.fixture
def history() -> History:
    return History()


def shape(prompt: Any) -> list[Any]:
    """A prompt in short: texts as they are, ``+name`` for calls, payloads for responses."""
    return [[_short(part) for part in content.parts] for content in prompt]


def _short(part: Part) -> Any:
    if part.function_call is not None:
        return f"+{part.function_call.name}"
    if part.function_response is not None:
        payload = part.function_response.response
        return payload["status"] if payload and "status" in payload else payload
    return part.text


# --- the beginning (CON-9, CON-30) ------------------------------------------------------------------------------------


def test_con_9_a_scoped_agent_begins_with_the_arguments_of_its_call(history: History) -> None:
    history.add("user", text("book it"))
    history.add("boss", call("c1", "me", {"city": "Köln"}))
    history.add("me", text("which day?"), isolation_scope="c1")
    history.add("user", text("monday"), isolation_scope="c1")
    prompt = history.prompt(isolation_scope="c1", user_content=Content(role="user", parts=[text("unused")]))
    assert shape(prompt)[1:] == [["which day?"], ["monday"]]
    assert prompt[0].role == "user"
    assert json.loads(prompt[0].text) == {"city": "Köln"}


def test_con_9_without_arguments_it_begins_with_the_message(history: History) -> None:
    history.add("user", text("book it"))
    history.add("boss", call("c1", "me"))
    history.add("user", text("monday"), isolation_scope="c1", invocation_id="e1")
    now = Content(role="user", parts=[text("monday")])
    assert shape(history.prompt(isolation_scope="c1", user_content=now)) == [["book it"], ["monday"]]
    assert shape(history.prompt(isolation_scope="gone", user_content=now)) == [["monday"]]


def test_con_9_the_second_use_of_an_id_has_a_scope_of_its_own(history: History) -> None:
    history.add("boss", call("c1", "me", {"n": 1}))
    history.add("boss", call("c1", "me", {"n": 2}))
    assert shape(history.prompt(isolation_scope="c1")) == [['{"n": 1}']]
    assert shape(history.prompt(isolation_scope="c1~2")) == [['{"n": 2}']]


def test_con_9_a_single_turn_agent_is_told_that_nobody_replies(history: History) -> None:
    given = Content(role="user", parts=[text("summarise")])
    prompt = history.prompt(include_contents="none", single_turn=True, user_content=given)
    assert len(prompt) == 1
    assert prompt[0].parts[0].text == "summarise"
    assert len(prompt[0].parts) == 2
    assert given.parts == [text("summarise")]
    assert list(history.prompt(include_contents="none", single_turn=True)) == []


def test_case_hist_2_no_history_under_a_parallel_agent(history: History) -> None:
    history.add("user", text("earlier"), invocation_id="old")
    history.add("user", text("go"))
    history.add("a", call("c1"), branch="par.a")
    history.add("b", call("c1"), branch="par.b")
    history.add("a", response("c1", {"r": "a"}), role="user", branch="par.a")
    history.add("b", text("b done"), branch="par.b")
    prompt = history.prompt("a", branch="par.a", include_contents="none")
    assert shape(prompt) == [["go"], ["+f"], [{"r": "a"}]]


def test_con_30_answers_and_hand_overs_do_not_begin_a_turn(history: History) -> None:
    history.add("user", text("question"))
    history.add("root", call("t1", "transfer_to_agent", {"agent_name": "me"}))
    history.add(
        "root", response("t1", {}, "transfer_to_agent"), role="user", actions=EventActions(transfer_to_agent="me")
    )
    assert shape(history.prompt(include_contents="none"))[0] == ["question"]
    history.add("me", call("c1"), long_running_tool_ids=("c1",))
    history.add("user", response("c1", {"r": 1}))
    shown = shape(history.prompt(include_contents="none"))
    assert shown[0] == ["question"]
    assert shown[-2:] == [["+f"], [{"r": 1}]]
    history.add("other", text("news"))
    assert shape(history.prompt(include_contents="none")) == [["For context:", "[other] said: news"]]


def test_con_30_without_a_beginning_everything_is_shown(history: History) -> None:
    history.add("me", text("one"))
    history.add("me", text("two"))
    assert shape(history.prompt(include_contents="none")) == [["one"], ["two"]]


def test_extra_contents_go_last_and_leave_no_trace(history: History) -> None:
    history.add("user", text("hi"))
    memory = Content(role="user", parts=[text("remembered")])
    assert history.prompt(extra=[memory]) == [Content(role="user", parts=[text("hi")]), memory]
    assert shape(history.prompt()) == [["hi"]]


# --- compaction (CMP-11) ----------------------------------------------------------------------------------------------


def summary(history: History, start: int, end: int, said: str, *excluded: Event) -> Event:
    record = EventCompaction(
        start_timestamp=float(start),
        end_timestamp=float(end),
        compacted_content=Content(role="user", parts=[text("why", thought=True), text(said)]),
        excluded_events=tuple(ExcludedEvent(invocation_id=e.invocation_id, timestamp=e.timestamp) for e in excluded),
    )
    return history.add("user", actions=EventActions(compaction=record))


def test_cmp_11_a_summary_stands_where_its_first_event_stood(history: History) -> None:
    history.add("user", text("0"))
    history.add("user", text("1"))
    kept = history.add("me", text("2"))
    history.add("user", text("3"))
    history.add("user", text("4"))
    assert len(history.prompt(compaction=True)) == 5
    summary(history, 1, 3, "1 and 3", kept)
    prompt = history.prompt(compaction=True)
    assert shape(prompt) == [["0"], ["1 and 3"], ["2"], ["4"]]
    assert prompt[1].role == "model"
    assert len(history.prompt()) == 5  # CMP-9: records are honoured only when the runner has compaction on


def test_cmp_11_a_wider_or_later_equal_record_replaces_one(history: History) -> None:
    for i in range(4):
        history.add("user", text(str(i)))
    summary(history, 0, 1, "narrow")
    summary(history, 0, 2, "wide, first")
    summary(history, 0, 2, "wide, second")
    history.add("user", text("4"))
    assert shape(history.prompt(compaction=True)) == [["wide, second"], ["3"], ["4"]]


def test_cmp_11_a_swallowed_long_running_call_comes_back_before_its_response(history: History) -> None:
    history.add("user", text("0"))
    history.add("me", text("both"), call("c1"), call("c2", "g"), long_running_tool_ids=("c1",))
    history.add("me", response("c1", {"status": "working"}), response("c2", {"g": 1}, "g"), role="user")
    history.add("me", text("started"))
    summary(history, 0, 3, "all of it")
    history.add("user", text("5"))
    assert shape(history.prompt(compaction=True)) == [["all of it"], ["5"]]
    history.add("user", response("c1", {"r": 1}))
    assert shape(history.prompt(compaction=True)) == [["all of it"], ["5"], ["both", "+f", "+g"], [{"r": 1}, {"g": 1}]]


def test_cmp_11_a_response_inside_a_summary_stays_with_a_call_outside(history: History) -> None:
    history.add("me", call("c1"))
    history.add("me", response("c1", {"r": 1}), role="user")
    history.add("me", text("2"))
    summary(history, 1, 2, "later things")
    assert shape(history.prompt(compaction=True)) == [["+f"], [{"r": 1}], ["later things"]]


# --- the sequence and the cache (CON-16, LOG-12) ----------------------------------------------------------------------


def test_prompt_contents_behave_like_a_read_only_list(history: History) -> None:
    for i in range(4):
        history.add("user", text(str(i)))
    prompt = history.prompt(extra=[Content(role="user", parts=[text("x")])])
    plain = list(prompt)
    assert len(prompt) == len(plain) == 5
    assert [prompt[i] for i in range(-5, 5)] == plain + plain
    assert (prompt[1:4], prompt[::-1]) == (plain[1:4], plain[::-1])
    assert prompt == plain
    assert plain == prompt
    assert prompt != plain[:-1]
    assert prompt + plain == plain + prompt == plain * 2
    with pytest.raises(IndexError, match="5 content"):
        prompt[5]
    with pytest.raises(TypeError):
        prompt[0] = plain[1]  # type: ignore[index]


class CountingList(list[Event]):
    """A list that counts how often it was read."""

    reads = 0

    def __getitem__(self, index: Any) -> Any:
        self.reads += 1
        return super().__getitem__(index)

    def __iter__(self) -> Any:
        self.reads += len(self)
        return super().__iter__()


def test_con_16_a_request_reads_only_the_new_events(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    events = history.session.log.events = CountingList()

    def no_index(_: EventLog) -> Any:
        raise AssertionError("a settled history needs no index")

    monkeypatch.setattr(EventLog, "index", no_index)
    for turn in range(300):
        history.add("user", text("go"))
        history.add("me", call(f"adk-{turn}"))
        history.add("me", response(f"adk-{turn}", {"r": turn}), role="user")
        events.reads = 0
        prompt = build_contents(history.session, agent=AGENT, agent_name="me")
        assert len(prompt) == 4 * turn + 3
        assert events.reads == (1 if turn == 0 else 4)  # the first request takes the whole range in one slice
        history.add("me", text("done"))


def test_con_16_settled_contents_stay_the_same_objects(history: History) -> None:
    history.add("me", call("adk-1"))
    history.add("me", response("adk-1", {"r": 1}), role="user")
    first = list(history.prompt())
    history.add("me", call("adk-2"), long_running_tool_ids=("adk-2",))
    history.add("user", text("hi"))
    second = list(history.prompt())
    history.add("user", response("adk-2", {"r": 2}))
    third = list(history.prompt())
    assert all(a is b is c for a, b, c in zip(first, second, third, strict=False))


def test_con_16_entries_are_kept_apart_and_bounded(history: History) -> None:
    history.add("user", text("hi"))
    for n in range(200):
        assert shape(history.prompt(isolation_scope=f"s{n}")) == []
    assert shape(history.prompt()) == [["hi"]]
    entries = history.session.log.slots["hookwork_llm.contents"]
    assert len(entries) <= 64
    other = build_contents(history.session, agent=object(), agent_name="you")
    assert shape(other) == [["hi"]]
