"""A law of live sessions: wherever the line breaks, nothing is lost, nothing said or done twice (models LIVE-10)."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.live_talks import Talk

from hookwork import (
    Content,
    Event,
    LiveConnection,
    LiveRunConfig,
    ModelCapabilities,
    ModelRequest,
    ModelResponse,
    Part,
    Runner,
    Settings,
)
from hookwork.errors import LiveConnectionClosed
from hookwork.live import RealtimeInput
from hookwork.platform import use_sleep
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import Hear, ScriptedModel, assert_valid_prompt, call
from hookwork_testkit.live import audio, calls, handle, interrupted, said, spoke, turn_complete

#: New connections in a row without a message that the server allows itself; one less than the client bears.
MOST_SILENT = 4


class _Lost(Exception):
    """The server cuts the line here."""


class Server(ScriptedModel):
    """A live server after the published rules: a handle stands for the state at the end of a turn, nothing later.

    ``fates`` decides at every point where a line can break whether it does. Every question ``q<i>`` is answered by
    ``a<i>``, if it says "tool" after a call of ``work``. Questions that came before a turn are answered in it together.
    """

    def __init__(self, fates: Sequence[int], *, gives_handles: bool) -> None:
        super().__init__(name="server", capabilities=ModelCapabilities(live=True))
        self._fates: Iterator[int] = iter(fates)
        self.gives_handles = gives_handles
        self.snapshots: list[list[str]] = []
        self.silent = 0
        self.lines = 0
        #: what a line was ever told twice, in its history or on top of its snapshot.
        self.doubled: list[str] = []

    def fate(self, choices: int) -> int:
        return next(self._fates, 0) % choices

    def may_cut(self) -> bool:
        return self.silent < MOST_SILENT

    @asynccontextmanager
    async def connect(self, request: ModelRequest, config: LiveRunConfig) -> AsyncIterator[Line]:
        self.lines += 1
        self.silent += 1
        resumption = config.session_resumption
        known = self.snapshots[int(resumption.handle)] if resumption is not None and resumption.handle else []
        line = Line(self, list(known))
        try:
            yield line
        finally:
            await line.close()


class Line(LiveConnection):
    """One connection: what it knows (snapshot and history), and what waits to be answered."""

    def __init__(self, server: Server, known: list[str]) -> None:
        self.server = server
        self.known = known
        self.waiting: list[str] = []
        self.results: list[str] = []
        self.gone = self.closed = False
        self.changed = asyncio.Event()

    def cut(self, when: bool = True) -> None:
        """Break the line, if it may break here."""
        if when and self.server.may_cut():
            self.gone = True
            self.changed.set()
            raise _Lost

    def learn(self, question: str) -> None:
        if question in self.known:
            self.server.doubled.append(question)
        self.known.append(question)

    # --- client ---

    async def send_history(self, contents: Sequence[Content]) -> None:
        assert_valid_prompt(contents)
        for content in contents:
            if content.text.startswith("q"):
                self.learn(content.text)
        last = contents[-1]
        if last.function_responses:  # it answers all that the history holds of results and nobody spoke about
            told = {word for content in contents if content.role == "model" for word in content.text.split()}
            done = [str((r.response or {})["done"]) for content in contents for r in content.function_responses]
            self.results = [number for number in done if f"a{number}" not in told]
        elif last.role == "user":
            self.waiting = [self.known.pop()]

    async def send_content(self, content: Content) -> None:
        if self.gone:
            raise LiveConnectionClosed("gone")
        fate = self.server.fate(6)
        try:
            self.cut(fate == 1)
        except _Lost:
            raise LiveConnectionClosed("gone while sending") from None
        if fate == 2 and self.server.may_cut():  # it left here and never arrived
            self.gone = True
            self.changed.set()
            return
        if content.function_responses:
            self.results += [str((response.response or {})["done"]) for response in content.function_responses]
        else:
            self.waiting.append(content.text)
        self.changed.set()

    async def send_realtime(self, item: RealtimeInput) -> None:
        raise AssertionError("no audio in this test")

    async def close(self) -> None:
        self.closed = True
        self.changed.set()

    # --- server ---

    async def receive(self) -> AsyncGenerator[ModelResponse, None]:
        try:
            self.cut(self.server.fate(5) == 1)
            while True:
                while not (self.waiting or self.results or self.gone or self.closed):
                    self.changed.clear()
                    await self.changed.wait()
                if self.closed:
                    return
                if self.gone:
                    raise _Lost
                async for message in self.turn():
                    yield message
                    self.server.silent = 0
                    await asyncio.sleep(0)
        except _Lost:
            raise LiveConnectionClosed("cut") from None

    async def turn(self) -> AsyncGenerator[ModelResponse, None]:
        asked, done = self.waiting, self.results
        self.waiting, self.results = [], []
        for question in asked:
            self.learn(question)
        self.cut(self.server.fate(6) == 1)
        plain = [question for question in asked if "tool" not in question]
        tools = [question for question in asked if "tool" in question]
        answers = [f"a{question[1:].split()[0]}" for question in plain] + [f"a{i}" for i in done]
        for answer in answers:
            yield ModelResponse(content=Content(role="model", parts=[Part(text=f"{answer} ")]), partial=True)
            self.cut(self.server.fate(6) == 1)
        if tools:
            yield calls(*(call("work", f"{self.server.lines}-{q}", number=int(q[1:].split()[0])) for q in tools))
            self.cut(self.server.fate(5) == 1)
            return
        yield turn_complete()
        fate = self.server.fate(6)
        self.cut(fate == 1)
        if self.server.gives_handles and fate > 2:
            self.server.snapshots.append(list(self.known))
            yield handle(str(len(self.server.snapshots) - 1))
            self.cut(fate == 5)


async def _no_time(_: float) -> None:
    await asyncio.sleep(0)


async def _talk(
    fates: list[int], tools: list[bool], *, handles: bool, at_once: bool
) -> tuple[Server, Counter[str], Any]:
    ran: Counter[str] = Counter()

    @tool
    async def work(number: int) -> dict[str, Any]:
        """Work."""
        ran[str(number)] += 1
        await asyncio.sleep(0)
        return {"done": number}

    server = Server(fates, gives_handles=handles)
    runner = Runner.in_memory(LlmAgent(name="voice", model=server, tools=[work]), settings=Settings())
    run = runner.run_live(user_id="u", session_id="s", config=LiveRunConfig())
    questions = [f"q{i} tool" if uses else f"q{i}" for i, uses in enumerate(tools)]
    for question in questions if at_once else questions[:1]:
        await run.send(question)
    sent, answered = (len(questions) if at_once else 1), set()
    async with asyncio.timeout(20):
        async for event in run:
            if event.partial or event.content is None or not event.text.startswith("a"):
                continue
            answered |= set(event.text.split())
            if not at_once and len(answered) == sent < len(questions):
                await run.send(questions[sent])
                sent += 1
            if len(answered) == len(questions):
                await run.close()
    session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
    return server, ran, (questions, list(session.events))


@pytest.mark.parametrize("handles", [False, True], ids=["history", "handles"])
@settings(max_examples=60, deadline=None)
@given(
    fates=st.lists(st.integers(min_value=0, max_value=29), max_size=40),
    tools=st.lists(st.booleans(), min_size=1, max_size=4),
    at_once=st.booleans(),
)
def test_live_10_to_12_law_nothing_is_lost_or_doubled_wherever_the_line_breaks(
    handles: bool, fates: list[int], tools: list[bool], at_once: bool
) -> None:
    async def law() -> None:
        with use_sleep(_no_time):
            server, ran, (questions, events) = await _talk(fates, tools, handles=handles, at_once=at_once)
        asked = [event.text for event in events if event.author == "user"]
        assert asked == questions
        answers = Counter(word for event in events if event.author == "voice" and event.text.startswith("a")
                          for word in event.text.split())  # fmt: skip
        assert answers == {f"a{i}": 1 for i in range(len(questions))}
        assert ran == {str(i): 1 for i, uses in enumerate(tools) if uses}
        called = Counter(c.id for event in events for c in event.function_calls)
        responded = Counter(r.id for event in events for r in event.function_responses)
        assert called == responded
        assert server.doubled == []

    asyncio.run(law())


STEPS = st.lists(
    st.sampled_from(["text", "thought", "heard", "spoke", "sound", "call", "calls", "cut in", "done"]), max_size=14
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, asks=st.booleans())
def test_live_6_law_whatever_comes_in_whatever_order_is_written_down_once_and_makes_a_valid_prompt(
    steps: list[str], asks: bool
) -> None:
    script: list[Any] = [Hear(1)] if asks else []
    numbers = itertools.count(1)
    for number, step in enumerate(steps):
        made: dict[str, Any] = {
            "text": f"t{number} ",
            "thought": ModelResponse(
                content=Content(role="model", parts=[Part(text=f"h{number} ", thought=True)]), partial=True
            ),
            "heard": said(f"i{number} "),
            "spoke": spoke(f"o{number} "),
            "sound": audio(),
            "cut in": interrupted(),
            "done": turn_complete(),
        }
        if step.startswith("call"):
            script.append(calls(*(call("work", f"c{next(numbers)}") for _ in range(1 if step == "call" else 2))))
        else:
            script.append(made[step])
    batches = sum(step.startswith("call") for step in steps)

    @tool
    def work() -> dict[str, Any]:
        """Work."""
        return {"done": True}

    async def law() -> None:
        talk = Talk([*script, Hear(batches), turn_complete()], tools=[work])
        await talk.hold(*(["go"] if asks else []))
        events = await talk.stored()
        place = {event.id: position for position, event in enumerate(events)}
        assert len(place) == len(events)
        made_calls = [(c.id, place[e.id]) for e in events for c in e.function_calls]
        responses = {r.id: place[e.id] for e in events for r in e.function_responses}
        assert [call_id for call_id, _ in made_calls] == [f"c{i}" for i in range(1, len(made_calls) + 1)]
        assert set(responses) == {call_id for call_id, _ in made_calls}
        assert all(responses[call_id] > position for call_id, position in made_calls)
        written = "".join(_written(event) for event in events)
        kinds = {"text": "t", "thought": "h", "heard": "i", "spoke": "o"}
        expected = [f"{kinds[step]}{number}" for number, step in enumerate(steps) if step in kinds]
        assert sorted(written.split()) == sorted(expected)
        for letter in kinds.values():  # each kind in the order in which it came
            assert [w for w in written.split() if w[0] == letter] == [w for w in expected if w[0] == letter]
        request = await talk.runner.preview("and now?", user_id="u", session_id="s")
        assert_valid_prompt(request.contents)

    asyncio.run(law())


def _written(event: Event) -> str:
    """What a stored event of the model holds of text, spoken or not."""
    said = event.input_transcription or event.output_transcription
    if said is not None:
        return said.text or ""
    parts = event.content.parts if event.content is not None and event.author != "user" else ()
    return "".join(part.text or "" for part in parts)
