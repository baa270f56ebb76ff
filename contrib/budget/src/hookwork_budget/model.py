"""A model that spends no more than it may (models Beyond, WRP-3)."""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

from hookwork import Model, ModelRequest, ModelResponse
from hookwork.catalogue import did_you_mean
from hookwork.errors import ConfigurationError, LimitExceeded
from hookwork.model_streams import open_stream
from hookwork.platform import timestamp
from hookwork.resolve import resolve_model
from hookwork.settings import settings_in_force
from hookwork_budget.meter import Meter
from hookwork_budget.prices import Prices, total_tokens

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from hookwork import LiveConnection, LiveRunConfig

#: Options that settings may give.
_OPTIONS = ("tokens", "cost", "model_calls", "per", "prices")


class BudgetedModel(Model):
    """Asks another model as long as the budget lasts; ``budgeted:NAME`` by name.

    The budget is that of the model: all runs and users together. One run is limited by the plugin
    `hookwork_budget.Budget`. When a limit is reached, the next call raises `LimitExceeded`: the run's outcome is
    ``limit``. Calls that go on at that moment are not cut off.

    Args:
        model: a model or a name.
        tokens: of all calls, as the provider reports them.
        cost: of all calls, in the currency of ``prices``.
        model_calls: number of calls, failed ones included.
        per: seconds after which the budget is whole again; None: never.
        prices: glob over model names → ``{input, output, cached_input}`` for a million tokens each.
        name: default ``budgeted:`` and the model's name.

    Raises:
        UnknownModelError: nobody takes the name.
        ConfigurationError: no limit at all, one that is not positive, a cost without prices, a bad price.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        tokens: float | None = None,
        cost: float | None = None,
        model_calls: float | None = None,
        per: float | None = None,
        prices: Mapping[str, Any] | None = None,
        name: str = "",
    ) -> None:
        self.model = resolve_model(model, settings_in_force())
        self.name = name or f"budgeted:{self.model.name}"
        self.capabilities = self.model.capabilities
        self._limits = {"tokens": tokens, "cost": cost, "model_calls": model_calls}
        for option, value in {**self._limits, "per": per}.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
                raise ConfigurationError(f"model {self.name!r}: {option} must be a number above 0, not {value!r}")
        if all(value is None for value in self._limits.values()):
            raise ConfigurationError(
                f"model {self.name!r} limits nothing; give it one of {', '.join(self._limits)} "
                "([tool.hookwork.budgeted] for names)"
            )
        if cost is not None and not prices:
            raise ConfigurationError(
                f"model {self.name!r}: a cost needs prices: {{'model-*': {{input: …, output: …}}}}"
            )
        self._per = per
        self._prices = Prices(prices or {})
        self._lock = threading.Lock()
        self._meter = Meter()

    @classmethod
    def named(cls, model: str, settings: Mapping[str, Any]) -> Self:
        """The model of a name with the options of ``[tool.hookwork.budgeted]``.

        Raises:
            ConfigurationError: an unknown option, or one of a wrong value.
        """
        if not model:
            raise ConfigurationError("'budgeted:' names no model; write budgeted:NAME")
        for key in settings:
            if key not in _OPTIONS:
                near = did_you_mean(key, _OPTIONS)
                raise ConfigurationError(f"[tool.hookwork.budgeted]: unknown key {key!r}{near}")
        return cls(model, **settings)

    def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        """See `Model.generate`.

        Raises:
            LimitExceeded: (from the iterator) the budget is used up.
        """
        return self._generate(request, stream)

    async def _generate(self, request: ModelRequest, stream: bool) -> AsyncGenerator[ModelResponse, None]:
        self._begin()
        async with aclosing(open_stream(self.model, self._addressed(request), stream=stream)) as responses:
            async for response in responses:
                if not response.partial:
                    response = response.replace(model_version=response.model_version or self.model.name)
                    self._count(response)
                yield response

    def _begin(self) -> None:
        """Count a call. Raises LimitExceeded: it would be one too many."""
        with self._lock:
            if self._per is not None and timestamp() - self._meter.started >= self._per:
                self._meter = Meter()
            for resource, limit in self._limits.items():
                if limit is not None and self._meter.used(resource) >= limit:
                    raise LimitExceeded(
                        f"the budget of model {self.name!r} is used up ({self._meter.describe(resource, limit)}); "
                        f"{'wait until it is whole again, or ' if self._per is not None else ''}raise the limit"
                    )
            self._meter.model_calls += 1

    def _count(self, response: ModelResponse) -> None:
        usage = response.usage_metadata
        if usage is None:
            return
        cost = 0.0
        if self._limits["cost"] is not None:
            price = self._prices.of(response.model_version, self.model.name)
            if price is None:
                raise ConfigurationError(
                    f"model {self.name!r} limits the cost, but {response.model_version!r} has no price; "
                    "add it to prices"
                )
            cost = price.cost(usage)
        with self._lock:
            self._meter.tokens += total_tokens(usage)
            self._meter.cost += cost

    def _addressed(self, request: ModelRequest) -> ModelRequest:
        return ModelRequest(
            model=self.model.name, contents=request.contents, config=request.config, tools=request.tools
        )

    def connect(self, request: ModelRequest, config: LiveRunConfig) -> AbstractAsyncContextManager[LiveConnection]:
        """The model's own connection; it counts as one call, its tokens are not counted.

        Raises:
            LimitExceeded: the budget is used up.
        """
        self._begin()
        return self.model.connect(self._addressed(request), config)

    async def check(self) -> None:
        """Whether the model is ready, where it can say so. Raises what it says."""
        asked = getattr(self.model, "check", None)
        found = asked() if asked is not None else None
        if inspect.isawaitable(found):
            await found

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()
