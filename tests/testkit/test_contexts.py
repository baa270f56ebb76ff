"""Contexts without a runner are the kernel's own contexts (core CTX-7)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork.agent import Agent
from hookwork.context import CallbackContext, InvocationContext, ReadonlyContext, ToolContext
from hookwork.errors import ConfigurationError, StateMutationError, UnsupportedInContext
from hookwork.invocation import RunConfig
from hookwork.records.content import text_content
from hookwork.records.event import Event, ToolConfirmation, new_event
from hookwork_testkit import make_context


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("readonly", ReadonlyContext),
        ("callback", CallbackContext),
        ("tool", ToolContext),
        ("invocation", InvocationContext),
    ],
)
def test_ctx_7_each_kind_is_the_kernels_own_class(kind: Any, expected: Any) -> None:
    ctx = make_context(kind, agent="helper", branch="a.b", isolation_scope="c1", message="hello", state={"n": 1})
    assert type(ctx) is expected
    assert (ctx.app_name, ctx.user_id, ctx.session_id, ctx.invocation_id) == (
        "test_app",
        "test_user",
        "test_session",
        "e-test",
    )
    assert (ctx.agent_name, ctx.branch, ctx.isolation_scope) == ("helper", "a.b", "c1")
    assert ctx.user_content == text_content("hello", "user")
    assert ctx.state["n"] == 1


def test_ctx_7_tool_writes_are_seen_in_state_and_delta() -> None:
    ctx = make_context(state={"city": "Tokyo", "app:unit": "C", "user:name": "Ada", "temp:x": 1})
    assert dict(ctx.state) == {"city": "Tokyo", "app:unit": "C", "user:name": "Ada", "temp:x": 1}
    ctx.state["city"] = "Kyoto"
    ctx.state["app:unit"] = "F"
    assert ctx.state["city"] == "Kyoto"
    assert dict(ctx.actions.state_delta) == {"city": "Kyoto", "app:unit": "F"}


def test_dlt_2_state_values_are_frozen() -> None:
    ctx = make_context(state={"cart": {"lines": []}})
    with pytest.raises(StateMutationError, match="cart"):
        ctx.state["cart"]["lines"].append(1)


def test_ctx_1_readonly_and_invocation_contexts_do_not_write() -> None:
    for ctx in (make_context("readonly"), make_context("invocation")):
        with pytest.raises(UnsupportedInContext):
            ctx.state["n"] = 1


def test_cnf_1_a_tool_context_asks_for_confirmation() -> None:
    ctx = make_context(function_call_id="c1")
    assert ctx.tool_confirmation is None
    ctx.request_confirmation("Sure?", {"n": 1})
    assert ctx.actions.requested_tool_confirmations["c1"].hint == "Sure?"
    assert ctx.actions.skip_summarization is True


def test_what_is_given_is_what_the_context_shows() -> None:
    agent = Agent(name="own", body=lambda ctx: None)  # type: ignore[arg-type, return-value]
    event = new_event("e-1", author="own", content=text_content("hi"))
    confirmation, config = ToolConfirmation(confirmed=True), RunConfig(max_llm_calls=3)
    ctx = make_context(
        agent=agent, events=[event], confirmation=confirmation, config=config, ephemeral={"token": "t"}, attempt=2
    )
    assert list(ctx.session.events) == [event]
    assert ctx.tool_confirmation == confirmation
    assert ctx.run_config is config
    assert ctx.ephemeral["token"] == "t"
    assert ctx.attempt == 2
    assert make_context("invocation", agent=agent, input={"n": 1}).agent is agent


def test_a_missing_capability_of_the_kind_says_where_it_is_to_be_had() -> None:
    with pytest.raises(UnsupportedInContext, match="a tool and its callbacks"):
        make_context("callback").request_confirmation()


STRICT_CASES: list[tuple[str, str, Any]] = [
    ("state", "state", {"n": 1}),
    ("session", "events", ()),
    ("user_content", "message", "hi"),
    ("artifacts", "artifacts", None),
    ("search_memory", "memory", None),
    ("ephemeral", "ephemeral", {}),
    ("run_config", "config", RunConfig()),
    ("function_call_id", "function_call_id", "c1"),
    ("actions", "function_call_id", "c1"),
    ("tool_confirmation", "confirmation", None),
]


@pytest.mark.parametrize(("capability", "argument", "value"), STRICT_CASES)
def test_ctx_7_strict_raises_on_what_was_not_given(capability: str, argument: str, value: Any) -> None:
    with pytest.raises(UnsupportedInContext, match=argument):
        getattr(make_context(strict=True), capability)
    options: Any = {argument: value}
    getattr(make_context(strict=True, **options), capability)
    getattr(make_context(strict=True, allow=[capability]), capability)


def test_ctx_7_strict_contexts_are_real_ones_too() -> None:
    ctx = make_context(strict=True, state={}, function_call_id="c1")
    assert isinstance(ctx, ToolContext)
    ctx.state["n"] = 1
    assert dict(ctx.actions.state_delta) == {"n": 1}
    ctx.request_confirmation("Sure?")
    with pytest.raises(UnsupportedInContext, match="end_invocation"):
        ctx.end_invocation()


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ConfigurationError, match="kind is one of callback, invocation, readonly, tool"):
        make_context("node")
    with pytest.raises(ConfigurationError, match="'sessions' is no capability"):
        make_context(strict=True, allow=["sessions"])
    with pytest.raises(TypeError, match="sate"):
        make_context(sate={})  # type: ignore[call-overload]


async def test_a_tool_body_can_be_called_with_it() -> None:
    async def remember(ctx: ToolContext, city: str) -> dict[str, Any]:
        ctx.state["cities"] = [*ctx.state.get("cities", []), city]
        return {"count": len(ctx.state["cities"])}

    ctx = make_context(state={"cities": ["Tokyo"]})
    assert await remember(ctx, "Kyoto") == {"count": 2}
    assert ctx.state.to_dict() == {"cities": ["Tokyo", "Kyoto"]}
    assert isinstance(new_event("e-1"), Event)
