"""Clients and connections: shared, freed when a call is left, many at once (models MOD-4, MOD-5, SDK-1, 11, 15)."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from contextlib import aclosing
from typing import Any

import openai
import pytest
from tests.openai.asking import KEY, ask, asked, chat_model_on, model_on, open_clients, texts, whole
from tests.openai.server import PATIENCE, Json, Sent, Service, Sse
from tests.openai.wire import chat_stream, chunk, completion, created, message, response, stream, text_delta

from hookwork.errors import ModelError
from hookwork.version import VERSION
from hookwork_openai import OpenAIModel


@pytest.mark.parametrize("chat", [False, True])
async def test_mod_4_leaving_early_closes_the_connection(service: Service, chat: bool) -> None:
    events = (
        [chunk({"content": "a"}), chunk({"content": "b"})] if chat else [created(), text_delta("a"), text_delta("b")]
    )
    service.answers(Sse(events, hangs=True))
    model = chat_model_on(service) if chat else model_on(service)
    before = asyncio.all_tasks()
    async with aclosing(model.generate(asked(), stream=True)) as responses:
        assert (await anext(responses)).text == "a"
    assert asyncio.all_tasks() == before, "nothing is left to tidy up later"
    assert await anext(responses, None) is None
    assert await asyncio.to_thread(service.left.wait, PATIENCE), "the service was not told"
    await model.close()


async def test_mod_4_leaving_early_leaves_no_suspended_generator(service: Service) -> None:
    """Else the loop would finish them in tasks of its own, and warn at its end."""
    service.answers(Sse([created(), text_delta("a"), text_delta("b")], hangs=True))
    model, finalized = model_on(service), list[Any]()
    loop_hook = asyncio.get_running_loop()._asyncgen_finalizer_hook  # type: ignore[attr-defined]
    old = sys.get_asyncgen_hooks()

    def finalizer(generator: Any) -> None:
        finalized.append(generator)
        loop_hook(generator)

    sys.set_asyncgen_hooks(firstiter=old.firstiter, finalizer=finalizer)
    try:
        async with aclosing(model.generate(asked(), stream=True)) as responses:
            await anext(responses)
        gc.collect()
    finally:
        sys.set_asyncgen_hooks(*old)
    assert finalized == []
    await model.close()


async def test_mod_4_a_cancelled_call_closes_the_connection(service: Service) -> None:
    service.answers(Sse([created(), text_delta("a")], hangs=True))
    model, first = model_on(service), asyncio.Event()

    async def consume() -> None:
        async with aclosing(model.generate(asked(), stream=True)) as responses:
            async for _ in responses:
                first.set()

    task = asyncio.create_task(consume())
    await first.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(service.left.wait, PATIENCE)
    await model.close()


async def test_a_finished_stream_gives_its_connection_back(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for patience in ("hookwork_openai.sdk._PATIENCE", "openai._streaming_cleanup._DRAIN_TIMEOUT"):
        monkeypatch.setattr(patience, PATIENCE)  # the ends of the bodies come, however busy the machine is
    model = model_on(service)
    for _ in range(5):
        service.answers(Sse(stream(message("a"))))
        await whole(model, stream=True)
    chat = chat_model_on(service)
    for _ in range(5):
        service.answers(Sse(chat_stream("a"), named=False, done=True))
        await whole(chat, stream=True)
    assert len(service.clients) == 1, "ten calls, one connection"
    await model.close()
    await chat.close()


async def test_a_service_that_does_not_hang_up_after_its_last_event_is_not_waited_for(service: Service) -> None:
    service.answers(Sse(stream(message("a")), hangs=True), Json(response(message("b"))))
    model = model_on(service)
    assert (await whole(model, stream=True)).text == "a"
    assert (await whole(model)).text == "b"
    await model.close()


async def test_a_partial_is_given_on_as_soon_as_it_came(service: Service) -> None:
    """A slow stream: the second event is sent only after the first was seen here."""
    gate = threading.Event()
    service.answers(Sse([text_delta("a"), text_delta("b"), *stream(message("ab"))[-1:]], hold={1: gate}))
    model = model_on(service)
    async with aclosing(model.generate(asked(), stream=True)) as responses:
        assert (await anext(responses)).text == "a"
        gate.set()
        assert texts([response async for response in responses]) == ["b", "ab"]
    await model.close()


def echo(sent: Sent) -> Sse:
    text = sent.body["input"][0]["content"][0]["text"]
    return Sse(stream(message(f"you said {text}"), size=4))


async def test_mod_5_five_hundred_calls_at_once_on_one_client(service: Service) -> None:
    service.respond = echo
    model, count = model_on(service, timeout=120), 500  # the SDK gives a connection 5 s; here 500 are made at once
    clients = open_clients()
    found = await asyncio.gather(*(whole(model, asked(f"n{n}"), stream=True) for n in range(count)))
    assert [response.text for response in found] == [f"you said n{n}" for n in range(count)]
    assert (len(service.sent), open_clients()) == (count, clients + 1)
    assert await asyncio.to_thread(service.wait_idle)
    await model.close()
    assert open_clients() == clients


async def test_sdk_15_models_configured_alike_share_a_client(service: Service) -> None:
    service.respond = lambda sent: Json(response(message("a")))
    before = open_clients()
    one, two, other = model_on(service), model_on(service, "o3", store=True), model_on(service, api_key="sk-other")
    for model in (one, two, other):
        await whole(model)
    assert open_clients() == before + 2
    await one.close()
    assert (await whole(two)).text == "a", "still open: another model uses it"
    await two.close()
    await other.close()
    await other.close()
    assert open_clients() == before


def test_sdk_15_a_model_may_be_used_from_several_loops(service: Service) -> None:
    service.respond = lambda sent: Json(response(message("a")))
    model = model_on(service)

    async def once() -> str:
        return (await whole(model)).text

    assert [asyncio.run(once()) for _ in range(2)] == ["a", "a"]
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(asyncio.run(once()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == ["a"] * 3


@pytest.mark.parametrize("library", ["httpx2", "httpx"])
async def test_sdk_1_an_injected_http_client_is_used_and_left_open(service: Service, library: str) -> None:
    http_library: Any = pytest.importorskip(library)
    asked_for: list[str] = []

    def handler(request: Any) -> Any:
        asked_for.append(str(request.url))
        return http_library.Response(200, json=response(message("a")))

    async with http_library.AsyncClient(transport=http_library.MockTransport(handler)) as http:
        model = model_on(service, http_client=http)
        assert (await whole(model)).text == "a"
        await model.close()
        assert not http.is_closed
    assert asked_for == [f"{service.base_url}/responses"]


async def test_sdk_1_exceptions_of_the_other_library_are_mapped_too(service: Service) -> None:
    import httpx

    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    async with httpx.AsyncClient(transport=httpx.MockTransport(handler)) as http:
        with pytest.raises(ModelError) as caught:
            await whole(model_on(service, http_client=http))
    assert (caught.value.kind, caught.value.retryable) == ("connection", True)


async def test_sdk_11_the_user_agent_names_sdk_and_kit(service: Service) -> None:
    service.answers(Json(completion("a")))
    await whole(chat_model_on(service))
    assert service.sent[0].headers["user-agent"] == f"AsyncOpenAI/Python {openai.__version__} hookwork/{VERSION}"


async def test_organization_and_project(service: Service) -> None:
    service.answers(Json(response(message("a"))))
    await ask(model_on(service, organization="org-1", project="proj-1"))
    headers = service.sent[0].headers
    assert (headers["openai-organization"], headers["openai-project"]) == ("org-1", "proj-1")


async def test_client_options_are_applied_last(service: Service) -> None:
    service.answers(Json(response(message("a"))))
    await ask(model_on(service, client_options={"api_key": "sk-last"}))
    assert service.sent[0].headers["authorization"] == "Bearer sk-last"


async def test_calls_that_go_on_while_their_model_is_closed_come_to_their_end(service: Service) -> None:
    """The client is closed behind the last of them: a connection that is just being made would be left open."""
    service.respond = lambda sent: Json(response(message("a")))
    model, before = model_on(service), open_clients()
    for turns in range(40):
        call = asyncio.create_task(whole(model))
        for _ in range(turns):
            await asyncio.sleep(0)
        client = model._client(model._call(asked()))
        await model.close()
        assert (await call).text == "a"
        await model.close()
        assert client.sdk.is_closed()
    assert open_clients() == before


async def test_an_http_client_that_its_owner_closed(service: Service) -> None:
    import httpx2

    http = httpx2.AsyncClient()
    await http.aclose()
    with pytest.raises(ModelError) as caught:
        await whole(model_on(service, http_client=http))
    assert (caught.value.kind, caught.value.retryable) == ("connection", False)
    assert "closed by its owner" in str(caught.value)


async def test_a_closed_model_may_be_called_again(service: Service) -> None:
    service.answers(Json(response(message("a"))))
    model = OpenAIModel("gpt-5.2", api_key=KEY, base_url=service.base_url, api="responses")
    await model.close()
    assert (await whole(model)).text == "a"
    await model.close()
