"""The live suite: what a connection of `Model.connect` promises (models §7, `hookwork.live.LiveConnection`)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, NamedTuple

import pytest

from hookwork.errors import LiveConnectionClosed, ValidationError
from hookwork.live import LiveConnection, LiveRunConfig
from hookwork.model import Model, ModelRequest
from hookwork.records.content import Blob, Content, FunctionResponse, Part, text_content, user_content
from hookwork.records.metadata import ModelResponse
from hookwork_testkit.live import Cut, Hear, LiveStep, audio, calls, handle, interrupted, said, spoke, turn_complete
from hookwork_testkit.steps import call
from hookwork_testkit.suites.leftovers import PATIENCE, no_tasks_left, settle, within

SOUND = Blob(data=b"\0\1\2\3", mime_type="audio/pcm;rate=24000")


class Heard(NamedTuple):
    """What a server got. ``kind`` and ``value``:

    ``text``: a text that was sent as a content. ``response``: (id, response) of one answer to a call. ``blob``: the
    MIME type of realtime input, without parameters. ``history``: (texts told, whether an answer was asked for).
    """

    kind: str
    value: Any


class LivePeer(ABC):
    """A model under test, connected to a server of the test's own. The server calls `note` for all that it gets.

    Attributes:
        model: the model; every connection it opens plays the peer's script.
    """

    model: Model

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self._changed = asyncio.Event()

    def note(self, kind: str, value: Any) -> None:
        """The server got something."""
        self.heard.append(Heard(kind, value))
        self._changed.set()

    async def wait_heard(self, count: int) -> list[Heard]:
        """What the server got, once that is so many."""
        while len(self.heard) < count:
            self._changed.clear()
            await within(PATIENCE, f"thing {len(self.heard) + 1} to arrive at the server", self._changed.wait())
        return self.heard

    @abstractmethod
    def open_lines(self) -> int:
        """How many connections the client has not closed."""


class LiveConnectionSuite(ABC):
    """Subclass it in a test module and say how a model is connected to a server that plays a script.

    Attributes:
        plays: what the provider's protocol can say at all: ``audio``, ``calls``, ``input`` and ``output`` (speech as
            text), ``interrupted``, ``handle``, ``codes`` (a close code arrives as it was sent).
    """

    pytestmark = pytest.mark.asyncio

    plays: frozenset[str] = frozenset({"audio", "calls", "input", "output", "interrupted", "handle", "codes"})

    @abstractmethod
    def peer(self, *script: LiveStep) -> AbstractAsyncContextManager[LivePeer]:
        """A peer whose server plays a script on each connection: steps of `hookwork_testkit.live`.

        A text is a fragment; `Hear` waits for contents (a history that asks for an answer counts as one); after the
        last step the line stays open.
        """

    def make_request(self) -> ModelRequest:
        """What connections are opened with."""
        return ModelRequest()

    def make_config(self) -> LiveRunConfig:
        """The live settings of connections."""
        return LiveRunConfig()

    # --- steps --------------------------------------------------------------------------------------------------------

    def _needs(self, *kinds: str) -> None:
        missing = sorted(set(kinds) - self.plays)
        if missing:
            pytest.skip(f"the protocol of this model cannot say: {', '.join(missing)}")

    @asynccontextmanager
    async def connected(self, *script: LiveStep) -> AsyncIterator[tuple[LivePeer, LiveConnection]]:
        """A peer and one open connection of its model."""
        async with (
            self.peer(*script) as peer,
            peer.model.connect(self.make_request(), self.make_config()) as connection,
        ):
            yield peer, connection

    async def receive(self, connection: LiveConnection, ends: int = 1) -> list[ModelResponse]:
        """What comes up to the ``ends``-th end of a turn."""
        found: list[ModelResponse] = []

        async def collect() -> None:
            nonlocal ends
            responses: Any = connection.receive()
            async with aclosing(responses):
                async for response in responses:
                    found.append(response)
                    ends -= bool(response.turn_complete)
                    if not ends:
                        return

        await within(PATIENCE, "the end of a turn to come", collect())
        return found

    async def told(self, *script: LiveStep) -> list[ModelResponse]:
        """What a connection makes of one scripted turn that answers a text."""
        async with self.connected(Hear(1), *script, turn_complete()) as (_, connection):
            await connection.send_content(user_content("go"))
            return await self.receive(connection)

    # --- opening and closing ------------------------------------------------------------------------------------------

    async def test_live_1_a_model_with_connect_says_that_it_is_live(self) -> None:
        async with self.peer() as peer:
            assert peer.model.capabilities.live, "a model with connect() says live=True in its capabilities"

    async def test_bey_8_what_the_service_calls_the_session_is_a_text_before_and_after_a_turn(self) -> None:
        async with self.connected(Hear(1), "hi", turn_complete()) as (_, connection):
            assert isinstance(connection.session_id, str), "no id is said as an empty text"
            await connection.send_content(user_content("go"))
            await self.receive(connection)
            assert isinstance(connection.session_id, str), "no id is said as an empty text"

    async def test_live_6_a_turn_that_calls_goes_on_with_the_answers_and_then_ends(self) -> None:
        """Whatever a provider says at the end of the calls themselves (models RT-3), the answer's end is said."""
        self._needs("calls")
        script = (Hear(1), calls(call("look", "c1")), Hear(1), "a cat", turn_complete())
        async with self.connected(*script) as (_, connection):
            await connection.send_content(user_content("go"))
            found: list[ModelResponse] = []
            responses: Any = connection.receive()

            async def talk() -> None:
                async with aclosing(responses):
                    async for response in responses:
                        found.append(response)
                        made = response.content.function_calls if response.content is not None else []
                        if made:
                            answer = FunctionResponse(id=made[0].id, name="look", response={"seen": "a cat"})
                            await connection.send_content(Content(role="user", parts=[Part(function_response=answer)]))
                        if response.turn_complete and _text(found):
                            return

            await within(PATIENCE, "the turn behind the answer to end", talk())
        assert _text(found) == "a cat"

    async def test_live_13_leaving_closes_the_line_and_leaves_no_task(self) -> None:
        async with self.peer(Hear(1), "hi", turn_complete()) as peer, no_tasks_left("a closed connection"):
            async with peer.model.connect(self.make_request(), self.make_config()) as connection:
                await connection.send_content(user_content("go"))
                await self.receive(connection)
                assert peer.open_lines() == 1
            assert peer.open_lines() == 0, "leaving the context manager closes the line"

    async def test_live_13_leaving_by_an_error_closes_the_line_too(self) -> None:
        async with self.peer() as peer:
            with pytest.raises(KeyError):
                async with peer.model.connect(self.make_request(), self.make_config()):
                    raise KeyError("mine")
            assert peer.open_lines() == 0

    async def test_live_13_close_is_idempotent_and_ends_receive_without_an_error(self) -> None:
        async with self.connected() as (peer, connection):
            async with no_tasks_left("a receive that was ended by close"):
                reading = asyncio.create_task(self._read_all(connection))
                await asyncio.sleep(0)
                await connection.close()
                await connection.close()
                found = await within(PATIENCE, "receive to end after close", reading)
            assert not any(response.content for response in found)
            assert peer.open_lines() == 0

    async def test_live_13_cancelling_at_any_point_closes_the_line(self) -> None:
        async with self.peer(Hear(1), "a", "b", turn_complete()) as peer:

            async def work() -> None:
                async with peer.model.connect(self.make_request(), self.make_config()) as connection:
                    await connection.send_content(user_content("go"))
                    await self.receive(connection)

            for turns in range(1, 30):
                task = asyncio.create_task(work())
                await settle(turns)
                task.cancel()
                done, _ = await asyncio.wait([task], timeout=PATIENCE)
                assert done, f"a live connection goes on {PATIENCE:g} s after it was cancelled"
                assert task.cancelled() or task.exception() is None, "a cancellation came out as another error"
                await self._closed(peer)

    async def test_mod_5_two_connections_of_one_model_are_independent(self) -> None:
        async with self.peer(Hear(1), "hi", turn_complete()) as peer:
            open_it = peer.model.connect
            async with (
                open_it(self.make_request(), self.make_config()) as one,
                open_it(self.make_request(), self.make_config()) as two,
            ):
                await one.send_content(user_content("go"))
                assert _text(await self.receive(one)) == "hi"
                await one.close()
                await two.send_content(user_content("go"))
                assert _text(await self.receive(two)) == "hi"

    # --- what comes ---------------------------------------------------------------------------------------------------

    async def test_live_6_text_comes_in_fragments_marked_as_such_and_the_turn_ends(self) -> None:
        found = await self.told("It is ", "five.")
        texts = [response for response in found if response.content is not None]
        assert [response.text for response in texts] == ["It is ", "five."]
        assert all(response.partial for response in texts), "fragments of text are partial"
        assert [bool(response.turn_complete) for response in found].count(True) == 1
        assert not any(response.partial for response in found if response.turn_complete)

    async def test_live_17_receive_goes_on_over_turns(self) -> None:
        script = (Hear(1), "one", turn_complete(), Hear(1), "two", turn_complete())
        async with self.connected(*script) as (_, connection):
            await connection.send_content(user_content("go"))
            sending = asyncio.create_task(self._send_later(connection))
            assert _text(await self.receive(connection, ends=2)) == "onetwo"
            await sending

    async def test_live_6_sound_is_whole_and_keeps_its_bytes(self) -> None:
        self._needs("audio")
        found = await self.told(audio(b"\1\2"), audio(b"\3\4"))
        parts = [part for r in found if r.content is not None and not r.partial for part in r.content.parts]
        assert b"".join(part.inline_data.data or b"" for part in parts if part.inline_data) == b"\1\2\3\4"
        assert all((part.inline_data.mime_type or "").startswith("audio/") for part in parts if part.inline_data)

    async def test_live_6_calls_are_whole_with_the_servers_ids(self) -> None:
        self._needs("calls")
        script = (Hear(1), calls(call("look", "c1", what="a"), call("look", "c2", what="b")), Hear(1), turn_complete())
        async with self.connected(*script) as (peer, connection):
            await connection.send_content(user_content("go"))
            responses: Any = connection.receive()
            found: list[ModelResponse] = []
            async with aclosing(responses):
                async for response in responses:
                    if response.content is not None:
                        found.append(response)
                    if sum(len(r.content.function_calls) for r in found if r.content) == 2:
                        break
            made = [made for r in found if r.content is not None for made in r.content.function_calls]
            assert [(made.id, made.name, dict(made.args or {})) for made in made] == [
                ("c1", "look", {"what": "a"}),
                ("c2", "look", {"what": "b"}),
            ]
            assert not any(response.partial for response in found)
            assert {response.content.role for response in found if response.content} == {"model"}
            answers = [
                Part(function_response=FunctionResponse(id=i, name="look", response={"seen": i})) for i in ("c1", "c2")
            ]
            await connection.send_content(Content(role="user", parts=[*answers, Part(text="left out")]))
            heard = await peer.wait_heard(3)
        assert heard[1:] == [Heard("response", ("c1", {"seen": "c1"})), Heard("response", ("c2", {"seen": "c2"}))]

    async def test_live_6_speech_comes_as_fragments_of_transcription(self) -> None:
        self._needs("input", "output")
        found = await self.told(said("what "), said("time"), spoke("it "), spoke("is"))
        for side, whole in (("input_transcription", "what time"), ("output_transcription", "it is")):
            pieces = [(r, getattr(r, side)) for r in found if getattr(r, side) is not None]
            assert "".join(said.text or "" for r, said in pieces if not said.finished) == whole
            assert all(r.partial for r, said in pieces if not said.finished), "fragments are partial"

    async def test_live_6_an_interruption_is_told(self) -> None:
        self._needs("interrupted")
        async with self.connected(Hear(1), "I was", interrupted(), turn_complete()) as (_, connection):
            await connection.send_content(user_content("go"))
            found = await self.receive(connection)
        assert [bool(response.interrupted) for response in found].count(True) == 1

    async def test_live_6_a_handle_comes_alone(self) -> None:
        self._needs("handle")
        found = [r for r in await self.told(handle("h1"), "hi") if r.session_resumption_handle]
        assert [(r.session_resumption_handle, r.content, r.turn_complete) for r in found] == [("h1", None, None)]

    # --- what goes ----------------------------------------------------------------------------------------------------

    async def test_live_4_a_text_arrives(self) -> None:
        async with self.connected() as (peer, connection):
            await connection.send_content(user_content("hello"))
            assert await peer.wait_heard(1) == [Heard("text", "hello")]

    async def test_live_4_an_empty_content_is_refused_and_the_line_stays_usable(self) -> None:
        async with self.connected() as (peer, connection):
            for content in (user_content(""), Content(role="user"), Content(role="user", parts=[Part()])):
                with pytest.raises(ValidationError):
                    await connection.send_content(content)
            await connection.send_content(user_content("hello"))
            assert await peer.wait_heard(1) == [Heard("text", "hello")]

    async def test_live_5_sound_arrives_with_its_type(self) -> None:
        self._needs("audio")
        async with self.connected() as (peer, connection):
            await connection.send_realtime(SOUND)
            assert await peer.wait_heard(1) == [Heard("blob", "audio/pcm")]

    async def test_live_5_what_is_no_realtime_input_is_refused(self) -> None:
        bad: tuple[Any, ...] = ("hi", None, Part(text="hi"), Blob(data=b""))
        async with self.connected() as (peer, connection):
            for item in bad:
                with pytest.raises(ValidationError):
                    await connection.send_realtime(item)
            await connection.send_content(user_content("hello"))
            assert await peer.wait_heard(1) == [Heard("text", "hello")]

    async def test_live_3_a_history_is_told_without_its_sound_and_asks_for_an_answer_when_the_user_spoke_last(
        self,
    ) -> None:
        sound = Content(role="user", parts=[Part(inline_data=SOUND)])
        told = [user_content("one"), sound, text_content("two"), user_content("three")]
        async with self.connected() as (peer, connection):
            await connection.send_history(told)
            assert await peer.wait_heard(1) == [Heard("history", (["one", "two", "three"], True))]

    async def test_live_3_a_history_that_ends_with_the_model_asks_for_nothing(self) -> None:
        async with self.connected() as (peer, connection):
            await connection.send_history([user_content("one"), text_content("two")])
            assert await peer.wait_heard(1) == [Heard("history", (["one", "two"], False))]

    async def test_live_3_a_history_of_nothing_but_sound_is_not_told(self) -> None:
        async with self.connected() as (peer, connection):
            await connection.send_history([Content(role="user", parts=[Part(inline_data=SOUND)])])
            await connection.send_content(user_content("hello"))
            assert await peer.wait_heard(1) == [Heard("text", "hello")]

    # --- lost lines ---------------------------------------------------------------------------------------------------

    async def test_live_10_a_lost_line_is_raised_with_its_code_by_receive_and_then_by_sends(self) -> None:
        for code in (1006, 1011):
            async with self.connected(Hear(1), "half", Cut(code)) as (_, connection):
                await connection.send_content(user_content("go"))
                with pytest.raises(LiveConnectionClosed) as caught:
                    await within(PATIENCE, "a lost line to be noticed", self._read_all(connection))
                if "codes" in self.plays:
                    assert caught.value.close_code == code
                with pytest.raises(LiveConnectionClosed):
                    await connection.send_content(user_content("anybody there?"))

    # --- helpers ------------------------------------------------------------------------------------------------------

    @staticmethod
    async def _read_all(connection: LiveConnection) -> list[ModelResponse]:
        responses: Any = connection.receive()
        async with aclosing(responses):
            return [response async for response in responses]

    @staticmethod
    async def _closed(peer: LivePeer) -> None:
        """The server needs a moment to notice."""
        for _ in range(1000):
            if not peer.open_lines():
                return
            await asyncio.sleep(0.001)
        raise AssertionError("a cancelled connection leaves its line open")

    @staticmethod
    async def _send_later(connection: LiveConnection) -> None:
        await asyncio.sleep(0)
        await connection.send_content(user_content("and"))


def _text(responses: list[ModelResponse]) -> str:
    return "".join(response.text for response in responses)
