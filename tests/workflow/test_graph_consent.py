"""Nodes that need somebody's consent: they wait for it as the tools of an LLM agent do (crosscutting AUTH, WB-3)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.workflow.flows import step

from hookwork import Content, FunctionPlugin, FunctionResponse, Part, Plugin, ToolContext
from hookwork.credentials import Credential, consent_answer
from hookwork.effects import NodeResult, ToolResult
from hookwork.errors import ConsentRejectedError, ConsentRequiredError, InvalidResumeResponse
from hookwork.records.codec import dump, load
from hookwork.records.event import EventActions
from hookwork.records.frozen import thaw
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import DEFAULT, START, NodeContext, Retry, Workflow, WorkflowAgent, node
from hookwork_workflow.gates import REJECTED

PAGE = "https://login.example/consent"


class Token(Credential):
    def __init__(self, text: str) -> None:
        self.text = text

    async def apply(self, headers: Any) -> None:
        headers["Authorization"] = f"Bearer {self.text}"


class Calendar:
    """An interactive provider: without an answer it asks for consent, with one it has a token."""

    def __init__(self, key: str = "calendar") -> None:
        self.key = key

    async def credential(self, ctx: Any) -> Token:
        answer = consent_answer(ctx, self.key)
        if answer is None:
            secret = {"rawAuthCredential": {"authType": "oauth2", "oauth2": {"clientId": "me", "clientSecret": "hush"}}}
            raise ConsentRequiredError(PAGE, "n-1", self.key, secret)
        if answer.get("oauth2", {}).get("authCode") == "denied":
            raise ConsentRejectedError("the user said no")
        return Token(answer["apiKey"] if answer["authType"] == "apiKey" else answer["oauth2"]["authCode"])


CALENDAR = Calendar()


async def meet(ctx: Any, sent: list[Any], provider: Calendar = CALENDAR) -> dict[str, Any]:
    headers: dict[str, str] = {}
    await (await provider.credential(ctx)).apply(headers)
    sent.append(headers["Authorization"])
    return {"meetings": len(sent)}


def function_node(sent: list[Any]) -> Any:
    @node
    async def meetings(value: Any, ctx: NodeContext) -> dict[str, Any]:
        return await meet(ctx, sent)

    return meetings


def tool_node(sent: list[Any]) -> Any:
    @tool
    async def meetings(ctx: ToolContext) -> dict[str, Any]:
        """Lists meetings."""
        return await meet(ctx, sent)

    return step("none", give=lambda value: {}) >> node(meetings)


def child_node(sent: list[Any]) -> Any:
    @node
    async def parent(value: Any, ctx: NodeContext) -> Any:
        return await ctx.run_node(function_node(sent))

    return parent


def inner_graph(sent: list[Any]) -> Any:
    return Workflow("inner", START >> function_node(sent))


SHAPES: dict[Callable[[list[Any]], Any], str] = {
    function_node: "wf@1/meetings@1",
    tool_node: "wf@1/meetings@1",
    child_node: "wf@1/parent@1/meetings@1",
    inner_graph: "wf@1/inner@1/meetings@1",
}


def graph(shape: Callable[[list[Any]], Any], sent: list[Any]) -> Callable[[], WorkflowAgent]:
    return lambda: Workflow("wf", START >> shape(sent) >> step("end")).as_agent()


def answered(call: Any, **oauth2: Any) -> Content:
    """What a client sends: the AuthConfig with its credential filled in."""
    config: dict[str, Any] = json.loads(json.dumps(thaw(call.args["authConfig"])))
    config["exchangedAuthCredential"]["oauth2"] |= oauth2
    return given(call, config)


def given(call: Any, response: Any) -> Content:
    part = Part(function_response=FunctionResponse(id=call.id, name=call.name, response=response))
    return Content(role="user", parts=[part])


@pytest.mark.parametrize("shape", SHAPES)
async def test_auth_30_a_node_that_needs_a_consent_waits_and_goes_on_with_it(kit: Any, shape: Any) -> None:
    """AUTH-31: the client is shown no secret; WB-3: the answer's id. Nothing fails and nothing secret is stored."""
    sent: list[Any] = []
    lab = kit.Lab(graph(shape, sent))
    turn = await lab.run("hi")
    assert turn.outcome.kind == "paused"
    [call] = turn.outcome.open_calls
    invocation = await lab.first_invocation()
    assert (call.name, call.kind) == ("adk_request_credential", "credential")
    assert call.id == f"wf_auth:{invocation}:{SHAPES[shape]}"
    assert call.path == SHAPES[shape]
    assert call.args["authConfig"]["exchangedAuthCredential"]["oauth2"]["authUri"] == PAGE
    assert PAGE in (call.message or "")
    turn = await lab.run(answered(call, authCode="opened"))
    assert turn.outcome.output == "end({'meetings': 1})"
    assert sent == ["Bearer opened"]
    stored = [json.dumps(dump(event)) for event in await lab.events()]
    assert not [text for text in stored if "opened" in text or "hush" in text]
    assert not [event for event in await lab.events() if event.error_code]


