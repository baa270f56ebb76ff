"""What each call site may do (core §5), and the ephemeral scope (EPH)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork import (
    Agent,
    CallbackContext,
    Content,
    Event,
    EventActions,
    FunctionCall,
    FunctionPlugin,
    FunctionResponse,
    InvocationContext,
    Part,
    Runner,
    Settings,
    ToolContext,
    text_content,
)
from hookwork.errors import ConfigurationError, ContextClosedError, UnsupportedInContext, ValidationError
from hookwork_inmemory import InMemoryArtifactService
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call, make_context


async def talk(ctx: InvocationContext) -> AsyncIterator[Event]:
    yield Event(content=text_content("hello"))


#: capability → the kinds of context that offer it (core §5).
CAPABILITIES = {
    "app_name": {"readonly", "callback", "tool", "invocation"},
    "user_id": {"readonly", "callback", "tool", "invocation"},
    "session_id": {"readonly", "callback", "tool", "invocation"},
    "invocation_id": {"readonly", "callback", "tool", "invocation"},
    "agent_name": {"readonly", "callback", "tool", "invocation"},
    "branch": {"readonly", "callback", "tool", "invocation"},
    "user_content": {"readonly", "callback", "tool", "invocation"},
    "state": {"readonly", "callback", "tool", "invocation"},
    "ephemeral": {"readonly", "callback", "tool", "invocation"},
    "artifacts": {"callback", "tool", "invocation"},
    "session": {"callback", "tool", "invocation"},
    "run_config": {"callback", "tool", "invocation"},
    "resuming": {"callback", "tool", "invocation"},
    "attempt": {"callback", "tool", "invocation"},
    "idempotency_key": {"callback", "tool", "invocation"},
    "end_invocation": {"callback", "tool", "invocation"},
    "search_memory": {"callback", "tool", "invocation"},
    "activate": {"tool", "invocation"},
    "actions": {"tool"},
    "function_call_id": {"tool"},
    "tool_confirmation": {"tool"},
    "request_confirmation": {"tool"},
}


@pytest.mark.parametrize("kind", ["readonly", "callback", "tool", "invocation"])
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_ctx_each_kind_offers_what_the_table_says_and_says_where_else_it_is_to_be_had(
    kind: Any, capability: str
) -> None:
    ctx = make_context(kind, agent=Agent(name="root", body=talk))
    if kind in CAPABILITIES[capability]:
        assert getattr(ctx, capability, None) is not None or capability in ("user_content", "tool_confirmation")
        return
    with pytest.raises(UnsupportedInContext, match=f"offers no '{capability}'; it is to be had in"):
        getattr(ctx, capability)


def test_ctx_an_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = make_context("tool").nonsense


@pytest.mark.parametrize("kind", ["readonly", "invocation"])
def test_ctx_1_state_is_read_only_where_no_event_carries_writes(kind: Any) -> None:
    ctx = make_context(kind, state={"k": 1})
    assert ctx.state["k"] == 1
    with pytest.raises(UnsupportedInContext, match="'k' was not written"):
        ctx.state["k"] = 2
    with pytest.raises(KeyError, match="no state value 'absent'"):
        _ = ctx.state["absent"]


def test_ctx_readonly_gives_nothing_but_readonly_capabilities() -> None:
    ctx = make_context("tool", state={"k": 1}).readonly()
    assert (type(ctx).__name__, ctx.state["k"]) == ("ReadonlyContext", 1)
    with pytest.raises(UnsupportedInContext):
        ctx.state["k"] = 2


async def test_ctx_2_ca_19_a_save_records_its_version_and_a_failed_one_nothing() -> None:
    class Failing(InMemoryArtifactService):
        async def save_artifact(self, **arguments: Any) -> int:
            if arguments["filename"] == "bad.txt":
                raise OSError("disk")
            return await super().save_artifact(**arguments)

    ctx = make_context("tool", artifacts=Failing())
    assert await ctx.artifacts.save("a.txt", Part(text="one")) == 1
    assert await ctx.artifacts.save("a.txt", Part(text="two")) == 2
    with pytest.raises(OSError, match="disk"):
        await ctx.artifacts.save("bad.txt", Part(text="x"))
    assert ctx.actions.artifact_delta == {"a.txt": 2}
    assert (await ctx.artifacts.load("a.txt")).text == "two"
    assert (await ctx.artifacts.load_version("a.txt", 1)).text == "one"
    assert await ctx.artifacts.list() == ["a.txt"]
    assert list(await ctx.artifacts.versions("a.txt")) == [1, 2]


@pytest.mark.parametrize("service", ["artifact", "memory"])
async def test_ctx_3_services_that_are_not_there_are_named_with_the_remedy(service: str) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        await (ctx.artifacts.list() if service == "artifact" else ctx.search_memory("x"))
        yield Event(content=text_content("never"))

    bare = Runner(Agent(name="root", body=body), sessions="memory:", settings=Settings())
    with pytest.raises(ConfigurationError, match=rf"no {service} service.*'memory:'"):
        await bare.run(user_id="u", message="hi").wait()


async def test_agt_13_artifacts_saved_in_a_callback_leave_on_its_event() -> None:
    async def save(ctx: CallbackContext) -> None:
        await ctx.artifacts.save("a.txt", Part(text="one"))

    runner = Runner.in_memory(Agent(name="root", body=talk, before_agent=save), settings=Settings())
    events = [event async for event in runner.run(user_id="u", message="hi")]
    assert [dict(event.actions.artifact_delta) for event in events] == [{"a.txt": 1}, {}, {}]


async def test_dlt_8_a_write_after_the_callback_has_ended_raises() -> None:
    kept: list[CallbackContext] = []
    runner = Runner.in_memory(Agent(name="root", body=talk, before_agent=kept.append), settings=Settings())
    await runner.run(user_id="u", message="hi").wait()
    with pytest.raises(ContextClosedError, match=r"'late'.*Await background work"):
        kept[0].state["late"] = 1


async def test_ctx_5_a_childs_branch_scope_and_input_do_not_reach_its_parent() -> None:
    seen: list[Any] = []

    async def leaf(ctx: InvocationContext) -> AsyncIterator[Event]:
        seen.append((ctx.agent_name, ctx.branch, ctx.isolation_scope, ctx.input, ctx.path))
        yield Event(content=text_content("x"))

    child = Agent(name="child", body=leaf)

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        async for event in ctx.activate(child, {"n": 1}, run_id="one", branch="b", scope="sc"):
            yield event
        seen.append((ctx.agent_name, ctx.branch, ctx.isolation_scope, ctx.input, ctx.path))

    root = Agent(name="root", body=body, sub_agents=[child])
    runner = Runner.in_memory(root, settings=Settings())
    events = [event async for event in runner.run(user_id="u", message="hi")]
    assert seen == [("child", "b", "sc", {"n": 1}, "root@1/child@one"), ("root", "", "", None, "root@1")]
    assert [(event.branch, event.isolation_scope) for event in events] == [("b", "sc"), ("b", "sc"), ("", "")]


async def test_ctx_4_a_tool_call_has_a_place_and_fresh_actions_of_its_own() -> None:
    paths: list[tuple[str, str, str]] = []

    async def look(ctx: ToolContext, n: int) -> int:
        paths.append((ctx.path, ctx.function_call_id, ctx.idempotency_key.partition("/")[2]))
        assert dict(ctx.actions.state_delta) == {}
        ctx.state[f"k{n}"] = n
        assert dict(ctx.actions.state_delta) == {f"k{n}": n}
        return n

    model = ScriptedModel([[call("look", id="c1", n=1), call("look", id="c2", n=2)], call("look", id="c3", n=3), "ok"])
    runner = Runner.in_memory(LlmAgent(name="root", model=model, tools=[look]), settings=Settings())
    await runner.run(user_id="u", message="hi").wait()
    assert paths == [
        ("root@1/look@1-1", "c1", "root@1/tool/1.1"),
        ("root@1/look@1-2", "c2", "root@1/tool/1.2"),
        ("root@1/look@2-1", "c3", "root@1/tool/2.1"),
    ]


async def test_eff_2_the_key_of_a_body_is_new_after_an_answer_and_the_old_one_in_a_repeated_entry() -> None:
    keys: list[str] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        keys.append(ctx.idempotency_key)
        part = Part(function_call=FunctionCall(id="c1", name="ask", args={}))
        if len(keys) == 1:
            yield Event(content=text_content("x"))
            raise LookupError("try again")
        if len(keys) == 2:
            yield Event(content=Content(role="model", parts=[part]), long_running_tool_ids=("c1",))

    runner = Runner.in_memory(Agent(name="root", body=body), settings=Settings())
    run = runner.run(user_id="u", session_id="s", message="hi")
    with pytest.raises(LookupError):
        await run.wait()
    assert (await runner.run(user_id="u", session_id="s", invocation_id=run.invocation_id).wait()).kind == "paused"
    answered = Content(
        role="user", parts=[Part(function_response=FunctionResponse(id="c1", name="ask", response={"ok": True}))]
    )
    assert (await runner.run(user_id="u", session_id="s", message=answered).wait()).kind == "completed"
    assert keys == [f"{run.invocation_id}/root@1/agent/{number}" for number in (1, 1, 2)]


# --- ephemeral scope --------------------------------------------------------------------------------------------------


async def test_eph_1_one_mapping_reaches_hooks_bodies_tools_and_children() -> None:
    seen: list[Any] = []

    async def look(ctx: ToolContext) -> str:
        seen.append(("tool", ctx.ephemeral["token"], ctx.ephemeral["added"]))
        return "ok"

    helper = LlmAgent(name="helper", model=ScriptedModel([call("look"), "done"]), tools=[look])

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        seen.append(("body", ctx.ephemeral["token"]))
        async for event in ctx.activate(helper):
            yield event

    def before_run(ctx: InvocationContext) -> None:
        ctx.ephemeral["added"] = 1

    root = Agent(name="root", body=body, sub_agents=[helper])
    runner = Runner.in_memory(root, plugins=[FunctionPlugin("p", before_run=before_run)], settings=Settings())
    run = runner.run(user_id="u", session_id="s", message="hi", ephemeral={"token": "s3cret"})
    await run.wait()
    assert seen == [("body", "s3cret"), ("tool", "s3cret", 1)]
    assert run.session is not None
    assert "s3cret" not in repr(list(run.session.events)) + repr(dict(run.session.state))
    with pytest.raises(KeyError, match=r"no ephemeral value 'token'; give it with .*ephemeral="):  # EPH-3
        await runner.run(user_id="u", session_id="s", message="again").wait()


def test_eph_2_its_repr_shows_keys_only() -> None:
    ctx = make_context("tool", ephemeral={"token": "s3cret"})
    assert repr(ctx.ephemeral) == "EphemeralScope(keys=['token'])"


# --- actions ----------------------------------------------------------------------------------------------------------


def test_dlt_3_actions_state_delta_is_the_buffer_itself() -> None:
    ctx = make_context("tool", state={"k": 0})
    ctx.actions.state_delta["k"] = 1
    ctx.state["l"] = 2
    assert ctx.state["k"] == 1
    assert dict(ctx.actions.state_delta) == {"k": 1, "l": 2}
    assert ctx.actions.snapshot() == EventActions(state_delta={"k": 1, "l": 2})
    with pytest.raises(UnsupportedInContext, match="not taken back"):
        del ctx.actions.state_delta["k"]
    with pytest.raises(ValidationError, match=r"^bad"):
        ctx.actions.state_delta["bad"] = object()


def test_cnf_1_request_confirmation_is_kept_under_the_call_id() -> None:
    ctx = make_context("tool", function_call_id="c1")
    ctx.request_confirmation("really?", {"n": 1})
    asked = ctx.actions.requested_tool_confirmations["c1"]
    assert (asked.hint, asked.confirmed, asked.payload) == ("really?", False, {"n": 1})
    assert ctx.actions.skip_summarization is True
