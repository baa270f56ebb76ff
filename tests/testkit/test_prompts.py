"""`assert_valid_prompt` is the VALID of the case collection, no more and no less."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.records.content import Content, FunctionResponse, Part
from hookwork_testkit import assert_valid_prompt, call, prompt_faults, text


def answer(name: str, id: str | None = None) -> Part:
    return Part(function_response=FunctionResponse(id=id, name=name, response={"result": 1}))


def user(*parts: Part) -> Content:
    return Content(role="user", parts=list(parts))


def model(*parts: Part) -> Content:
    return Content(role="model", parts=list(parts))


HELLO = user(text("hello"))

VALID = {
    "text": [HELLO, model(text("hi"))],
    "call": [HELLO, model(call("f", "c1")), user(answer("f", "c1")), model(text("done"))],
    "parallel, answered in another order": [
        HELLO,
        model(text("look"), call("f", "c1"), call("g", "c2")),
        user(answer("g", "c2"), answer("f", "c1")),
    ],
    "text beside the response": [HELLO, model(call("f", "c1")), user(answer("f", "c1"), text("and?"))],
    "no ids, same name twice": [HELLO, model(call("f"), call("f")), user(answer("f"), answer("f"))],
    "an id that comes back in a later turn": [
        HELLO,
        model(call("f", "c1")),
        user(answer("f", "c1")),
        model(call("f", "c1")),
        user(answer("f", "c1")),
    ],
    "a signature without text": [HELLO, model(Part(thought_signature=b"s"))],
}


@pytest.mark.parametrize("contents", VALID.values(), ids=VALID.keys())
def test_valid_prompts_pass(contents: list[Content]) -> None:
    assert prompt_faults(contents) == []
    assert_valid_prompt(contents)


@pytest.mark.parametrize(
    ("contents", "fault"),
    [
        ([HELLO, Content(role="model")], "content 1 is empty"),
        ([HELLO, model(text("a"), text(""))], "content 1, part 1 is empty"),
        ([HELLO, model(Part(text="", thought=True))], "content 1, part 0 is empty"),
        ([HELLO, model(call("f", "c1"))], "content 1: call 'f' (id 'c1') has no response in content 2"),
        (
            [HELLO, model(call("f", "c1")), HELLO, user(answer("f", "c1"))],
            "content 1: call 'f' (id 'c1') has no response in content 2",
        ),
        ([HELLO, user(answer("f", "c1"))], "content 1: response 'f' (id 'c1') has no call in content 0"),
        ([user(answer("f", "c1"))], "content 0: response 'f' (id 'c1') has no call"),
        (
            [HELLO, model(call("f", "c1")), user(answer("f", "c1"), answer("f", "c1"))],
            "content 1: call 'f' (id 'c1') has 2 responses in content 2",
        ),
        (
            [HELLO, model(call("f", "c1")), user(answer("g", "c1"))],
            "content 1: call 'f' (id 'c1') has no response in content 2",
        ),
        (
            [HELLO, model(call("f", "c1")), user(answer("f", "c2"))],
            "content 1: call 'f' (id 'c1') has no response in content 2",
        ),
        (
            [HELLO, model(call("f", "c1"), call("f", "c1")), user(answer("f", "c1"), answer("f", "c1"))],
            "content 1: call id 'c1' is used 2 times",
        ),
    ],
)
def test_faults_are_named(contents: list[Content], fault: str) -> None:
    assert fault in prompt_faults(contents)
    with pytest.raises(AssertionError) as caught:
        assert_valid_prompt(contents)
    assert fault in str(caught.value)
    assert "[0] user" in str(caught.value)


def test_ids_can_be_left_out_of_the_comparison() -> None:
    contents = [HELLO, model(call("f")), user(answer("f", "c1"))]
    assert prompt_faults(contents, ids=False) == []
    assert prompt_faults(contents) != []


@given(st.lists(st.lists(st.tuples(st.sampled_from("fgh"), st.booleans()), min_size=1, max_size=4), max_size=5))
def test_leaving_any_one_response_out_is_found(turns: list[list[tuple[str, bool]]]) -> None:
    contents = [HELLO]
    for turn, calls in enumerate(turns):
        named = [(name, f"c{turn}-{i}") for i, (name, _) in enumerate(calls)]
        contents.append(model(*(call(name, id) for name, id in named)))
        contents.append(user(*(answer(name, id) for name, id in named)))
    assert prompt_faults(contents) == []
    for i, content in enumerate(contents):
        for response in content.function_responses:
            left = [part for part in content.parts if part.function_response != response]
            broken = [*contents[:i], content.replace(parts=left), *contents[i + 1 :]]
            assert any("has no response" in fault for fault in prompt_faults(broken))
