"""What the kernel promises of every service, whatever the backend (services §0, §1, §6.1, §9)."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.kernel.running import run_of, runner_of, said

from hookwork import Agent, Event, EventActions, FunctionPlugin, InvocationContext, Part, RunConfig, text_content
from hookwork.catalogue import SERVICE_SCHEMES
from hookwork.effects import EffectCall
from hookwork.errors import ConfigurationError, StateMutationError
from hookwork.records.codec import dump, load
from hookwork.records.content import Blob, Content
from hookwork.records.session import EventLog, Session, split_state
from hookwork.services import ArtifactService, MemoryEntry, MemoryService, SessionService
from hookwork_inmemory import InMemoryMemoryService, InMemorySessionService
from hookwork_testkit import make_context

#: What is passed by its place (GEN-1).
_BY_PLACE = {
    "append_event": ["session", "event"],
    "append_events": ["session", "events"],
    "add_session_to_memory": ["session"],
    "refresh": ["session"],
    "load_earlier": ["session", "count"],
}


@pytest.mark.parametrize("service", [SessionService, MemoryService, ArtifactService])
def test_gen_1_operations_are_async_and_take_keywords(service: type) -> None:
    """All but the few whose arguments have an obvious order (§2 and §6.1 write these without names)."""
    operations = {name: value for name, value in vars(service).items() if inspect.isfunction(value)}
    assert operations
    for name, operation in operations.items():
        if inspect.isasyncgenfunction(operation):
            continue
        assert inspect.iscoroutinefunction(operation), name
        kinds = list(inspect.signature(operation).parameters.values())[1:]
        placed = [kind.name for kind in kinds if kind.kind is not inspect.Parameter.KEYWORD_ONLY]
        assert placed == _BY_PLACE.get(name, []), name


async def test_gen_8_every_write_of_a_run_passes_perform_write_with_a_key_of_its_own() -> None:
    """The message's files, the agent's files, the session taken in, and each event."""
    calls: list[EffectCall] = []

    async def perform_write(call: EffectCall) -> Any:
        calls.append(call)
        return await call.default()

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        await ctx.artifacts.save("a.txt", Part(text="one"))
        await ctx.add_session_to_memory()
        yield said("done")

    plugin = FunctionPlugin("writer", perform_write=perform_write)
    runner = runner_of(body, plugin, config=RunConfig(save_input_blobs_as_artifacts=True))
    message = Content(role="user", parts=[Part(text="see"), Part(inline_data=Blob(data=b"1", mime_type="image/png"))])
    events = await run_of(runner, message)
    assert [call.op for call in calls] == [
        "save_artifact",
        "append_event",
        "save_artifact",
        "add_to_memory",
        "append_event",
        "append_event",
    ]
    keys = [call.key for call in calls]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith(events[0].invocation_id) for key in keys)
    name = f"artifact_{events[0].invocation_id}_1"
    found = await runner.artifacts.load_artifact(app_name="root", user_id="u", session_id="s", filename=name)
    assert found.inline_data == Blob(data=b"1", mime_type="image/png")
    await runner.close()


async def test_gen_8_a_repeated_write_of_the_messages_files_stores_nothing_twice() -> None:
    """Carried out twice, as a durable engine does behind a crash: the save id is the effect's key (ART-15)."""

    async def perform_write(call: EffectCall) -> Any:
        await call.default()
        return await call.default()

    runner = runner_of(
        Agent(name="root", body=_silent),
        FunctionPlugin("twice", perform_write=perform_write),
        config=RunConfig(save_input_blobs_as_artifacts=True),
    )
    parts = [Part(inline_data=Blob(data=b"%d" % n, mime_type="image/png")) for n in range(2)]
    await run_of(runner, Content(role="user", parts=parts))
    scope = {"app_name": "root", "user_id": "u", "session_id": "s"}
    names = await runner.artifacts.list_artifacts(**scope)
    assert len(names) == 2
    for name in names:
        assert await runner.artifacts.list_versions(**scope, filename=name) == [1]
    await runner.close()


async def _silent(ctx: InvocationContext) -> AsyncIterator[Event]:
    yield said("ok")


@pytest.mark.parametrize("keys", ["camel", "snake"])
def test_evt_5_empty_deltas_are_written_as_empty_maps_and_an_absent_one_reads_as_empty(keys: Any) -> None:
    document = dump(Event(id="e", invocation_id="i", author="a", timestamp=1.0), keys)
    deltas = ("stateDelta", "artifactDelta") if keys == "camel" else ("state_delta", "artifact_delta")
    assert {name: document["actions"][name] for name in deltas} == {name: {} for name in deltas}
    for actions in ({}, dict.fromkeys(deltas)):
        event = load(Event, {**document, "actions": actions})
        assert (dict(event.actions.state_delta), dict(event.actions.artifact_delta)) == ({}, {})
    del document["actions"]
    assert load(Event, document).actions == EventActions()


