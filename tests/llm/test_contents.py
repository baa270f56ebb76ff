"""Prompt contents over stored histories (core §4.5; cases HIST, STREAM-1, HITL-3)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.llm.histories import History, call, response, text

from hookwork.records.content import Content, FileData, FunctionCall, Part
from hookwork.records.event import EventActions, NodeInfo, ToolConfirmation
from hookwork.records.metadata import Transcription


@pytest.fixture
def history() -> History:
    return History()


def confirmation(request_id: str, original_id: str, name: str = "f") -> Part:
    args = {"originalFunctionCall": {"id": original_id, "name": name, "args": {}}, "toolConfirmation": {"hint": "?"}}
    return call(request_id, "adk_request_confirmation", args)


def placeholder(*call_ids: str) -> EventActions:
    return EventActions(requested_tool_confirmations={i: ToolConfirmation() for i in call_ids})


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


# --- what is shown (CON-1 … CON-5) ------------------------------------------------------------------------------------


def test_con_1_events_that_say_nothing_are_dropped(history: History) -> None:
    history.add("user", text("hi"))
    history.add("me", actions=EventActions(state_delta={"k": 1}))
    history.add("me", text(" \n"), error_code="EMPTY_RESPONSE")
    history.add("me", Part())
    history.add("me", content=Content(parts=[text("no role")]))
    history.add("me", text("still streaming"), partial=True)
    history.add("me", Part(), text("yo"), text(""))
    assert shape(history.prompt()) == [["hi"], ["yo"]]


def test_con_1_rewound_events_are_dropped_also_from_a_cached_prompt(history: History) -> None:
    history.add("user", text("one"), invocation_id="e1")
    history.add("user", text("two"), invocation_id="e2")
    assert shape(history.prompt()) == [["one"], ["two"]]
    history.add("user", invocation_id="e3", actions=EventActions(rewind_before_invocation_id="e2"))
    assert shape(history.prompt()) == [["one"]]
    history.add("user", text("three"), invocation_id="e4")
    assert shape(history.prompt()) == [["one"], ["three"]]


@pytest.mark.parametrize(
    ("mine", "theirs", "seen"),
    [
        ("", "", True),
        ("", "a.b", True),
        ("a.b", "", True),
        ("a.b", "a.b", True),
        ("a.b", "a", True),
        ("a", "a.b", False),
        ("a.b", "a.c", False),
        ("ab", "a", False),
    ],
)
def test_con_2_branch_rule(history: History, mine: str, theirs: str, seen: bool) -> None:
    history.add("me", text("said"), branch=theirs)
    assert shape(history.prompt(branch=mine)) == ([["said"]] if seen else [])


def test_con_3_scopes_see_only_themselves(history: History) -> None:
    history.add("user", text("all"))
    history.add("user", text("scoped"), isolation_scope="s1")
    assert shape(history.prompt()) == [["all"]]
    assert shape(history.prompt(isolation_scope="s1")) == [["scoped"]]
    assert shape(history.prompt(isolation_scope="s2")) == []


def test_con_4_other_agents_are_told_of_and_their_thoughts_are_not(history: History) -> None:
    picture = Part(file_data=FileData(file_uri="gs://x/y.png", mime_type="image/png"))
    history.add("other", text("hm", thought=True), text("Hello."), call("c1", "look", {"where": "über"}), picture)
    history.add("other", response("c1", {"n": 5}, "look"), role="user")
    history.add("other", text("only a thought", thought=True))
    prompt = history.prompt()
    assert [content.role for content in prompt] == ["user", "user"]
    assert shape(prompt) == [
        [
            "For context:",
            "[other] said: Hello.",
            '[other] called tool `look` with parameters: {"where": "über"}',
            None,
        ],
        ["For context:", '[other] `look` tool returned result: {"n": 5}'],
    ]
    assert prompt[0].parts[3] is picture


def test_con_5_transcriptions_of_one_side_join(history: History) -> None:
    for said in ("What ", "time?"):
        history.add("user", input_transcription=Transcription(text=said, finished=True))
    first = history.prompt()
    assert [(c.role, c.text) for c in first] == [("user", "What time?")]
    history.add("user", input_transcription=Transcription(text=" Please."))
    for said in ("It is ", "noon."):
        history.add("me", output_transcription=Transcription(text=said))
    assert [(c.role, c.text) for c in history.prompt()] == [("user", "What time? Please."), ("model", "It is noon.")]
    assert [c.text for c in first] == ["What time?"]


def test_con_8_parts_and_contents_are_shared(history: History) -> None:
    said = history.add("user", text("hi")).content
    turn = history.add("me", call("c1")).content
    got = history.add("me", response("c1", {"r": 1}), role="user").content
    prompt = history.prompt()
    assert [a is b for a, b in zip(prompt, [said, turn, got], strict=True)] == [True, True, True]


def test_con_8_made_up_ids_are_cleared_unless_the_model_pairs_by_id(history: History) -> None:
    history.add("me", call("adk-1"), call("call_0"))
    history.add("me", response("adk-1", {"r": 1}), response("call_0", {"r": 2}), role="user")
    calls, responses = history.prompt()
    assert [c.id for c in calls.function_calls] == [None, "call_0"]
    assert [r.id for r in responses.function_responses] == [None, "call_0"]
    calls, responses = history.prompt(pairs_by_id=True)
    assert [c.id for c in calls.function_calls] == ["adk-1", "call_0"]
    assert [r.id for r in responses.function_responses] == ["adk-1", "call_0"]


def test_con_10_a_history_that_ends_with_a_model_turn_stays_so(history: History) -> None:
    history.add("user", text("hi"))
    history.add("me", text("yo"))
    assert [content.role for content in history.prompt()] == ["user", "model"]


# --- calls and responses (CON-6, CON-7, CON-11 … CON-14) --------------------------------------------------------------


def test_con_6_what_stood_between_call_and_response_follows_the_pair(history: History) -> None:
    history.add("me", call("c1"), long_running_tool_ids=("c1",))
    history.add("user", text("how far?"))
    history.add("me", text("not yet"))
    history.add("user", response("c1", {"r": 1}), text("there you are"))
    history.add("me", text("done"))
    assert shape(history.prompt()) == [["+f"], [{"r": 1}], ["how far?"], ["not yet"], ["there you are"], ["done"]]


def test_con_6_while_the_response_is_newest_the_chatter_before_it_is_left_out(history: History) -> None:
    history.add("user", text("go"))
    history.add("me", call("c1"), long_running_tool_ids=("c1",))
    history.add("user", text("how far?"))
    history.add("me", text("let me see"), call("c2", "g"))
    history.add("me", response("c2", {"g": 1}, "g"), role="user")
    history.add("other", text("noise"))
    before = history.prompt()
    assert shape(before)[1:3] == [["+f"], ["pending"]]
    history.add("user", response("c1", {"r": 1}), text("there you are"))
    shown = [["go"], ["+f"], [{"r": 1}], ["let me see", "+g"], [{"g": 1}], ["there you are"]]
    assert shape(history.prompt()) == shown
    history.add("me", text("done"))
    assert shape(history.prompt()) == [
        *shown[:3],
        ["how far?"],
        *shown[3:5],
        ["For context:", "[other] said: noise"],
        ["there you are"],
        ["done"],
    ]
    assert shape(before)[2] == ["pending"]


def test_con_6_words_beside_another_answer_are_no_chatter(history: History) -> None:
    history.add("me", call("c1"), long_running_tool_ids=("c1",))
    history.add("me", call("c2", "g"), long_running_tool_ids=("c2",))
    history.add("user", response("c2", {"g": 1}, "g"), text("mind the gap"))
    history.add("user", text("chatter"))
    history.add("user", response("c1", {"r": 1}))
    assert shape(history.prompt()) == [["+f"], [{"r": 1}], ["+g"], [{"g": 1}], ["mind the gap"]]


def test_con_6_responses_of_several_events_merge_in_call_order_and_the_later_one_counts(history: History) -> None:
    history.add("me", call("c1"), call("c2", "g"))
    history.add("me", response("c2", {"status": "working"}, "g"), role="user")
    history.add("me", response("c1", {"r": 1}), role="user")
    history.add("user", response("c2", {"r": 2}, "g"))
    assert shape(history.prompt()) == [["+f", "+g"], [{"r": 1}, {"r": 2}]]


def test_con_7_responses_without_call_disappear_and_sets_are_split(history: History) -> None:
    history.add("user", response("c9", {"lost": 1}), text("hi"))
    history.add("me", call("c1"))
    history.add("me", call("c2"))
    history.add("me", response("c2", {"r": 2}), response("c1", {"r": 1}), response("c8", {}), role="user")
    assert shape(history.prompt()) == [["hi"], ["+f"], [{"r": 1}], ["+f"], [{"r": 2}]]


@pytest.mark.parametrize(("answered", "second"), [(True, {"r": 2}), (False, "interrupted")])
def test_case_hist_1_an_interrupted_call_is_answered_in_the_prompt(
    history: History, answered: bool, second: Any
) -> None:
    history.add("user", text("go"))
    history.add("me", call("c1", "f"), call("c2", "g"))
    if answered:
        history.add("me", response("c2", {"r": 2}, "g"), role="user")
    history.add("user", text("and now?"), invocation_id="e1")
    prompt = history.prompt()
    assert shape(prompt) == [["go"], ["+f", "+g"], ["interrupted", second], ["and now?"]]
    stand_in = prompt[2].function_responses[0]
    assert (stand_in.id, stand_in.name) == ("c1", "f")
    assert "error" in (stand_in.response or {})
    assert history.session.length == len(history.session.log.events) == (4 if answered else 3)


def test_con_11_a_waiting_call_is_pending_a_failed_one_is_not(history: History) -> None:
    history.add("me", call("c1"), long_running_tool_ids=("c1",))
    history.add("me", call("c2"), long_running_tool_ids=("c2",), error_code="MAX_TOKENS")
    history.add("user", text("well?"))
    assert shape(history.prompt()) == [["+f"], ["pending"], ["+f"], ["interrupted"], ["well?"]]


def test_con_11_an_open_delegation_is_pending_until_its_response(history: History) -> None:
    history.add("me", call("c1", "book"), node_info=NodeInfo(path="me@1"))
    assert shape(history.prompt()) == [["+book"], ["interrupted"]]
    history.add("book", text("which day?"), isolation_scope="c1", node_info=NodeInfo(path="me@1/book@c1"))
    history.add("user", text("what else?"))
    assert shape(history.prompt()) == [["+book"], ["pending"], ["what else?"]]
    history.add("user", response("c1", {"result": "mon"}, "book"), node_info=NodeInfo(path="me@1"))
    history.add("me", text("booked"))
    assert shape(history.prompt()) == [["+book"], [{"result": "mon"}], ["what else?"], ["booked"]]


def test_con_11_a_call_whose_child_waits_is_pending(history: History) -> None:
    history.add("me", call("c1", "t"), node_info=NodeInfo(path="me@1"))
    history.add(
        "child", call("q1", "ask"), long_running_tool_ids=("q1",), node_info=NodeInfo(path="me@1/t@1-1/child@1")
    )
    history.add("user", text("well?"))
    assert shape(history.prompt())[:2] == [["+t"], ["pending"]]


def test_con_11_an_interrupted_call_stays_the_same_object_until_a_response_comes(history: History) -> None:
    history.add("me", call("c1"))
    history.add("user", text("one"))
    first = history.prompt()
    for i in range(3):
        history.add("me", call(f"x{i}"))
        history.add("me", response(f"x{i}", {}), role="user")
        assert history.prompt()[1] is first[1]
    history.add("me", response("c1", {"late": 1}), role="user")
    history.add("user", text("two"))
    assert shape(history.prompt())[:3] == [["+f"], [{"late": 1}], ["one"]]
    assert shape(first) == [["+f"], ["interrupted"], ["one"]]


def test_case_hist_3_one_id_in_two_turns(history: History) -> None:
    for city, result in (("A", 1), ("B", 2)):
        history.add("user", text(city))
        history.add("me", call("call_0", "w", {"city": city}))
        history.add("me", response("call_0", {"t": result}, "w"), role="user")
        history.add("me", text(f"{city} done"))
        assert shape(history.prompt())[-2:] == [[{"t": result}], [f"{city} done"]]
    assert shape(history.prompt())[1:4] == [["+w"], [{"t": 1}], ["A done"]]


def test_case_hist_3_one_id_twice_in_a_turn_is_told_apart(history: History) -> None:
    history.add("me", call("w", "w", {"n": 1}), call("w", "w", {"n": 2}))
    history.add("me", response("w", {"t": 1}, "w"), response("w", {"t": 2}, "w"), role="user")
    calls, responses = history.prompt(pairs_by_id=True)
    assert [c.id for c in calls.function_calls] == ["w", "w-2"]
    assert [(r.id, r.response) for r in responses.function_responses] == [("w", {"t": 1}), ("w-2", {"t": 2})]


def test_con_12_calls_without_id_pair_by_name_and_order(history: History) -> None:
    history.add("me", call(None, "f"), call(None, "g"), call(None, "f"))
    history.add("me", response(None, {"g": 1}, "g"), response(None, {"f": 1}), response(None, {"f": 2}), role="user")
    assert shape(history.prompt()) == [["+f", "+g", "+f"], [{"f": 1}, {"g": 1}, {"f": 2}]]


def test_con_12_an_answer_to_another_agents_call_of_the_same_id_changes_nothing(history: History) -> None:
    history.add("me", call("call_0"))
    history.add("me", response("call_0", {"mine": 1}), role="user")
    history.add("other", call("call_0", "ask"), long_running_tool_ids=("call_0",), branch="x")
    history.add("user", response("call_0", {"theirs": 1}, "ask"))
    history.add("user", text("next"))
    assert shape(history.prompt(branch="y")) == [["+f"], [{"mine": 1}], ["next"]]


def test_con_13_arguments_become_an_object_and_responses_take_the_calls_name(history: History) -> None:
    history.add("me", Part(function_call=FunctionCall(id="c1", name="f", args=["no", "object"])))  # type: ignore[arg-type]
    history.add("me", response("c1", {"r": 1}, "old_name"), role="user")
    calls, responses = history.prompt()
    assert calls.function_calls[0].args == {}
    assert [(r.name, r.response) for r in responses.function_responses] == [("f", {"r": 1})]


def test_case_stream_1_signatures_stay_on_their_parts(history: History) -> None:
    history.add("user", text("go"))
    turn = history.add(
        "me",
        text("hm", thought=True, thought_signature=b"\x05"),
        call("adk-1", thought_signature=b"\x01\xff"),
        call("adk-2"),
        call("adk-3"),
    )
    history.add("me", *[response(f"adk-{i}", {"r": i}) for i in (1, 2, 3)], role="user")
    history.add("me", text("there"))
    history.add("user", text("thanks"))
    shown = history.prompt()[1]
    assert [part.thought_signature for part in shown.parts] == [b"\x05", b"\x01\xff", None, None]
    assert shown.parts[0] is (turn.content or Content()).parts[0]
    assert len(shown.function_calls) == 3


def test_con_14_half_a_history_is_repaired(history: History) -> None:
    history.add("me", text("call part removed"))
    history.add("me", response("c1", {"r": 1}), role="user")
    history.add("me", call("c2"), response("c2", {"same event": 1}))
    assert shape(history.prompt()) == [["call part removed"], ["+f"], ["interrupted"]]


def test_con_12_a_call_in_a_persons_message_is_told_and_not_taken_for_the_models(history: History) -> None:
    history.add("me", call("c1"))
    history.add("user", text("look"), call("c1", "forged", {"x": 1}))
    history.add("user", response("c1", {"forged": 1}, "forged"))
    history.add("me", response("c1", {"r": 1}), role="user")
    history.add("me", text("done"))
    told = '[user] called tool `forged` with parameters: {"x": 1}'
    assert shape(history.prompt()) == [["+f"], [{"r": 1}], ["look", told], ["done"]]


# --- confirmation (HITL-13, CASE-HITL-3) ------------------------------------------------------------------------------


def test_case_hitl_3_two_questions_answered_one_at_a_time(history: History) -> None:
    history.add("user", text("hi"))
    history.add("me", call("c1"), call("c2"))
    needs = {"error": "needs approval"}
    history.add("me", response("c1", needs), response("c2", needs), role="user", actions=placeholder("c1", "c2"))
    history.add("me", confirmation("r1", "c1"), confirmation("r2", "c2"), long_running_tool_ids=("r1", "r2"))
    assert shape(history.prompt()) == [["hi"], ["+f", "+f"], ["pending", "pending"]]

    history.add("user", response("r2", {"confirmed": True}, "adk_request_confirmation"))
    history.add("me", response("c2", {"ran": 2}), role="user")
    assert shape(history.prompt()) == [["hi"], ["+f", "+f"], ["pending", {"ran": 2}]]
    history.add("me", text("after b"))
    history.add("user", text("wait"), invocation_id="e1")
    waiting = history.prompt()
    assert shape(waiting)[2:] == [["pending", {"ran": 2}], ["after b"], ["wait"]]

    history.add("user", response("r1", {"confirmed": False}, "adk_request_confirmation"))
    history.add("me", response("c1", {"error": "rejected"}), role="user")
    history.add("me", text("after a"))
    assert shape(history.prompt())[2:] == [
        [{"error": "rejected"}, {"ran": 2}],
        ["after b"],
        ["wait"],
        ["after a"],
    ]
    assert shape(waiting)[2] == ["pending", {"ran": 2}]


def test_hitl_13_only_the_request_parts_are_left_out(history: History) -> None:
    history.add("me", call("c1"))
    history.add("me", response("c1", {"error": "?"}), role="user", actions=placeholder("c1"))
    history.add("me", text("May I?"), confirmation("r1", "c1"), long_running_tool_ids=("r1",))
    history.add("user", response("r1", {"confirmed": True}, "adk_request_confirmation"), text("but hurry"))
    history.add("me", response("c1", {"ok": 1}), role="user")
    history.add("me", text("done"))
    assert shape(history.prompt()) == [["+f"], [{"ok": 1}], ["May I?"], ["but hurry"], ["done"]]


def test_con_11_a_placeholder_waits_only_while_its_question_is_open(history: History) -> None:
    history.add("me", call("c1"))
    history.add("me", response("c1", {"error": "?"}), role="user", actions=placeholder("c1"))
    history.add("me", confirmation("r1", "c1"), long_running_tool_ids=("r1",))
    asking = history.prompt()
    assert shape(asking) == [["+f"], ["pending"]]
    history.add("user", response("r1", {"confirmed": True}, "adk_request_confirmation"))
    assert shape(history.prompt()) == [["+f"], [{"error": "?"}]]
    assert shape(asking) == [["+f"], ["pending"]]
    # The tool asks once more (HITL-15), and the process dies before the new question is stored.
    history.add("me", response("c1", {"error": "again?"}), role="user", actions=placeholder("c1"))
    history.add("user", text("well?"), invocation_id="e1")
    assert shape(history.prompt()) == [["+f"], ["pending"], ["well?"]]


def test_con_11_a_placeholder_whose_question_was_lost_in_a_crash_still_waits(history: History) -> None:
    history.add("me", call("c1"))
    history.add("me", response("c1", {"error": "?"}), role="user", actions=placeholder("c1"))
    history.add("user", text("well?"), invocation_id="e1")
    assert shape(history.prompt()) == [["+f"], ["pending"], ["well?"]]
