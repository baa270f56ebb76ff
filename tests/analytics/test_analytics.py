"""The rows of the analytics plugin in real runs (tools-plugins SP-20 … SP-23)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyarrow import parquet  # type: ignore[import-untyped]

from hookwork import Blob, Content, FunctionPlugin, Part, Plugin, RunConfig, Runner, text_content
from hookwork.errors import ConfigurationError, PluginError
from hookwork.hookspecs.table import LIFECYCLE_HOOKS
from hookwork.platform import use_replaying
from hookwork.records.content import FileData
from hookwork.records.metadata import UsageMetadata
from hookwork.resolve import resolve_plugins
from hookwork.settings import Settings
from hookwork_analytics import Analytics, JsonLinesSink, ParquetSink
from hookwork_analytics.content import SUFFIX, part_rows
from hookwork_analytics.rows import COLUMNS, EVENT_TYPES, Row, make_row, span_ids
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call, make_context, stream

RunnerFactory = Callable[..., Runner]


class Memory:
    """A sink that keeps its rows."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.closed = False

    def write(self, rows: Sequence[Row]) -> None:
        self.rows.extend(rows)

    def close(self) -> None:
        self.closed = True

    def of(self, *types: str) -> list[Row]:
        return [row for row in self.rows if row["event_type"] in types]


def get_weather(city: str) -> dict[str, Any]:
    """Current weather of a city."""
    if city == "Atlantis":
        raise ValueError("no such city")
    return {"temperature_c": 22}


def weather(*script: Any) -> LlmAgent:
    model = ScriptedModel(script, usage=UsageMetadata(prompt_token_count=5, total_token_count=7))
    return LlmAgent(name="weather", model=model, tools=[get_weather])


async def run(runner_factory: RunnerFactory, agent: LlmAgent, *others: Any, **options: Any) -> Memory:
    sink = Memory()
    async with runner_factory(agent, plugins=[Analytics(sink=sink, **options), *others]) as runner:
        with suppress(RuntimeError):
            await runner.ask("Weather?", user_id="u1", session_id="s1")
        assert sink.rows[-1]["event_type"] == "INVOCATION_END"  # after_run has flushed
    assert sink.closed
    return sink


async def test_sp_22_a_row_for_every_step(runner_factory: RunnerFactory, fixed_time: Any) -> None:
    sink = await run(runner_factory, weather(call("get_weather", city="Tokyo"), "It is 22 °C."))
    assert [row["event_type"] for row in sink.rows] == [
        "INVOCATION_START",
        "USER_MESSAGE",
        "AGENT_START",
        *("MODEL_REQUEST", "MODEL_RESPONSE", "EVENT"),
        *("TOOL_START", "TOOL_END", "EVENT"),
        *("MODEL_REQUEST", "MODEL_RESPONSE", "EVENT"),
        "AGENT_END",
        "INVOCATION_END",
    ]
    for row in sink.rows:
        assert tuple(row) == COLUMNS
        assert row["event_type"] in EVENT_TYPES
        assert (row["agent"], row["session_id"], row["user_id"]) == ("weather", "s1", "u1")
        assert (row["timestamp"], row["status"], row["error_message"]) == ("2026-01-01T00:00:00.000000Z", "OK", None)
    assert len({row["invocation_id"] for row in sink.rows}) == 1
    [message] = sink.of("USER_MESSAGE")
    assert message["content"] == {"role": "user", "text": "Weather?"}
    assert message["content_parts"] == [
        {
            "mime_type": "text/plain",
            "uri": None,
            "object_ref": None,
            "text": "Weather?",
            "part_attributes": None,
            "part_index": 0,
            "storage_mode": "INLINE",
        }
    ]
    [started] = sink.of("TOOL_START")
    assert started["content"] == {"tool": "get_weather", "args": {"city": "Tokyo"}}
    [ended] = sink.of("TOOL_END")
    assert ended["content"] == {"tool": "get_weather", "result": {"temperature_c": 22}}
    assert (ended["latency_ms"], ended["attributes"]["source"]) == ({"total_ms": 0.0}, "default")
    response = sink.of("MODEL_RESPONSE")[-1]
    assert response["attributes"]["usage"] == {"promptTokenCount": 5, "totalTokenCount": 7}
    assert response["content"]["text"] == "It is 22 °C."
    [end] = sink.of("INVOCATION_END")
    assert end["attributes"] == {"outcome": "completed", "model_calls": 2, "total_tokens": 14}