@pytest.mark.parametrize("shape", SHAPES)
async def test_auth_30_a_crash_behind_any_event(kit: Any, shape: Any) -> None:
    crash_after = 0
    while True:
        crash_after += 1
        sent: list[Any] = []
        lab = kit.Lab(graph(shape, sent))
        lab.store.crash_after = crash_after
        turn = await lab.run("hi")
        if isinstance(turn.error, kit.Crash):
            lab.store.revive()
            turn = await lab.run(invocation_id=await lab.first_invocation())
        calls = list((await lab.session()).open_calls.values())
        assert len(calls) == 1
        turn = await lab.run(answered(calls[0], authCode="opened"))
        if turn.error is None:
            assert turn.outcome.output == "end({'meetings': 1})"
            if lab.store.crash_after is not None:
                break
            continue
        # The credential was held by the process that died (AUTH-34): the next one is asked for it again.
        lab.store.revive()
        turn = await lab.run(invocation_id=await lab.first_invocation())
        if turn.error is None and turn.outcome.kind == "paused":
            turn = await lab.run(answered(turn.outcome.open_calls[0], authCode="opened"))
        assert "end({'meetings': 1})" in [event.output for event in await lab.events()]
    assert crash_after > 4


async def test_auth_32_an_answer_without_a_credential_is_refused_and_it_waits(kit: Any) -> None:
    sent: list[Any] = []
    lab = kit.Lab(graph(function_node, sent))
    [call] = (await lab.run("hi")).outcome.open_calls
    before = len(await lab.events())
    assert isinstance((await lab.run(given(call, {"ok": True}))).error, InvalidResumeResponse)
    assert len(await lab.events()) == before
    turn = await lab.run(given(call, {"response": "api-key"}))
    assert turn.outcome.kind == "completed"
    assert sent == ["Bearer api-key"]


async def test_auth_5_a_consent_is_no_failure_of_the_tool_nor_tried_again(kit: Any) -> None:
    """`after_tool` sees it, `on_tool_error`, `on_node_error` and a retry do not."""
    seen: list[str] = []
    sent: list[Any] = []

    def after(ctx: Any, tool: Any, args: Any, result: Any, error: Any) -> None:
        seen.append(f"after {type(error).__name__}")

    watch = FunctionPlugin(
        "watch",
        after_tool=after,
        on_tool_error=lambda ctx, tool, args, error: seen.append("tool error"),
        on_node_error=lambda ctx, error, attempt: seen.append("node error"),
        on_pause=lambda ctx, open_calls: seen.append(f"pause {len(open_calls)}"),
    )

    @tool
    async def meetings(ctx: ToolContext) -> dict[str, Any]:
        """Lists meetings."""
        return await meet(ctx, sent)

    def build() -> WorkflowAgent:
        flow = START >> step("none", give=lambda value: {}) >> node(meetings, retry=Retry(initial_delay=0))
        return Workflow("wf", flow).as_agent()

    turn = await kit.Lab(build).run("hi", plugins=[watch])
    assert turn.outcome.kind == "paused"
    assert seen == ["after ConsentRequiredError", "pause 1"]


async def test_ask_8_a_second_consent_of_one_node_has_an_id_of_its_own(kit: Any) -> None:
    sent: list[Any] = []

    def build() -> WorkflowAgent:
        @node
        async def both(value: Any, ctx: NodeContext) -> int:
            await meet(ctx, sent, Calendar("one"))
            await meet(ctx, sent, Calendar("two"))
            return len(sent)

        return Workflow("wf", START >> both).as_agent()

    lab = kit.Lab(build)
    [first] = (await lab.run("hi")).outcome.open_calls
    [second] = (await lab.run(given(first, {"response": "a"}))).outcome.open_calls
    assert first.id != second.id
    assert [call.args["authConfig"]["credentialKey"] for call in (first, second)] == ["one", "two"]
    assert sent == ["Bearer a"]


