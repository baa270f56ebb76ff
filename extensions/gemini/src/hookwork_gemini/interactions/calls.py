"""Calls of one model through the Interactions API: in full, or behind the interaction that the service has."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

from hookwork.errors import ModelError
from hookwork.model import ModelRequest
from hookwork.records.content import Content, user_content
from hookwork.records.frozen import thaw
from hookwork.records.metadata import ModelResponse
from hookwork_gemini.calling import noting
from hookwork_gemini.conversion import warn_once
from hookwork_gemini.interactions.body import body_of, transport_of
from hookwork_gemini.interactions.reading import INTERACTION_ID, whole_response
from hookwork_gemini.interactions.settings import Interactions
from hookwork_gemini.interactions.steps import steps_of
from hookwork_gemini.interactions.stream import InteractionStream
from hookwork_gemini.requests import FOLLOW_INSTRUCTION, GO_ON
from hookwork_gemini.strictness import Strictness
from hookwork_modelkit import model_error, refusal
from hookwork_modelkit.chains import Chains

Json = dict[str, Any]
Responses = AsyncGenerator[ModelResponse, None]

#: `custom_metadata` key that names the interaction a request went on from.
PREVIOUS = "gemini_previous_interaction_id"
_FIELD = "previous_interaction_id"


class InteractionCalls:
    """The calls of one model; what they share is which interactions the service has."""

    __slots__ = ("_chains", "_name", "_provider", "_settings", "_strictness")

    def __init__(self, settings: Interactions, name: str, provider: str, strictness: Strictness) -> None:
        self._settings = settings
        self._name = name
        self._provider = provider
        self._strictness = strictness
        self._chains = Chains() if settings.store and settings.chain else None

    async def responses(self, client: Any, request: ModelRequest, stream: bool, noted: list[Any]) -> Responses:
        """The responses of one request. Raises ModelError and what the SDK raises."""
        model = request.model or self._name
        contents = _answerable(request.contents)
        steps = self._steps(model, contents)
        body = {**body_of(request.config, model, self._strictness), "model": model}
        if not self._settings.store:
            body["store"] = False
        how = transport_of(request.config)
        known = None
        if self._chains is not None and _FIELD not in how.get("extra_body", {}):
            known = self._chains.find(model, steps)
        if known is not None:
            shorter = {**body, "input": steps[known.length :], _FIELD: known.id}
            started = False
            try:
                async with aclosing(self._asked(client, model, shorter, how, stream, noted)) as responses:
                    async for response in responses:
                        started = True
                        yield self._noted(model, contents, response, known.id)
                return
            except Exception as error:
                if started or not _is_forgotten(error):
                    raise
            assert self._chains is not None
            self._chains.forget(known.id)
            warn_once(PREVIOUS, "the service has lost an interaction that was to be gone on from; all is sent instead")
        async with aclosing(self._asked(client, model, {**body, "input": steps}, how, stream, noted)) as responses:
            async for response in responses:
                yield self._noted(model, contents, response, "")

    def _steps(self, model: str, contents: Sequence[Content]) -> list[Json]:
        def refuse(code: str, problem: str) -> ModelError:
            return refusal(self._provider, model, problem, code=code)

        return steps_of(contents, refuse)

    def _noted(self, model: str, contents: Sequence[Content], response: ModelResponse, previous: str) -> ModelResponse:
        """A whole response is remembered, if it can be gone on from, and says what it went on from itself."""
        if response.partial:
            return response
        interaction_id = (response.extra or {}).get(INTERACTION_ID)
        if self._chains is not None and interaction_id and response.finish_reason == "STOP" and not response.error_code:
            assert response.content is not None
            self._chains.remember(model, self._steps(model, [*contents, response.content]), interaction_id)
        if not previous:
            return response
        return response.replace(custom_metadata={**thaw(response.custom_metadata or {}), PREVIOUS: previous})

    async def _asked(self, client: Any, model: str, body: Json, how: Json, stream: bool, noted: list[Any]) -> Responses:
        if not stream:
            with noting(noted):
                interaction = await client.aio.interactions.create(**body, **how)
            yield whole_response(self._provider, model, _plain(interaction))
            return
        folded = InteractionStream(self._provider, model)
        async with aclosing(_events(client, body, how, noted)) as events:
            async for event in events:
                shown = folded.take(event)
                if shown is not None:
                    yield shown
        yield folded.finish()


async def _events(client: Any, body: Json, how: Json, noted: list[Any]) -> AsyncGenerator[Json, None]:
    """The events of a stream as plain JSON. Left early, the HTTP response is closed before this returns (MOD-4)."""
    with noting(noted):
        source = await client.aio.interactions.create(**body, **how, stream=True)
    generator = source.generator if hasattr(source, "generator") else source
    if not hasattr(generator, "__anext__"):
        raise model_error("", body["model"], kind="invalid_response", detail="a stream was asked for and none came")
    try:
        while True:
            with noting(noted):  # the SDK may go on with a further request
                event = await anext(generator, None)
            if event is None:
                return
            yield _plain(event)
    except GeneratorExit:
        for response in noted:
            await response.aclose()
        with suppress(Exception):  # its inner generators end here, not in a task of the loop's own
            async for _ in generator:
                pass
        raise
    finally:
        await generator.aclose()


def _plain(value: Any) -> Json:
    """An SDK object as the JSON it was read from; what is no object is an empty one, which nobody can use."""
    if isinstance(value, Mapping):
        return dict(value)
    dump = getattr(value, "model_dump", None)
    plain = dump(mode="json", by_alias=True, exclude_none=True) if dump is not None else {}
    return plain if isinstance(plain, dict) else {}


def _answerable(contents: Sequence[Content]) -> list[Content]:
    """Contents that end with a user turn, as the service answers no other (GEM-6, GEM-7)."""
    whole = list(contents)
    if not whole:
        return [user_content(FOLLOW_INSTRUCTION)]
    return whole if whole[-1].role != "model" else [*whole, user_content(GO_ON)]


def _is_forgotten(error: Exception) -> bool:
    """Whether the service says that it does not have the interaction a request wants to go on from."""
    status = getattr(error, "status_code", None)
    return status == 404 or (status == 400 and "interaction" in str(getattr(error, "body", "")).lower())
