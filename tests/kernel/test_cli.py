"""The `hookwork` command in the process: contributions, exit codes, texts (servers CLI-1 … CLI-7)."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from hookwork.agent import Agent
from hookwork.app import App
from hookwork.cli import CommandRegistry, command_settings, main
from hookwork.errors import ConfigurationError
from hookwork.plugins.discovery import use_extensions
from hookwork.plugins.entry_points import AGENTS, PLUGINS, EntryPoint
from hookwork.plugins.markers import hookimpl
from hookwork.plugins.plugin import Plugin


class Adds:
    """An extension that contributes commands, given as (name, target)."""

    def __init__(self, *commands: tuple[str, str]) -> None:
        self.commands = commands

    @hookimpl
    def register_commands(self, cli: CommandRegistry) -> None:
        for name, target in self.commands:
            cli.add(name, f"Help of {name}.", target)


@click.command()
@click.option("--how", default="well")
@click.option("--debug", is_flag=True)
def act(how: str, debug: bool) -> int:
    """Act in a way that a test chooses."""
    if how == "paused":
        return 2
    if how == "exit":
        click.get_current_context().exit(2)
    if how == "sys-exit":
        sys.exit(1)
    actions: dict[str, type[BaseException] | BaseException] = {
        "broken-pipe": BrokenPipeError(),
        "interrupted": KeyboardInterrupt(),
        "abort": click.Abort(),
        "configuration": ConfigurationError("the thing is wrong;\n   do this"),
        "bug": ZeroDivisionError("by zero"),
        "usage": click.UsageError("not like that"),
        "click": click.ClickException("file gone"),
    }
    if how in actions:
        error = actions[how]
        assert isinstance(error, BaseException)
        if how == "bug":
            error.add_note("noted")
        raise error
    click.echo("done ✓")
    return 0


@click.command()
def show() -> None:
    """Print the settings' model."""
    click.echo(command_settings(agent=None).model or "none")


@pytest.fixture(autouse=True)
def _commands(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module: Any = SimpleNamespace(act=act, show=show, text="not a command")
    monkeypatch.setitem(sys.modules, "fake_commands", module)
    monkeypatch.delenv("HOOKWORK_CONFIG", raising=False)
    with use_extensions(
        [("act", Adds(("act", "fake_commands:act"))), ("show", Adds(("show", "fake_commands:show")))],
        plugins={},
        agents={},
    ):
        yield


@pytest.mark.parametrize(
    ("how", "code", "stdout", "stderr"),
    [
        ("well", 0, "done ✓\n", ""),
        ("paused", 2, "", ""),
        ("exit", 2, "", ""),
        ("sys-exit", 1, "", ""),
        ("broken-pipe", 0, "", ""),
        ("interrupted", 130, "", "interrupted\n"),
        ("abort", 130, "", "interrupted\n"),
        ("configuration", 1, "", "error: the thing is wrong; do this\n"),
        ("bug", 1, "", "error: ZeroDivisionError: by zero (--debug shows where) (noted)\n"),
        ("usage", 64, "", "error: not like that\nsee: hookwork act --help\n"),
        ("click", 1, "", "error: file gone\n"),
    ],
)
def test_cli_6_exit_codes_and_one_line_errors(
    how: str, code: int, stdout: str, stderr: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["act", "--how", how]) == code
    out, err = capsys.readouterr()
    assert (out, err) == (stdout, stderr)


def test_cli_3_a_group_without_a_subcommand_shows_its_help_as_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = click.Group("many", help="Many things.", commands=[click.Command("one", help="One thing.")])
    monkeypatch.setattr(sys.modules["fake_commands"], "many", group, raising=False)
    with use_extensions([("many", Adds(("many", "fake_commands:many")))], plugins={}, agents={}):
        assert main(["many"]) == 64
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Usage: hookwork many ")
    assert "One thing." in err
    assert "error" not in err


def test_cli_6_tracebacks_only_with_debug(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["act", "--how", "bug", "--debug"]) == 1
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err
    assert "test_cli.py" in err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "no command is given"),
        (["act", "--huw", "x"], "No such option '--huw'"),
        (["act", "surplus"], "unexpected extra argument"),
        (["atc"], "there is no command 'atc' (did you mean 'act'?)"),
        (["web"], "there is no command 'web'; provided by hookwork-web, which is not released yet"),
        (["--nope"], "No such option '--nope'"),
    ],
)
def test_cli_3_wrong_usage_is_64_with_the_remedy(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 64
    out, err = capsys.readouterr()
    assert text in err
    assert out == ""


def test_cli_1_help_lists_contributions_without_importing_them(capsys: pytest.CaptureFixture[str]) -> None:
    with use_extensions([("far", Adds(("far", "fake_not_there:command")))], plugins={}, agents={}):
        assert main(["--help"]) == 0
        out = capsys.readouterr().out
        assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")][-3:] == [
            "far",
            "plugins",
            "version",
        ]
        assert "Help of far." in out
        assert main(["far"]) == 1
    assert "command 'far' of hookwork-far cannot be loaded: ModuleNotFoundError" in capsys.readouterr().err


