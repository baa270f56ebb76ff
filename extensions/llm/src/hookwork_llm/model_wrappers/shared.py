"""What every model made of others does: resolve names, cut down capabilities, say who answered, close."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from hookwork.errors import ConfigurationError, ModelError
from hookwork.model import Model, ModelCapabilities, ModelRequest
from hookwork.model_streams import not_a_response, open_stream
from hookwork.records.metadata import ModelResponse
from hookwork.resolve import resolve_model
from hookwork.settings import settings_in_force

#: Key of a response's ``custom_metadata``: the name of the model that answered (models WRP-2).
ANSWERED_BY = "hookwork_model"

#: Flags that say what a request must avoid: one candidate that needs it is enough.
_DEMANDS = frozenset({"alternating_roles", "equal_response_counts"})


def resolved(candidates: Iterable[Model | str], kind: str) -> tuple[Model, ...]:
    """The models of names and models. Raises ConfigurationError: none, or two of one name."""
    if isinstance(candidates, str):
        raise ConfigurationError(f"{kind} takes a list of models; write [{candidates!r}]")
    settings = settings_in_force()
    models = tuple(resolve_model(candidate, settings) for candidate in candidates)
    if not models:
        raise ConfigurationError(f"{kind} has no candidate; name at least one model")
    names = [model.name for model in models]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(f"{kind} names {', '.join(twice)} more than once; every candidate needs its own name")
    return models


def common(candidates: Sequence[Model]) -> ModelCapabilities:
    """What all candidates can do: a request must suit every one of them (models WRP-2)."""
    known = [candidate.capabilities for candidate in candidates]
    values: dict[str, Any] = {"provider": known[0].provider}
    for name in ModelCapabilities.__struct_fields__:
        offers = [getattr(one, name) for one in known]
        if isinstance(offers[0], bool):
            values[name] = any(offers) if name in _DEMANDS else all(offers)
    values["builtin_tools"] = frozenset.intersection(*(one.builtin_tools for one in known))
    values["media"] = _common_kinds([one.media for one in known])
    limits = [one.max_parallel_live_tools for one in known if one.max_parallel_live_tools is not None]
    values["max_parallel_live_tools"] = min(limits, default=None)
    return ModelCapabilities(**values)


def _common_kinds(media: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Prefixes of media types that everybody takes: of ``image/`` and ``image/png`` the narrower one."""
    every = dict.fromkeys(kind for kinds in media for kind in kinds)
    common = [kind for kind in every if all(kind.startswith(kinds) for kinds in media)]
    return tuple(kind for kind in common if not any(kind != wider and kind.startswith(wider) for wider in common))


def addressed_to(model: Model, request: ModelRequest) -> ModelRequest:
    """The same request with the model's own name; what was handed in stays as it is (models MOD-6)."""
    return ModelRequest(model=model.name, contents=request.contents, config=request.config, tools=request.tools)


def signed(model: Model, response: ModelResponse) -> ModelResponse:
    """A whole response that says who gave it; a candidate that is a wrapper itself has said so already."""
    labels = dict(response.custom_metadata or {})
    labels.setdefault(ANSWERED_BY, model.name)
    return response.replace(model_version=response.model_version or model.name, custom_metadata=labels)


async def answers(model: Model, request: ModelRequest, *, stream: bool) -> AsyncGenerator[ModelResponse, None]:
    """One candidate's responses. Raises ModelError of kind ``stream`` when there are none (models AGG-31)."""
    silent = True
    task = asyncio.current_task()
    cancels = task.cancelling() if task is not None else 0
    if cancels:
        await asyncio.sleep(0)  # a cancellation that was asked for before comes here: it is not the model's
    async with aclosing(open_stream(model, addressed_to(model, request), stream=stream)) as responses:
        while True:
            try:
                response = await anext(responses)
            except StopAsyncIteration:
                break
            except asyncio.CancelledError as error:
                current = asyncio.current_task()
                if current is None or current.cancelling() > (cancels if current is task else 0):
                    raise
                raise _cancelled_from_within(model, started=not silent) from error  # nobody asked for it (ERR-1)
            if not isinstance(response, ModelResponse):
                raise not_a_response(model, response)
            silent = False
            yield response if response.partial else signed(model, response)
    if silent:
        raise ModelError(
            f"model {model.name!r} gave no response",
            provider=model.capabilities.provider,
            model=model.name,
            kind="stream",
            retryable=True,
        )


def _cancelled_from_within(model: Model, *, started: bool) -> ModelError:
    return ModelError(
        f"model {model.name!r}: its client was cancelled from within; try again",
        provider=model.capabilities.provider,
        model=model.name,
        kind="stream" if started else "connection",
        retryable=True,
        after_first_chunk=started,
    )


async def check(model: Model) -> None:
    """Ask a model whether it is ready, where it can say so; `hookwork doctor` does. Raises what is amiss."""
    asked = getattr(model, "check", None)
    if asked is not None:
        await asked()


async def close_all(models: Iterable[Model]) -> None:
    """Close every model, whatever happens with one; the first error is raised afterwards."""
    failed: Exception | None = None
    for model in models:
        try:
            await model.close()
        except Exception as error:  # noqa: BLE001 - the others are still to be closed
            failed = failed or error
    if failed is not None:
        raise failed


def with_live(capabilities: ModelCapabilities, live: bool) -> ModelCapabilities:
    """The same record with another ``live``."""
    return msgspec.structs.replace(capabilities, live=live)
