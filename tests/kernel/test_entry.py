"""Where a run enters: which agent hears a message (core §3.2, RUN-30 … RUN-35; activations ACT-10)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from hookwork import (
    Agent,
    AgentTree,
    Content,
    Event,
    EventActions,
    FunctionCall,
    FunctionResponse,
    InvocationContext,
    Part,
    Runner,
    Settings,
    Standing,
    text_content,
)
from hookwork.entry import choose_agent
from hookwork.errors import BackendError, ConfigurationError, InvalidResumeResponse
from hookwork.records.session import Session
from hookwork_inmemory import InMemorySessionService


async def talk(ctx: InvocationContext) -> AsyncIterator[Event]:
    yield Event(content=text_content(f"{ctx.agent_name} hears"))


class Chat(Agent):
    """Conversational, as a chat-mode LLM agent is; ``pinned`` ones let nobody come back."""

    pinned: bool = False

    @property
    def conversational(self) -> bool:
        return True

    @property
    def sticky(self) -> bool:
        return not self.pinned

    def standing(self, view: Any) -> Standing:
        record = view.record
        return Standing.HANDED if record is not None and record.handover >= 0 else super().standing(view)


class Pinned(Chat):
    pinned = True


class Task(Chat):
    @property
    def delegate(self) -> bool:
        return True

    @property
    def sticky(self) -> bool:
        return False


def chat(name: str, *children: Agent, kind: type[Agent] = Chat, body: Callable[..., Any] = talk) -> Agent:
    return kind(name=name, body=body, sub_agents=children)


def by(author: str) -> Event:
    return Event(author=author, content=text_content("x"))


def chosen(root: Agent, *authors: str, routing: str = "sticky") -> str:
    return choose_agent([by(author) for author in authors], AgentTree(root), routing).name


def test_run_33_the_newest_author_that_may_be_re_entered_hears_the_next_message() -> None:
    root = chat("root", chat("a", chat("b")), chat("c"))
    assert chosen(root) == "root"  # RUN-34
    assert chosen(root, "user", "root", "a", "user") == "a"
    assert chosen(root, "a", "b", "user") == "b"
    assert chosen(root, "b", "c") == "c"
    assert chosen(root, "b", "root") == "root"


def test_run_33_unknown_authors_are_skipped() -> None:
    root = chat("root", chat("a"))
    assert chosen(root, "a", "gone", "user") == "a"


def test_run_33_an_ancestor_that_is_not_sticky_bars_the_way_back() -> None:
    root = chat("root", chat("a", chat("b"), kind=Pinned), chat("c"))
    assert chosen(root, "c", "b") == "c"
    assert chosen(root, "b", "a") == "root"


def test_run_30_a_root_that_does_not_converse_always_runs_itself() -> None:
    root = Agent(name="root", body=talk, sub_agents=[chat("a")])
    assert chosen(root, "a") == "root"


def test_run_31_a_root_with_a_delegate_runs_itself() -> None:
    root = chat("root", chat("task", kind=Task), chat("a"))
    assert chosen(root, "a") == "root"


def test_run_35_routing_root_skips_the_helpers() -> None:
    root = chat("root", chat("a"))
    assert chosen(root, "a", routing="root") == "root"


def test_act_4_entry_paths_name_the_ancestors_at_run_one() -> None:
    leaf = chat("b")
    tree = AgentTree(chat("root", chat("a", leaf)))
    assert tree.entry_path(leaf) == "root@1/a@1/b@1"
    assert tree.entry_path(tree.root) == "root@1"


@pytest.mark.parametrize(("routing", "second"), [("sticky", "root@1/helper@1"), ("root", "root@1")])
async def test_run_33_a_conversation_stays_with_the_helper_it_was_handed_to(routing: str, second: str) -> None:
    async def hand(ctx: InvocationContext) -> AsyncIterator[Event]:
        if ctx.user_content is not None and ctx.user_content.text == "hand over":
            yield Event(actions=EventActions(transfer_to_agent="helper"))
        else:
            yield Event(content=text_content("root hears"))

    root = chat("root", chat("helper"), body=hand)
    runner = Runner.in_memory(root, routing=routing, settings=Settings())
    paths = []
    for message in ("hand over", "and again"):
        run = runner.run(user_id="u", session_id="s", message=message)
        paths.append([event.path async for event in run if event.content is not None])
    assert paths == [["root@1/helper@1"], [second]]


async def test_mode_2_check_root_raises_before_anything_is_stored() -> None:
    class NoRoot(Agent):
        def check_root(self) -> None:
            raise ConfigurationError(f"{self.name} cannot be a root")

    told: list[str] = []
    runner = Runner.in_memory(NoRoot(name="root", body=talk), settings=Settings())
    with pytest.raises(ConfigurationError, match="cannot be a root"):
        await runner.run(user_id="u", session_id="s", message="hi").wait()
    session = await runner.sessions.get_session(app_name="root", user_id="u", session_id="s")
    assert (list(session.events), told) == ([], [])


# --- messages with answers --------------------------------------------------------------------------------------------


def waiting(*call_ids: str, name: str = "ask", scope: str = "") -> Callable[..., AsyncIterator[Event]]:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        if ctx.resuming:
            yield Event(content=text_content("goes on"))
            return
        parts = [Part(function_call=FunctionCall(id=call_id, name=name, args={})) for call_id in call_ids]
        yield Event(content=Content(role="model", parts=parts), long_running_tool_ids=call_ids, isolation_scope=scope)

    return body


def answers(*call_ids: str, text: str = "", response: Any = None) -> Content:
    parts = [
        Part(function_response=FunctionResponse(id=call_id, name="ask", response=response or {"ok": True}))
        for call_id in call_ids
    ]
    return Content(role="user", parts=[*parts, Part(text=text)] if text else parts)


async def ask(agent: Agent, message: Content) -> list[Event]:
    """The user's events that an answer leaves, after a first run that waits."""
    runner = Runner.in_memory(agent, settings=Settings())
    await runner.run(user_id="u", session_id="s", message="hi").wait()
    await runner.run(user_id="u", session_id="s", message=message).wait()
    session = await runner.sessions.get_session(app_name="root", user_id="u", session_id="s")
    return [event for event in session.events if event.author == "user"][1:]


