"""Tools that need somebody's consent: the pause, the answer, and where the secrets go (crosscutting AUTH)."""

from __future__ import annotations

import json
import logging
from collections.abc import MutableMapping
from typing import Any

import pytest

from hookwork import Content, FunctionPlugin, FunctionResponse, Part, Plugin, Runner, ToolContext
from hookwork.credentials import Credential, CredentialProvider, consent_answer, without_secrets
from hookwork.effects import EffectCall, ToolResult
from hookwork.errors import (
    AuthError,
    ConsentRejectedError,
    ConsentRequiredError,
    CredentialError,
    HookworkError,
    InvalidResumeResponse,
    NothingToResume,
)
from hookwork.records.codec import dump, load
from hookwork.records.event import EventActions
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call

WHO: dict[str, Any] = {"user_id": "u", "session_id": "s"}
REQUEST = "adk_request_credential"
PAGE = "https://login.example/consent"


class Bearer(Credential):
    def __init__(self, token: str) -> None:
        self._token = token

    async def apply(self, headers: MutableMapping[str, str]) -> None:
        headers["Authorization"] = f"Bearer {self._token}"


class Calendar:
    """An interactive provider: without an answer it asks for consent, with one it has a token."""

    key = "calendar"

    async def credential(self, ctx: Any) -> Bearer:
        answer = consent_answer(ctx, self.key)
        if answer is None:
            secret = {"rawAuthCredential": {"authType": "oauth2", "oauth2": {"clientId": "me", "clientSecret": "hush"}}}
            raise ConsentRequiredError(PAGE, "n-1", self.key, secret)
        if answer.get("oauth2", {}).get("authCode") == "denied":
            raise ConsentRejectedError("the user said no")
        return Bearer(answer["apiKey"] if answer["authType"] == "apiKey" else answer["oauth2"]["authCode"])


PROVIDER = Calendar()


class Meetings:
    """A tool that asks its provider before each request, and notes the headers it would send."""

    def __init__(self, **options: Any) -> None:
        self.sent: list[dict[str, str]] = []

        async def meetings(ctx: ToolContext) -> dict[str, Any]:
            """Lists meetings."""
            headers: dict[str, str] = {}
            await (await PROVIDER.credential(ctx)).apply(headers)
            self.sent.append(headers)
            return {"meetings": 2}

        self.tool = tool(**options)(meetings)


def agent_of(meetings: Meetings, *steps: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name="a", model=ScriptedModel([*steps, "two meetings"]), tools=[meetings.tool], **fields)


def answer(request: Any, response: Any) -> Content:
    part = Part(function_response=FunctionResponse(id=request.id, name=request.name, response=response))
    return Content(role="user", parts=[part])


def filled(request: Any, **oauth2: Any) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(json.dumps(request.args["authConfig"]))
    config["exchangedAuthCredential"]["oauth2"] |= oauth2
    return config


def names(events: Any) -> list[str]:
    return [
        event.text
        or ",".join([c.name or "" for c in event.function_calls] + [f"-{r.name}" for r in event.function_responses])
        for event in events
    ]


async def test_auth_30_the_response_first_then_the_request_then_the_run_is_paused(runner_factory: Any) -> None:
    meetings = Meetings()
    async with runner_factory(agent_of(meetings, call("meetings", "c1"))) as runner:
        async with runner.run(message="meetings?", **WHO) as run:
            events = [event async for event in run]
        found = await runner.open_calls(**WHO)
    assert names(events) == ["meetings", "-meetings", REQUEST]
    actions = dump(events[1])["actions"]
    assert list(actions["requestedAuthConfigs"]) == ["c1"]
    [request] = found
    assert (request.kind, request.args["functionCallId"]) == ("credential", "c1")
    assert PAGE in (request.message or "")
    assert request.args["authConfig"] == actions["requestedAuthConfigs"]["c1"]
    assert events[2].long_running_tool_ids == (request.id,)
    assert (run.outcome.kind, [c.id for c in run.outcome.open_calls]) == ("paused", [request.id])
    assert meetings.sent == []