def test_evt_11_whether_an_event_is_final_is_computed_and_never_stored() -> None:
    """Two events of one wire form apart from content: the one that only carries a delta is not final."""
    for event, final in (
        (Event(content=text_content("x")), True),
        (Event(actions=EventActions(state_delta={"k": 1})), False),
        (Event(actions=EventActions(artifact_delta={"a": 1})), False),
    ):
        assert event.is_final_response() is final
        document = dump(event)
        assert not [key for key in document if "final" in key.lower()]
        assert load(Event, document).is_final_response() is final


def test_sta_4_a_delta_splits_into_three_maps_in_order() -> None:
    delta = {"z": 1, "app:y": 2, "temp:x": 3, "user:w": 4, "a": 5, "app:b": 6, "app:temp:c": 7, "userx": 8}
    app, user, own = split_state(delta)
    assert list(app.items()) == [("y", 2), ("b", 6), ("temp:c", 7)]
    assert list(user.items()) == [("w", 4)]
    assert list(own.items()) == [("z", 1), ("a", 5), ("userx", 8)]


def test_sta_3_session_keys_first_then_app_then_user_and_later_wins() -> None:
    """Only a session key that bears a prefix itself can meet another; stores never make one, foreign rows may."""
    where: dict[str, Any] = {"app_name": "a", "user_id": "u", "id": "s", "log": EventLog(), "revision": "1"}
    own = {"k": "own", "app:k": "hidden", "app:z": "shown"}
    merged = Session(**where, session_state=own, app_state={"k": "app"}, user_state={"k": "user"}).state
    assert list(merged.items()) == [("k", "own"), ("app:k", "app"), ("app:z", "shown"), ("user:k", "user")]
    assert len(merged) == 4
    assert "app:z" in merged
    assert "app:absent" not in merged
    with pytest.raises(KeyError, match="app:absent"):
        merged["app:absent"]


async def test_sta_6_a_failed_append_drops_what_was_written_through_the_context() -> None:
    """The overlay becomes durable with the event that carries it, and only then."""

    class Failing(InMemorySessionService):
        async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
            if event.text == "lost":
                raise OSError("disk")
            return await super().append_event(session, event, redelivery=redelivery)

    deltas: list[dict[str, Any]] = []

    async def after_agent(ctx: Any) -> None:
        ctx.state["kept"] = 1

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=text_content("kept"), actions=EventActions(state_delta={"first": 1}))
        deltas.append(dict(ctx.session.state))
        yield Event(content=text_content("lost"), actions=EventActions(state_delta={"second": 1}))

    sessions = Failing()
    runner = runner_of(body, FunctionPlugin("writer", after_agent=after_agent), sessions=sessions)
    with pytest.raises(OSError, match="disk"):
        await run_of(runner)
    session = await sessions.get_session(app_name="root", user_id="u", session_id="s")
    assert deltas == [{"first": 1}]
    assert dict(session.state) == {"first": 1}
    await runner.close()


async def test_sta_7_none_is_stored_and_nothing_is_deleted() -> None:
    service = InMemorySessionService()
    session = await service.create_session(app_name="a", user_id="u", session_id="s", state={"k": 1, "app:k": 2})
    gone = EventActions(state_delta={"k": None, "app:k": None})
    await service.append_event(session, Event(invocation_id="i", author="u", actions=gone))
    again = await service.get_session(app_name="a", user_id="u", session_id="s")
    for handle in (session, again):
        assert dict(handle.state) == {"k": None, "app:k": None}
        with pytest.raises(StateMutationError, match="'k'"):
            del handle.state["k"]  # type: ignore[attr-defined]


async def test_log_5_a_run_reads_its_session_once() -> None:
    reads: list[str] = []

    class Counting(InMemorySessionService):
        async def get_session(self, **arguments: Any) -> Session:
            reads.append("get")
            return await super().get_session(**arguments)

        async def refresh(self, session: Session) -> int:
            reads.append("refresh")
            return await super().refresh(session)

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        for number in range(5):
            yield said(str(number))

    runner = runner_of(body, sessions=Counting())
    await run_of(runner)
    reads.clear()
    await run_of(runner)
    assert reads == ["get"]
    await runner.close()


async def test_mem_5_the_context_fills_app_and_user_and_says_when_there_is_no_memory() -> None:
    """From a callback too, where the reference refuses it."""
    asked: list[dict[str, Any]] = []

    class Noted(InMemoryMemoryService):
        async def search_memory(self, **arguments: Any) -> list[MemoryEntry]:
            asked.append(arguments)
            return await super().search_memory(**arguments)

    for kind in ("callback", "tool", "invocation"):
        ctx = make_context(kind, memory=Noted(), app_name="shop", user_id="ann")  # type: ignore[arg-type]
        await ctx.add_session_to_memory()
        assert await ctx.search_memory("hello") == []
        with pytest.raises(ConfigurationError, match="memory"):
            await make_context(kind, memory=None).search_memory("x")  # type: ignore[arg-type]
    assert asked == [{"app_name": "shop", "user_id": "ann", "query": "hello"}] * 3


def test_url_7_google_adks_spellings_are_known_schemes() -> None:
    """Their distribution is told where it is not installed (URL-8)."""
    assert SERVICE_SCHEMES["agentengine"] == SERVICE_SCHEMES["vertexai"]
    assert SERVICE_SCHEMES["rag"] == {"memory": "hookwork-vertexai"}
