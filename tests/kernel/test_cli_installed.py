"""The `hookwork` command as a process of its own, with made-up distributions installed (servers §7)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

EXTENSION = """
    from hookwork.plugins.markers import hookimpl

    @hookimpl
    def register_commands(cli):
        cli.add("greet", "Say hello.", "fake_greet:command")
"""
COMMAND = """
    import click
    print("imported", file=__import__("sys").stderr)

    @click.command()
    def command():
        for i in range(100_000):
            click.echo("hello ✓")
"""


def install_greeter(site: Any) -> None:
    site.install(
        "greeter", {"hookwork": {"greet": "fake_greet_ext"}}, {"fake_greet_ext": EXTENSION, "fake_greet": COMMAND}
    )


def test_cli_1_a_strangers_command_is_imported_only_when_it_runs(fake_site: Any) -> None:
    install_greeter(fake_site)
    shown = fake_site.hookwork("--help")
    assert shown.returncode == 0
    assert re.search(r"^  greet +Say hello\.$", shown.stdout, re.MULTILINE)
    assert shown.stderr == ""
    ran = fake_site.hookwork("greet")
    assert ran.returncode == 0
    assert ran.stderr == "imported\n"


def test_cli_7_output_is_utf_8_whatever_the_locale(fake_site: Any) -> None:
    install_greeter(fake_site)
    ran = fake_site.hookwork("greet", LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("hello ✓\n")


def test_cli_7_a_closed_pipe_ends_quietly(fake_site: Any) -> None:
    install_greeter(fake_site)
    code = """
        import subprocess, sys
        running = subprocess.Popen(
            [sys.executable, "-c", "import sys; from hookwork.cli import main; sys.exit(main(['greet']))"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        print(running.stdout.readline().decode().strip())
        running.stdout.close()
        print(running.wait(), repr(running.stderr.read().decode()))
    """
    ran = fake_site.python(code, PYTHONIOENCODING="utf-8")
    assert ran.stdout.splitlines() == ["hello ✓", "0 'imported\\n'"], ran.stderr


def test_ext_9_a_broken_extension_is_shown_and_the_command_goes_on(fake_site: Any) -> None:
    fake_site.install("bad-one", {"hookwork": {"bad": "fake_bad"}}, {"fake_bad": "import no_such_library"}, version="9")
    install_greeter(fake_site)
    ran = fake_site.hookwork("plugins", "--json")
    assert ran.returncode == 0
    rows = {row["name"]: row for row in json.loads(ran.stdout)["extensions"]}
    assert rows["bad"]["state"] == "broken"
    assert rows["bad"]["error"] == "ModuleNotFoundError: No module named 'no_such_library'"
    assert rows["greet"]["state"] == "loaded"
    assert (rows["greet"]["distribution"], rows["greet"]["hooks"]) == ("greeter", ["register_commands"])
    assert ran.stderr.count("bad-one") == 1


def test_cli_6_strict_is_one_line_and_1(fake_site: Any) -> None:
    fake_site.install("bad-one", {"hookwork": {"bad": "fake_bad"}}, {"fake_bad": "import no_such_library"})
    ran = fake_site.hookwork("plugins", HOOKWORK_STRICT="1")
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: extension 'bad' (bad-one 1.0) is broken")
    assert len(ran.stderr.splitlines()) == 1


def test_the_console_script_runs_the_command() -> None:
    script = Path(sys.executable).with_name("hookwork")
    done = subprocess.run([script, "version"], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("hookwork ")


def test_ext_3_a_command_of_a_disabled_extension_is_said_to_be_switched_off(tmp_path: Path) -> None:
    settings = tmp_path / "some.toml"
    settings.write_text('disabled = ["console"]\n')
    program = "import sys; from hookwork.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "--config", str(settings), "run", "x", "hi"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 64
    assert "extension 'console' (hookwork-console) would, but it is switched off" in ran.stderr
    assert "pip install" not in ran.stderr
