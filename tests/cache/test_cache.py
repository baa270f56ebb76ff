"""The cache plugin (tools-plugins SP-40)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork import FunctionPlugin, GenerateContentConfig, ModelRequest, ModelResponse, RunConfig, Runner, text_content
from hookwork.errors import ConfigurationError, ModelError
from hookwork.platform import use_replaying
from hookwork.records.metadata import UsageMetadata
from hookwork.resolve import resolve_plugins
from hookwork.settings import Settings
from hookwork_cache import Cache
from hookwork_cache.keys import request_key
from hookwork_cache.store import Store
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call, make_context, stream

RunnerFactory = Callable[..., Runner]


def get_weather(city: str) -> dict[str, Any]:
    """Current weather of a city."""
    return {"temperature_c": 22}


def weather(model: ScriptedModel) -> LlmAgent:
    return LlmAgent(name="weather", model=model, tools=[get_weather])


def answers() -> ScriptedModel:
    """Every call has another answer."""
    count = iter(range(1, 100))
    return ScriptedModel(lambda _: f"answer {next(count)}", usage=UsageMetadata(total_token_count=7))


async def test_sp_40_a_repeated_request_is_answered_without_the_model(runner_factory: RunnerFactory) -> None:
    model, cache = answers(), Cache()
    async with runner_factory(weather(model), plugins=[cache]) as runner:
        first = await runner.run(user_id="u", session_id="s1", message="Hi").wait()
        second = await runner.run(user_id="u", session_id="s2", message="Hi").wait()
    assert (model.calls, cache.hits, cache.misses) == (1, 1, 1)
    assert first.final_event is not None
    assert second.final_event is not None
    assert (first.final_event.text, second.final_event.text) == ("answer 1", "answer 1")
    assert first.final_event.custom_metadata is None
    assert second.final_event.custom_metadata == {"hookwork_cache": "hit"}
    assert second.final_event.usage_metadata is None
    assert (first.usage.total.total_token_count, second.usage.total.calls) == (7, 0)


@pytest.mark.parametrize(("scope", "calls"), [("user", 2), ("app", 1)])
async def test_sp_40_users_share_answers_only_with_scope_app(
    runner_factory: RunnerFactory, scope: str, calls: int
) -> None:
    model = answers()
    async with runner_factory(weather(model), plugins=[Cache(scope=scope)]) as runner:
        for user in ("ann", "bob", "ann"):
            await runner.ask("Hi", user_id=user)
    assert model.calls == calls


async def test_sp_40_another_conversation_is_another_request(runner_factory: RunnerFactory) -> None:
    model = answers()
    async with runner_factory(weather(model), plugins=[Cache()]) as runner:
        for _ in range(2):
            await runner.ask("Hi", user_id="u", session_id="s1")
    assert model.calls == 2


async def test_sp_40_a_streamed_run_gets_the_answer_whole(runner_factory: RunnerFactory) -> None:
    model = ScriptedModel([stream("It is ", "22 °C.")])
    async with runner_factory(weather(model), plugins=[Cache()]) as runner:
        shown = []
        for session in ("s1", "s2"):
            events = runner.run(user_id="u", session_id=session, message="Hi", config=RunConfig(streaming_mode="sse"))
            shown.append([(event.text, bool(event.partial)) async for event in events])
    assert shown[0] == [("It is ", True), ("22 °C.", True), ("It is 22 °C.", False)]
    assert shown[1] == [("It is 22 °C.", False)]


@pytest.mark.parametrize(
    "response",
    [
        ModelResponse(content=text_content("half an ans"), finish_reason="MAX_TOKENS"),
        ModelResponse(content=text_content("x"), error_code="SAFETY", error_message="blocked"),
        ModelResponse(content=text_content("x"), interrupted=True),
        ModelResponse(finish_reason="STOP"),
    ],
    ids=["cut off", "error code", "interrupted", "empty"],
)
async def test_sp_40_only_complete_answers_are_kept(runner_factory: RunnerFactory, response: ModelResponse) -> None:
    model = ScriptedModel([response, "whole"])
    async with runner_factory(weather(model), plugins=[Cache()]) as runner:
        await runner.ask("Hi", user_id="u")
        assert await runner.ask("Hi", user_id="u") == "whole"
    assert model.calls == 2


async def test_sp_40_what_answers_an_error_is_not_kept(runner_factory: RunnerFactory) -> None:
    sorry = FunctionPlugin("sorry", on_model_error=lambda: ModelResponse(content=text_content("Sorry.")))
    model = ScriptedModel([ModelError("down"), "Fine."])
    async with runner_factory(weather(model), plugins=[sorry, Cache()]) as runner:
        assert await runner.ask("Hi", user_id="u") == "Sorry."
        assert await runner.ask("Hi", user_id="u") == "Fine."


async def test_sp_40_answers_with_calls_are_kept_only_on_request(runner_factory: RunnerFactory) -> None:
    script: list[Any] = [call("get_weather", id="c1", city="Oslo"), "3 °C."] * 2
    for include, calls in ((False, 3), (True, 2)):
        model = ScriptedModel(script)
        plugin = Cache(include_tools=include)
        async with runner_factory(weather(model), plugins=[plugin]) as runner:
            for session in ("s1", "s2"):
                run = runner.run(user_id="u", session_id=session, message="Oslo?")
                events = [event async for event in run]
                assert events[-1].text == "3 °C."
                [made] = events[0].function_calls
                assert made.id
                assert (made.id == "c1") is (session == "s1" or not include)
        # The last answer is found again either way: ids of calls are no part of the key.
        assert model.calls == calls


async def test_sp_40_an_answer_grows_old(runner_factory: RunnerFactory, fixed_time: Any) -> None:
    model = answers()
    async with runner_factory(weather(model), plugins=[Cache(ttl=60)]) as runner:
        told = []
        for seconds in (0, 59, 1, 0):
            fixed_time.advance(seconds)
            told.append(await runner.ask("Hi", user_id="u"))
    assert told == ["answer 1", "answer 1", "answer 2", "answer 2"]


async def test_it_is_not_asked_in_a_replay(runner_factory: RunnerFactory) -> None:
    model, cache = answers(), Cache()
    async with runner_factory(weather(model), plugins=[cache]) as runner:
        await runner.ask("Hi", user_id="u")
        with use_replaying(True):
            assert await runner.ask("Hi", user_id="u") == "answer 2"
    assert (cache.hits, cache.misses) == (0, 1)


async def test_state_of_a_run_ends_with_it(runner_factory: RunnerFactory) -> None:
    cache = Cache()
    later = FunctionPlugin("later", before_model=lambda: ModelResponse(content=text_content("mine")))
    async with runner_factory(weather(ScriptedModel()), plugins=[cache, later]) as runner:
        assert await runner.ask("Hi") == "mine"
    assert cache._asked == {}


def request(**changes: Any) -> ModelRequest:
    values: dict[str, Any] = {"model": "m", "contents": [text_content("Hi", role="user")], "temperature": 0.5}
    values.update(changes)
    model, contents = values.pop("model"), values.pop("contents")
    return ModelRequest(model=model, contents=contents, config=GenerateContentConfig(**values))


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "other"},
        {"contents": [text_content("Ho", role="user")]},
        {"temperature": 0.6},
        {"system_instruction": text_content("Be brief.")},
        {"response_mime_type": "application/json"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_sp_40_the_key_holds_what_the_answer_depends_on(changes: dict[str, Any]) -> None:
    ctx = make_context("callback")
    assert request_key(ctx, request(**changes), "user") != request_key(ctx, request(), "user")


@pytest.mark.parametrize("changes", [{"http_options": {"timeout": 9}}, {"labels": {"team": "a"}}], ids=str)
def test_sp_40_the_key_leaves_out_how_a_request_travels(changes: dict[str, Any]) -> None:
    ctx = make_context("callback")
    assert request_key(ctx, request(**changes), "user") == request_key(ctx, request(), "user")


def test_sp_40_apps_never_share_answers() -> None:
    one, other = (make_context("callback", app_name=name) for name in ("one", "other"))
    assert request_key(one, request(), "app") != request_key(other, request(), "app")


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 40)), max_size=40))
def test_sp_40_the_bounds_always_hold(puts: list[tuple[str, int]]) -> None:
    limit = len('{"content":{"role":"model","parts":[{"text":""}]}}') * 3
    store = Store(ttl=60, max_entries=4, max_bytes=limit)
    for key, length in puts:
        store.put(key, ModelResponse(content=text_content("x" * length)))
        assert len(store) <= 4
        assert store.size <= limit
        assert store.get(key) is not None  # the newest one fits by itself
    store.clear()
    assert (len(store), store.size) == (0, 0)


def test_sp_40_the_least_recently_used_answer_goes_first() -> None:
    store = Store(ttl=60, max_entries=2, max_bytes=10_000)
    store.put("a", ModelResponse(content=text_content("a")))
    store.put("b", ModelResponse(content=text_content("b")))
    assert store.get("a") is not None
    store.put("c", ModelResponse(content=text_content("c")))
    assert [store.get(key) is not None for key in "abc"] == [True, False, True]


def test_an_answer_larger_than_all_there_is_room_for_is_not_kept() -> None:
    store = Store(ttl=60, max_entries=2, max_bytes=100)
    store.put("a", ModelResponse(content=text_content("a")))
    store.put("a", ModelResponse(content=text_content("a" * 200)))
    assert (store.get("a"), len(store), store.size) == (None, 0, 0)


@pytest.mark.parametrize(
    "options", [{"ttl": 0}, {"max_entries": -1}, {"max_bytes": "1k"}, {"max_entries": True}, {"scope": "all"}], ids=str
)
def test_wrong_options_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        Cache(**options)


def test_ext_8_options_come_from_its_table() -> None:
    [plugin] = resolve_plugins(["cache:small"], Settings(tables={"small": {"max_entries": 1}}))
    assert isinstance(plugin, Cache)
    assert plugin.name == "small"