async def test_res_6_text_together_with_an_answer_is_kept() -> None:
    (event,) = await ask(chat("root", body=waiting("c1"), kind=Agent), answers("c1", text="and hurry"))
    assert [response.id for response in event.function_responses] == ["c1"]
    assert event.text == "and hurry"


async def test_run_16_answers_carry_the_scope_of_their_call() -> None:
    (event,) = await ask(chat("root", body=waiting("c1", scope="sc"), kind=Agent), answers("c1"))
    assert event.isolation_scope == "sc"


async def _asks_in_two_scopes(ctx: InvocationContext) -> AsyncIterator[Event]:
    if not ctx.resuming:
        for call_id, scope in (("c1", "one"), ("c2", "two")):
            parts = [Part(function_call=FunctionCall(id=call_id, name="ask", args={}))]
            content = Content(role="model", parts=parts)
            yield Event(content=content, long_running_tool_ids=(call_id,), isolation_scope=scope)
        return
    yield Event(content=text_content("goes on"))


class _Disk(InMemorySessionService):
    """Is full when a second event of one message comes."""

    full = False

    async def append_event(self, session: Session, event: Event, **more: Any) -> Event:
        if self.full and event.isolation_scope == "two":
            raise BackendError("the disk is full", code="disk_full")
        return await super().append_event(session, event, **more)

    async def append_events(self, session: Session, events: Sequence[Event]) -> list[Event]:
        if self.full:
            raise BackendError("the disk is full", code="disk_full")
        return await super().append_events(session, events)


async def test_bey_11_answers_of_two_scopes_are_stored_together_or_not_at_all() -> None:
    disk = _Disk()
    agent = chat("root", body=_asks_in_two_scopes, kind=Agent)
    async with Runner(agent, sessions=disk, settings=Settings()) as runner:
        await runner.run(user_id="u", session_id="s", message="hi").wait()
        before = await disk.get_session(app_name="root", user_id="u", session_id="s")
        disk.full = True
        with pytest.raises(BackendError):
            await runner.run(user_id="u", session_id="s", message=answers("c1", "c2")).wait()
        after = await disk.get_session(app_name="root", user_id="u", session_id="s")
        assert list(after.events) == list(before.events), "half of an answer would be acted on without the other"
        disk.full = False
        await runner.run(user_id="u", session_id="s", message=answers("c1", "c2")).wait()
        done = await disk.get_session(app_name="root", user_id="u", session_id="s")
        stored = [event for event in done.events[len(before.events) :] if event.author == "user"]
        assert [event.isolation_scope for event in stored] == ["one", "two"]


async def test_run_12_several_answers_of_one_invocation_come_in_one_event() -> None:
    (event,) = await ask(chat("root", body=waiting("c1", "c2"), kind=Agent), answers("c2", "c1"))
    assert [response.id for response in event.function_responses] == ["c2", "c1"]


async def test_cnf_3_an_unreadable_confirmation_is_refused_and_the_request_stays_open() -> None:
    agent = chat("root", body=waiting("c1", name="adk_request_confirmation"), kind=Agent)
    runner = Runner.in_memory(agent, settings=Settings())
    await runner.run(user_id="u", session_id="s", message="hi").wait()
    with pytest.raises(InvalidResumeResponse, match=r"'c1'.*nothing was stored"):
        await runner.run(user_id="u", session_id="s", message=answers("c1", response={"response": "{no json"})).wait()
    assert [call.id for call in await runner.open_calls(user_id="u", session_id="s")] == ["c1"]
    session = await runner.sessions.get_session(app_name="root", user_id="u", session_id="s")
    assert len(session.events) == 2
