"""The public names: listed, resolvable, and nothing heavy is imported for them (CASE-PKG-1)."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest


@pytest.mark.parametrize("package", ["hookwork", "hookwork_llm"])
def test_every_listed_name_resolves_and_every_lazy_name_is_listed(package: str) -> None:
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []
    assert sorted(set(module.__all__) - {"__version__"}) == sorted(module._HOME_OF)


def test_an_unknown_name_is_an_attribute_error() -> None:
    module = importlib.import_module("hookwork")
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = module.no_such_name


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import hookwork", ["pydantic", "httpx", "click", "attr", "msgspec", "pluggy", "asyncio"]),
        (
            "from hookwork import Runner, App; from hookwork_llm import LlmAgent; "
            "from hookwork_inmemory import InMemorySessionService",
            ["pydantic", "httpx", "click", "sqlite3", "sqlalchemy", "rich", "opentelemetry.sdk", "jsonschema", "yaml"],
        ),
    ],
    ids=["package", "runner and agent"],
)
def test_case_pkg_1_and_perf_24_imports_stay_light(code: str, absent: list[str]) -> None:
    script = f"import sys; {code}; print([m for m in {absent!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