async def test_ask_8_a_consent_that_is_open_is_not_asked_for_again(kit: Any) -> None:
    """Another answer lets the body run again; it waits for the same consent."""

    def build() -> WorkflowAgent:
        @node
        async def asks(value: Any, ctx: NodeContext) -> str:
            return str(await ctx.request_input("k", "?"))

        @node
        async def parent(value: Any, ctx: NodeContext) -> Any:
            await ctx.run_node(asks, raise_on_wait=False)
            return await meet(ctx, [])

        return Workflow("wf", START >> parent).as_agent()

    lab = kit.Lab(build)
    calls = (await lab.run("hi")).outcome.open_calls
    assert sorted(call.kind for call in calls) == ["credential", "input"]
    [question] = [call for call in calls if call.kind == "input"]
    turn = await lab.run(given(question, {"result": "x"}))
    assert [call.kind for call in turn.outcome.open_calls] == ["credential"]
    assert len([call for call in (await lab.session()).history().calls if call.kind == "credential"]) == 1


async def test_auth_30_a_node_that_may_not_run_again_fails_instead(kit: Any) -> None:
    @node(rerun_on_resume=False)
    async def meetings(value: Any, ctx: NodeContext) -> Any:
        return await meet(ctx, [])

    turn = await kit.Lab(Workflow("wf", START >> meetings).as_agent).run("hi")
    assert isinstance(turn.error, ConsentRequiredError)


async def test_wb_7_a_call_of_a_model_waits_for_the_consent_of_a_node_below_it(kit: Any) -> None:
    sent: list[Any] = []

    def respond(request: Any) -> Any:
        done = any(part.function_response for content in request.contents for part in content.parts)
        return "two meetings" if done else call("flow", input="x")

    def build() -> LlmAgent:
        flow = Workflow("flow", START >> function_node(sent), description="Looks up meetings.")
        return LlmAgent(name="root", model=ScriptedModel(respond), tools=[flow.as_tool()])

    lab = kit.Lab(build)
    [consent] = (await lab.run("hi")).outcome.open_calls
    assert consent.kind == "credential"
    turn = await lab.run(answered(consent, authCode="opened"))
    assert [event.text for event in turn.events if event.text] == ["two meetings"]
    assert sent == ["Bearer opened"]


# --- WB-3: the gate of a node -----------------------------------------------------------------------------------------

ran: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@node(auth=CALENDAR)
async def plain(value: str) -> str:
    ran.append(value)
    return f"plain {value}"


@tool
def look(city: str) -> str:
    """Looks."""
    ran.append(city)
    return f"look {city}"


GATED = [(plain, "Oslo", "plain Oslo"), (node(look, auth=CALENDAR), {"city": "Oslo"}, "look Oslo")]


@pytest.mark.parametrize(("gated", "input", "output"), GATED)
async def test_wb_3_a_gate_asks_before_the_body_runs(gated: Any, input: Any, output: str) -> None:
    trial = await gated.test(input)
    assert [call.kind for call in trial.interrupts] == ["credential"]
    assert ran == []
    trial = await gated.test(input, answers={"wf_auth": "api-key"})
    assert (trial.output, trial.interrupts, ran) == (output, (), ["Oslo"])


@pytest.mark.parametrize(("gated", "input", "output"), GATED)
async def test_wb_3_refused_the_body_never_runs_and_the_graph_goes_on(gated: Any, input: Any, output: str) -> None:
    refused = {"authType": "oauth2", "oauth2": {"authCode": "denied"}}
    trial = await gated.test(input, answers={"wf_auth": refused})
    assert (trial.output, trial.routes, ran) == ({"error": REJECTED}, ("rejected",), [])
    yes, no = step("yes"), step("no", give=lambda value: "sorry")
    flow = Workflow(
        "wf", START >> step("give", give=lambda value: input) >> gated, gated.on({"rejected": no, DEFAULT: yes})
    )
    assert (await flow.test("hi", answers={"wf_auth": refused})).output == "sorry"


