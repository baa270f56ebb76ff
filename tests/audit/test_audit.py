"""The audit plugin in real runs (tools-plugins SP-42)."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookwork import Content, FunctionPlugin, ModelResponse, Part, Runner, text_content
from hookwork.cli import main
from hookwork.errors import BackendError, ConfigurationError
from hookwork.platform import use_replaying
from hookwork.records.content import Blob
from hookwork.resolve import resolve_plugins
from hookwork.settings import Settings
from hookwork_audit import Audit, verify
from hookwork_audit.redaction import Redactor
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call

RunnerFactory = Callable[..., Runner]


def log_in(user: str, password: str) -> dict[str, Any]:
    """Log in."""
    if user == "eve":
        raise ValueError("unknown user eve")
    return {"ok": True, "access_token": "t-1"}


def agent(*script: Any) -> LlmAgent:
    return LlmAgent(name="clerk", model=ScriptedModel(script), tools=[log_in])


def records_in(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as lines:
        assert verify(lines).ok
    return [json.loads(line) for line in path.read_text().splitlines()]


async def audited(runner_factory: RunnerFactory, path: Path, root: LlmAgent, *others: Any, **options: Any) -> Any:
    """The records of one run; ``others`` stand behind the audit in the list."""
    async with runner_factory(root, plugins=[Audit(path, **options), *others]) as runner:
        run = runner.run(user_id="u1", session_id="s1", message="Log me in")
        try:
            await run.wait()
        except RuntimeError:
            assert run.outcome is not None
            assert run.outcome.kind == "failed"
    return records_in(path)


async def test_sp_42_one_record_for_each_stage(runner_factory: RunnerFactory, tmp_path: Path, fixed_time: Any) -> None:
    root = agent(call("log_in", user="ann", password="pw"), "Welcome.")
    records = await audited(runner_factory, tmp_path / "a.jsonl", root)
    assert [(r["seq"], r["stage"], r["name"], r["source"]) for r in records] == [
        (1, "model", "scripted", "default"),
        (2, "tool", "log_in", "default"),
        (3, "model", "scripted", "default"),
        (4, "agent", "clerk", "default"),
        (5, "run", "clerk", "default"),
    ]
    assert {(r["session_id"], r["user_id"], r["agent"], r["ts"]) for r in records} == {
        ("s1", "u1", "clerk", "2026-01-01T00:00:00.000000Z")
    }
    assert len({r["invocation_id"] for r in records}) == 1
    assert records[1]["args"] == {"user": "ann", "password": "[redacted]"}
    assert records[1]["result"] == {"ok": True, "access_token": "[redacted]"}
    assert records[0]["args"] == {
        "contents": 1,
        "last": {"role": "user", "parts": [{"text": "Log me in"}]},
        "tools": ["log_in"],
    }
    assert records[0]["result"]["content"]["parts"][0]["functionCall"]["args"]["password"] == "[redacted]"
    assert records[3]["result"] == {"status": "completed", "open_calls": []}
    assert (records[4]["result"]["kind"], records[4]["result"]["text"]) == ("completed", "Welcome.")
    assert records[4]["args"]["parts"] == [{"text": "Log me in"}]


async def test_sp_42_time_is_the_kits_own(runner_factory: RunnerFactory, tmp_path: Path, fixed_time: Any) -> None:
    def slow(request: Any) -> str:
        fixed_time.advance(1.5)
        return "Done."

    records = await audited(runner_factory, tmp_path / "a.jsonl", agent(slow))
    assert [record["duration_ms"] for record in records] == [1500.0, 1500.0, 1500.0]


async def test_ard_10_it_sees_what_a_cache_answered_and_a_policy_refused(
    runner_factory: RunnerFactory, tmp_path: Path
) -> None:
    answer = ModelResponse(content=Content(role="model", parts=[call("log_in", user="a", password="b")]))
    given = iter([answer, ModelResponse(content=text_content("No."))])
    cache = FunctionPlugin("cache", before_model=lambda: next(given))
    policy = FunctionPlugin("policy", before_tool=lambda: {"error": "denied"})
    records = await audited(runner_factory, tmp_path / "a.jsonl", agent(), cache, policy)
    assert [(r["stage"], r["source"]) for r in records][:3] == [
        ("model", "cache"),
        ("tool", "policy"),
        ("model", "cache"),
    ]
    assert records[1]["result"] == {"error": "denied"}


async def test_sp_42_errors_are_recorded_however_they_are_answered(
    runner_factory: RunnerFactory, tmp_path: Path
) -> None:
    root = agent(call("log_in", user="eve", password="x"), RuntimeError("model is down"))
    records = await audited(runner_factory, tmp_path / "a.jsonl", root)
    errors = {r["stage"]: r["error"] for r in records if "error" in r}
    assert errors["tool"] == {"type": "ValueError", "message": "unknown user eve"}
    for stage in ("model", "agent", "run"):
        assert errors[stage] == {"type": "RuntimeError", "message": "model is down"}
    assert records[-1]["result"]["kind"] == "failed"


async def test_sp_42_a_cancelled_run_is_recorded(runner_factory: RunnerFactory, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    async with (
        runner_factory(agent("Hello."), plugins=[Audit(path)]) as runner,
        runner.run(user_id="u1", session_id="s1", message="Hi") as run,
    ):
        async for _ in run:
            break
    assert run.outcome is not None
    assert run.outcome.kind == "closed"
    records = records_in(path)
    assert [record["stage"] for record in records] == ["model", "agent", "run"]
    assert [record["error"]["type"] for record in records[1:]] == ["CancelledError", "CancelledError"]


@pytest.mark.parametrize("content", ["hash", "none"])
async def test_sp_42_content_can_be_kept_out(runner_factory: RunnerFactory, tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.jsonl"
    root = agent(call("log_in", user="eve", password="x"), "Sorry.")
    records = await audited(runner_factory, path, root, content=content)
    text = path.read_text()
    assert "eve" not in text
    assert "Log me in" not in text
    tool = next(record for record in records if record["stage"] == "tool")
    assert tool["error"] == {"type": "ValueError"}
    if content == "hash":
        canonical = '{"password":"[redacted]","user":"eve"}'
        assert tool["args"] == {"sha256": hashlib.sha256(canonical.encode()).hexdigest()}
    else:
        assert "args" not in tool


async def test_sp_42_a_write_that_fails_is_logged(
    runner_factory: RunnerFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").write_text("")
    path = tmp_path / "taken" / "a.jsonl"  # its folder is a file
    async with runner_factory(agent("Hello."), plugins=[Audit(path)]) as runner:
        assert await runner.ask("Hi") == "Hello."
    failures = [record for record in caplog.records if record.name == "hookwork.audit"]
    assert len(failures) == 3
    assert {record.levelno for record in failures} == {logging.ERROR}


async def test_sp_42_a_required_write_that_fails_is_an_error_of_its_stage(
    runner_factory: RunnerFactory, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("")
    plugin = Audit(tmp_path / "taken" / "a.jsonl", required=True)
    async with runner_factory(agent("Hello."), plugins=[plugin]) as runner:
        with pytest.raises(BackendError, match="stage 'model' could not be written"):
            await runner.ask("Hi")


async def test_nothing_is_recorded_in_a_replay(runner_factory: RunnerFactory, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    async with runner_factory(agent("Hello."), plugins=[Audit(path)]) as runner:
        with use_replaying(True):
            await runner.ask("Hi")
    assert not path.exists()


@pytest.mark.parametrize(
    ("key", "hidden"),
    [
        *((key, True) for key in ("token", "accessToken", "Access-Token", "client_secret", "PASSWORD", "apiKey")),
        *((key, True) for key in ("Authorization", "Proxy-Authorization", "x-api-key", "db.password", "Set-Cookie")),
        *((key, False) for key in ("totalTokenCount", "max_tokens", "tokenizer", "author", "key", "cookies_eaten")),
    ],
)
def test_sp_42_secrets_go_by_the_names_of_their_keys(key: str, hidden: bool) -> None:
    assert Redactor().plain({key: "v"}) == {key: "[redacted]" if hidden else "v"}


def test_sp_42_redaction_reaches_every_depth_and_bytes_stay_out() -> None:
    inner = {"list": [{"secret": {"a": 1}}], "raw": b"123", "odd": object(), "inf": float("inf"), "bad": "\ud800"}
    assert Redactor(["secret"]).plain(inner) == {
        "list": [{"secret": "[redacted]"}],
        "raw": "[3 bytes]",
        "odd": "[object]",
        "inf": "inf",
        "bad": "?",
    }


async def test_sp_42_the_bytes_of_files_are_not_recorded(runner_factory: RunnerFactory, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    picture = Part(inline_data=Blob(data=b"\x00" * 300, mime_type="image/png"))
    async with runner_factory(agent("A picture."), plugins=[Audit(path)]) as runner:
        await runner.ask([Part(text="What is this?"), picture])
    sent = records_in(path)[0]["args"]["last"]["parts"][1]["inlineData"]
    assert sent == {"data": "[400 characters of base64]", "mimeType": "image/png"}


def test_ext_8_options_come_from_its_table(tmp_path: Path) -> None:
    table = {"path": str(tmp_path / "x.jsonl"), "content": "none", "redact": ["city"], "required": True}
    [plugin] = resolve_plugins(["audit"], Settings(tables={"audit": table}))
    assert isinstance(plugin, Audit)
    assert plugin.name == "audit"
    for wrong in ({"content": "some"}, {"redact": "city"}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            Audit(**wrong)  # type: ignore[arg-type]


async def test_sp_42_the_command_verifies_a_file(
    runner_factory: RunnerFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.jsonl"
    head = (await audited(runner_factory, path, agent("Hello.")))[-1]["hash"]
    assert main(["audit", "verify", str(path), "--head", head]) == 0
    assert capsys.readouterr().out == f"{path}: 3 records, unbroken; head {head}\n"
    assert main(["audit", "verify", str(path), "--head", "0123"]) == 1
    assert "no record has the hash 0123" in capsys.readouterr().err
    path.write_text(path.read_text().replace("Hello.", "Hallo.", 1))
    assert main(["audit", "verify", str(path)]) == 1
    assert "line 1 is broken: the record was changed" in capsys.readouterr().err
    assert main(["audit", "verify", str(tmp_path / "absent")]) == 64