async def test_sp_23_latency_status_and_errors(runner_factory: RunnerFactory, fixed_time: Any) -> None:
    def slow(_: Any) -> Any:
        fixed_time.advance(2)
        raise RuntimeError("down")

    sink = await run(runner_factory, weather(call("get_weather", city="Atlantis"), slow))
    errors = {row["event_type"]: row["error_message"] for row in sink.rows if row["status"] == "ERROR"}
    assert errors == {
        "TOOL_ERROR": "ValueError: no such city",
        "TOOL_END": "ValueError: no such city",
        "MODEL_ERROR": "RuntimeError: down",
        "AGENT_END": "RuntimeError: down",
        "INVOCATION_END": "RuntimeError: down",
    }
    assert sink.of("AGENT_END")[0]["latency_ms"] == {"total_ms": 2000.0}
    assert sink.of("INVOCATION_END")[0]["attributes"]["outcome"] == "failed"


async def test_sp_23_an_answered_error_is_written_and_the_end_shows_the_answer(runner_factory: RunnerFactory) -> None:
    async def answer() -> dict[str, Any]:
        return {"sorry": True}

    agent = weather(call("get_weather", city="Atlantis"), "Hm.")
    sink = Memory()
    plugins = [FunctionPlugin("reflect", on_tool_error=answer), Analytics(sink=sink)]
    async with runner_factory(agent, plugins=plugins) as runner:
        await runner.ask("Weather?")
    [error] = sink.of("TOOL_ERROR")
    assert error["error_message"] == "ValueError: no such city"
    [end] = sink.of("TOOL_END")
    assert (end["status"], end["content"]["result"]) == ("OK", {"sorry": True})


async def test_sp_23_it_sees_what_other_plugins_answered(runner_factory: RunnerFactory) -> None:
    denied = FunctionPlugin("policy", before_tool=lambda: {"error": "denied"})
    sink = Memory()
    agent = weather(call("get_weather", city="Oslo"), "No.")
    async with runner_factory(agent, plugins=[denied, Analytics(sink=sink)]) as runner:
        await runner.ask("Weather?")
    [end] = sink.of("TOOL_END")
    assert (end["content"]["result"], end["attributes"]["source"]) == ({"error": "denied"}, "policy")


async def test_tt_11_every_hook_returns_none(runner_factory: RunnerFactory) -> None:
    later: list[str] = []
    hooks: dict[str, Any] = {
        "on_user_message": lambda: later.append("message"),
        "on_event": lambda: later.append("event"),
        "on_tool_error": lambda: later.append("tool error"),
    }
    await run(runner_factory, weather(call("get_weather", city="Atlantis"), "Hm."), FunctionPlugin("later", **hooks))
    assert later == ["message", "event", "tool error", "event", "event"]


async def test_sp_22_the_pieces_of_a_streamed_answer_are_left_out(runner_factory: RunnerFactory) -> None:
    sink = Memory()
    agent = weather(stream("It is ", "22 °C."))
    async with runner_factory(agent, plugins=[Analytics(sink=sink)]) as runner:
        await runner.run(user_id="u", message="Hi", config=RunConfig(streaming_mode="sse")).wait()
    assert [row["content"]["text"] for row in sink.of("EVENT", "MODEL_RESPONSE")] == ["It is 22 °C."] * 2