async def test_wb_3_a_tool_node_that_is_refused_by_its_tool_is_rejected_too() -> None:
    refused = {"authType": "oauth2", "oauth2": {"authCode": "denied"}}

    @tool
    async def meetings(ctx: ToolContext) -> dict[str, Any]:
        """Lists meetings."""
        return await meet(ctx, ran)

    trial = await node(meetings).test({}, answers={"wf_auth": refused})
    assert (trial.output, trial.routes, ran) == ({"error": REJECTED}, ("rejected",), [])


@pytest.mark.parametrize("how", ["async", "plain"])
async def test_auth_3_a_function_is_a_provider(how: str) -> None:
    async def asks(ctx: Any) -> Any:
        return await CALENDAR.credential(ctx)

    gated = node(plain.func, auth=asks if how == "async" else lambda ctx: CALENDAR.credential(ctx))
    assert [call.kind for call in (await gated.test("x")).interrupts] == ["credential"]


async def test_wb_3_an_approval_and_a_consent_of_one_node(kit: Any) -> None:
    """One after the other; both are asked once."""
    gated = node(plain.func, auth=CALENDAR, require_confirmation=True)
    trial = await gated.test("x", answers={"wf_tool_confirmation": True})
    assert [call.kind for call in trial.interrupts] == ["credential"]
    trial = await gated.test("x", answers={"wf_tool_confirmation": True, "wf_auth": "key"})
    assert trial.output == "plain x"
    assert ran == ["x"]


@pytest.mark.parametrize("gate", [True, lambda args: args["city"] == "Oslo"])
async def test_wb_3_an_approval_of_a_tool_node(gate: Any) -> None:
    """What is shown and what then runs is the tool's call (HITL-17)."""
    gated = node(look, require_confirmation=gate)
    [question] = (await gated.test({"city": "Oslo"})).interrupts
    assert question.id.startswith("wf_tool_confirmation:")
    shown = question.args["originalFunctionCall"]
    assert (shown["name"], shown["args"]) == ("look", {"city": "Oslo"})
    assert ran == []
    assert (await gated.test({"city": "Oslo"}, answers={"look": True})).output == "look Oslo"
    rejected = await gated.test({"city": "Oslo"}, answers={"look": False})
    assert (rejected.output, rejected.routes) == ({"error": REJECTED}, ("rejected",))
    assert ran == ["Oslo"]
    if gate is not True:
        assert (await gated.test({"city": "Rome"})).output == "look Rome"


async def test_eff_8_a_node_with_a_gate_is_no_leaf() -> None:
    assert plain.takes_context
    assert not node(plain.func).takes_context


# --- carried out elsewhere --------------------------------------------------------------------------------------------


async def test_eff_7_a_consent_that_an_effect_met_elsewhere_lets_the_node_wait(kit: Any) -> None:
    """It comes back as part of the result (EFF-10)."""
    sent: list[Any] = []

    @tool
    async def meetings(ctx: ToolContext) -> dict[str, Any]:
        """Lists meetings."""
        return await meet(ctx, sent)

    @node(effect=True)
    async def leaf(value: Any, ctx: NodeContext) -> Any:
        return await meet(ctx, sent)

    def build() -> WorkflowAgent:
        given = step("none", give=lambda value: {})
        return Workflow("wf", START >> (leaf, given), given >> node(meetings)).as_agent()

    class Elsewhere(Plugin):
        name = "elsewhere"

        async def perform_node(self, call: Any) -> NodeResult:
            found = await self._send(call)
            return NodeResult(output=found["output"], error=found["error"])

        async def perform_tool(self, call: Any) -> ToolResult:
            found = await self._send(call)
            return ToolResult(**{**found, "actions": load(EventActions, found["actions"])})

        async def _send(self, call: Any) -> Any:
            from hookwork import Runner
            from hookwork_inmemory import InMemorySessionService

            async with Runner(build(), sessions=InMemorySessionService()) as other:
                return json.loads(json.dumps(await other.carry_out(json.loads(json.dumps(call.to_json())))))

    turn = await kit.Lab(build).run("hi", plugins=[Elsewhere()])
    assert sorted(call.path for call in turn.outcome.open_calls) == ["wf@1/leaf@1", "wf@1/meetings@1"]
    assert {call.kind for call in turn.outcome.open_calls} == {"credential"}
    assert sent == []
