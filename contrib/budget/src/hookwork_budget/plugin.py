"""The plugin: counts what a run uses, asks the model to conclude, then ends the run (core B-24)."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hookwork import ModelResponse, Plugin
from hookwork.errors import ConfigurationError, LimitExceeded
from hookwork.tool import RESERVED_TOOL_NAMES
from hookwork_budget.meter import RESOURCES, Limits, Meter
from hookwork_budget.prices import Prices, total_tokens

if TYPE_CHECKING:
    from hookwork import CallbackContext, InvocationContext, ModelRequest, RunOutcome, Stage, Tool, ToolContext


class Budget(Plugin):
    """Limits what a run may use.

    From ``soft`` of a limit on, each model request carries the text that the budget is nearly used up and that the
    model should conclude. When a limit is reached, the next model call raises `LimitExceeded`: the run ends, its
    outcome is ``limit``. A tool call above ``tool_calls`` is refused with an error first.

    Args:
        tokens: of all model calls of the run, as the providers report them.
        seconds: since the run began, by the kit's clock.
        cost: of all model calls, in the currency of ``prices``.
        model_calls: calls to models; answers of earlier plugins are none.
        tool_calls: calls of tools; those the kit makes for itself (transfers, structured answers) are none.
        soft: share of a limit from which on the model is asked to conclude, above 0, at most 1.
        prices: glob over model names → ``{input, output, cached_input}`` for a million tokens each.
        name: the plugin's name.

    Raises:
        ConfigurationError: no limit at all, one that is not positive, a cost without prices, a bad price.
    """

    def __init__(
        self,
        *,
        tokens: float | None = None,
        seconds: float | None = None,
        cost: float | None = None,
        model_calls: float | None = None,
        tool_calls: float | None = None,
        soft: float = 0.8,
        prices: Mapping[str, Any] | None = None,
        name: str = "budget",
    ) -> None:
        self.name = name
        self._limits = Limits(tokens=tokens, seconds=seconds, cost=cost, model_calls=model_calls, tool_calls=tool_calls)
        given = {resource: getattr(self._limits, resource) for resource in RESOURCES}
        for option, value in {**given, "soft": soft}.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
                raise ConfigurationError(f"plugin {name!r}: {option} must be a number above 0, not {value!r}")
        if all(value is None for value in given.values()):
            raise ConfigurationError(f"plugin {name!r} limits nothing; give it one of {', '.join(RESOURCES)}")
        if soft > 1:
            raise ConfigurationError(f"plugin {name!r}: soft is a share of the limit, at most 1, not {soft!r}")
        if cost is not None and not prices:
            raise ConfigurationError(f"plugin {name!r}: a cost needs prices: {{'model-*': {{input: …, output: …}}}}")
        self._soft = soft
        try:
            self._prices = Prices(prices or {})
        except ConfigurationError as error:
            raise ConfigurationError(f"plugin {name!r}: {error}") from error
        self._lock = threading.Lock()
        self._meters: dict[str, Meter] = {}

    # --- hooks --------------------------------------------------------------------------------------------------------

    def before_run(self, ctx: InvocationContext) -> None:
        """Time counts from here on."""
        self._meter(ctx)

    def before_model(self, ctx: CallbackContext, request: ModelRequest) -> None:
        """Raise if a limit is reached; near one, tell the model to conclude."""
        meter = self._meter(ctx)
        with self._lock:
            reached = meter.refused or next(self._reached(meter), "")
            if not reached:
                meter.model_calls += 1
        if reached:
            raise LimitExceeded(
                f"the budget of this run is used up ({reached}); raise the limit of plugin {self.name!r}"
            )
        near = list(self._near(meter))
        if near:
            request.append_instruction(
                f"The budget of this run is nearly used up ({'; '.join(near)}). Conclude now: answer with what you "
                "have, and call a tool only if the answer is impossible without it."
            )

    @asynccontextmanager
    async def around_model(self, ctx: CallbackContext, request: ModelRequest, stage: Stage) -> AsyncIterator[None]:
        """Count what the call used, whoever replaced its answer."""
        yield
        response = stage.outcome.value if stage.outcome is not None else None
        if isinstance(response, ModelResponse):
            self._count(self._meter(ctx), request, response)

    def before_tool(self, ctx: ToolContext, tool: Tool, args: dict[str, Any]) -> dict[str, Any] | None:
        """None, or the refusal of a call that is one too many."""
        limit = self._limits.tool_calls
        if limit is None or tool.name in RESERVED_TOOL_NAMES:
            return None
        meter = self._meter(ctx)
        with self._lock:
            if meter.tool_calls + 1 <= limit:
                meter.tool_calls += 1
                return None
            meter.refused = meter.describe("tool_calls", limit)
        return {"error": f"the call was not run: the budget of this run is used up ({meter.refused})"}

    def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        with self._lock:
            self._meters.pop(ctx.invocation_id, None)

    # --- counting -----------------------------------------------------------------------------------------------------

    def _meter(self, ctx: CallbackContext) -> Meter:
        with self._lock:
            meter = self._meters.get(ctx.invocation_id)
            if meter is None:
                meter = self._meters[ctx.invocation_id] = Meter()
            return meter

    def _reached(self, meter: Meter) -> Iterator[str]:
        """Limits at which no further model call is made."""
        for resource in ("tokens", "seconds", "cost", "model_calls"):
            limit = getattr(self._limits, resource)
            if limit is not None and meter.used(resource) >= limit:
                yield meter.describe(resource, limit)

    def _near(self, meter: Meter) -> Iterator[str]:
        """Limits of which the soft share is used; the call that is about to be made counts as one."""
        for resource in RESOURCES:
            limit = getattr(self._limits, resource)
            if limit is not None and meter.used(resource) >= self._soft * limit:
                yield meter.describe(resource, limit)

    def _count(self, meter: Meter, request: ModelRequest, response: ModelResponse) -> None:
        usage = response.usage_metadata
        if usage is None:
            return
        cost = 0.0
        if self._limits.cost is not None:
            price = self._prices.of(response.model_version, request.model)
            if price is None:
                model = response.model_version or request.model
                raise ConfigurationError(
                    f"plugin {self.name!r} limits the cost, but model {model!r} has no price; add it to prices"
                )
            cost = price.cost(usage)
        with self._lock:
            meter.tokens += total_tokens(usage)
            meter.cost += cost
