"""Context caches on the server (models Beyond): made late, used until they are old, never in the way of an answer."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.gemini.making import api_model, vertex_model
from tests.gemini.service import Failure, Received, Reply, Service, chunk, error_body

from hookwork import Content, FunctionDeclaration, ModelRequest, text_content, user_content
from hookwork.errors import ConfigurationError
from hookwork.platform import use_clock
from hookwork_gemini import ContextCache, GeminiModel, conversion
from hookwork_gemini.caching import USED_CACHE

T0 = datetime(2026, 1, 1, tzinfo=UTC)


class CachingService:
    """The part of the API that makes, uses and deletes caches; a token is a letter of the prompt."""

    def __init__(self) -> None:
        self.caches: dict[str, dict[str, Any]] = {}
        self.deleted: list[str] = []
        self.made = 0
        self.refuses: Failure | None = None

    def __call__(self, received: Received) -> Reply | Failure:
        body = received.body
        if received.path.endswith("cachedContents"):
            if self.refuses is not None:
                return self.refuses
            self.made += 1
            name = f"{_resource(received)}/c{self.made}"
            self.caches[name] = body
            return Reply(whole={"name": name, "expireTime": (T0 + timedelta(seconds=1800)).isoformat()})
        if "/cachedContents/" in received.path:
            name = _resource(received)
            self.deleted.append(name)
            del self.caches[name]
            return Reply(whole={})
        used = body.get("cachedContent")
        if used is not None and used not in self.caches:
            return Failure(403, error_body(403, "PERMISSION_DENIED", "CachedContent not found"))
        cached = _letters(self.caches[used]["contents"]) if used else 0
        usage: dict[str, Any] = {"promptTokenCount": cached + _letters(body["contents"]), "candidatesTokenCount": 1}
        if used:
            usage["cachedContentTokenCount"] = cached
        return Reply(chunk({"text": "ok"}, finish="STOP", usageMetadata=usage))


def _resource(received: Received) -> str:
    """A path without its version."""
    return received.path.split("/", 2)[2]


def _letters(contents: Any) -> int:
    return sum(len(part["text"]) for content in contents for part in content["parts"])


@pytest.fixture
def caching(service: Service) -> Iterator[CachingService]:
    conversion._warned.clear()
    found = CachingService()
    service.always = found
    with use_clock(lambda: T0):
        yield found


SETTINGS = ContextCache(min_tokens=100, max_uses=2)
LONG = user_content("x" * 120)


def conversation(turns: int) -> ModelRequest:
    """A request in its turn: an instruction, a tool, a long first message, a short exchange per turn."""
    contents: list[Content] = [LONG]
    for turn in range(turns):
        contents += [text_content("ok"), user_content(f"turn {turn}")]
    request = ModelRequest(contents=contents)
    request.append_instruction("Be brief.")
    request.add_declarations([FunctionDeclaration(name="f")])
    request.update_config(temperature=0.5)
    return request


async def ask(model: GeminiModel, request: ModelRequest, *, stream: bool = False) -> Any:
    return [response async for response in model.generate(request, stream=stream)][-1]


def sent(service: Service) -> list[dict[str, Any]]:
    return [received.body for received in service.received if "enerateContent" in received.path]


@pytest.mark.parametrize("make", [api_model, vertex_model])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_long_beginning_is_kept_on_the_server(
    service: Service, caching: CachingService, make: Any, stream: bool
) -> None:
    model = make(service, context_cache=SETTINGS)
    first, second = [await ask(model, conversation(turns), stream=stream) for turns in (0, 1)]
    assert caching.made == 1
    (cache,) = caching.caches.values()
    assert [content["parts"][0]["text"] for content in cache["contents"]] == ["x" * 120]
    assert cache["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    assert cache["tools"] == [{"functionDeclarations": [{"name": "f"}]}]
    assert cache["ttl"] == "1800s"
    before, after = sent(service)
    assert "cachedContent" not in before
    place = "projects/p1/locations/europe-west4/" if make is vertex_model else ""
    assert after["cachedContent"] == f"{place}cachedContents/c1"
    assert [content["parts"][0]["text"] for content in after["contents"]] == ["ok", "turn 0"]
    assert not {"tools", "systemInstruction", "toolConfig"} & set(after)
    assert after["generationConfig"] == {"temperature": 0.5}
    assert first.custom_metadata is None
    assert second.custom_metadata == {USED_CACHE: f"{place}cachedContents/c1"}
    assert second.usage_metadata.cached_content_token_count == 120
    await model.close()
    assert caching.caches == {}
    assert caching.deleted == [f"{place}cachedContents/c1"]


async def test_an_old_cache_gives_way_to_one_that_holds_more(service: Service, caching: CachingService) -> None:
    model = api_model(service, context_cache=SETTINGS)
    for turns in range(5):
        await ask(model, conversation(turns))
    used = [body.get("cachedContent") for body in sent(service)]
    assert used == [None, "cachedContents/c1", "cachedContents/c1", "cachedContents/c2", "cachedContents/c2"]
    assert len(caching.caches["cachedContents/c2"]["contents"]) == 5
    await model.close()


async def test_a_cache_is_not_used_when_it_is_about_to_end(service: Service, caching: CachingService) -> None:
    model = api_model(service, context_cache=ContextCache(min_tokens=100, max_uses=99))
    await ask(model, conversation(0))
    await ask(model, conversation(1))
    with use_clock(lambda: T0 + timedelta(seconds=1775)):
        await ask(model, conversation(2))
    assert caching.made == 2
    await model.close()


async def test_a_short_beginning_is_sent_as_it_is(service: Service, caching: CachingService) -> None:
    model = api_model(service, context_cache=ContextCache(min_tokens=10_000))
    for turns in range(3):
        await ask(model, conversation(turns))
    assert caching.made == 0
    await model.close()


async def test_what_differs_is_another_beginning(service: Service, caching: CachingService) -> None:
    model = api_model(service, context_cache=SETTINGS)
    await ask(model, conversation(0))
    other = conversation(1)
    other.append_instruction("Or not.")
    await ask(model, other)
    elsewhere = conversation(1)
    elsewhere.model = "gemini-3-pro"
    await ask(model, elsewhere)
    assert caching.made == 0
    await model.close()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_cache_that_has_gone_costs_no_answer(service: Service, caching: CachingService, stream: bool) -> None:
    model = api_model(service, context_cache=SETTINGS)
    await ask(model, conversation(0))
    await ask(model, conversation(1))
    caching.caches.clear()
    response = await ask(model, conversation(2), stream=stream)
    assert response.text == "ok"
    assert response.custom_metadata is None
    assert [body.get("cachedContent") for body in sent(service)][-2:] == ["cachedContents/c1", None]
    await model.close()


@pytest.mark.parametrize(("status", "asked"), [(400, 1), (503, 2)])
async def test_a_service_that_makes_none_costs_no_answer(
    service: Service, caching: CachingService, caplog: pytest.LogCaptureFixture, status: int, asked: int
) -> None:
    """A refusal is final for that beginning, a failure is not."""
    caching.refuses = Failure(status, error_body(status, "X", "secret"))
    model = api_model(service, context_cache=SETTINGS)
    await ask(model, conversation(0))
    with caplog.at_level(logging.WARNING, "hookwork.gemini"):
        answers = [await ask(model, conversation(1)) for _ in range(2)]
    assert [answer.text for answer in answers] == ["ok", "ok"]
    tries = [received for received in service.received if received.path.endswith("cachedContents")]
    assert len(tries) == (1 if status == 400 else asked)
    assert caplog.text.count("context cache") == 1
    assert "secret" not in caplog.text
    await model.close()


async def test_a_cache_of_the_callers_own_is_left_alone(service: Service, caching: CachingService) -> None:
    model = api_model(service, context_cache=SETTINGS)
    caching.caches["cachedContents/mine"] = {"contents": []}
    await ask(model, conversation(0))
    request = conversation(1)
    request.update_config(cached_content="cachedContents/mine", tools=(), system_instruction=None)
    await ask(model, request)
    assert caching.made == 0
    assert len(sent(service)[-1]["contents"]) == 3
    await model.close()
    assert "cachedContents/mine" in caching.caches


def test_settings_of_caches() -> None:
    assert ContextCache.of(True) == ContextCache(ttl=1800, min_tokens=4096, max_uses=10)
    assert ContextCache.of({"ttl": 60}) == ContextCache(ttl=60)
    assert ContextCache.of(None) is None
    assert ContextCache.of(False) is None
    for wrong in ({"ttl": 1}, {"tll": 60}, {"max_uses": 0}, "yes"):
        with pytest.raises(ConfigurationError, match="context_cache"):
            ContextCache.of(wrong)  # type: ignore[arg-type]
