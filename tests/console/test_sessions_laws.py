"""Laws of the export and import of sessions (services COD-1, COD-3, STA-3, BEY-19)."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.console.session_files import event, exported, imported, timeless

from hookwork.records.codec import load
from hookwork.records.event import Event
from hookwork.services import SessionService
from hookwork_database import DatabaseSessionService
from hookwork_inmemory import InMemorySessionService

STORES: dict[str, Callable[[], SessionService]] = {
    "memory": InMemorySessionService,
    "sqlite": lambda: DatabaseSessionService("sqlite://"),
}

# Free text without what no database can hold (services EVT-12).
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)
keys = st.sampled_from(["k", "é", "long key", "app:a", "app:b", "user:a", "user:app:c"])
deltas = st.dictionaries(keys, values, max_size=3)
#: Keys that no version of the kit knows, at several depths.
unknown = st.dictionaries(st.sampled_from(["futureKey", "future_key", "appName", "~extra"]), values, max_size=2)
parts = (
    st.builds(lambda text, more: {"text": text, **more}, texts, unknown)
    | st.builds(
        lambda args, more: {"functionCall": {"id": "c1", "name": "f", "args": args, **more}},
        st.dictionaries(texts, values, max_size=2),
        unknown,
    )
    | st.just({"inlineData": {"mimeType": "image/png", "data": "/+8="}})
    | st.builds(lambda value: {"hologram": value}, values)
)


@st.composite
def documents(draw: Any) -> dict[str, Any]:
    """An event on the wire, without its id."""
    found = {
        "author": draw(st.sampled_from(["user", "helper"])),
        "invocationId": draw(st.sampled_from(["e-1", "e-2"])),
        "timestamp": draw(st.integers(1, 4_000_000_000_000_000)) / 1_000_000,
        "actions": {"stateDelta": draw(deltas), **draw(unknown)},
        **draw(unknown),
    }
    if draw(st.booleans()):
        found["content"] = {"role": "model", "parts": draw(st.lists(parts, min_size=1, max_size=3))}
    if draw(st.booleans()):
        found["customMetadata"] = draw(st.dictionaries(texts, values, max_size=2))
    return found


places = st.tuples(st.sampled_from(["u1", "u 2"]), st.sampled_from(["s1", "zweite"]))
#: Sessions with the state they begin with, and what is appended to which of them, in order of time.
stores = st.tuples(
    st.dictionaries(places, deltas, min_size=1, max_size=3), st.lists(st.tuples(places, documents()), max_size=8)
)


async def fill(service: SessionService, store: Any) -> None:
    begins, appends = store
    handles = {
        (user, id): await service.create_session(app_name="weather", user_id=user, session_id=id, state=state)
        for (user, id), state in begins.items()
    }
    for number, (place, document) in enumerate(appends):
        if place in handles:
            await service.append_event(handles[place], load(Event, {"id": f"event-{number}", **document}))


@pytest.mark.parametrize("into", STORES)
@pytest.mark.parametrize("source", STORES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(store=stores)
def test_bey_19_an_import_into_an_empty_store_exports_the_same_bytes(source: str, into: str, store: Any) -> None:
    async def both() -> tuple[bytes, bytes]:
        first, second = STORES[source](), STORES[into]()
        try:
            await fill(first, store)
            before = await exported(first)
            _, done, notes = await imported(second, io.BytesIO(before))
            assert notes == []
            assert len(done) == len(store[0])
            return before, await exported(second)
        finally:
            await first.close()
            await second.close()

    before, after = asyncio.run(both())
    assert timeless(after) == timeless(before)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(store=stores)
def test_a_second_import_of_a_file_changes_nothing(store: Any) -> None:
    async def again() -> tuple[bytes, bytes]:
        first, second = InMemorySessionService(), InMemorySessionService()
        await fill(first, store)
        text = await exported(first)
        await imported(second, io.BytesIO(text))
        before = await exported(second)
        _, done, _ = await imported(second, io.BytesIO(text), on_conflict="skip")
        assert [one.stored_as for one in done] == [None] * len(store[0])
        return before, await exported(second)

    before, after = asyncio.run(again())
    assert after == before


async def test_cod_3_unknown_keys_of_events_are_kept() -> None:
    first, second = InMemorySessionService(), DatabaseSessionService("sqlite://")
    handle = await first.create_session(app_name="weather", user_id="u1", session_id="s1")
    await first.append_event(handle, event("e1", "hello", futureKey={"a_b": [1, None]}))
    text = await exported(first)
    await imported(second, io.BytesIO(text))
    assert b'"futureKey":{"a_b":[1,null]}' in await exported(second)
    await second.close()
