"""The public conformance suite, with our toolset as client and a served agent as server (parts ECO-MCP-3).

Runs where Node 22 is at hand (`uv sync --group conformance`); what is known to fail stands in
``conformance/expected_failures.toml`` with the reason.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.conformance.fixtures import agent
from tests.mcp.node import CONFORMANCE, CONFORMANCE_NEXT, installed, node

from hookwork.settings import NO_SETTINGS
from hookwork_mcp import AgentServer

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent / "conformance"
EXPECTED: dict[str, dict[str, str]] = tomllib.loads((HERE / "expected_failures.toml").read_text())
_SUMMARY = re.compile(r"^[✓✗] (\S+): (\d+) passed, (\d+) failed", re.MULTILINE)
_RESULT = re.compile(r"^Passed: (\d+)/(\d+), (\d+) failed", re.MULTILINE)


async def suite(package: str, *arguments: str) -> str:
    """What a run of the suite prints."""
    program = node(22)
    script = installed(package) / "dist" / "index.js"
    process = await asyncio.create_subprocess_exec(
        *(program, str(script), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "NO_COLOR": "1"},
    )
    try:
        printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return printed.decode()


async def client_scenarios(package: str) -> list[str]:
    """The names of the suite's client scenarios."""
    listed = await suite(package, "list")
    part = listed.partition("Client scenarios")[2].partition("Authorization server scenarios")[0]
    return re.findall(r"^  - (\S+)", part, re.MULTILINE)


@pytest.mark.parametrize("kind", ["client-current", "client-next"])
async def test_as_a_client(kind: str, tmp_path: Path) -> None:
    """Each scenario starts the client anew; three at a time, for the sake of their time limits."""
    package = CONFORMANCE if kind == "client-current" else CONFORMANCE_NEXT
    scenarios = await client_scenarios(package)
    if kind == "client-next":
        known = set(await client_scenarios(CONFORMANCE))
        scenarios = [name for name in scenarios if name not in known]
    limit = asyncio.Semaphore(3)
    told: dict[str, str] = {}

    async def run(name: str) -> None:
        command = f"{sys.executable} {HERE / 'client.py'}"
        options = ("--command", command, "--scenario", name, "--timeout", "90000", "-o", str(tmp_path))
        async with limit:
            told[name] = await suite(package, "client", *options)

    await asyncio.gather(*(run(name) for name in scenarios))
    failed = {name for name, printed in told.items() if _failed(printed)}
    assert len(scenarios) >= 20
    assert failed == set(EXPECTED[kind]), "\n\n".join(told[name] for name in failed - set(EXPECTED[kind]))


def _failed(printed: str) -> bool:
    result = _RESULT.search(printed)
    return result is None or int(result[3]) > 0


@pytest.mark.parametrize("kind", ["server-current", "server-next"])
async def test_as_a_server(kind: str, serve: Any, tmp_path: Path) -> None:
    package = CONFORMANCE if kind == "server-current" else CONFORMANCE_NEXT
    node(22)
    async with (
        AgentServer(agent(), expose="tools", settings=NO_SETTINGS) as server,
        serve(server.http_app()) as url,
    ):
        printed = await suite(package, "server", "--url", f"{url}/mcp", "--suite", "all", "-o", str(tmp_path))
    results = {name: int(failures) for name, _, failures in _SUMMARY.findall(printed)}
    assert len(results) >= 30, printed
    failed = {name for name, failures in results.items() if failures}
    expected = set(EXPECTED["server-current"]) | (set(EXPECTED["server-next"]) if kind == "server-next" else set())
    assert failed == expected, printed
