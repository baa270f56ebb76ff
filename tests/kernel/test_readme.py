"""The kernel's README: its tables are what the rule table says, its example runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hookwork.hookspecs.table import LIFECYCLE_HOOKS, LIFECYCLE_SPECS, PROVIDER_HOOKS, PROVIDER_SPECS

README = Path(__file__).parents[2] / "kernel" / "README.md"


@pytest.mark.parametrize(
    ("table", "specs"),
    [(LIFECYCLE_HOOKS, LIFECYCLE_SPECS), (PROVIDER_HOOKS, PROVIDER_SPECS)],
    ids=["lifecycle", "provider"],
)
def test_every_hook_stands_in_the_readme_with_its_rule_and_text(table: dict, specs: tuple) -> None:
    text = README.read_text()
    for name, (rule, parameters) in table.items():
        spec = next(spec for spec in specs if name in vars(spec))
        first_line = (getattr(spec, name).__doc__ or "").strip().splitlines()[0]
        assert f"| `{name}({', '.join(parameters)})` | {rule.name.lower()} | {first_line} |" in text


def test_the_examples_print_what_they_say() -> None:
    greeting, state, *_ = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    for block, told in (
        (greeting, "Hello world\n"),
        (state, "Visit 1, draft: False\nErasedUser(sessions=1, artifacts=0, memories=0)\n"),
    ):
        done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=True)
        assert done.stdout == told
