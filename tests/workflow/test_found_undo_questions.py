"""An undo asks nobody: what it asks is closed, and does not wait in the session for ever (workflow WB-23)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.workflow.flows import answered

from hookwork.errors import NodeFailed, NothingToResume
from hookwork_workflow import START, NodeContext, Workflow, node


def flow(lines: list[str]) -> Any:
    async def ask_first(booked: str, ctx: NodeContext) -> None:
        lines.append(f"asks about {booked}")
        lines.append(await ctx.request_input("sure", "Sure?"))

    async def take_back(booked: str) -> None:
        lines.append(f"undo {booked}")

    @node(undo=take_back)
    async def hotel(text: str) -> str:
        return "hotel"

    @node(undo=ask_first)
    async def flight(text: str) -> str:
        return "flight"

    @node
    async def pay(text: str) -> str:
        raise OSError("refused")

    return Workflow("wf", START >> hotel >> flight >> pay).as_agent()


async def test_wb_23_a_question_of_an_undo_is_closed_and_takes_no_answer(kit: Any) -> None:
    lines: list[str] = []
    lab = kit.Lab(lambda: flow(lines))
    asked: list[str] = []

    turn = await lab.run("go")

    assert isinstance(turn.error, OSError)
    assert lines == ["asks about flight", "undo hotel"]
    session = await lab.session()
    assert not session.open_calls
    asked = [call.id or "" for event in session.events for call in event.function_calls]
    assert len(asked) == 1
    with pytest.raises(NothingToResume):
        await answered(lab, {asked[0]: "yes"})
    assert lines == ["asks about flight", "undo hotel"]


async def test_wb_23_a_crash_right_behind_the_question_leaves_it_open_no_longer_than_that(kit: Any) -> None:
    lines: list[str] = []
    lab = kit.Lab(lambda: flow(lines))
    lab.store.crash_after = 7  # message, three nodes, two marks, the question

    turn = await lab.run("go")
    assert isinstance(turn.error, kit.Crash)
    lab.store.revive()
    assert len((await lab.session()).open_calls) == 1

    turn = await lab.run(invocation_id=await lab.first_invocation())
    assert isinstance(turn.error, NodeFailed)
    assert not (await lab.session()).open_calls
    assert lines == ["asks about flight", "undo hotel"]


async def test_wb_23_a_workflow_undoes_a_node(kit: Any) -> None:
    lines: list[str] = []

    @node
    async def call_hotel(booked: str) -> str:
        lines.append(f"call about {booked}")
        return booked

    @node
    async def get_money(booked: str) -> str:
        lines.append(f"money of {booked}")
        return booked

    @node(undo=Workflow("refund", START >> call_hotel >> get_money))
    async def hotel(text: str) -> str:
        return "hotel"

    @node
    async def pay(text: str) -> str:
        raise OSError("refused")

    turn = await kit.Lab(lambda: Workflow("wf", START >> hotel >> pay).as_agent()).run("go")
    assert isinstance(turn.error, OSError)
    assert lines == ["call about hotel", "money of hotel"]


async def test_wb_23_a_question_beside_the_failure_waits_no_longer(kit: Any) -> None:
    undone: list[str] = []

    async def take_back(booked: str) -> None:
        undone.append(booked)

    @node(undo=take_back)
    async def hotel(text: str) -> str:
        return "hotel"

    @node
    async def ask(text: str, ctx: NodeContext) -> str:
        return await ctx.request_input("day", "Which day?")

    @node
    async def pay(text: str) -> str:
        raise OSError("refused")

    @node
    async def later(text: str, ctx: NodeContext) -> str:
        return await ctx.request_input("sure", "Sure?")

    lab = kit.Lab(lambda: Workflow("wf", START >> hotel >> (ask, later >> pay)).as_agent())
    turn = await lab.run("go")
    [sure] = [key for key in turn.waits_for if key.startswith("sure")]
    with pytest.raises(OSError, match="refused"):
        await answered(lab, {sure: "yes"})
    assert undone == ["hotel"]
    assert not (await lab.session()).open_calls
