"""Files of a message become artifacts (tools-plugins SP-43, core RUN-15)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork import Blob, Part, Runner
from hookwork.errors import ConfigurationError
from hookwork.resolve import resolve_plugins
from hookwork.settings import Settings
from hookwork_llm import LlmAgent
from hookwork_save_files import SaveFiles
from hookwork_save_files.names import own_name
from hookwork_testkit import ScriptedModel

RunnerFactory = Callable[..., Runner]
KEY: dict[str, Any] = {"app_name": "clerk", "user_id": "u", "session_id": "s"}


def file(name: str | None, data: bytes = b"1") -> Part:
    return Part(inline_data=Blob(data=data, mime_type="text/plain", display_name=name))


class Scene:
    def __init__(self, runner_factory: RunnerFactory, plugin: SaveFiles, **options: Any) -> None:
        self.model = ScriptedModel(lambda _: "Kept.")
        self.runner = runner_factory(LlmAgent(name="clerk", model=self.model), plugins=[plugin], **options)

    async def send(self, *parts: Part) -> list[Part]:
        """The message's parts as they were stored; the model saw the same."""
        await self.runner.ask(list(parts), user_id="u", session_id="s")
        session = await self.runner.sessions.get_session(**KEY)
        stored = [event.content for event in session.events if event.author == "user"][-1]
        assert stored is not None
        assert self.model.prompts[-1][-1].parts == stored.parts
        return list(stored.parts)

    async def saved(self, name: str, version: int | None = None) -> bytes | None:
        assert self.runner.artifacts is not None
        part = await self.runner.artifacts.load_artifact(**KEY, filename=name, version=version)
        return part.inline_data.data if part.inline_data is not None else None


async def test_sp_43_names_stand_where_files_were(runner_factory: RunnerFactory) -> None:
    scene = Scene(runner_factory, SaveFiles())
    async with scene.runner:
        parts = await scene.send(Part(text="Two files:"), file("a.txt", b"A"), file("b.txt", b"B"))
        assert [part.text for part in parts] == [
            "Two files:",
            'Uploaded file: "a.txt". It is saved as an artifact.',
            'Uploaded file: "b.txt". It is saved as an artifact.',
        ]
        assert (await scene.saved("a.txt"), await scene.saved("b.txt")) == (b"A", b"B")


async def test_sp_43_a_later_file_of_that_name_is_a_new_version(runner_factory: RunnerFactory) -> None:
    scene = Scene(runner_factory, SaveFiles())
    async with scene.runner:
        await scene.send(file("a.txt", b"1"))
        await scene.send(file("a.txt", b"2"))
        assert (await scene.saved("a.txt", 1), await scene.saved("a.txt")) == (b"1", b"2")


async def test_sp_43_files_of_one_name_in_a_message_stay_apart(runner_factory: RunnerFactory) -> None:
    scene = Scene(runner_factory, SaveFiles(text="{filename}"))
    async with scene.runner:
        parts = await scene.send(file("a.txt", b"0"), file("a.txt", b"1"), file("b", b"2"), file("b", b"3"))
        names = [part.text or "" for part in parts]
        assert names == ["a.txt", "a_1.txt", "b", "b_3"]
        assert [await scene.saved(name) for name in names] == [b"0", b"1", b"2", b"3"]


async def test_sp_43_options(runner_factory: RunnerFactory) -> None:
    plugin = SaveFiles(
        namer=lambda part, position, invocation_id: f"upload-{position}",
        text="<{filename}>",
        keep_inline=True,
        scope="user",
    )
    scene = Scene(runner_factory, plugin)
    async with scene.runner:
        parts = await scene.send(file("a.txt", b"A"))
        assert parts[0].text == "<user:upload-0>"
        assert parts[1] == file("a.txt", b"A")
        assert await scene.saved("user:upload-0") == b"A"


async def test_a_message_without_files_stays_as_it_is(runner_factory: RunnerFactory) -> None:
    scene = Scene(runner_factory, SaveFiles(), artifacts=None)
    async with scene.runner:
        assert await scene.send(Part(text="Hi")) == [Part(text="Hi")]


async def test_plug_10_without_a_service_the_run_fails_and_nothing_is_stored(runner_factory: RunnerFactory) -> None:
    scene = Scene(runner_factory, SaveFiles(), artifacts=None)
    async with scene.runner:
        with pytest.raises(ConfigurationError, match="no artifact service"):
            await scene.send(file("a.txt"))
        session = await scene.runner.sessions.get_session(**KEY)
        assert list(session.events) == []


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        ("report.pdf", "report.pdf"),
        ("C:\\temp\\report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("user:secret.txt", "user_secret.txt"),
        ("..", "artifact_e-1_2"),
        ("", "artifact_e-1_2"),
        (None, "artifact_e-1_2"),
    ],
)
def test_sp_43_a_name_from_outside_chooses_neither_folder_nor_scope(given_name: str | None, name: str) -> None:
    assert own_name(file(given_name), 2, "e-1") == name


@given(st.text())
def test_every_name_is_usable(text: str) -> None:
    name = own_name(file(text.encode("utf-8", "replace").decode()), 0, "e-1")
    assert name
    assert not set(name) & set("/\\:\x00\n")


def test_ext_8_options_come_from_its_table() -> None:
    [plugin] = resolve_plugins(["save_files"], Settings(tables={"save_files": {"scope": "user"}}))
    assert isinstance(plugin, SaveFiles)
    with pytest.raises(ConfigurationError, match="scope"):
        SaveFiles(scope="app")
