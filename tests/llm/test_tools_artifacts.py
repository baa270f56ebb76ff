"""`load_artifacts` (tools-plugins BT-10, BT-11)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork.errors import BackendError
from hookwork.records.content import Blob, Part
from hookwork_inmemory import InMemoryArtifactService
from hookwork_llm import LlmAgent, LoadArtifactsTool, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call

HERE: Any = {"app_name": "a", "user_id": "u", "session_id": "s"}
PNG = Part(inline_data=Blob(mime_type="image/png", data=b"\x89PNG"))


class Files(InMemoryArtifactService):
    """A service that fails to list, or to load one name."""

    def __init__(self, fails_to: str = "") -> None:
        super().__init__()
        self.fails_to = fails_to

    async def list_artifacts(self, **scope: Any) -> list[str]:
        if self.fails_to == "list":
            raise BackendError("files are down")
        return await super().list_artifacts(**scope)

    async def load_artifact(self, *, filename: str, **scope: Any) -> Part:
        if self.fails_to == filename:
            raise BackendError("files are down")
        return await super().load_artifact(filename=filename, **scope)


async def filled(service: Files) -> Files:
    await service.save_artifact(**HERE, filename="a.txt", artifact=Part(text="alpha"))
    await service.save_artifact(**HERE, filename="b.png", artifact=PNG)
    return service


def agent_of(model: ScriptedModel, *more: Any) -> LlmAgent:
    return LlmAgent(name="a", model=model, tools=[LoadArtifactsTool(), *more])


def asks(*names: str) -> Any:
    return call("load_artifacts", "c1", artifact_names=list(names))


async def test_bt_10_the_names_are_in_the_instruction(runner_factory: Any, play: Any) -> None:
    model: Any = ScriptedModel(["ok"])
    async with runner_factory(agent_of(model), artifacts=await filled(Files())) as runner:
        await play(runner)
    config = model.requests[0].config
    assert '["a.txt", "b.png"]' in config.system_instruction.text
    schema = config.function_declarations()[0].parameters_json_schema
    assert schema["properties"]["artifact_names"]["items"] == {"type": "string"}
    assert "required" not in schema


async def test_bt_10_without_files_only_the_declaration(runner_factory: Any, play: Any) -> None:
    model: Any = ScriptedModel(["ok"])
    async with runner_factory(agent_of(model)) as runner:
        await play(runner)
    config = model.requests[0].config
    assert [declaration.name for declaration in config.function_declarations()] == ["load_artifacts"]
    assert "load_artifacts" not in config.system_instruction.text


async def test_bt_10_a_failed_listing_ends_the_run(runner_factory: Any, play: Any) -> None:
    async with runner_factory(agent_of(ScriptedModel([])), artifacts=Files("list")) as runner:
        turn = await play(runner)
    assert isinstance(turn.error, BackendError)


async def test_bt_11_inert_without_an_artifact_service(runner_factory: Any, play: Any) -> None:
    model: Any = ScriptedModel(["ok"])
    async with runner_factory(agent_of(model), artifacts=None) as runner:
        turn = await play(runner)
    assert model.requests[0].config.function_declarations() == []
    assert turn.outcome.kind == "completed"


@pytest.mark.parametrize(
    ("args", "response"),
    [
        ({"artifact_names": ["a.txt"]}, {"artifact_names": ["a.txt"]}),
        ({}, {"artifact_names": []}),
        ({"artifact_names": None}, {"artifact_names": []}),
    ],
)
async def test_bt_10_the_call_repeats_the_names(
    runner_factory: Any, play: Any, args: dict[str, Any], response: Any
) -> None:
    model: Any = ScriptedModel([call("load_artifacts", "c1", **args), "ok"])
    async with runner_factory(agent_of(model), artifacts=await filled(Files())) as runner:
        turn = await play(runner)
    assert turn.events[1].function_responses[0].response == response


@pytest.mark.parametrize(("names", "at"), [([1], "/artifact_names/0"), ("a.txt", "/artifact_names")])
async def test_bt_10_other_values_are_errors(runner_factory: Any, play: Any, names: Any, at: str) -> None:
    model: Any = ScriptedModel([call("load_artifacts", "c1", artifact_names=names), "ok"])
    async with runner_factory(agent_of(model), artifacts=await filled(Files())) as runner:
        turn = await play(runner)
    assert f" {at}: " in turn.events[1].function_responses[0].response["error"]
    assert len(model.prompts[1]) == 3


async def test_bt_11_the_files_follow_the_response_and_are_not_stored(
    runner_factory: Any, play: Any, stored: Any
) -> None:
    model: Any = ScriptedModel([asks("b.png", "a.txt"), "ok", "next turn"])
    async with runner_factory(agent_of(model), artifacts=await filled(Files())) as runner:
        await play(runner)
        await play(runner, "more")
        session = await stored(runner)
    png, text = model.prompts[1][3:]
    assert "'b.png'" in png.parts[0].text
    assert png.parts[1] == PNG
    assert ["'a.txt'" in text.parts[0].text, text.parts[1].text] == [True, "alpha"]
    assert (png.role, text.role) == ("user", "user")
    assert_valid_prompt(model.prompts[1])
    assert len(model.prompts[2]) == 5, "a later request has them no more"
    assert [len(event.content.parts) for event in session.events] == [1] * 6


async def test_bt_11_every_part_of_the_last_content_is_looked_at(runner_factory: Any, play: Any) -> None:
    @tool
    def other() -> str:
        """Other."""
        return "x"

    turn_calls = [call("other", "c0"), asks("a.txt"), call("load_artifacts", "c2", artifact_names=["b.png", "a.txt"])]
    model: Any = ScriptedModel([turn_calls, "ok"])
    async with runner_factory(agent_of(model, other), artifacts=await filled(Files())) as runner:
        await play(runner)
    assert [content.parts[0].text.split("'")[1] for content in model.prompts[1][3:]] == ["a.txt", "b.png"]


@pytest.mark.parametrize("name", ["absent.txt", "a.txt"])
async def test_bt_11_a_failed_load_is_text_in_its_place(runner_factory: Any, play: Any, name: str) -> None:
    model: Any = ScriptedModel([asks(name, "b.png"), "ok"])
    async with runner_factory(agent_of(model), artifacts=await filled(Files("a.txt"))) as runner:
        turn = await play(runner)
    failed, loaded = model.prompts[1][3:]
    assert f"{name!r} could not be loaded" in failed.text
    assert loaded.parts[1] == PNG
    assert turn.outcome.kind == "completed"
