"""Test cases that implementations share: spec, recordings, session (crosscutting CONF-11, CONF-12)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hookwork import Runner, ToolContext
from hookwork.errors import ConfigurationError, ValidationError
from hookwork_llm import LlmAgent, tool
from hookwork_record_replay import AdkRecorder, AdkReplayer, ReplayMismatchError, record_case, replay_case
from hookwork_record_replay.adk.cases import comparable_session, read_spec
from hookwork_testkit import ScriptedModel, call, stream

SPEC: dict[str, Any] = {
    "description": "A purchase that has to be approved.",
    "agent": "buyer",
    "initial_state": {"city": "Rome"},
    "user_messages": [
        {"text": "buy"},
        {
            "content": {
                "parts": [{"function_response": {"name": "adk_request_confirmation", "response": {"confirmed": True}}}]
            },
            "state_delta": {"approved_by": "ada"},
        },
    ],
}


class Case:
    def __init__(self, factory: Callable[..., Runner], base: Path) -> None:
        self.factory = factory
        self.base = base
        self.folder = base / "human" / "purchase"
        self.folder.mkdir(parents=True)
        self.bought: list[str] = []

    def spec(self, **changes: Any) -> None:
        (self.folder / "spec.yaml").write_text(yaml.safe_dump({**SPEC, **changes}))

    def runner(self, *script: Any, answer: str = "bought") -> Callable[[], Runner]:
        @tool(require_confirmation=True)
        def buy(ctx: ToolContext, what: str) -> dict[str, Any]:
            """Buy."""
            self.bought.append(what)
            return {"state": answer}

        def make() -> Runner:
            agent = LlmAgent(name="buyer", model=ScriptedModel(script), instruction="Buy in {city}.", tools=[buy])
            return self.factory(agent, plugins=[AdkRecorder(self.base), AdkReplayer(self.base)])

        return make


SCRIPT = (call("buy", what="milk"), "It is bought.")


@pytest.fixture
def case(runner_factory: Callable[..., Runner], tmp_path: Path) -> Case:
    made = Case(runner_factory, tmp_path)
    made.spec()
    return made


@pytest.mark.parametrize("mode", ["none", "sse"])
async def test_conf_11_a_case_is_recorded_and_replayed_with_an_approval(case: Case, mode: str) -> None:
    script = (call("buy", what="milk"), stream("It is ", "bought.")) if mode == "sse" else SCRIPT
    await record_case(case.folder, case.runner(*script), mode=mode)
    suffix = "-sse" if mode == "sse" else ""
    names = {file.name for file in case.folder.iterdir()}
    assert names == {"spec.yaml", f"generated-recordings{suffix}.yaml", f"generated-session{suffix}.yaml"}
    assert case.bought == ["milk"]
    session = yaml.safe_load((case.folder / f"generated-session{suffix}.yaml").read_text())
    assert session["state"]["city"] == "Rome"
    assert session["state"]["approved_by"] == "ada"
    assert await replay_case(case.folder, case.runner(), mode=mode) == ""
    assert case.bought == ["milk"], "a replay buys nothing"


async def test_conf_12_a_session_that_went_otherwise_is_told(case: Case) -> None:
    await record_case(case.folder, case.runner(*SCRIPT))
    file = case.folder / "generated-session.yaml"
    file.write_text(file.read_text().replace("It is bought.", "It is sold."))
    told = await replay_case(case.folder, case.runner())
    assert "It is sold." in told
    assert "It is bought." in told


async def test_conf_8_a_case_whose_agent_changed_is_a_mismatch(case: Case) -> None:
    await record_case(case.folder, case.runner(*SCRIPT))
    case.spec(user_messages=[{"text": "sell"}, SPEC["user_messages"][1]])
    with pytest.raises(ReplayMismatchError, match=r"(?s)-.*buy.*\+.*sell"):
        await replay_case(case.folder, case.runner())


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"agents": "x"}, "agents"),
        ({"user_messages": [{"txt": "x"}]}, "user_messages[0].txt"),
        ({"user_messages": [{}]}, "user_messages[0]"),
        ({"user_messages": [{"text": "a", "content": {"parts": []}}]}, "user_messages[0]"),
        ({"user_messages": ["a"]}, "user_messages[0]"),
        ({"user_messages": "a"}, "user_messages"),
    ],
)
def test_conf_11_a_spec_with_a_fault_names_it(case: Case, changes: dict[str, Any], path: str) -> None:
    case.spec(**changes)
    with pytest.raises(ValidationError) as caught:
        read_spec(case.folder)
    assert caught.value.path == path


async def test_conf_11_an_answer_to_nothing_and_a_case_without_files(case: Case) -> None:
    case.spec(user_messages=[SPEC["user_messages"][1]])
    with pytest.raises(ConfigurationError, match="no call of that name is open"):
        await record_case(case.folder, case.runner(*SCRIPT))
    with pytest.raises(ConfigurationError, match="record the case first"):
        await replay_case(case.folder, case.runner())


def test_conf_12_what_is_not_compared() -> None:
    def session(n: int) -> dict[str, Any]:
        part = {"function_call": {"id": f"c{n}", "name": "f"}, "thought_signature": f"s{n}"}
        event = {
            "id": f"e{n}",
            "timestamp": n,
            "invocation_id": f"i{n}",
            "long_running_tool_ids": [f"c{n}"],
            "node_info": {"path": f"p{n}"},
            "author": "a",
            "content": {"role": "model", "parts": [part]},
            "actions": {
                "state_delta": {"_adk_recordings_config": n, "kept": 1},
                "requested_auth_configs": {"x": n},
                "requested_tool_confirmations": {"y": n},
            },
        }
        state = {"_adk_replay_config": n, "kept": 1}
        return {"id": f"s{n}", "last_update_time": n, "app_name": "a", "state": state, "events": [event]}

    assert comparable_session(session(1)) == comparable_session(session(2))
    other = session(1)
    other["events"][0]["content"]["parts"][0]["function_call"]["name"] = "g"
    assert comparable_session(other) != comparable_session(session(1))
