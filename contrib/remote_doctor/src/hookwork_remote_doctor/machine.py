"""The machine as a source of facts. Everything that is read comes in here, so a test can hand in another machine."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path


def run_command(command: Sequence[str]) -> str:
    """What a command prints, errors included; empty when it cannot be run or takes longer than ten seconds."""
    try:
        done = subprocess.run(
            list(command),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # musl's ldd prints its version there
            stdin=subprocess.DEVNULL,
            timeout=10,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace")


def free_bytes(folder: Path) -> int:
    """Bytes that may still be written in a folder."""
    return shutil.disk_usage(folder).free


@dataclass(frozen=True)
class Machine:
    """Where the checks look: the file system from ``root``, commands, and what the operating system says of itself."""

    root: Path = Path("/")
    home: Path = field(default_factory=Path.home)
    system: str = field(default_factory=platform.system)
    release: str = field(default_factory=platform.release)
    processor: str = field(default_factory=platform.machine)
    run: Callable[[Sequence[str]], str] = run_command
    find: Callable[[str], str | None] = shutil.which
    free: Callable[[Path], int] = free_bytes
