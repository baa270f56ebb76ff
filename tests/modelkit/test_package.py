"""The package as a whole: names, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hookwork_modelkit


@pytest.mark.parametrize("name", hookwork_modelkit.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(hookwork_modelkit, name).__doc__


def test_dist_1_importing_it_loads_no_library() -> None:
    code = (
        "import sys, hookwork_modelkit.retrying, hookwork_modelkit.aggregation, hookwork_modelkit.errors;"
        "print([n for n in ('tenacity', 'httpx', 'httpx2', 'google.genai', 'openai', 'pydantic') if n in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
