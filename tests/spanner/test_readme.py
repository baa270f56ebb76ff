"""The README's examples run, and it names every option with its default."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.spanner.fake import FakeSpanner

from hookwork_spanner import engine_service
from hookwork_spanner.opening import OPTIONS

README = (Path(__file__).parents[2] / "extensions" / "spanner" / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python(?: no-run)?\n(.*?)```", README, re.DOTALL)


def _run(code: str, spanner: FakeSpanner) -> str:
    environment = {**os.environ, "SPANNER_EMULATOR_HOST": spanner.host}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=100
    )
    return done.stdout


def test_the_first_example(spanner: FakeSpanner) -> None:
    first, second = EXAMPLES
    assert _run(first, spanner) == "2\n" == f"{re.findall(r'print.*# (.*)', first)[0]}\n"
    assert _run(f"{second}\nprint(sessions.foreign_appends)\n", spanner) == "refuse\n"


def test_url_2_every_option_is_described_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", README, re.MULTILINE))
    assert set(rows) == set(OPTIONS)
    for name, parameter in inspect.signature(engine_service).parameters.items():
        if name not in ("engine", "cipher"):
            assert str(parameter.default).lower() in rows[name].strip("`"), name
