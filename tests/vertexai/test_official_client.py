"""The vendor's own client takes the fake for the service, reads what we write and is read by us (parts ECO-VTX-4).

It lives in an environment of its own, since it needs another google-genai than Hookwork does.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.vertexai.fake import FakeVertex

from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.event import EventActions
from hookwork.records.metadata import UsageMetadata
from hookwork_testkit.suites.base import BASE_TIME, say
from hookwork_vertexai import VertexAiRagMemoryService, VertexAiSessionService

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("official.py")
#: The client without the rest of its distribution's needs, which are many times as large.
CLIENT = "google-cloud-aiplatform==2.7.0"
NEEDS = [
    "google-api-core[grpc]",
    "google-auth",
    "proto-plus",
    "protobuf",
    "requests",
    "grpc-google-iam-v1",
    "packaging",
]
UNREACHABLE = re.compile(r"dns error|failed to fetch|error sending request|could not connect|network", re.IGNORECASE)
ENGINE = "projects/ours/locations/us-central1/reasoningEngines/42"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with the vendor's client."""
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed")
    folder = tmp_path_factory.mktemp("official") / "venv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    program = str(folder / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    for packages in (["--no-deps", CLIENT], NEEDS):
        done = subprocess.run(
            [uv, "pip", "install", "--quiet", "--python", program, *packages],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode and UNREACHABLE.search(done.stderr):
            pytest.skip("no package index can be reached")
        assert done.returncode == 0, done.stderr
    return program


@pytest.fixture
def official(python: str, fake: FakeVertex) -> Callable[..., str]:
    """Runs the script with some words; what it printed."""

    def run(what: str, *words: str) -> str:
        done = subprocess.run(
            [python, "-W", "ignore", str(SCRIPT), what, fake.url.removeprefix("http://"), *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


@pytest.mark.parametrize("polls", [0, 2])
async def test_fake_1_to_5_the_vendors_client_takes_the_fake_for_the_service(
    official: Callable[..., str], fake: FakeVertex, polls: int
) -> None:
    fake.create_polls = fake.memory_polls = polls
    corpus = "projects/official/locations/us-central1/ragCorpora/c"
    fake.rag.make(corpus)
    sessions = VertexAiSessionService("ours", "us-central1", base_url=fake.url, token_source=lambda: "t")
    rag = VertexAiRagMemoryService(corpus, base_url=fake.url, token_source=lambda: "t")
    fake.create_polls = 0
    session = await sessions.create_session(app_name="42", user_id="u")
    await sessions.append_event(session, say("green tea", author="user"))
    await rag.add_session_to_memory(session)
    fake.create_polls = polls
    assert official("validate", corpus) == "ok"
    await sessions.close()
    await rag.close()


async def test_vtx_4_the_vendors_client_reads_what_we_write(official: Callable[..., str], fake: FakeVertex) -> None:
    service = VertexAiSessionService("ours", "us-central1", base_url=fake.url, token_source=lambda: "t")
    session = await service.create_session(app_name="42", user_id="u1", session_id="s-1", state={"k": 1, "app:a": "x"})
    parts = [Part(text="hi"), Part(function_call=FunctionCall(id="c1", name="f", args={"x": 1}))]
    event = say("", at=1.123456, author="agent").replace(
        id="evt-1",
        content=Content(role="model", parts=parts),
        actions=EventActions(state_delta={"k": 2}, artifact_delta={"a.png": 2}, transfer_to_agent="b", escalate=True),
        branch="root.a",
        turn_complete=True,
        long_running_tool_ids=("c1",),
        custom_metadata={"m": True},
        usage_metadata=UsageMetadata(total_token_count=3),
    )
    await service.append_event(session, event)
    seen: dict[str, Any] = json.loads(official("read", f"{ENGINE}/sessions/s-1"))
    assert seen["session"]["sessionState"] == {"k": 2, "app:a": "x"}
    (item,) = seen["events"]
    assert item["timestamp"] == "2025-01-01T00:00:01.123456Z"
    assert (item["author"], item["invocationId"]) == ("agent", "inv-1")
    assert item["content"] == {
        "role": "model",
        "parts": [{"text": "hi"}, {"functionCall": {"id": "c1", "name": "f", "args": {"x": 1}}}],
    }
    assert item["actions"] == {
        "stateDelta": {"k": 2},
        "artifactDelta": {"a.png": 2},
        "transferAgent": "b",
        "escalate": True,
    }
    assert item["eventMetadata"] == {
        "branch": "root.a",
        "turnComplete": True,
        "longRunningToolIds": ["c1"],
        "customMetadata": {"m": True, "_usage_metadata": {"total_token_count": 3}},
    }
    assert item["rawEvent"]["id"] == "evt-1"
    assert item["rawEvent"]["timestamp"] == BASE_TIME + 1.123456
    await service.close()


async def test_vtx_17_we_read_what_the_vendors_client_writes(official: Callable[..., str], fake: FakeVertex) -> None:
    official("write", ENGINE)
    service = VertexAiSessionService("ours", "us-central1", base_url=fake.url, token_source=lambda: "t")
    session = await service.get_session(app_name="42", user_id="u1", session_id="theirs")
    assert dict(session.state) == {"k": 2}
    (event,) = session.events
    assert event.id.isdigit()
    assert event.timestamp == BASE_TIME + 0.123456
    assert (event.author, event.invocation_id, event.branch) == ("agent", "inv-1", "root.a")
    assert (event.turn_complete, event.long_running_tool_ids) == (True, ("c1",))
    assert event.text == "hi"
    assert [dict(call.args or {}) for call in event.function_calls] == [{"x": 1}]
    assert dict(event.actions.state_delta) == {"k": 2}
    assert dict(event.actions.artifact_delta) == {"a.png": 2}
    await service.append_event(session, say("ours", at=9))
    assert [event.text for event in session.events] == ["hi", "ours"]
    await service.close()
