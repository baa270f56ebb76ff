"""Tools that show the model media beside their result (tools-plugins Beyond: results as function-response parts)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork import Blob, FileData, Finished, FunctionPlugin, Part, ToolContext, WithMedia
from hookwork.effects import ToolResult
from hookwork.errors import ToolResultError
from hookwork.records.codec import dump
from hookwork.records.content import FunctionResponse, FunctionResponseBlob, FunctionResponsePart
from hookwork.tool import Tool
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call

PNG = Blob(data=b"\x89PNG", mime_type="image/png")
SHOWN = FunctionResponsePart(inline_data=FunctionResponseBlob(data=b"\x89PNG", mime_type="image/png"))


@tool(inline=True)
def chart(kind: str = "plain") -> Any:
    """Draws a chart."""
    if kind == "file":
        return WithMedia({"points": 3}, FileData(file_uri="gs://b/c.png", mime_type="image/png"))
    if kind == "number":
        return WithMedia(3, Part(inline_data=PNG), PNG)
    return WithMedia({"points": 3}, PNG)


class Raw(Tool):
    name = "raw"
    description = "Raw."
    is_long_running = True

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        return Finished(WithMedia({"ok": True}, PNG))


def agent_of(*steps: Any) -> LlmAgent:
    return LlmAgent(name="a", model=ScriptedModel([*steps, "seen"]), tools=[chart, Raw()])


FILE = FunctionResponsePart(file_data=FileData(file_uri="gs://b/c.png", mime_type="image/png"))


@pytest.mark.parametrize(
    ("step", "response", "parts"),
    [
        (call("chart", "c1"), {"points": 3}, (SHOWN,)),
        (call("chart", "c1", kind="file"), {"points": 3}, (FILE,)),
        (call("chart", "c1", kind="number"), {"result": 3}, (SHOWN, SHOWN)),
        (call("raw", "c1"), {"ok": True}, (SHOWN,)),
    ],
    ids=["blob", "file", "wrapped", "finished"],
)
async def test_beyond_media_are_stored_and_shown_as_parts_of_the_response(
    runner_factory: Any, play: Any, stored: Any, step: Any, response: Any, parts: Any
) -> None:
    agent = agent_of(step)
    async with runner_factory(agent) as runner:
        turn = await play(runner)
        session = await stored(runner)
    expected = FunctionResponse(id="c1", name=step.function_call.name, response=response, parts=parts)
    assert turn.events[1].function_responses == [expected]
    assert session.events[2].function_responses == [expected]
    assert agent.model.prompts[-1][-1].function_responses == [expected]  # type: ignore[union-attr]
    assert_valid_prompt(agent.model.prompts[-1])  # type: ignore[union-attr]
    assert turn.outcome.kind == "completed"


async def test_beyond_what_after_tool_puts_in_its_place_has_no_media(runner_factory: Any, play: Any) -> None:
    plugin = FunctionPlugin("p", after_tool=lambda ctx, tool, args, result, error: {"redacted": True})
    async with runner_factory(agent_of(call("chart", "c1")), plugins=[plugin]) as runner:
        turn = await play(runner)
    [answer] = turn.events[1].function_responses
    assert (answer.response, answer.parts) == ({"redacted": True}, None)


@pytest.mark.parametrize("remote", [False, True])
async def test_eff_5_media_come_through_an_effect_here_and_from_elsewhere(
    runner_factory: Any, play: Any, remote: bool
) -> None:
    seen: list[Any] = []

    async def perform_tool(call: Any) -> ToolResult:
        if not remote:
            result: ToolResult = await call.default()
            seen.append(result.media)
            return result
        described = await runner.carry_out(call.to_json())
        seen.append(described["media"])
        return ToolResult(result=described["result"], media=tuple(described["media"]))

    plugin = FunctionPlugin("p", perform_tool=perform_tool)
    async with runner_factory(agent_of(call("chart", "c1")), plugins=[plugin]) as runner:
        turn = await play(runner)
    [answer] = turn.events[1].function_responses
    assert (answer.response, answer.parts) == ({"points": 3}, (SHOWN,))
    assert seen == [[dump(SHOWN)] if remote else (SHOWN,)]


@pytest.mark.parametrize("value", ["text", b"bytes", Part(text="x"), None])
def test_beyond_what_is_no_media_is_refused(value: Any) -> None:
    with pytest.raises(ToolResultError, match="Blob or FileData"):
        WithMedia({}, value)
