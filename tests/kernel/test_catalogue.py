"""Only what this repository has is said to be installable by pip."""

from __future__ import annotations

import tomllib
from pathlib import Path

from hookwork.catalogue import UNRELEASED, distributions, install_line

ROOT = Path(__file__).parents[2]


def test_a_distribution_is_here_or_known_not_to_be_released_yet() -> None:
    projects = [*ROOT.glob("kernel/pyproject.toml"), *ROOT.glob("extensions/*/pyproject.toml")]
    projects += ROOT.glob("contrib/*/pyproject.toml")
    here = {tomllib.loads(path.read_text(encoding="utf-8"))["project"]["name"] for path in projects}
    assert "hookwork-llm" in here
    assert distributions() - here == UNRELEASED


def test_the_line_for_both() -> None:
    assert install_line("hookwork-llm") == "; try: pip install hookwork-llm"
    assert install_line("hookwork-web") == "; provided by hookwork-web, which is not released yet"
    assert install_line(None) == ""