async def test_auth_31_auth_33_the_client_sees_where_to_go_and_no_secret(runner_factory: Any) -> None:
    meetings = Meetings()
    sessions = InMemorySessionService()
    async with runner_factory(agent_of(meetings, call("meetings", "c1")), sessions=sessions) as runner:
        await runner.run(message="meetings?", **WHO).wait()
        [request] = await runner.open_calls(**WHO)
    assert request.args["authConfig"] == {
        "credentialKey": "calendar",
        "rawAuthCredential": {"authType": "oauth2", "oauth2": {"clientId": "me"}},
        "exchangedAuthCredential": {
            "authType": "oauth2",
            "oauth2": {"authUri": PAGE, "nonce": "n-1", "state": "n-1"},
        },
    }
    stored = await sessions.get_session(app_name="a", **WHO)
    assert "hush" not in json.dumps([dump(event) for event in stored.events])


@pytest.mark.parametrize("form", ["config", "credential", "api key"])
async def test_auth_32_the_answer_lets_the_call_run_and_its_secret_is_stored_nowhere(
    runner_factory: Any, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    meetings = Meetings()
    agent, sessions = agent_of(meetings, call("meetings", "c1")), InMemorySessionService()
    seen: list[str] = []
    plugin = FunctionPlugin("p", on_user_message=lambda message: seen.append(str(message)))
    async with runner_factory(agent, sessions=sessions) as runner:
        first = await runner.run(message="meetings?", **WHO).wait()
        [request] = await runner.open_calls(**WHO)
    response: Any = {
        "config": filled(request, authCode="s3cret", state="n-1"),
        "credential": {"authType": "oauth2", "oauth2": {"authCode": "s3cret"}},
        "api key": {"response": "s3cret"},
    }[form]
    with caplog.at_level(logging.DEBUG):
        async with runner_factory(agent, sessions=sessions, plugins=[plugin]) as later:  # another process
            second = await later.run(message=answer(request, response), **WHO).wait()
            assert await later.open_calls(**WHO) == []
    assert meetings.sent == [{"Authorization": "Bearer s3cret"}]
    assert (second.kind, second.invocation_id, second.final_event.text) == (
        "completed", first.invocation_id, "two meetings",
    )  # fmt: skip
    stored = await sessions.get_session(app_name="a", **WHO)
    assert names(stored.events)[4:] == [f"-{REQUEST}", "-meetings", "two meetings"]
    everything = json.dumps([dump(event) for event in stored.events]) + json.dumps(dict(stored.state))
    assert "s3cret" not in everything + str(seen) + caplog.text
    model: Any = agent.model
    assert "s3cret" not in str(model.prompts)
    assert_valid_prompt(model.prompts[-1])
    assert [r.response for c in model.prompts[-1] for r in c.function_responses] == [{"meetings": 2}]


async def test_auth_32_an_answer_with_another_state_is_somebody_elses(runner_factory: Any) -> None:
    meetings = Meetings()
    async with runner_factory(agent_of(meetings, call("meetings", "c1"))) as runner:
        await runner.run(message="meetings?", **WHO).wait()
        [request] = await runner.open_calls(**WHO)
        with pytest.raises(NothingToResume, match="another state"):
            await runner.run(message=answer(request, filled(request, authCode="x", state="n-2")), **WHO).wait()
        assert [c.id for c in await runner.open_calls(**WHO)] == [request.id]
    assert meetings.sent == []


@pytest.mark.parametrize("response", [{}, {"confirmed": True}, {"response": ""}, None])
async def test_auth_32_what_holds_no_credential_is_refused_before_anything_is_stored(
    runner_factory: Any, response: Any
) -> None:
    async with runner_factory(agent_of(Meetings(), call("meetings", "c1"))) as runner:
        await runner.run(message="meetings?", **WHO).wait()
        [request] = await runner.open_calls(**WHO)
        before = len((await runner.sessions.get_session(app_name="a", **WHO)).events)
        with pytest.raises(InvalidResumeResponse, match="holds no credential"):
            await runner.run(message=answer(request, response), **WHO).wait()
        assert len((await runner.sessions.get_session(app_name="a", **WHO)).events) == before


async def test_res_7_a_repeated_answer_is_dropped_and_its_secret_seen_by_nobody(runner_factory: Any) -> None:
    meetings, seen = Meetings(), []
    plugin = FunctionPlugin("p", on_user_message=lambda message: seen.append(str(message)))
    async with runner_factory(agent_of(meetings, call("meetings", "c1"), "more"), plugins=[plugin]) as runner:
        await runner.run(message="meetings?", **WHO).wait()
        [request] = await runner.open_calls(**WHO)
        reply = answer(request, filled(request, authCode="s3cret"))
        await runner.run(message=reply, **WHO).wait()
        with pytest.raises(NothingToResume):
            await runner.run(message=reply, **WHO).wait()
        beside = reply.replace(parts=[*reply.parts, Part(text="and thanks")])
        await runner.run(message=beside, **WHO).wait()
        stored = (await runner.sessions.get_session(app_name="a", **WHO)).events
    assert len(meetings.sent) == 1
    assert "s3cret" not in str(seen) + str(stored)


async def test_auth_5_a_consent_is_no_failure_for_plugins_that_retry(runner_factory: Any) -> None:
    log: list[str] = []

    class Retry(Plugin):
        name = "retry"

        async def on_tool_error(self, error: Exception) -> dict[str, Any]:
            log.append("on_tool_error")
            return {"recovered": True}

        async def after_tool(self, error: Exception | None) -> None:
            log.append(f"after_tool {type(error).__name__}")

    async with runner_factory(agent_of(Meetings(), call("meetings", "c1")), plugins=[Retry()]) as runner:
        outcome = await runner.run(message="meetings?", **WHO).wait()
    assert (outcome.kind, log) == ("paused", ["after_tool ConsentRequiredError"])


async def test_auth_5_a_refused_consent_is_an_ordinary_error(runner_factory: Any) -> None:
    meetings = Meetings()
    agent = agent_of(meetings, call("meetings", "c1"))
    async with runner_factory(agent) as runner:
        await runner.run(message="meetings?", **WHO).wait()
        [request] = await runner.open_calls(**WHO)
        outcome = await runner.run(message=answer(request, filled(request, authCode="denied")), **WHO).wait()
    model: Any = agent.model
    assert outcome.kind == "completed"
    assert "the user said no" in model.prompts[-1][-1].function_responses[0].response["error"]


async def test_auth_30_a_call_may_need_an_approval_and_then_a_consent(runner_factory: Any) -> None:
    meetings = Meetings(require_confirmation=True)
    async with runner_factory(agent_of(meetings, call("meetings", "c1"))) as runner:
        await runner.run(message="meetings?", **WHO).wait()
        [approval] = await runner.open_calls(**WHO)
        assert approval.kind == "confirmation"
        second = await runner.run(message=answer(approval, {"confirmed": True}), **WHO).wait()
        [request] = await runner.open_calls(**WHO)
        assert (second.kind, request.kind, meetings.sent) == ("paused", "credential", [])
        third = await runner.run(message=answer(request, filled(request, authCode="t")), **WHO).wait()
    assert (third.kind, meetings.sent) == ("completed", [{"Authorization": "Bearer t"}])


async def test_auth_32_one_answer_is_for_all_calls_that_wait_for_the_credential(runner_factory: Any) -> None:
    """Two calls of a turn ask under one key, a third under another: the answer runs the two, the third still waits."""
    meetings = Meetings()

    @tool
    async def mails(ctx: ToolContext) -> dict[str, Any]:
        """Lists mails."""
        if consent_answer(ctx, "mail") is None:
            raise ConsentRequiredError(PAGE, "n-2", "mail")
        return {"mails": 3}

    calls = [call("meetings", "c1"), call("mails", "c2"), call("meetings", "c3")]
    model = ScriptedModel([calls, "two meetings", "three mails"])
    agent = LlmAgent(name="a", model=model, tools=[meetings.tool, mails])
    async with runner_factory(agent) as runner:
        first = await runner.run(message="go", **WHO).wait()
        one, other, two = first.open_calls
        second = await runner.run(message=answer(two, filled(two, authCode="t")), **WHO).wait()
        assert (len(meetings.sent), [c.id for c in second.open_calls]) == (2, [other.id])
        shown = {r.id: dict(r.response or {}) for c in model.prompts[-1] for r in c.function_responses}
        assert [shown["c1"], shown["c2"]["status"], shown["c3"]] == [{"meetings": 2}, "pending", {"meetings": 2}]
        with pytest.raises(NothingToResume):
            await runner.run(message=answer(one, filled(one, authCode="late")), **WHO).wait()
        third = await runner.run(message=answer(other, filled(other, authCode="m")), **WHO).wait()
    assert (third.kind, third.final_event.text, len(meetings.sent)) == ("completed", "three mails", 2)
    assert_valid_prompt(model.prompts[-1])


async def test_auth_30_what_the_model_is_shown_meanwhile_is_a_pending_call(runner_factory: Any) -> None:
    agent = agent_of(Meetings(), call("meetings", "c1"), "please consent first")
    async with runner_factory(agent) as runner:
        await runner.run(message="meetings?", **WHO).wait()
        await runner.run(message="and?", **WHO).wait()
    model: Any = agent.model
    shown = [r.response["status"] for c in model.prompts[-1] for r in c.function_responses]
    assert shown == ["pending"]
    assert REQUEST not in str(model.prompts[-1])
    assert_valid_prompt(model.prompts[-1])


async def test_cnf_2_auth_30_a_request_that_a_crash_lost_is_made_again(runner_factory: Any) -> None:
    meetings = Meetings()
    async with runner_factory(agent_of(meetings, call("meetings", "c1"))) as runner:
        async with runner.run(message="meetings?", **WHO) as run:
            async for event in run:
                if event.function_responses:
                    break
        again = await runner.run(invocation_id=run.invocation_id, **WHO).wait()
        [request] = await runner.open_calls(**WHO)
        assert (again.kind, request.kind, PAGE in (request.message or "")) == ("paused", "credential", True)
        await runner.run(message=answer(request, filled(request, authCode="t")), **WHO).wait()
    assert len(meetings.sent) == 1


def test_auth_1_auth_9_contracts_and_errors() -> None:
    assert isinstance(PROVIDER, CredentialProvider)
    for kind in (CredentialError, ConsentRejectedError, ConsentRequiredError):
        assert issubclass(kind, AuthError)
        assert issubclass(kind, HookworkError)
    error = ConsentRequiredError(PAGE, "n", "k", {"rawAuthCredential": {"apiKey": "hush"}})
    assert PAGE in str(error)
    assert "hush" not in f"{error} {error!r}"
    assert without_secrets({"credentialKey": "k", "rawAuthCredential": {"authType": "apiKey", "apiKey": "hush"}}) == {
        "credentialKey": "k",
        "rawAuthCredential": {"authType": "apiKey"},
    }


class Elsewhere(Plugin):
    """Carries out tools in another runner, as JSON text."""

    name = "elsewhere"

    def __init__(self, worker: Runner) -> None:
        self.worker = worker

    async def perform_tool(self, call: EffectCall) -> ToolResult:
        order = json.loads(json.dumps(call.to_json()))
        given = json.loads(json.dumps(await self.worker.carry_out(order, ephemeral=dict(self.scope))))
        return ToolResult(**{**given, "actions": load(EventActions, given["actions"])})

    async def before_tool(self, ctx: ToolContext) -> None:
        self.scope = ctx.ephemeral


async def test_auth_30_eff_7_consent_asked_for_in_another_process_is_a_pause_here(runner_factory: Any) -> None:
    """Only what a client may see comes back; the answer goes there with the ephemeral scope (AUTH-34)."""
    meetings = Meetings()
    worker = runner_factory(agent_of(meetings, call("meetings", id="c1")))
    plugin = Elsewhere(worker)
    runner = runner_factory(agent_of(meetings, call("meetings", id="c1")), plugins=[plugin])
    first = runner.run(**WHO, message="my meetings?")
    events = [event async for event in first]
    assert first.outcome.kind == "paused"
    (request,) = [one for event in events for one in event.function_calls if one.name == REQUEST]
    config = request.args["authConfig"]
    assert config["credentialKey"] == "calendar"
    assert config["exchangedAuthCredential"]["oauth2"]["authUri"] == PAGE
    assert config["exchangedAuthCredential"]["oauth2"]["nonce"] == "n-1"
    assert config["rawAuthCredential"]["oauth2"] == {"clientId": "me"}
    second = runner.run(**WHO, message=answer(request, filled(request, authCode="code", state="n-1")))
    assert [event.text async for event in second][-1] == "two meetings"
    assert meetings.sent == [{"Authorization": "Bearer code"}]
