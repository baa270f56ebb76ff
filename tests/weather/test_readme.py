"""The README's commands print what the README shows. Times may differ; a line with only ``…`` stands for any lines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "contrib" / "weather" / "README.md"
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
TIME = re.compile(r"\d+\.\d\d s$", re.MULTILINE)


def commands() -> list[tuple[str, str]]:
    """(command, what it shows) in order."""
    text = "".join(BLOCK.findall(README.read_text(encoding="utf-8")))
    _, *pieces = re.split(r"^\$ ", text, flags=re.MULTILINE)
    return [(command, shown) for command, _, shown in (piece.partition("\n") for piece in pieces)]


def test_the_readme_shows_commands() -> None:
    assert len(commands()) == 8


@pytest.mark.skipif(shutil.which("sh") is None, reason="the README's commands are written for a POSIX shell")
@pytest.mark.parametrize(("command", "shown"), commands(), ids=lambda value: value[:60].splitlines()[0])
def test_a_command_of_the_readme_prints_what_is_shown(command: str, shown: str, tmp_path: Path) -> None:
    scripts = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    lines = TIME.sub("0.00 s", shown).strip().splitlines()
    pattern = "".join("(?:.*\n)*?" if line == "…" else re.escape(f"{line}\n") for line in lines)
    printed = TIME.sub("0.00 s", done.stdout).strip() + "\n"
    assert re.fullmatch(pattern, printed), f"the README shows:\n{shown}\nthe command prints:\n{done.stdout}"
