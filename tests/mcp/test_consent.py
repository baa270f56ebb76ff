"""A server that needs the user's consent: the model connects, the run pauses, the tools follow (AUTH-30)."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest
from tests.mcp.fake import FakeServer

from hookwork import Content, FunctionResponse, Part
from hookwork.credentials import Credential, consent_answer
from hookwork.errors import ConsentRequiredError
from hookwork_llm import LlmAgent
from hookwork_mcp import McpToolset
from hookwork_testkit import ScriptedModel, call

WHO: dict[str, Any] = {"user_id": "u", "session_id": "s"}


class Bearer(Credential):
    def __init__(self, token: str) -> None:
        self._token = token

    async def apply(self, headers: MutableMapping[str, str]) -> None:
        headers["Authorization"] = f"Bearer {self._token}"


class Login:
    """Asks for consent once a user; keeps the token in a store of its own (AUTH-34)."""

    def __init__(self) -> None:
        self.store: dict[str, str] = {}

    async def credential(self, ctx: Any) -> Bearer:
        answer = consent_answer(ctx, "echo")
        if answer is not None:
            self.store[ctx.user_id] = answer["oauth2"]["authCode"]
        if ctx.user_id not in self.store:
            raise ConsentRequiredError("https://login.example/", "n-1", "echo")
        return Bearer(self.store[ctx.user_id])


async def test_auth_30_mcp_2_consent_is_met_when_the_tools_are_listed_and_pauses_the_run(runner_factory: Any) -> None:
    login = Login()
    async with FakeServer() as fake:
        toolset = McpToolset(endpoint=fake.url, auth=login, name="echo-server")
        model = ScriptedModel(
            [call("connect_echo_server", "c1"), call("echo", "c2"), "echoed", call("echo", "c3"), "again"]
        )
        async with runner_factory(LlmAgent(name="a", model=model, tools=[toolset])) as runner:
            first = await runner.run(message="go", **WHO).wait()
            assert model.requests[0].declared == ["connect_echo_server"]
            assert (first.kind, [c.kind for c in first.open_calls], fake.seen) == ("paused", ["credential"], [])
            [request] = first.open_calls
            config = {
                "credentialKey": "echo",
                "exchangedAuthCredential": {"oauth2": {"authCode": "t1", "state": "n-1"}},
            }
            answer = FunctionResponse(id=request.id, name=request.name, response=config)
            message = Content(role="user", parts=[Part(function_response=answer)])
            second = await runner.run(message=message, **WHO).wait()
            assert (second.kind, second.final_event.text) == ("completed", "echoed")
            assert {"echo", "connect_echo_server"} <= set(model.requests[1].declared)
            connected = model.prompts[1][-1].function_responses[0].response or {}
            assert (connected["connected"], "echo" in connected["tools"]) == (True, True)
            third = await runner.run(message="again", **WHO).wait()
            assert third.final_event.text == "again"
            assert "connect_echo_server" not in model.requests[3].declared
        assert {seen.authorization for seen in fake.seen} == {"Bearer t1"}


async def test_auth_30_mcp_2_a_consent_that_runs_out_pauses_the_call_that_meets_it(runner_factory: Any) -> None:
    login = Login()
    login.store["u"] = "old"
    async with FakeServer() as fake:
        toolset = McpToolset(endpoint=fake.url, auth=login)

        def forget(request: Any) -> Any:
            login.store.clear()
            return call("echo", "c1")

        model = ScriptedModel([forget, "echoed"])
        async with runner_factory(LlmAgent(name="a", model=model, tools=[toolset])) as runner:
            first = await runner.run(message="go", **WHO).wait()
            assert (first.kind, [c.kind for c in first.open_calls]) == ("paused", ["credential"])
            [request] = first.open_calls
            credential = {"authType": "oauth2", "oauth2": {"authCode": "new"}}
            answer = FunctionResponse(id=request.id, name=request.name, response=credential)
            second = await runner.run(message=[Part(function_response=answer)], **WHO).wait()
        assert (second.kind, second.final_event.text) == ("completed", "echoed")
        calls = [seen.authorization for seen in fake.seen if seen.method == "tools/call"]
        assert calls == ["Bearer new"]


@pytest.mark.parametrize("name", ["plain", "with blanks", "ünï/code"])
async def test_auth_30_the_tool_has_a_name_that_any_model_takes(name: str) -> None:
    from hookwork_testkit import make_context

    async with FakeServer() as fake:
        toolset = McpToolset(endpoint=fake.url, auth=Login(), name=name)
        [tool] = await toolset.tools(make_context("readonly"))
        await toolset.close()
    assert tool.name.isidentifier()
    assert tool.name.isascii()
