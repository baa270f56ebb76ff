"""The READMEs of all shipped plugins: their settings load, and their tables of options are the options there are."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from hookwork.plugins.discovery import plugin_entry_points
from hookwork.resolve import resolve_plugins
from hookwork.settings import Settings
from hookwork_analytics.queue import Pace

CONTRIB = Path(__file__).resolve().parents[2] / "contrib"
TOML = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMES = (
    *("analytics", "audit", "budget", "cache", "context_filter", "function_call_modifier", "global_instruction"),
    *("logging", "memory_ingestion", "policy", "retry_and_reflect", "save_files"),
)
EXAMPLES = [(name, text) for name in NAMES for text in TOML.findall((CONTRIB / name / "README.md").read_text())]


@pytest.mark.parametrize(("name", "text"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_ext_8_the_settings_of_a_readme_build_its_plugin(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    settings = Settings.load(tmp_path)
    settings.check_tables(NAMES)
    [plugin] = resolve_plugins(settings.plugins, settings)
    assert type(plugin) is plugin_entry_points()[name].load()


@pytest.mark.parametrize("name", NAMES)
def test_the_options_of_a_readme_are_those_of_the_plugin(name: str) -> None:
    text = (CONTRIB / name / "README.md").read_text()
    section = text.split("\n## Options\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    documented = [option for row in rows for option in re.findall(r"`(\w+)`", row)]
    target: Any = plugin_entry_points()[name].load()
    parameters = inspect.signature(target.__init__).parameters
    options = {one for one, parameter in parameters.items() if parameter.kind is not parameter.VAR_KEYWORD} - {"self"}
    if name == "analytics":
        options |= set(Pace.__dataclass_fields__)
    assert sorted(documented) == sorted(options)
