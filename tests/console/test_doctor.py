"""`hookwork doctor` finds what is missing and says what to do (servers §7, models REG-3, services URL-3)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hookwork.context import InvocationContext
from hookwork.errors import BackendError, ModelError
from hookwork.plugins.discovery import use_extensions
from hookwork.plugins.markers import hookimpl
from hookwork.records.event import Event
from hookwork_inmemory import InMemorySessionService
from hookwork_llm.agent import LlmAgent
from hookwork_testkit import ScriptedModel


class Provider:
    """An extension that takes the model name ``twin``."""

    def __init__(self, **attributes: Any) -> None:
        self.attributes = attributes

    @hookimpl
    def create_model(self, name: str, settings: Any) -> Any:
        if name != "twin":
            return None
        model = ScriptedModel(["ok"], name="twin")
        vars(model).update(self.attributes)
        return model


async def silent(ctx: InvocationContext) -> AsyncIterator[Event]:
    return
    yield


def found(hookwork: Any, *arguments: str) -> dict[str, list[tuple[str, str]]]:
    result = hookwork("doctor", "--json", *arguments)
    findings: dict[str, list[tuple[str, str]]] = {}
    for finding in json.loads(result.out):
        findings.setdefault(finding["area"], []).append((finding["state"], finding["text"]))
    assert result.code == int(any(state == "failure" for area in findings.values() for state, _ in area))
    return findings


def test_a_sound_app_has_nothing_but_ok(serve: Any, hookwork: Any) -> None:
    agent = serve(LlmAgent(name="helper", model="offline"))
    findings = found(hookwork, agent)
    assert findings["agent"] == [("ok", f"{agent} loads")]
    assert findings["models"] == [("ok", "offline (offline)")]
    assert findings["sessions"] == findings["artifacts"] == findings["memory"] == [("ok", "memory:")]
    assert findings["settings"] == [("note", "no settings file")]


def test_the_report_is_a_line_a_finding_and_the_code_says_the_sum(serve: Any, hookwork: Any) -> None:
    result = hookwork("doctor", serve(silent))
    assert result.code == 0
    assert all(line.split()[0] in {"ok", "note", "warning"} for line in result.out.splitlines())
    assert hookwork("doctor", "no_such_agent_anywhere").code == 1


def test_a_model_nobody_takes_names_who_was_asked(serve: Any, hookwork: Any) -> None:
    findings = found(hookwork, serve(LlmAgent(name="helper", model="nobody-1")))
    [(state, text)] = findings["runner"]
    assert state == "failure"
    assert "no installed extension takes the model 'nobody-1'; installed providers: " in text
    assert "offline" in text


def test_url_3_a_service_nobody_takes_is_named_without_its_password(serve: Any, hookwork: Any) -> None:
    [(state, text)] = found(hookwork, serve(silent), "--sessions", "nosuch://ada:secret@host/db")["runner"]
    assert state == "failure"
    assert "nosuch" in text
    assert "secret" not in text


def test_a_service_that_cannot_be_reached_is_a_failure_and_the_rest_goes_on(serve: Any, hookwork: Any) -> None:
    class Unreachable(InMemorySessionService):
        async def list_sessions(self, **_: Any) -> Any:
            raise BackendError("host db.example does not answer; is the database running?")

    findings = found(hookwork, serve(silent, sessions=Unreachable()))
    assert findings["sessions"] == [
        ("failure", "Unreachable: BackendError: host db.example does not answer; is the database running?")
    ]
    assert findings["memory"] == [("ok", "memory:")]


def test_faulty_settings_are_named_with_file_and_key(hookwork: Any, tmp_path: Path) -> None:
    (tmp_path / "hookwork.toml").write_text('modle = "offline"')
    [(state, text)] = found(hookwork, "--config", str(tmp_path / "hookwork.toml"))["settings"]
    assert state == "failure"
    assert "hookwork.toml" in text
    assert "'model'" in text


def test_a_table_nobody_reads_is_a_failure(serve: Any, hookwork: Any, tmp_path: Path) -> None:
    (tmp_path / "hookwork.toml").write_text("[ofline]\nx = 1")
    findings = found(hookwork, serve(silent), "--config", str(tmp_path / "hookwork.toml"))
    assert findings["settings"][0] == ("ok", str(tmp_path / "hookwork.toml"))
    assert "'ofline'" in findings["settings"][1][1]


def test_reg_3_two_extensions_that_want_one_name_are_both_named(serve: Any, hookwork: Any) -> None:
    import hookwork_console.extension as console
    import hookwork_inmemory.extension as inmemory

    others = [("console", console), ("inmemory", inmemory)]
    with use_extensions([*others, ("first", Provider()), ("second", Provider())]):
        findings = found(hookwork, serve(LlmAgent(name="helper", model="twin")))
    text = "twin is wanted by first and second; first has it. Write first/twin to decide"
    assert findings["models"] == [("warning", text), ("ok", "twin (scripted)")]


@pytest.mark.parametrize("broken", [False, True])
def test_a_models_own_check_is_asked(broken: bool, serve: Any, hookwork: Any) -> None:
    async def check() -> None:
        if broken:
            raise ModelError("no key; set EXAMPLE_API_KEY", kind="auth")

    model = ScriptedModel([], name="checked")
    model.check = check  # type: ignore[attr-defined]
    findings = found(hookwork, serve(LlmAgent(name="helper", model=model)))["models"]
    expected = ("failure", "checked says it is ready: ModelError: no key; set EXAMPLE_API_KEY")
    assert findings[-1] == (expected if broken else ("ok", "checked says it is ready"))


def test_models_are_called_only_when_asked(serve: Any, hookwork: Any) -> None:
    model = ScriptedModel(["ok", ModelError("quota is used up", kind="rate_limit")])
    agent = serve(LlmAgent(name="helper", model=model))
    found(hookwork, agent)
    assert model.requests == []
    assert found(hookwork, agent, "--call")["models"][-1] == ("ok", "scripted answers")
    assert found(hookwork, agent, "--call")["models"][-1] == (
        "failure",
        "scripted answers: ModelError: quota is used up",
    )
