"""`hookwork new` as its users meet it: an empty environment, wheels, one distribution of each kind."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hookwork_testkit.new.names import KINDS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
UNREACHABLE = re.compile(r"dns error|failed to fetch|error sending request|could not connect|network", re.IGNORECASE)


def run(*command: str, cwd: Path, scripts: Path | None = None) -> str:
    """stdout of a command, under a clean environment; ``scripts`` comes first on its PATH."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HOOKWORK_", "PYTHON", "VIRTUAL_ENV", "COVERAGE", "PYTEST"))
    }
    if scripts is not None:
        kept["PATH"] = f"{scripts}{os.pathsep}{kept.get('PATH', '')}"
    program = shutil.which(command[0], path=kept.get("PATH"))
    if program is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(
        [program, *command[1:]], cwd=cwd, env=kept, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode and command[0] == "uv" and UNREACHABLE.search(done.stderr):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    run("uv", "build", "--all-packages", "--wheel", "-o", str(folder), cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def scripts(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of an environment with Hookwork and its testkit."""
    folder = tmp_path_factory.mktemp("environment")
    run("uv", "venv", "--python", sys.executable, "venv", cwd=folder)
    scripts = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    install(scripts, wheels, "hookwork[testkit]", cwd=folder)
    return scripts


def install(scripts: Path, wheels: Path, *what: str, cwd: Path) -> None:
    run("uv", "pip", "install", "--python", str(scripts / "python"), "--find-links", str(wheels), *what, cwd=cwd)


@pytest.fixture(scope="module")
def written(scripts: Path, wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Kind → folder of a distribution of that kind, written by the command and installed with its dev group."""
    folder = tmp_path_factory.mktemp("written")
    for kind in KINDS:
        run("hookwork", "new", kind, f"first-{kind}", cwd=folder, scripts=scripts)
        made = f"./hookwork-first-{kind}"
        install(scripts, wheels, made, "--group", f"{made}/pyproject.toml:dev", cwd=folder)
    return {kind: folder / f"hookwork-first-{kind}" for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_distribution_passes_its_own_tests(kind: str, written: dict[str, Path], scripts: Path) -> None:
    said = run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=written[kind], scripts=scripts)
    assert " passed" in said


def test_ext_9_hookwork_plugins_lists_all_three(written: dict[str, Path], scripts: Path, tmp_path: Path) -> None:
    listed = json.loads(run("hookwork", "plugins", "--json", cwd=tmp_path, scripts=scripts))
    rows = {row["name"]: row for kind in listed for row in listed[kind] if row["name"].startswith("first_")}
    assert {name: (row["distribution"], row["version"], row["state"]) for name, row in rows.items()} == {
        "first_agent": ("hookwork-first-agent", "0.1.0", "available"),
        "first_extension": ("hookwork-first-extension", "0.1.0", "loaded"),
        "first_plugin": ("hookwork-first-plugin", "0.1.0", "available"),
    }
    assert rows["first_plugin"]["hooks"] == ["before_tool"]
    assert rows["first_extension"]["hooks"] == ["create_model"]


def test_the_new_agent_runs_with_the_new_model_and_plugin(
    written: dict[str, Path], scripts: Path, tmp_path: Path
) -> None:
    (tmp_path / "hookwork.toml").write_text('plugins = ["first_plugin"]\n\n[first_plugin]\ndeny = ["count_words"]\n')
    command = ("hookwork", "run", "first_agent", 'Count the words of "to be or not to be"')
    assert "not allowed" in run(*command, cwd=tmp_path, scripts=scripts)
    assert "6" in run(*command, "--config", "none", cwd=tmp_path, scripts=scripts)
    assert run(*command, "--model", "first_extension", cwd=tmp_path, scripts=scripts).startswith("You said: Count")
