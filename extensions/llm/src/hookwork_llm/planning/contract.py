"""The contract of planners, and their two call sites in the flow."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from hookwork.context import CallbackContext
    from hookwork.model import ModelRequest
    from hookwork.records.metadata import ModelResponse


@runtime_checkable
class Planner(Protocol):
    """Both methods may be async or plain; None means: nothing to add, nothing to change."""

    def build_instruction(self, ctx: CallbackContext, request: ModelRequest) -> Any:
        """Text for the system instruction of a request, or None. The contents are there already and may be replaced."""

    def process_response(self, ctx: CallbackContext, response: ModelResponse) -> Any:
        """Another response in place of a whole one (partial ones are not asked about), or None."""


async def plan_request(planner: Planner, ctx: CallbackContext, request: ModelRequest) -> None:
    """The stage ``planning``: put the planner's instruction into the request."""
    text = planner.build_instruction(ctx, request)
    if inspect.isawaitable(text):
        text = await text
    if text:
        request.append_instruction(text)


async def plan_response(planner: Planner, ctx: CallbackContext, response: ModelResponse) -> ModelResponse:
    """What the planner makes of a whole response."""
    changed: ModelResponse | None = planner.process_response(ctx, response)
    if inspect.isawaitable(changed):
        changed = await changed
    return response if changed is None else changed
