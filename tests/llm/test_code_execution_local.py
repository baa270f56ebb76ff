"""The executor on this machine: its limits as they are promised, and what it says it does not limit."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from hookwork.errors import ConfigurationError
from hookwork.records.content import CodeExecutionResult, ExecutableCode
from hookwork_llm import CodeExecutor, LocalSubprocessExecutor
from hookwork_testkit import make_context

MEBIBYTE = 1024 * 1024


async def run(code: str, **options: Any) -> CodeExecutionResult:
    executor = LocalSubprocessExecutor(allow_unsandboxed=True, **options)
    return await executor.execute(make_context("tool"), ExecutableCode(code=code, language="PYTHON"))


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary folders are made where the test can look at them."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("value", [False, None, 1, "yes"])
def test_it_is_off_unless_it_is_allowed_explicitly(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="allow_unsandboxed=True"):
        LocalSubprocessExecutor(allow_unsandboxed=value)
    with pytest.raises(ConfigurationError, match="without a sandbox"):
        LocalSubprocessExecutor()
    assert issubclass(LocalSubprocessExecutor, CodeExecutor)


@pytest.mark.parametrize("name", ["timeout", "max_output", "max_memory", "max_file_size"])
def test_limits_are_above_zero(name: str) -> None:
    limits: dict[str, Any] = {name: 0}
    with pytest.raises(ConfigurationError, match="every limit is above 0"):
        LocalSubprocessExecutor(allow_unsandboxed=True, **limits)


async def test_what_the_code_prints_is_the_output() -> None:
    result = await run("import math\nprint(math.factorial(5))\nprint('ü')\n")
    assert result == CodeExecutionResult(outcome="OUTCOME_OK", output="120\nü")
    assert (await run("if __name__ == '__main__':\n    print('main')")).output == "main"
    assert await run("x = 1") == CodeExecutionResult(outcome="OUTCOME_OK", output="")


async def test_a_failing_program_shows_its_traceback() -> None:
    result = await run("print('before')\ndef f():\n    raise ValueError('no')\nf()")
    assert result.outcome == "OUTCOME_FAILED"
    assert result.output is not None
    assert result.output.startswith("before\nTraceback")
    assert 'File "main.py", line 3, in f' in result.output
    assert result.output.endswith("ValueError: no")
    broken = await run("def (")
    assert broken.outcome == "OUTCOME_FAILED"
    assert "SyntaxError" in (broken.output or "")
    assert (await run("import sys; sys.exit(3)")).output == "ended with exit status 3"
    assert "UnicodeEncodeError" in ((await run("print('\\ud800')")).output or "")


async def test_wall_time_is_limited(temp: Path) -> None:
    result = await run("print('on', flush=True)\nimport time\ntime.sleep(60)", timeout=1.0)
    assert result == CodeExecutionResult(outcome="OUTCOME_DEADLINE_EXCEEDED", output="on\nstopped after 1 s")
    assert list(temp.iterdir()) == []


async def test_output_is_limited() -> None:
    result = await run("print('x' * 5000)", max_output=1000)
    assert result.output == "x" * 1000 + "\n(cut after 1000 bytes)"
    endless = await run("while True: print('x' * 1000)", max_file_size=100_000, max_output=50, timeout=20)
    assert endless.outcome == "OUTCOME_FAILED"
    assert (endless.output or "").startswith("x" * 50 + "\n(cut after 50 bytes)\n")


async def test_the_size_of_files_is_limited() -> None:
    code = "with open('big', 'wb') as f:\n    f.write(b'x' * 10_000_000)"
    assert (await run(code, max_file_size=1_000_000)).outcome == "OUTCOME_FAILED"
    assert (await run(code)).outcome == "OUTCOME_OK"


async def test_memory_is_limited() -> None:
    code = "x = bytearray(300 * 1024 * 1024)\nprint(len(x))"
    result = await run(code, max_memory=200 * MEBIBYTE)
    assert result.outcome == "OUTCOME_FAILED"
    assert "MemoryError" in (result.output or "")
    assert (await run(code)).outcome == "OUTCOME_OK"


async def test_the_environment_of_this_process_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    result = await run("import os\nprint(sorted(os.environ), os.environ['GIVEN'])", env={"GIVEN": "yes"})
    names = (result.output or "").replace("'LC_CTYPE', ", "")  # set by the interpreter itself
    assert names == "['GIVEN', 'HOME', 'LANG', 'PATH', 'TMPDIR'] yes"


async def test_each_run_has_a_fresh_folder_that_is_removed(temp: Path) -> None:
    code = "import os\nprint(os.listdir('.'))\nopen('mine', 'w').write('x')\nprint(os.getcwd())"
    first, second = await run(code), await run(code)
    assert (first.output or "").startswith("[]\n")
    assert (second.output or "").startswith("[]\n")
    folders = {(result.output or "").split()[1] for result in (first, second)}
    assert len(folders) == 2
    assert all(folder.startswith(str(temp)) for folder in folders)
    assert list(temp.iterdir()) == []


async def test_modules_beside_the_program_are_not_found_and_no_site_of_the_user() -> None:
    result = await run("import sys\nprint(sys.flags.isolated, sys.flags.no_user_site, sys.argv)")
    assert result.output == "1 1 ['main.py']"


async def test_what_it_started_is_dead_afterwards(temp: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid)"
    )
    result = await run(code)
    assert result.outcome == "OUTCOME_OK"
    pid = int(result.output or "0")
    for _ in range(200):
        if not _is_alive(pid):
            break
        await asyncio.sleep(0.01)
    assert not _is_alive(pid)


async def test_cancellation_ends_the_process(temp: Path) -> None:
    code = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(60)"
    task = asyncio.create_task(run(code, timeout=60))
    while not (found := [text for path in temp.glob("*/cwd/pid") if (text := path.read_text())]):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not _is_alive(int(found[0]))
    assert list(temp.iterdir()) == []


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:  # a zombie that nobody has collected yet is dead
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_what_is_not_sandboxed_is_as_the_docstring_says(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("readable")
    assert (await run(f"print(open({str(outside)!r}).read())")).output == "readable"
    for words in ("not** sandboxed", "read every file", "use the network", "raise its own limits"):
        assert words in (LocalSubprocessExecutor.__doc__ or "")
