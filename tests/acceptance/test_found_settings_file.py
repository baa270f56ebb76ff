"""An option that an extension refuses is told with the file it stands in (design §6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookwork import Runner, Settings
from hookwork.errors import HookworkError
from hookwork_llm import LlmAgent


@pytest.mark.parametrize(
    ("table", "model", "sessions"),
    [
        ('[openai]\nbase_ulr = "http://x"', "gpt-5.2", "memory:"),
        ('[openai]\ntimeout = "ten"', "gpt-5.2", "memory:"),
        ('[gemini]\nretry = "x"', "gemini-2.5-flash", "memory:"),
        ("[offline]\ndelay = -1", "offline", "memory:"),
        ('[database]\nbusy_timeout = "1"', "offline", "sqlite:///s.db"),
    ],
)
def test_the_file_and_the_table_are_named(table: str, model: str, sessions: str, tmp_path: Path) -> None:
    file = tmp_path / "hookwork.toml"
    file.write_text(table)
    settings = Settings.load(config=str(file))
    with pytest.raises(HookworkError) as caught:
        Runner(LlmAgent(name="a", model=model), sessions=sessions, settings=settings)
    [note] = caught.value.__notes__
    assert str(file) in note
    assert repr(table[1:].partition("]")[0]) in note


def test_without_a_table_nothing_is_named(tmp_path: Path) -> None:
    file = tmp_path / "hookwork.toml"
    file.write_text('model = "offline"')
    settings = Settings.load(config=str(file))
    with pytest.raises(HookworkError) as caught:
        Runner(LlmAgent(name="a"), sessions="sqlite:///s.db?nonsense=1", settings=settings)
    assert "hookwork.toml" not in "".join(caught.value.__notes__)