async def test_sp_22_long_texts_are_cut_and_the_row_says_so(runner_factory: RunnerFactory) -> None:
    sink = await run(runner_factory, weather("x" * 50), max_content_length=20)
    [response] = sink.of("MODEL_RESPONSE")
    assert response["content"]["text"] == "x" * 20 + SUFFIX
    assert response["content_parts"][0]["text"] == "x" * 20 + SUFFIX
    assert response["is_truncated"] is True
    assert sink.of("USER_MESSAGE")[0]["is_truncated"] is False


async def test_conf_10_rows_can_be_redacted_or_left_out(runner_factory: RunnerFactory) -> None:
    def redact(row: Row) -> Row | None:
        return None if row["event_type"] == "EVENT" else {**row, "content": None, "content_parts": []}

    sink = await run(runner_factory, weather("secret"), redact=redact, custom_tags={"team": "a"})
    assert sink.of("EVENT") == []
    assert "secret" not in json.dumps(sink.rows)
    assert {row["attributes"]["custom_tags"]["team"] for row in sink.rows} == {"a"}


async def test_eph_ephemeral_values_are_never_in_a_row(runner_factory: RunnerFactory) -> None:
    sink = Memory()
    async with runner_factory(weather("Hi"), plugins=[Analytics(sink=sink)]) as runner:
        await runner.run(user_id="u", message="Hi", ephemeral={"token": "s3cret"}).wait()
    assert sink.rows
    assert "s3cret" not in json.dumps(sink.rows)


def test_sp_22_a_row_carries_the_ids_of_its_span() -> None:
    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("outer") as outer, tracer.start_as_current_span("inner") as inner:
        ids = span_ids()
    assert ids == {
        "trace_id": f"{inner.get_span_context().trace_id:032x}",
        "span_id": f"{inner.get_span_context().span_id:016x}",
        "parent_span_id": f"{outer.get_span_context().span_id:016x}",
    }


