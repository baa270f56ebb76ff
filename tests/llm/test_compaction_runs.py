"""Compaction in runs: what is stored, what the model is shown, what happens on the way (core §3.5; CASE-CMP-1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hookwork import (
    App,
    Content,
    Event,
    FunctionResponse,
    ModelResponse,
    Part,
    Plugin,
    RunConfig,
    Runner,
    RunOutcome,
    hookimpl,
    text_content,
)
from hookwork.errors import CompactionError
from hookwork.records.event import EventActions, EventCompaction, is_compaction
from hookwork.records.metadata import UsageMetadata
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import EventsCompaction, LlmAgent, LlmSummarizer, RequestStage, tool
from hookwork_llm.compaction.timeline import Timeline
from hookwork_testkit import ScriptedModel, assert_valid_prompt
from hookwork_testkit.steps import call


class Summaries:
    """Says ``summary 1``, ``summary 2`` … and keeps what it was given; may be told to answer something else."""

    name = "summaries"

    def __init__(self, *answers: Any, usage: UsageMetadata | None = None) -> None:
        self.answers = list(answers)
        self.given: list[list[Event]] = []
        self.usage = usage

    async def summarize(self, events: Sequence[Event]) -> tuple[Content | None, UsageMetadata | None]:
        self.given.append(list(events))
        answer = self.answers.pop(0) if self.answers else f"summary {len(self.given)}"
        if callable(answer):
            answer = await answer()
        if isinstance(answer, Exception):
            raise answer
        return (text_content(answer) if isinstance(answer, str) else answer), self.usage

    @property
    def texts(self) -> list[list[str]]:
        return [[event.text for event in events] for events in self.given]


class Talk:
    """A session of one user with one agent."""

    def __init__(self, model: Any, compaction: Any, *, tools: Sequence[Any] = (), **options: Any) -> None:
        self.model = model
        agent = LlmAgent(name="root", model=model, tools=tools, **options.pop("agent", {}))
        self.sessions = options.pop("sessions", None) or InMemorySessionService()
        app = App("app", agent, events_compaction=compaction)
        self.runner = Runner(app, sessions=self.sessions, **options)

    async def say(self, message: Any) -> RunOutcome:
        async with self.runner.run(user_id="u", session_id="s", message=message) as run:
            self.yielded = [event async for event in run]
        assert run.outcome is not None
        return run.outcome

    async def events(self) -> list[Event]:
        session = await self.sessions.get_session(app_name="app", user_id="u", session_id="s")
        return list(session.events)

    async def records(self) -> list[EventCompaction]:
        return [event.actions.compaction for event in await self.events() if event.actions.compaction is not None]

    @property
    def shown(self) -> list[str]:
        """The newest prompt, texts only."""
        prompt = self.model.prompts[-1]
        assert_valid_prompt(prompt)
        return ["+".join(part.text or "*" for part in content.parts) for content in prompt]


def echo(**options: Any) -> ScriptedModel:
    return ScriptedModel(lambda request: f"re: {request.contents[-1].text}", **options)


# --- sliding window ---------------------------------------------------------------------------------------------------


async def test_cmp_3_the_record_of_a_window() -> None:
    summaries = Summaries(usage=UsageMetadata(prompt_token_count=5, candidates_token_count=2))
    talk = Talk(echo(), EventsCompaction(2, summarizer=summaries))
    await talk.say("one")
    assert await talk.records() == []
    outcome = await talk.say("two")
    events = await talk.events()
    assert [event.text for event in events] == ["one", "re: one", "two", "re: two", ""]
    record = events[-1]
    assert (record.author, record.content, record.branch, record.isolation_scope) == ("user", None, "", "")
    assert record.invocation_id.startswith("e-")
    assert record.invocation_id not in {event.invocation_id for event in events[:-1]}
    assert record.usage_metadata == summaries.usage
    assert record.actions == EventActions(
        compaction=EventCompaction(
            start_timestamp=events[0].timestamp,
            end_timestamp=events[3].timestamp,
            compacted_content=text_content("summary 1"),
        )
    )
    assert not record.is_final_response()
    assert [event.text for event in talk.yielded] == ["re: two"]
    assert outcome.final_event is not None
    assert outcome.final_event.text == "re: two"
    assert summaries.texts == [["one", "re: one", "two", "re: two"]]
    await talk.say("three")
    assert talk.shown == ["summary 1", "three"]
    assert talk.model.prompts[-1][0].role == "model"


async def test_cmp_4_finished_tasks_are_not_looked_at_again() -> None:
    book = LlmAgent(name="book", mode="task", model=ScriptedModel(lambda request: call("finish_task", result="ok")))
    steps = (step for _ in range(40) for step in (call("book", id="c", request="x"), "done"))
    root = LlmAgent(name="root", model=ScriptedModel(steps), sub_agents=[book])
    app = App("app", root, events_compaction=EventsCompaction(1000, summarizer=Summaries()))
    sessions = InMemorySessionService()
    async with Runner(app, sessions=sessions) as runner:
        for _ in range(40):
            await runner.run(user_id="u", session_id="s", message="go").wait()
    session = await sessions.get_session(app_name="app", user_id="u", session_id="s")
    uncovered = Timeline(session).uncovered
    assert sum(not event.isolation_scope for event in session.events) == 160
    assert sum(bool(session.events[position].isolation_scope) for position in uncovered) < 64
    assert sum(not session.events[position].isolation_scope for position in uncovered) == 160


async def test_use_2_the_summarizers_calls_are_counted() -> None:
    usage = UsageMetadata(prompt_token_count=5, candidates_token_count=2)
    summarizer = LlmSummarizer(ScriptedModel(["short"], name="small", usage=usage))
    talk = Talk(echo(usage=UsageMetadata(prompt_token_count=1)), EventsCompaction(1, summarizer=summarizer))
    outcome = await talk.say("one")
    counts = outcome.usage.by_agent["compaction"]
    assert (counts.calls, counts.prompt_token_count, counts.candidates_token_count) == (1, 5, 2)
    assert outcome.usage.by_model["small"].calls == 1
    assert outcome.usage.total.prompt_token_count == 6


async def test_cmp_9_without_compaction_records_are_not_honoured() -> None:
    talk = Talk(echo(), EventsCompaction(1, summarizer=Summaries()))
    await talk.say("one")
    plain = Talk(echo(), None, sessions=talk.sessions)
    await plain.say("two")
    assert plain.shown == ["one", "re: one", "two"]
    await talk.say("three")
    assert talk.shown == ["summary 1", "two", "re: two", "three"]


async def test_cmp_4_a_paused_run_is_compacted_up_to_what_waits() -> None:
    @tool(require_confirmation=True)
    def go() -> dict[str, int]:
        """Go."""
        return {"gone": 1}

    model = ScriptedModel(["hello", call("go", id="c1")])
    talk = Talk(model, EventsCompaction(2, summarizer=Summaries()), tools=[go])
    await talk.say("one")
    outcome = await talk.say("two")
    assert outcome.kind == "paused"
    (record,) = await talk.records()
    events = await talk.events()
    assert (record.start_timestamp, record.end_timestamp) == (events[0].timestamp, events[2].timestamp)


@pytest.mark.parametrize("answer", [RuntimeError("no luck"), "  ", CompactionError("refused")])
async def test_cmp_10_a_failing_summary_raises_after_all_events(answer: Any) -> None:
    summaries = Summaries(answer)
    talk = Talk(echo(), EventsCompaction(1, summarizer=summaries))
    run = talk.runner.run(user_id="u", session_id="s", message="one")
    texts: list[str] = []

    async def read() -> None:
        async for event in run:
            texts.append(event.text)

    with pytest.raises(CompactionError):
        await read()
    assert texts == ["re: one"]
    assert run.outcome is not None
    assert run.outcome.kind == "completed"
    assert await talk.records() == []
    await talk.say("two")  # tried again, and one window is made of the backlog's first invocation
    assert summaries.texts[1] == ["one", "re: one"]
    assert len(await talk.records()) == 1


async def test_cmp_12_none_declines() -> None:
    class Declining(Summaries):
        async def summarize(self, events: Sequence[Event]) -> tuple[Content | None, UsageMetadata | None]:
            self.given.append(list(events))
            return None, None

    summaries = Declining()
    talk = Talk(echo(), EventsCompaction(1, summarizer=summaries))
    outcome = await talk.say("one")
    assert len(summaries.given) == 1
    assert await talk.records() == []
    assert "compaction" not in outcome.usage.by_agent


async def test_a_summarizer_may_be_a_plain_function() -> None:
    class Plain:
        def summarize(self, events: Sequence[Event]) -> tuple[Content | None, UsageMetadata | None]:
            return text_content(f"{len(events)} events"), None

    talk = Talk(echo(), EventsCompaction(1, summarizer=Plain()))  # type: ignore[arg-type]
    outcome = await talk.say("one")
    (record,) = await talk.records()
    assert record.compacted_content == text_content("2 events")
    assert outcome.usage.by_model["Plain"].calls == 1


async def test_cmp_7_an_event_inside_the_span_discards_the_summary(caplog: pytest.LogCaptureFixture) -> None:
    async def meanwhile() -> str:
        session = await talk.sessions.get_session(app_name="app", user_id="u", session_id="s")
        between = session.events[0].timestamp
        await talk.sessions.append_event(
            session, Event(author="bridge", invocation_id="x", timestamp=between, content=text_content("late"))
        )
        return "summary"

    async def elsewhere() -> str:
        session = await talk.sessions.get_session(app_name="app", user_id="u", session_id="s")
        await talk.sessions.append_event(session, Event(author="bridge", content=text_content("later")))
        return "summary"

    talk = Talk(echo(), EventsCompaction(1, summarizer=Summaries(meanwhile, elsewhere)))
    with caplog.at_level(logging.INFO, "hookwork.compaction"):
        await talk.say("one")
        assert await talk.records() == []
        assert "discarded" in caplog.text
    await talk.say("two")  # what comes after the span is no reason
    assert len(await talk.records()) == 1


async def test_cmp_7_a_rewind_meanwhile_discards_the_summary() -> None:
    async def meanwhile() -> str:
        session = await talk.sessions.get_session(app_name="app", user_id="u", session_id="s")
        target = session.events[0].invocation_id
        actions = EventActions(rewind_before_invocation_id=target)
        await talk.sessions.append_event(session, Event(author="user", invocation_id="x", actions=actions))
        return "summary"

    talk = Talk(echo(), EventsCompaction(1, summarizer=Summaries(meanwhile)))
    await talk.say("one")
    assert await talk.records() == []


class Rewriter(Plugin):
    """Changes what it sees of compaction events."""

    def __init__(self, change: Callable[[Event], Event]) -> None:
        self.change = change
        self.seen: list[Event] = []

    @hookimpl
    async def on_event(self, ctx: Any, event: Event) -> Event | None:
        if not is_compaction(event):
            return None
        self.seen.append(event)
        return self.change(event)


async def test_cmp_7_on_event_may_rewrite_the_words_of_a_window() -> None:
    def redact(event: Event) -> Event:
        record = event.actions.compaction
        assert record is not None
        changed = record.replace(
            start_timestamp=0.0,
            end_timestamp=9e9,
            compacted_content=Content(parts=[Part(text="hm", thought=True), Part(text="***")]),
        )
        actions = EventActions(compaction=changed, state_delta={"k": 1})
        return event.replace(author="forger", actions=actions, content=text_content("said"), id="other")

    plugin = Rewriter(redact)
    talk = Talk(echo(), EventsCompaction(1, summarizer=Summaries()), plugins=[plugin])
    await talk.say("one")
    (record,) = await talk.records()
    events = await talk.events()
    assert record.compacted_content == text_content("***")
    assert (record.start_timestamp, record.end_timestamp) == (events[0].timestamp, events[1].timestamp)
    stored = events[-1]
    assert (stored.author, stored.content, stored.id, dict(stored.actions.state_delta)) == (
        "user",
        None,
        plugin.seen[0].id,
        {},
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda event: event,
        lambda event: event.replace(content=text_content("x")),
        lambda event: event.replace(actions=EventActions()),
    ],
)
async def test_cmp_9_on_event_cannot_take_the_record_away(change: Callable[[Event], Event]) -> None:
    talk = Talk(echo(), EventsCompaction(1, summarizer=Summaries()), plugins=[Rewriter(change)])
    await talk.say("one")
    (record,) = await talk.records()
    assert record.compacted_content == text_content("summary 1")
    assert (await talk.events())[-1].content is None


async def test_cmp_8_a_summary_rewritten_to_nothing_is_an_error() -> None:
    def empty(event: Event) -> Event:
        record = event.actions.compaction
        assert record is not None
        return event.replace(actions=EventActions(compaction=record.replace(compacted_content=text_content(" "))))

    talk = Talk(echo(), EventsCompaction(1, summarizer=Summaries()), plugins=[Rewriter(empty)])
    with pytest.raises(CompactionError, match="has no text"):
        await talk.say("one")
    assert await talk.records() == []


async def test_the_runs_custom_metadata_is_on_the_record_too() -> None:
    config = RunConfig(custom_metadata={"tenant": "t"})
    talk = Talk(echo(), EventsCompaction(1, summarizer=Summaries()), config=config)
    await talk.say("one")
    assert (await talk.events())[-1].custom_metadata == {"tenant": "t"}


async def test_eff_1_the_summarizers_model_call_is_an_effect() -> None:
    class Engine(Plugin):
        def __init__(self) -> None:
            self.calls: list[Any] = []

        @hookimpl
        async def perform_model(self, call: Any) -> ModelResponse:
            self.calls.append(call)
            return await call.default()  # type: ignore[no-any-return]

    engine = Engine()
    usage = UsageMetadata(prompt_token_count=5)
    summarizer = LlmSummarizer(ScriptedModel(["short"], name="small", usage=usage))
    talk = Talk(echo(), EventsCompaction(1, summarizer=summarizer), plugins=[engine])
    outcome = await talk.say("one")
    assert [c.data["model"] for c in engine.calls] == ["scripted", "small"]
    assert "/compaction/" in engine.calls[1].key
    assert engine.calls[1].to_json()["request"]["contents"][0]["parts"][0]["text"].startswith('user said: "one"')
    (record,) = await talk.records()
    assert record.compacted_content == text_content("short")
    assert outcome.usage.by_agent["compaction"].prompt_token_count == 5


async def test_tool_3_a_client_that_cancels_itself_is_a_failed_summary() -> None:
    async def stray() -> str:
        raise asyncio.CancelledError

    talk = Talk(echo(), EventsCompaction(1, summarizer=Summaries(stray)))
    with pytest.raises(CompactionError, match="cancelled from within"):
        await talk.say("one")


async def test_pol_1_the_next_run_waits_for_the_summary() -> None:
    summaries = Summaries()
    talk = Talk(echo(), EventsCompaction(1, summarizer=summaries))
    await asyncio.gather(*(talk.say(f"m{n}") for n in range(4)))
    kinds = ["summary" if is_compaction(event) else event.author for event in await talk.events()]
    assert kinds == ["user", "root", "summary"] * 4


# --- tail retention ---------------------------------------------------------------------------------------------------


def tail(threshold: int, retention: int, summaries: Any) -> EventsCompaction:
    return EventsCompaction(token_threshold=threshold, event_retention_size=retention, summarizer=summaries)


async def test_cmp_5_before_the_request_when_the_reported_prompt_is_large() -> None:
    sizes = iter([50, 99, 100, 20])
    model = ScriptedModel(
        lambda request: ModelResponse(
            content=text_content("ok"),
            finish_reason="STOP",
            usage_metadata=UsageMetadata(prompt_token_count=next(sizes)),
        )
    )
    summaries = Summaries()
    talk = Talk(model, tail(101, 2, summaries))
    for word in ("aaaa", "bbbb", "cccc"):  # a message of four characters counts one token
        await talk.say(word)
        assert await talk.records() == []
    await talk.say("dddd")
    assert summaries.texts == [["aaaa", "ok", "bbbb", "ok", "cccc"]]
    assert talk.shown == ["summary 1", "ok", "dddd"]
    assert [event.text for event in await talk.events()][-3:] == ["dddd", "", "ok"]
    assert [event.text for event in talk.yielded] == ["ok"]


async def test_cmp_5_without_a_report_characters_count() -> None:
    summaries = Summaries()
    talk = Talk(echo(), tail(10, 1, summaries))
    await talk.say("x" * 17)  # 17 + 21 characters in the next prompt, and two more
    assert summaries.given == []
    await talk.say("yz")
    assert summaries.texts == [["x" * 17, f"re: {'x' * 17}"]]
    assert talk.shown == ["summary 1", "yz"]


async def test_cmp_5_the_summary_of_before_is_carried_on() -> None:
    summaries = Summaries("first " * 3, "second")
    talk = Talk(echo(), tail(10, 1, summaries))
    await talk.say("x" * 30)
    await talk.say("yy")
    await talk.say("z" * 30)
    assert summaries.texts[1] == ["first " * 3, "yy", "re: yy"]
    assert is_compaction(summaries.given[1][0])
    assert talk.shown == ["second", "z" * 30]


async def test_cmp_5_within_a_turn_the_question_stays() -> None:
    @tool
    def look(n: int) -> dict[str, str]:
        """Look."""
        return {"seen": "x" * 100}

    model = ScriptedModel([*(call("look", id=f"c{n}", n=n) for n in range(6)), "done"])
    summaries = Summaries()
    talk = Talk(model, tail(100, 2, summaries), tools=[look])
    await talk.say("the question")
    assert len(summaries.given) >= 1
    assert all(event.text != "the question" for events in summaries.given for event in events)
    for prompt in model.prompts:
        assert_valid_prompt(prompt)
    assert "the question" in talk.shown
    (*_, last) = await talk.events()
    assert last.text == "done"


async def test_cmp_5_no_second_one_until_the_size_was_seen_below_the_threshold() -> None:
    @tool
    def look() -> dict[str, int]:
        """Look."""
        return {"seen": 1}

    sizes = iter([900, 900, 900, 10, 900, 10])
    steps = iter([call("look", id=f"c{n}") for n in range(5)])

    def answer(request: Any) -> ModelResponse:
        usage = UsageMetadata(prompt_token_count=next(sizes))
        part = next(steps, None) or Part(text="done")
        return ModelResponse(content=Content(role="model", parts=[part]), finish_reason="STOP", usage_metadata=usage)

    summaries = Summaries()
    talk = Talk(ScriptedModel(answer), tail(500, 1, summaries), tools=[look])
    await talk.say("go")
    # Steps 2, 3 and 4 meet 900; step 5 meets 10, which arms it again; step 6 meets 900.
    assert len(summaries.given) == 2


async def test_cmp_10_a_failing_tail_is_logged_and_the_turn_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    talk = Talk(echo(), tail(5, 1, Summaries(RuntimeError("no luck"))))
    await talk.say("x" * 30)
    with caplog.at_level(logging.WARNING, "hookwork.compaction"):
        outcome = await talk.say("again")
    assert outcome.kind == "completed"
    assert "the turn goes on uncompacted" in caplog.text
    assert talk.shown == ["x" * 30, f"re: {'x' * 30}", "again"]
    await talk.say("more")
    assert talk.shown[0] == "summary 2"


async def test_cmp_7_tail_records_do_not_pass_on_event() -> None:
    plugin = Rewriter(lambda event: event)
    talk = Talk(echo(), tail(5, 1, Summaries()), plugins=[plugin])
    await talk.say("x" * 30)
    await talk.say("again")
    assert len(await talk.records()) == 1
    assert plugin.seen == []


async def test_cmp_4_no_window_after_a_run_that_retained_a_tail(caplog: pytest.LogCaptureFixture) -> None:
    summaries = Summaries()
    both = EventsCompaction(2, token_threshold=5, event_retention_size=1, summarizer=summaries)
    talk = Talk(echo(), both)
    await talk.say("x" * 30)
    assert summaries.given == []  # one invocation is no window
    await talk.say("again")
    assert len(summaries.given) == 1  # the tail; two invocations hold uncovered events, still no window
    assert len(await talk.records()) == 1


async def test_req_1_the_stage_can_be_taken_out() -> None:
    summaries = Summaries()
    agent = {"request_stages": [RequestStage("compaction", None)]}
    talk = Talk(echo(), tail(5, 1, summaries), agent=agent)
    await talk.say("x" * 30)
    await talk.say("again")
    assert summaries.given == []


async def test_rew_2_a_rewound_tail_comes_back() -> None:
    talk = Talk(echo(), tail(5, 1, Summaries()))
    await talk.say("x" * 30)
    outcome = await talk.say("again")
    assert talk.shown == ["summary 1", "again"]
    await talk.runner.rewind(user_id="u", session_id="s", before_invocation_id=outcome.invocation_id)
    await talk.say("y")
    assert "summary 1" not in talk.shown


# --- CASE-CMP-1 -------------------------------------------------------------------------------------------------------


async def test_case_cmp_1_summarised_while_waiting() -> None:
    ran: list[int] = []

    @tool(require_confirmation=True)
    def go(x: int) -> dict[str, int]:
        """Go."""
        ran.append(x)
        return {"went": x}

    def answer(request: Any) -> Any:
        words = request.contents[-1].text
        return call("go", id="c1", x=1) if words == "turn 1" else f"answer to {words} " * 20

    model = ScriptedModel(answer)
    summaries = ScriptedModel(lambda request: "what was said before")
    compaction = EventsCompaction(3, 1, summarizer=LlmSummarizer(summaries))
    talk = Talk(model, compaction, tools=[go])
    waiting = (await talk.say("turn 1")).open_calls[0]
    for n in range(2, 7):
        outcome = await talk.say(f"turn {n}")
        assert outcome.kind == "completed"
    # The backlog did not stall: later turns were summarised, the one that waits was not.
    assert len(await talk.records()) >= 1
    assert (await talk.records())[0].start_timestamp > waiting.timestamp
    reply = FunctionResponse(id=waiting.id, name=waiting.name, response={"confirmed": True})
    outcome = await talk.say([Part(function_response=reply)])
    assert outcome.kind == "completed"
    assert ran == [1]
    sizes = []
    for n in range(8, 38):
        await talk.say(f"turn {n}")
        sizes.append(sum(len(part.text or "") for content in model.prompts[-1] for part in content.parts))
    assert ran == [1]
    for prompt in model.prompts:
        assert_valid_prompt(prompt)
    one_turn = len("turn 37") + len("answer to turn 37 ") * 20
    assert max(sizes) <= 3 * one_turn + 9 * len("what was said before") + len("turn 37")
    # No window parted a call from its answer.
    events = await talk.events()
    calls = {c.id: e.timestamp for e in events for c in e.function_calls}
    answers = {r.id: e.timestamp for e in events for r in e.function_responses}
    for record in await talk.records():
        inside = {key for key, at in calls.items() if record.start_timestamp <= at <= record.end_timestamp}
        assert inside == {key for key, at in answers.items() if record.start_timestamp <= at <= record.end_timestamp}
