"""What the console's README shows of ``hookwork sessions`` is what the commands print."""

from __future__ import annotations

import io
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.console.session_files import event

from hookwork.platform import use_clock
from hookwork_console.session_lines import entries
from hookwork_console.sessions import command
from hookwork_database import DatabaseSessionService

README = Path(__file__).resolve().parents[2] / "extensions" / "console" / "README.md"
SECTION = README.read_text().partition("## hookwork sessions\n")[2].partition("\n## ")[0]


def block(language: str) -> str:
    """The one code block of a language."""
    [found] = re.findall(rf"^```{language}\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``chat.db`` with the session that the README shows, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hookwork.toml").write_text("")
    service = DatabaseSessionService("sqlite:///chat.db")
    with use_clock(lambda: datetime(2026, 1, 2, 3, tzinfo=UTC)):
        handle = await service.create_session(
            app_name="weather", user_id="u1", session_id="s1", state={"city": "Tokyo", "app:unit": "C"}
        )
        for second, author, text in (
            (0, "user", "What is the weather in Tokyo?"),
            (1, "weather_agent", "In Tokyo it is 22 °C and clear."),
        ):
            moment = datetime(2026, 1, 2, 4, 0, second, tzinfo=UTC).timestamp()
            await service.append_event(handle, event(f"e{second}", text, author=author, timestamp=moment))
    await service.close()


def test_the_examples_print_what_the_readme_shows(store: None, hookwork: Any) -> None:
    examples = block("console").removeprefix("$ ").split("\n$ ")
    assert len(examples) == 6
    for example in examples:
        line, _, shown = example.partition("\n")
        result = hookwork(*shlex.split(line)[1:])
        assert result.code == 0, line
        assert (result.out + result.err).rstrip("\n") == shown.rstrip("\n")


def test_the_shown_file_can_be_imported() -> None:
    shown = "".join(re.findall(r"```json\n(.*?)```", SECTION, re.DOTALL))
    found = list(entries(io.BytesIO(shown.encode())))
    assert [
        (bool(entry.session), bool(entry.event), bool(entry.artifact), entry.problem, entry.remark) for entry in found
    ] == [
        (True, False, False, "", ""),
        (False, True, False, "", ""),
        (False, False, True, "", ""),
    ]


def test_every_option_is_in_the_readme() -> None:
    options = {
        parameter.opts[0]
        for sub in command.commands.values()
        for parameter in sub.params
        if parameter.param_type_name == "option" and parameter.name != "help"
    }
    assert {name for name in options if f"`{name}" not in SECTION} == set()