def test_cli_2_an_extension_may_add_one_command_named_after_itself(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        use_extensions([("mine", Adds(("other", "a:b"), ("mine", "fake_commands:act")))], plugins={}, agents={}),
        caplog.at_level(logging.WARNING),
    ):
        assert main(["mine"]) == 0
        assert main(["other"]) == 1
    assert "hookwork-mine may add one command named 'mine', not 'other'" in capsys.readouterr().err
    assert "not 'other'" in caplog.text


def test_cli_2_a_name_of_the_table_belongs_to_its_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    foreign, owner = Adds(("run", "no:way")), Adds(("run", "fake_commands:act"))
    with use_extensions([("aaa", foreign), ("console", owner)], plugins={}, agents={}):
        assert main(["run"]) == 0
    assert capsys.readouterr().out == "done ✓\n"


def test_cli_2_two_contributions_of_one_name_fail_naming_both_and_the_others_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pair = [("run", Adds(("run", "fake_commands:act"))), ("console", Adds(("run", "fake_commands:act")))]
    with use_extensions([*pair, ("act", Adds(("act", "fake_commands:act")))], plugins={}, agents={}):
        assert main(["run"]) == 1
        assert "'run' is claimed by hookwork-run and hookwork-console" in capsys.readouterr().err
        assert main(["act"]) == 0
        assert main(["--help"]) == 0
    assert "(claimed by hookwork-run and hookwork-console)" in capsys.readouterr().out


def test_cli_2_the_kernels_own_commands_cannot_be_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with use_extensions([("version", Adds(("version", "fake_commands:act")))], plugins={}, agents={}):
        assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith("hookwork ")


def test_an_extension_whose_hook_raises_is_left_out(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with use_extensions([("bad", Adds(("bad", "no-colon"))), ("act", Adds(("act", "fake_commands:act")))]):
        assert main(["act"]) == 0
    assert (
        "the commands of hookwork-bad are left out: command 'bad': 'no-colon' is no 'module:attribute'" in caplog.text
    )
    assert capsys.readouterr().out == "done ✓\n"


def test_a_target_that_is_no_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with use_extensions([("bad", Adds(("bad", "fake_commands:text")))], plugins={}, agents={}):
        assert main(["bad"]) == 1
    assert "fake_commands:text is no click command" in capsys.readouterr().err


def test_cli_5_config_names_the_settings_of_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some.toml"
    path.write_text('model = "named"\n')
    assert main(["--config", str(path), "show"]) == 0
    assert main([f"--config={path}", "show"]) == 0
    assert main(["--config", "none", "show"]) == 0
    assert capsys.readouterr().out.split() == ["named", "named", "none"]
    path.write_text("model = 1\n")
    assert main(["--config", str(path), "show"]) == 1
    assert "'model' must be a text" in capsys.readouterr().err


def test_ext_3_disabled_extensions_contribute_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some.toml"
    path.write_text('disabled = ["act"]\n')
    assert main(["--config", str(path), "act"]) == 64
    assert "there is no command 'act'" in capsys.readouterr().err
    assert main(["--config", str(path), "plugins"]) == 0
    assert "extension  act   disabled" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"hookwork {found['hookwork']}\n"
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))


