"""The context filter (tools-plugins SP-43)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork import Content, FunctionCall, FunctionResponse, Part, Runner, text_content
from hookwork.errors import ConfigurationError
from hookwork.resolve import resolve_plugins
from hookwork.settings import Settings
from hookwork_context_filter import ContextFilter, last_turns
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call

RunnerFactory = Callable[..., Runner]


def user(text: str) -> Content:
    return text_content(text, role="user")


def made(call_id: str) -> Content:
    return Content(role="model", parts=[Part(function_call=FunctionCall(id=call_id, name="look", args={}))])


def answered(call_id: str) -> Content:
    response = FunctionResponse(id=call_id, name="look", response={})
    return Content(role="user", parts=[Part(function_response=response)])


async def test_sp_43_only_the_last_turns_are_sent(runner_factory: RunnerFactory) -> None:
    def look() -> dict[str, Any]:
        """Look."""
        return {"seen": 1}

    model = ScriptedModel(["one", call("look"), "two", "three"])
    agent = LlmAgent(name="seeker", model=model, tools=[look])
    async with runner_factory(agent, plugins=[ContextFilter(turns=2)]) as runner:
        for message in ("first", "second", "third"):
            await runner.ask(message, user_id="u", session_id="s")
        session = await runner.sessions.get_session(app_name="seeker", user_id="u", session_id="s")
    assert [[content.text for content in prompt] for prompt in model.prompts] == [
        ["first"],
        ["first", "one", "second"],
        ["first", "one", "second", "", ""],
        ["second", "", "", "two", "third"],
    ]
    for prompt in model.prompts:
        assert_valid_prompt(prompt)
    assert session.events[0].text == "first"  # the session keeps everything


def test_sp_43_a_turn_ends_where_the_user_speaks_again() -> None:
    contents = [user("a"), user("b"), made("1"), answered("1"), text_content("c"), user("d")]
    assert last_turns(contents, 1) == contents[5:]
    assert last_turns(contents, 2) == contents
    assert last_turns(contents, 3) == contents


def test_sp_43_a_response_keeps_the_turn_of_its_call() -> None:
    late = [user("a"), made("1"), user("wait"), answered("1"), text_content("b"), user("c")]
    assert last_turns(late, 2) == late
    assert last_turns(late, 1) == late[5:]


def test_contents_without_a_user_stay() -> None:
    contents = [text_content("a"), made("1"), answered("1")]
    assert last_turns(contents, 1) == contents
    assert last_turns([], 1) == []
    opened = [text_content("summary"), user("a"), text_content("b")]
    assert last_turns(opened, 1) == opened


TURN = st.tuples(st.integers(1, 2), st.integers(0, 2))


@given(st.lists(TURN, min_size=1, max_size=6), st.integers(1, 7))
def test_sp_43_exactly_so_many_turns_are_left(turns: list[tuple[int, int]], wanted: int) -> None:
    contents: list[Content] = []
    begins = []
    for number, (said, calls) in enumerate(turns):
        begins.append(len(contents))
        contents += [user(f"{number}")] * said
        for k in range(calls):
            contents += [made(f"{number}-{k}"), answered(f"{number}-{k}")]
        contents.append(text_content("done"))
    assert list(last_turns(contents, wanted)) == contents[begins[max(len(turns) - wanted, 0)] :]


@pytest.mark.parametrize("turns", [0, -1, 1.5, True, "3"])
def test_wrong_options_are_named(turns: Any) -> None:
    with pytest.raises(ConfigurationError, match="turns is a whole number from 1"):
        ContextFilter(turns=turns)


def test_ext_8_options_come_from_its_table() -> None:
    [plugin] = resolve_plugins(["context_filter"], Settings(tables={"context_filter": {"turns": 3}}))
    assert isinstance(plugin, ContextFilter)
