"""A default answer that its own schema refuses is told where it is asked for, not when the time is up (WB-22)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hookwork.errors import ValidationError
from hookwork_workflow import START, NodeContext, Workflow, node

LATER = datetime(2100, 1, 1, tzinfo=UTC)
JSON_INTEGER = {"type": "integer"}


@pytest.mark.parametrize("schema", [int, JSON_INTEGER])
@pytest.mark.parametrize("default", ["none came", None, {"a": 1}])
@pytest.mark.parametrize("way", ["wait_event", "request_input"])
async def test_wb_22_a_default_that_does_not_fit_is_refused(kit: Any, way: str, default: Any, schema: Any) -> None:
    @node
    async def ask(text: str, ctx: NodeContext) -> Any:
        return await getattr(ctx, way)("bid", schema=schema, deadline=LATER, default=default)

    lab = kit.Lab(lambda: Workflow("wf", START >> ask).as_agent())
    turn = await lab.run("go")
    assert isinstance(turn.error, ValidationError)
    assert "'bid'" in str(turn.error)
    assert not (await lab.session()).open_calls


@pytest.mark.parametrize(("schema", "default"), [(int, 0), (int | None, None), (JSON_INTEGER, 3), (None, "any")])
async def test_wb_22_one_that_fits_waits(kit: Any, schema: Any, default: Any) -> None:
    @node
    async def ask(text: str, ctx: NodeContext) -> Any:
        return await ctx.wait_event("bid", schema=schema, deadline=LATER, default=default)

    turn = await kit.Lab(lambda: Workflow("wf", START >> ask).as_agent()).run("go")
    assert (turn.error, turn.outcome.kind) == (None, "paused")
