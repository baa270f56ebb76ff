"""What a stranger meets: wheels installed into an empty environment, the command, and a plugin made elsewhere.

Design §6: entry points make an installed distribution available; an app's settings name the plugins that are active.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from email.parser import Parser
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
UNREACHABLE = re.compile(r"dns error|failed to fetch|error sending request|could not connect|network", re.IGNORECASE)

PLUGIN_PROJECT = """
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "somebodys-shout"
version = "3.1"
requires-python = ">=3.11"
dependencies = ["hookwork-kernel"]

[project.entry-points."hookwork.plugins"]
shout = "somebodys_shout:Shout"
"""

PLUGIN_SOURCE = '''
from hookwork import Content, Part, Plugin


class Shout(Plugin):
    """Says everything louder."""

    def __init__(self, mark="!"):
        self.mark = mark

    async def on_event(self, ctx, event):
        if not event.text:
            return None
        return event.replace(content=Content(role="model", parts=[Part(text=event.text.upper() + self.mark)]))
'''

APP_SOURCE = """
from hookwork import Agent, App, Event, text_content


async def greet(ctx):
    yield Event(content=text_content(f"you said {ctx.user_content.text}"))


app = App("greeting", Agent(name="greeter", body=greet))
"""

APP_PROJECT = """
[project]
name = "greeting"
version = "0"

[tool.hookwork]
app = "greeting.py"
plugins = ["shout"]

[tool.hookwork.shout]
mark = "?!"
"""


class Environment:
    """A virtual environment outside the workspace."""

    def __init__(self, folder: Path) -> None:
        self.scripts = folder / ("Scripts" if sys.platform == "win32" else "bin")
        self.python = self.scripts / "python"

    def run(self, *command: str, cwd: Path, code: int = 0) -> str:
        """stdout of a command of this environment, which has to end with that exit code."""
        done = subprocess.run(
            [str(self.scripts / command[0]), *command[1:]],
            cwd=cwd,
            env=clean_environment({"PATH": f"{self.scripts}{os.pathsep}{os.environ.get('PATH', '')}"}),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout


def clean_environment(changes: Mapping[str, str]) -> dict[str, str]:
    """The environment of a user who knows nothing of this checkout."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HOOKWORK_", "PYTHON", "VIRTUAL_ENV", "COVERAGE", "PYTEST"))
    }
    return {**kept, **changes}


def uv(*arguments: str, cwd: Path) -> None:
    """Run uv; skip when it, or the index it needs, is missing."""
    program = shutil.which("uv")
    if program is None:
        pytest.skip("uv is not installed")
    done = subprocess.run(
        [program, *arguments], cwd=cwd, env=clean_environment({}), capture_output=True, text=True, timeout=300
    )
    if done.returncode and UNREACHABLE.search(done.stderr):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, f"uv {' '.join(arguments)}:\n{done.stderr}"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("wheels")
    uv("build", "--all-packages", "--wheel", "-o", str(folder), cwd=ROOT)
    return sorted(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Every distribution and the foreign plugin, installed as wheels."""
    plugin = tmp_path_factory.mktemp("plugin")
    (plugin / "pyproject.toml").write_text(PLUGIN_PROJECT)
    (plugin / "somebodys_shout.py").write_text(PLUGIN_SOURCE)
    uv("build", "--wheel", "-o", str(plugin / "dist"), cwd=plugin)
    environment = tmp_path_factory.mktemp("environment") / "venv"
    uv("venv", "--python", sys.executable, str(environment), cwd=plugin)
    made = Environment(environment)
    files = [str(path) for path in [*wheels, *plugin.glob("dist/*.whl")]]
    uv("pip", "install", "--python", str(made.python), *files, cwd=plugin)
    return made


def test_each_member_of_the_workspace_becomes_a_wheel_with_its_license(wheels: list[Path]) -> None:
    members = [ROOT, ROOT / "kernel", *(path.parent for path in ROOT.glob("*/*/pyproject.toml"))]
    assert len(wheels) == len(members)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
            fields = Parser().parsestr(archive.read(metadata).decode())
        assert fields["License-Expression"] == "Apache-2.0", wheel.name
        assert fields["Summary"], wheel.name
        assert fields["Requires-Python"] == ">=3.11", wheel.name
        if fields["Name"] != "hookwork":  # the meta distribution holds no module
            assert any(name.endswith("/py.typed") for name in names), wheel.name


def test_the_command_lists_extensions_and_the_foreign_plugin(installed: Environment, tmp_path: Path) -> None:
    shown = installed.run("hookwork", "plugins", cwd=tmp_path)
    for distribution in ("hookwork-console", "hookwork-inmemory", "hookwork-llm", "hookwork-offline"):
        assert distribution in shown
    assert re.search(r"shout\b.*somebodys-shout\b.*3\.1", shown), shown


def test_the_example_agent_answers_without_key_or_network(installed: Environment, tmp_path: Path) -> None:
    answer = installed.run(
        "hookwork", "run", "remote_doctor", "Can VS Code Remote-SSH run on this machine?", cwd=tmp_path
    )
    assert "glibc" in answer
    assert "2.28" in answer


def test_a_foreign_plugin_is_active_where_the_settings_name_it(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "greeting.py").write_text(APP_SOURCE)
    (tmp_path / "pyproject.toml").write_text(APP_PROJECT)
    assert installed.run("hookwork", "run", "hello", cwd=tmp_path) == "YOU SAID HELLO?!\n"
    # Installed, but not named: available, never active by itself.
    (tmp_path / "pyproject.toml").write_text(APP_PROJECT.replace('plugins = ["shout"]', ""))
    assert installed.run("hookwork", "run", "hello", cwd=tmp_path) == "you said hello\n"


def test_uninstalling_an_extension_takes_nothing_else_down(
    installed: Environment, wheels: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "greeting.py").write_text(APP_SOURCE)
    uv("pip", "uninstall", "--python", str(installed.python), "hookwork-offline", cwd=tmp_path)
    try:
        assert installed.run("hookwork", "run", "greeting.py", "hello", cwd=tmp_path) == "you said hello\n"
        assert "hookwork-offline" not in installed.run("hookwork", "plugins", cwd=tmp_path)
    finally:
        [wheel] = [str(path) for path in wheels if path.name.startswith("hookwork_offline-")]
        uv("pip", "install", "--python", str(installed.python), wheel, cwd=tmp_path)
