"""Shared SDK clients: models SDK-15, MOD-1."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from hookwork_modelkit import ClientPool, ModelClients
from hookwork_modelkit.clients import Same


class Client:
    def __init__(self) -> None:
        self.closed_in: Any = None

    async def close(self) -> None:
        assert self.closed_in is None, "closed twice"
        self.closed_in = asyncio.get_running_loop()


def make_pool() -> ClientPool[Client]:
    return ClientPool(Client.close)


async def test_sdk_15_models_of_one_configuration_share_a_client_until_the_last_is_closed() -> None:
    pool = make_pool()
    first, second = ModelClients(pool), ModelClients(pool)
    client = first.get("key", Client)
    assert second.get("key", Client) is client
    assert first.get("key", Client) is client
    await first.close()
    assert client.closed_in is None
    await second.close()
    assert client.closed_in is asyncio.get_running_loop()
    assert pool.count() == 0


async def test_sdk_15_another_configuration_has_a_client_of_its_own() -> None:
    pool = make_pool()
    first, second = ModelClients(pool), ModelClients(pool)
    assert first.get("a", Client) is not second.get("b", Client)
    await first.close()
    await second.close()


async def test_mod_1_closing_is_idempotent_and_a_later_call_takes_a_client_anew() -> None:
    pool = make_pool()
    model, other = ModelClients(pool), ModelClients(pool)
    kept = other.get("k", Client)
    model.get("k", Client)
    await model.close()
    await model.close()
    assert kept.closed_in is None, "a second close() must not take the other model's client away"
    assert model.get("k", Client) is kept
    await model.close()
    await other.close()
    assert kept.closed_in is not None


def test_sdk_15_each_loop_has_its_own_client_which_ends_with_it() -> None:
    """`asyncio.run` again and again with one model: nothing is left of the loops before."""
    pool = make_pool()
    model = ModelClients(pool)
    loops = []

    async def use() -> Client:
        loops.append(asyncio.get_running_loop())
        return model.get("k", Client)

    clients = [asyncio.run(use()) for _ in range(3)]
    assert len({id(client) for client in clients}) == 3
    assert [client.closed_in for client in clients] == loops
    assert pool.count() == 0

    async def close() -> Client:
        client = model.get("k", Client)
        await model.close()
        return client

    last = asyncio.run(close())
    assert last.closed_in is not None


def test_sdk_15_a_loop_that_was_closed_without_being_shut_down_is_let_go_of() -> None:
    pool = make_pool()
    model = ModelClients(pool)

    async def use() -> None:
        model.get("k", Client)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(use())
    loop.close()
    assert pool.count() == 1
    asyncio.run(use())
    assert pool.count() == 0
    assert loop not in model._held


def test_sdk_15_objects_of_a_key_are_told_apart_for_as_long_as_they_matter() -> None:
    """An id is given anew when its object has gone; the client that was made with it may still be there."""
    first, second = Same({}), Same({})
    assert first != second
    assert first == Same(first.value)
    assert len({first, second, Same(first.value)}) == 2
    assert repr(Same("s3cret")) == "Same(str)"


def test_sdk_15_a_client_is_closed_in_the_loop_it_belongs_to() -> None:
    pool = make_pool()
    model = ModelClients(pool)
    other_loop = asyncio.new_event_loop()
    thread = threading.Thread(target=other_loop.run_forever)
    thread.start()
    try:

        async def use() -> Client:
            return model.get("k", Client)

        client = asyncio.run_coroutine_threadsafe(use(), other_loop).result(10)
        asyncio.run(model.close())
        assert client.closed_in is other_loop
    finally:
        other_loop.call_soon_threadsafe(other_loop.stop)
        thread.join()
        other_loop.close()
