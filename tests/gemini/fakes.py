"""Fakes that others wrote: installed outside the tree on first use, skipped where they cannot be."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.node import cache_folder, installed, node

AIMOCK = "@copilotkit/aimock@1.43.0"
KATAN = "llm-katan==0.22.0"


@contextmanager
def _running(command: Sequence[str], listening: str, env: Mapping[str, str] | None = None) -> Iterator[re.Match[str]]:
    """A server process, once it says that it listens; what it said."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **(env or {})}
    )
    assert process.stdout is not None
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            found = re.search(listening, line)
            if found is not None:
                yield found
                break
        else:
            raise AssertionError(f"{command[0]} ended: {''.join(said)}")
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def aimock(fixtures: Sequence[Mapping[str, Any]], folder: Path) -> Iterator[str]:
    """ECO-FAKE-1; its base URL."""
    program = installed(AIMOCK) / "dist" / "cli.js"
    (folder / "fixtures.json").write_text(json.dumps({"fixtures": fixtures}))
    command = [node(20), str(program), "-p", "0", "-f", str(folder / "fixtures.json"), "--strict", "-c", "6"]
    with _running(command, r"listening on (http://127\.0\.0\.1:\d+)") as found:
        yield found[1]


@cache
def _katan_folder() -> Path | str:
    """Where llm-katan and what it needs are, apart from this environment; or why not."""
    folder = cache_folder() / "pypi" / f"{KATAN.replace('==', '-')}-{sys.implementation.cache_tag}"
    if (folder / "llm_katan").is_dir():
        return folder
    uv = shutil.which("uv")
    if uv is None:
        return f"needs uv to install {KATAN}"
    command = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", str(folder), KATAN]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=180)
    except subprocess.TimeoutExpired:
        return f"installing {KATAN} took too long"
    return folder if done.returncode == 0 else f"{KATAN} cannot be installed here"


@contextmanager
def katan(folder: Path, *options: str) -> Iterator[str]:
    """ECO-FAKE-2 in echo mode; its base URL."""
    place = _katan_folder()
    if isinstance(place, str):
        pytest.skip(place)
    assert importlib.util.find_spec("uvicorn") is not None
    run = "from llm_katan.cli import main; main()"
    command = [
        sys.executable,
        "-u",
        "-c",
        run,
        "--model",
        "m",
        "--backend",
        "echo",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
    ]
    command += ["--providers", "vertexai", "--stats-file", str(folder / "stats.json"), *options]
    with _running(command, r"running on (http://127\.0\.0\.1:\d+)", {"PYTHONPATH": str(place)}) as found:
        yield found[1]
