"""How live connections end: models LIVE-10, LIVE-12, LIVE-13, SDK-7, SDK-8."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from tests.gemini.live_making import LIVE_2, connected, said_by, setup_of, stay
from tests.gemini.live_service import Line, LiveServer

from hookwork import user_content
from hookwork.errors import LiveConnectionClosed, ModelError
from hookwork.live import (
    LiveConnection,
)
from hookwork_testkit.suites.leftovers import no_tasks_left


@pytest.mark.parametrize("code", [1000, 1001, 1007, 1008, 1011, 1012, 1013, 1014, 4000])
async def test_live_10_a_closed_line_says_its_code(server: LiveServer, code: int) -> None:
    """SDK-8. LIVE-12: a send that finds the line gone says so, and the driver queues the content again."""

    async def end(line: Line) -> None:
        await line.say("a")
        await line.close(code, "secret reason")

    server.talks.append(end)
    async with connected(server) as connection:
        with pytest.raises(LiveConnectionClosed) as caught:
            async for _ in connection.receive():
                pass
        assert caught.value.close_code == code
        assert (caught.value.provider, caught.value.model) == ("gcp.gemini", LIVE_2)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is not None
        with pytest.raises(LiveConnectionClosed) as caught:
            await connection.send_content(user_content("too late"))
        assert caught.value.close_code == code


async def test_live_10_a_line_that_is_cut_has_the_code_1006(server: LiveServer) -> None:
    server.talks.append(Line.cut)
    async with connected(server) as connection:
        with pytest.raises(LiveConnectionClosed) as caught:
            async for _ in connection.receive():
                pass
    assert caught.value.close_code == 1006


async def test_live_10_what_cannot_be_read_ends_the_session(server: LiveServer) -> None:
    async def babble(line: Line) -> None:
        await line.send_text("{no json")
        await line.hang_up()

    server.talks.append(babble)
    async with connected(server) as connection:
        with pytest.raises(ModelError) as caught:
            async for _ in connection.receive():
                pass
    assert caught.value.kind == "invalid_response"
    assert "no json" not in str(caught.value)


async def test_live_10_an_error_message_ends_the_session(server: LiveServer) -> None:
    with pytest.raises(ModelError) as caught:
        await said_by(server, {"error": {"status": "RESOURCE_EXHAUSTED", "message": "secret"}})
    assert (caught.value.kind, caught.value.code, caught.value.retryable) == ("rate_limit", "RESOURCE_EXHAUSTED", True)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [(1007, "invalid_request", False), (1008, "invalid_request", False), (1011, "connection", True)],
)
async def test_live_10_a_server_that_refuses_the_setup(
    server: LiveServer, code: int, kind: str, retryable: bool
) -> None:
    server.refuse_setup = (code, "models/x is not found for key secret")
    with pytest.raises(ModelError) as caught:
        await setup_of(server)
    assert (caught.value.kind, caught.value.retryable, caught.value.code) == (kind, retryable, str(code))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (429, "rate_limit"), (503, "unavailable")])
async def test_err_1_a_server_that_refuses_the_handshake(server: LiveServer, status: int, kind: str) -> None:
    server.refuse_handshake = status
    with pytest.raises(ModelError) as caught:
        await setup_of(server)
    assert (caught.value.kind, caught.value.status_code) == (kind, status)


async def test_live_13_closing_ends_a_receive_that_waits(server: LiveServer) -> None:
    server.talks.append(stay)
    async with no_tasks_left("a closed connection"), connected(server) as connection:
        waiting = asyncio.create_task(_count(connection))
        await asyncio.sleep(0)
        await connection.close()
        await connection.close()
        assert await asyncio.wait_for(waiting, 10) == 0


async def _count(connection: LiveConnection) -> int:
    return len([response async for response in connection.receive()])


async def test_live_13_an_error_or_a_cancellation_inside_closes_the_line(server: LiveServer) -> None:
    left = asyncio.Event()

    async def notice(line: Line) -> None:
        await line.hang_up()
        left.set()

    server.talks += [notice, notice]
    with pytest.raises(ZeroDivisionError):
        async with connected(server):
            raise ZeroDivisionError
    await asyncio.wait_for(left.wait(), 10)
    left.clear()
    inside = asyncio.Event()

    async def wait_inside() -> None:
        async with connected(server):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(wait_inside())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(left.wait(), 10)


async def test_live_13_leaving_receive_keeps_the_line(server: LiveServer) -> None:
    async def talk(line: Line) -> None:
        await line.say("a", "b")
        assert (await line.get())["clientContent"]
        await line.say("c")
        await line.hang_up()

    server.talks.append(talk)
    async with connected(server) as connection:
        async with contextlib.aclosing(connection.receive()) as responses:  # type: ignore[type-var]
            assert (await anext(responses)).text == "a"
        await connection.send_content(user_content("go on"))
        texts = []
        async for response in connection.receive():
            texts.append(response.text)
            if response.text == "c":
                break
    assert texts == ["b", "", "c"]
