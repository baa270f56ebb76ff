"""The request stage ``compaction``: tail retention before the contents are put together (core §4.2, CMP-5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookwork_llm.compaction.engine import Compaction

if TYPE_CHECKING:
    from hookwork.model import ModelRequest
    from hookwork_llm.flow import Flow


async def compact_before_request(flow: Flow, request: ModelRequest) -> None:
    """Built-in stage; does nothing unless the runner's compaction retains a tail. Not in live runs (CMP-14)."""
    compaction = flow.inv.setup.compaction
    if isinstance(compaction, Compaction) and compaction.retains_tail:
        await compaction.before_request(flow.stage_context, flow.agent, flow.prepared.model)