# --- hookwork plugins -------------------------------------------------------------------------------------------------


class Audit(Plugin):
    """Implements two hooks by name, and closes."""

    name = "audit"
    closed = 0

    async def before_tool(self, ctx: Any, tool: Any) -> None: ...

    async def after_tool(self, ctx: Any) -> None: ...

    async def close(self) -> None:
        Audit.closed += 1


class Cache:
    """Implements one hook by the marker, ahead of all others."""

    name = "cache"

    @hookimpl(tryfirst=True)
    async def before_tool(self, ctx: Any) -> None: ...


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    async def body(ctx: Any) -> Any:
        return
        yield

    plugins_of_app: Any = [Audit(), Cache()]
    app = App("shop", Agent(name="seller", body=body), plugins=plugins_of_app)
    module: Any = SimpleNamespace(Audit=Audit, Cache=Cache, app=app)
    monkeypatch.setitem(sys.modules, "fake_named", module)
    plugins = {
        name: EntryPoint(name, PLUGINS, "fake_named", attribute, "fake-dist", "2.0")
        for name, attribute in {"audit": "Audit", "cache": "Cache", "gone": "Gone"}.items()
    }
    agents = {"shop": EntryPoint("shop", AGENTS, "fake_named", "app", "fake-dist", "2.0")}
    with use_extensions([("act", Adds())], plugins=plugins, agents=agents):
        yield


@pytest.mark.usefixtures("named")
def test_ext_9_plugins_lists_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some.toml"
    path.write_text('plugins = ["audit"]\n')
    assert main(["plugins", "--config", str(path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["kind", "name", "state", "distribution", "version", "hooks"]
    assert lines[1] == ["extension", "act", "loaded", "-", "-", "register_commands"]
    assert lines[2] == ["plugin", "audit", "active", "fake-dist", "2.0", "before_tool,", "after_tool,", "close"]
    assert lines[3] == ["plugin", "cache", "available", "fake-dist", "2.0", "before_tool"]
    assert lines[4][:5] == ["plugin", "gone", "broken", "fake-dist", "2.0"]
    assert "AttributeError:" in lines[4]
    assert lines[5] == ["agent", "shop", "available", "fake-dist", "2.0", "-"]


@pytest.mark.usefixtures("named")
def test_ext_9_json_holds_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["state"] for row in found["plugins"]] == ["available", "available", "broken"]
    assert found["plugins"][0] == {
        "name": "audit",
        "distribution": "fake-dist",
        "version": "2.0",
        "module": "fake_named:Audit",
        "hooks": ["before_tool", "after_tool", "close"],
        "state": "available",
        "error": "",
    }
    assert found["extensions"][0]["hooks"] == ["register_commands"]


@pytest.mark.usefixtures("named")
def test_ext_9_explain_shows_the_compiled_order(capsys: pytest.CaptureFixture[str]) -> None:
    closed = Audit.closed
    assert main(["plugins", "--explain", "shop"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "before_tool  cache → audit",
        "after_tool   audit",
        "close        audit",
    ]
    assert Audit.closed == closed + 1
    assert main(["plugins", "--explain", "shop", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "agent": "shop",
        "plugins": ["audit", "cache"],
        "hooks": {"before_tool": ["cache", "audit"], "after_tool": ["audit"], "close": ["audit"]},
    }
    assert main(["plugins", "--explain", "shopp"]) == 1
    assert "did you mean 'shop'" in capsys.readouterr().err


@pytest.mark.usefixtures("named")
def test_cli_7_plugins_needs_no_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some.toml"
    path.write_text("nonsense = 1\n")
    assert main(["plugins", "--config", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "audit" in out
    assert err.startswith("warning: ")