async def test_sp_22_a_tools_rows_are_of_the_tools_span(
    runner_factory: RunnerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    sink = await run(runner_factory, weather(call("get_weather", city="Oslo"), "Cold."))
    [span] = [span for span in exported.get_finished_spans() if span.name == "execute_tool get_weather"]
    assert span.context is not None
    rows = sink.of("TOOL_START", "TOOL_END")
    assert [row["span_id"] for row in rows] == [f"{span.context.span_id:016x}"] * 2
    assert [row["trace_id"] for row in rows] == [f"{span.context.trace_id:032x}"] * 2


async def test_sp_22_without_tracing_there_are_no_ids(runner_factory: RunnerFactory) -> None:
    sink = await run(runner_factory, weather("Hi"))
    assert {row["trace_id"] for row in sink.rows} == {None}


async def test_dur_7_nothing_is_written_in_a_replay(runner_factory: RunnerFactory) -> None:
    sink = Memory()
    async with runner_factory(weather("Hi"), plugins=[Analytics(sink=sink)]) as runner:
        with use_replaying(True):
            await runner.ask("Hi")
    assert sink.rows == []


def test_sp_22_every_kind_of_part_is_a_row_without_bytes() -> None:
    parts = [
        text_content("hm").parts[0].replace(thought=True),
        Part(inline_data=Blob(data=b"12345", mime_type="image/png")),
        Part(file_data=FileData(file_uri="gs://b/o", mime_type="a/b")),
        Part(file_data=FileData(file_uri="https://h/p")),
        call("get_weather", id="c1", city="Oslo"),
    ]
    rows = part_rows(Content(role="user", parts=parts))
    assert [row["part_index"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["storage_mode"] for row in rows] == ["INLINE", "INLINE", "EXTERNAL_URI", "EXTERNAL_URI", "INLINE"]
    assert rows[0]["part_attributes"] == {"thought": True}
    assert (rows[1]["text"], rows[1]["mime_type"]) == ("[BINARY DATA, 5 bytes]", "image/png")
    assert rows[2]["object_ref"] == {"uri": "gs://b/o", "version": None, "authorizer": None, "details": None}
    assert (rows[3]["object_ref"], rows[3]["uri"]) == (None, "https://h/p")
    assert rows[4]["part_attributes"] == {
        "function_call": {"id": "c1", "name": "get_weather", "args": {"city": "Oslo"}}
    }


async def test_sp_20_json_lines(runner_factory: RunnerFactory, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "rows.jsonl"
    async with runner_factory(weather("Grüezi"), plugins=[Analytics(path=path)]) as runner:
        await runner.ask("Hi")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [tuple(row) for row in rows] == [COLUMNS] * 8
    assert rows[4]["content"]["text"] == "Grüezi"


async def test_sp_20_parquet(runner_factory: RunnerFactory, tmp_path: Path, fixed_time: Any) -> None:
    folder = tmp_path / "rows"
    agent = weather(call("get_weather", city="Tokyo"), "It is 22 °C.")
    async with runner_factory(agent, plugins=[Analytics(path=folder, format="parquet")]) as runner:
        await runner.ask("Weather?")
        assert not list(tmp_path.rglob("*.parquet"))
    [file] = folder.iterdir()
    rows = parquet.read_table(file).to_pylist()
    assert [tuple(row) for row in rows] == [COLUMNS] * 14
    assert rows[0]["timestamp"] == datetime(2026, 1, 1, tzinfo=UTC)
    ended = next(row for row in rows if row["event_type"] == "TOOL_END")
    assert json.loads(ended["content"]) == {"tool": "get_weather", "result": {"temperature_c": 22}}
    assert json.loads(ended["latency_ms"]) == {"total_ms": 0.0}
    called = next(row for row in rows if row["event_type"] == "MODEL_RESPONSE")["content_parts"][0]
    assert json.loads(called["part_attributes"])["function_call"]["args"] == {"city": "Tokyo"}


def test_sp_20_parquet_files_are_split(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path, rows_per_file=3)
    rows = [make_row("EVENT", make_context("callback"), limit=9, attributes={"n": n}) for n in range(7)]
    sink.write(rows[:2])
    sink.write(rows[2:])
    sink.close()
    sink.close()
    tables = [parquet.read_table(file) for file in tmp_path.glob("*.parquet")]
    assert sorted(table.num_rows for table in tables) == [1, 3, 3]
    found = [json.loads(value)["n"] for table in tables for value in table["attributes"].to_pylist()]
    assert sorted(found) == list(range(7))


def test_sp_20_without_pyarrow_the_pip_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'hookwork-analytics\[parquet\]'"):
        Analytics(format="parquet")


def test_sp_20_disabled_it_has_no_hooks() -> None:
    [plugin] = resolve_plugins(["analytics"], Settings(tables={"analytics": {"enabled": False}}))
    assert plugin.name == "bigquery_agent_analytics"
    assert [hook for hook in LIFECYCLE_HOOKS if hasattr(plugin, hook)] == []
    assert isinstance(plugin, Plugin)


def test_ext_8_options_come_from_its_table(tmp_path: Path) -> None:
    table = {"path": str(tmp_path / "x.jsonl"), "batch_size": 5, "custom_tags": {"team": "a"}}
    [plugin] = resolve_plugins(["analytics"], Settings(tables={"analytics": table}))
    assert isinstance(plugin, Analytics)
    with pytest.raises(PluginError, match="batchsize"):
        resolve_plugins(["analytics"], Settings(tables={"analytics": {"batchsize": 5}}))


@pytest.mark.parametrize(
    "options", [{"format": "csv"}, {"max_content_length": 0}, {"batch_size": -1}, {"flush_interval": "1s"}], ids=str
)
def test_wrong_options_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        Analytics(**options)


def test_json_lines_are_whole_lines(tmp_path: Path) -> None:
    sink = JsonLinesSink(tmp_path / "a.jsonl")
    sink.write([{"n": 1}, {"n": 2}])
    sink.write([{"n": 3}])
    sink.close()
    assert (tmp_path / "a.jsonl").read_text() == '{"n": 1}\n{"n": 2}\n{"n": 3}\n'
