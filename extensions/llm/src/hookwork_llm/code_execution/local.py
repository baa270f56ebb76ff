"""Python code in a process of its own on this machine. It has limits; it is not a sandbox."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hookwork.errors import ConfigurationError
from hookwork.records.content import CodeExecutionResult, ExecutableCode
from hookwork_llm.code_execution.contract import DEADLINE_EXCEEDED, FAILED, OK, CodeExecutor

if TYPE_CHECKING:
    from hookwork.context import ToolContext

MEBIBYTE = 1024 * 1024

# The child limits itself before it runs anything of the model's: code in a fork of a threaded process is not safe.
_LAUNCHER = """
import resource, sys
script, memory, cpu, size = sys.argv[1], *map(int, sys.argv[2:5])
for what, limit in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, cpu), (resource.RLIMIT_FSIZE, size),
                    (resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, 64)):
    hard = resource.getrlimit(what)[1]
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(what, (limit, limit))
with open(script, encoding="utf-8") as file:
    source = file.read()
sys.argv[:] = ["main.py"]
exec(compile(source, "main.py", "exec"), {"__name__": "__main__"})
"""


class LocalSubprocessExecutor(CodeExecutor):
    """Runs Python in a fresh process and a fresh folder, with limits. POSIX only.

    What is limited: wall time and processor time, memory, the size of each file it writes, what is shown of its
    output, and the environment variables it gets (none of this process's). The process and whatever it started in its
    group are killed at the end, and the folder is removed.

    What is **not** sandboxed: the code runs as the user of this process. It can read every file that this user can
    read, write where the user can write, use the network, and start processes that leave the group. As root it can
    raise its own limits. Use it for code that you would run yourself, or inside a container made for it.

    Args:
        allow_unsandboxed: has to be True; without it the executor refuses to be built.
        timeout: seconds of wall time, default 10; also the limit of processor time, rounded up.
        max_output: bytes shown of standard output and of standard error, each, default 65 536.
        max_memory: bytes of address space, default 512 MiB.
        max_file_size: bytes of each file that is written, output included, default 16 MiB.
        env: environment variables for the code; besides these it gets PATH, HOME, TMPDIR and LANG only.
        python: the interpreter, default the running one; it is started with ``-I``.

    Raises:
        ConfigurationError: not allowed explicitly, a limit that is not positive, or a system without rlimits.
    """

    def __init__(
        self,
        *,
        allow_unsandboxed: bool = False,
        timeout: float = 10.0,
        max_output: int = 64 * 1024,
        max_memory: int = 512 * MEBIBYTE,
        max_file_size: int = 16 * MEBIBYTE,
        env: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        if allow_unsandboxed is not True:
            raise ConfigurationError(
                "LocalSubprocessExecutor runs code that a model wrote as the user of this process, with limits but "
                "without a sandbox; pass allow_unsandboxed=True if that is what you want"
            )
        if min(timeout, max_output, max_memory, max_file_size) <= 0:
            raise ConfigurationError("LocalSubprocessExecutor: every limit is above 0")
        if importlib.util.find_spec("resource") is None:
            raise ConfigurationError("LocalSubprocessExecutor needs the rlimits of a POSIX system")
        self.timeout = timeout
        self.max_output = max_output
        self.max_memory = max_memory
        self.max_file_size = max_file_size
        self.env = dict(env or {})
        self.python = python

    async def execute(self, ctx: ToolContext, code: ExecutableCode) -> CodeExecutionResult:
        """Run the code; the output is what it printed, and the traceback when it failed."""
        folder = await asyncio.to_thread(_prepared_folder, code.code or "")
        try:
            status = await self._run(folder)
            return await asyncio.to_thread(self._result, folder, status)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def _run(self, folder: Path) -> int | None:
        """The exit status, None when the time was up. However it is left, the process is dead afterwards."""
        work = folder / "cwd"
        seconds = max(1, int(-(-self.timeout // 1)))
        limits = (str(self.max_memory), str(seconds), str(self.max_file_size))
        with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:  # noqa: ASYNC230 - local, empty
            process = await asyncio.create_subprocess_exec(
                self.python,
                "-I",
                "-c",
                _LAUNCHER,
                str(folder / "main.py"),
                *limits,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=work,
                env=self._environment(work),
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(self.timeout) as limit:
                return await process.wait()
        except TimeoutError:
            if not limit.expired():
                raise
            return None
        finally:
            _kill_group(process.pid)
            await process.wait()

    def _environment(self, work: Path) -> dict[str, str]:
        return {"PATH": os.defpath, "HOME": str(work), "TMPDIR": str(work), "LANG": "C.UTF-8", **self.env}

    def _result(self, folder: Path, status: int | None) -> CodeExecutionResult:
        out, err = (self._read(folder / name) for name in ("stdout", "stderr"))
        pieces = [out] if out else []
        if status is None:
            outcome, pieces = DEADLINE_EXCEEDED, [*pieces, f"stopped after {self.timeout:g} s"]
        elif status == 0:
            outcome = OK
        else:
            outcome, pieces = FAILED, [*pieces, err or _ended(status)]
        return CodeExecutionResult(outcome=outcome, output="\n".join(piece.rstrip("\n") for piece in pieces))

    def _read(self, path: Path) -> str:
        with open(path, "rb") as file:
            data = file.read(self.max_output + 1)
        text = data[: self.max_output].decode("utf-8", "replace")
        if len(data) > self.max_output:
            text += f"\n(cut after {self.max_output} bytes)"
        return text


def _prepared_folder(code: str) -> Path:
    """A folder with the program, and an empty one in it to work in."""
    folder = Path(tempfile.mkdtemp(prefix="hookwork-code-"))
    (folder / "cwd").mkdir()
    (folder / "main.py").write_text(code, encoding="utf-8", errors="replace")
    return folder


def _ended(status: int) -> str:
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:  # nothing of the group is left
        pass
