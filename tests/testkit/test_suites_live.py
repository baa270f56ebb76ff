"""The live suite passes a good connection and catches those that break one rule each (models §7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from hookwork import Blob, Content, LiveConnection, LiveRunConfig, ModelCapabilities, ModelRequest, ModelResponse
from hookwork.errors import LiveConnectionClosed
from hookwork.live import RealtimeInput
from hookwork_testkit import ScriptedConnection, ScriptedLiveModel
from hookwork_testkit.live import LiveStep
from hookwork_testkit.suites import LiveConnectionSuite
from hookwork_testkit.suites.broken import BrokenBackends, failures
from hookwork_testkit.suites.live import LivePeer

BROKEN = BrokenBackends(LiveConnectionSuite)


class Told(LiveConnection):
    """A scripted connection whose server tells a peer what it got. The broken ones change one thing."""

    def __init__(self, line: ScriptedConnection, peer: LivePeer) -> None:
        self.line = line
        self.peer = peer

    async def send_history(self, contents: Sequence[Content]) -> None:
        await self.line.send_history(contents)
        told = self.line.history
        if told:
            self.peer.note("history", ([content.text for content in told], told[-1].role == "user"))

    async def send_content(self, content: Content) -> None:
        await self.line.send_content(content)
        sent = self.line.contents[-1]
        for response in sent.function_responses:
            self.peer.note("response", (response.id, dict(response.response or {})))
        if sent.text:
            self.peer.note("text", sent.text)

    async def send_realtime(self, item: RealtimeInput) -> None:
        await self.line.send_realtime(item)
        if isinstance(item, Blob):
            self.peer.note("blob", (item.mime_type or "").partition(";")[0])

    def receive(self) -> AsyncIterator[ModelResponse]:
        return self.line.receive()

    async def close(self) -> None:
        await self.line.close()


class Peer(LivePeer):
    """A scripted model as a peer; ``kind`` is the class of its connections."""

    def __init__(self, script: Sequence[LiveStep], kind: type[Told], capabilities: ModelCapabilities | None) -> None:
        super().__init__()
        peer = self

        class Model(ScriptedLiveModel):
            @asynccontextmanager
            async def connect(self, request: ModelRequest, config: LiveRunConfig) -> AsyncIterator[Any]:
                self._connections = [list(script)]
                async with super().connect(request, config) as line:
                    connection = kind(line, peer)
                    try:
                        yield connection
                    finally:
                        await connection.close()

        more: dict[str, Any] = {} if capabilities is None else {"capabilities": capabilities}
        self.scripted = Model(**more)
        #: lines that a broken connection did not close.
        self.left_open = 0
        self.model = self.scripted

    def open_lines(self) -> int:
        return self.scripted.open_connections + self.left_open


class TestScripted(LiveConnectionSuite):
    """The scripted connection is a good one."""

    kind: type[Told] = Told
    capabilities: ModelCapabilities | None = None

    @asynccontextmanager
    async def peer(self, *script: LiveStep) -> AsyncIterator[LivePeer]:
        yield Peer(script, self.kind, self.capabilities)


class _Suite(TestScripted):
    def __init__(self, kind: type[Told]) -> None:
        self.kind = kind


async def test_a_good_connection_passes() -> None:
    assert await failures(_Suite(Told)) == {}


async def test_live_1_a_model_that_hides_that_it_is_live_is_caught() -> None:
    suite = _Suite(Told)
    suite.capabilities = ModelCapabilities()
    assert list(await failures(suite)) == ["test_live_1_a_model_with_connect_says_that_it_is_live"]


@BROKEN.breaks("test_live_6_text")
class WholeFragments(Told):
    async def receive(self) -> AsyncIterator[ModelResponse]:
        async for response in self.line.receive():
            yield response.replace(partial=None) if response.text else response


@BROKEN.breaks("test_live_17")
class OneTurn(Told):
    """Ends with the first interaction, as an SDK's iterator does."""

    ended = False

    async def receive(self) -> AsyncIterator[ModelResponse]:
        async for response in self.line.receive():
            yield response
            if response.turn_complete:
                await self.line.wait_for(lambda line: line.closed or line.code is not None)
                return


@BROKEN.breaks("test_live_6_speech")
class WholeSpeech(Told):
    async def receive(self) -> AsyncIterator[ModelResponse]:
        async for response in self.line.receive():
            heard = response.input_transcription or response.output_transcription
            yield response.replace(partial=None) if heard is not None else response


@BROKEN.breaks("test_live_6_sound")
class PartialSound(Told):
    async def receive(self) -> AsyncIterator[ModelResponse]:
        async for response in self.line.receive():
            sound = response.content is not None and any(part.inline_data for part in response.content.parts)
            yield response.replace(partial=True) if sound else response


@BROKEN.breaks("test_live_6_calls")
class NamelessCalls(Told):
    async def receive(self) -> AsyncIterator[ModelResponse]:
        async for response in self.line.receive():
            if response.content is not None and response.content.function_calls:
                parts = [
                    part.replace(function_call=part.function_call.replace(id=None)) if part.function_call else part
                    for part in response.content.parts
                ]
                response = response.replace(content=response.content.replace(parts=parts))
            yield response


@BROKEN.breaks("test_bey_8")
class NumbersItsSession(Told):
    session_id = 7


@BROKEN.breaks("test_live_6_a_turn")
class StuttersAfterCalls(Told):
    async def receive(self) -> AsyncIterator[ModelResponse]:
        called = False
        async for response in self.line.receive():
            called = called or (response.content is not None and bool(response.content.function_calls))
            yield response
            if called and response.text:
                yield response


@BROKEN.breaks("test_live_6_an_interruption")
class NeverInterrupted(Told):
    async def receive(self) -> AsyncIterator[ModelResponse]:
        async for response in self.line.receive():
            if not response.interrupted:
                yield response


@BROKEN.breaks("test_live_6_a_handle")
class HandleWithTheTurn(Told):
    async def receive(self) -> AsyncIterator[ModelResponse]:
        handle = None
        async for response in self.line.receive():
            if response.session_resumption_handle:
                handle = response.session_resumption_handle
                continue
            yield response.replace(session_resumption_handle=handle) if response.turn_complete else response


@BROKEN.breaks("test_live_4_a_text", "test_live_4_an_empty", "test_live_3_a_history_of", "test_live_5_what")
class Mumbles(Told):
    async def send_content(self, content: Content) -> None:
        if content.function_responses:
            await super().send_content(content)
            return
        await self.line.send_content(content)
        self.peer.note("text", "mumble")


@BROKEN.breaks("test_live_4_an_empty")
class TakesAnything(Told):
    async def send_content(self, content: Content) -> None:
        if content.text or content.function_responses:
            await super().send_content(content)


@BROKEN.breaks("test_live_5_what")
class TakesAnyInput(Told):
    async def send_realtime(self, item: RealtimeInput) -> None:
        if isinstance(item, Blob) and item.data:
            await super().send_realtime(item)


@BROKEN.breaks("test_live_5_sound")
class Untyped(Told):
    async def send_realtime(self, item: RealtimeInput) -> None:
        await super().send_realtime(
            item.replace(mime_type="application/octet-stream") if isinstance(item, Blob) and item.data else item
        )


@BROKEN.breaks("test_live_3_a_history_is", "test_live_3_a_history_of")
class TellsSound(Told):
    async def send_history(self, contents: Sequence[Content]) -> None:
        self.peer.note("history", ([content.text for content in contents], contents[-1].role == "user"))


@BROKEN.breaks("test_live_3_a_history_that")
class AlwaysAsks(Told):
    async def send_history(self, contents: Sequence[Content]) -> None:
        await self.line.send_history(contents)
        if self.line.history:
            self.peer.note("history", ([content.text for content in self.line.history], True))


@BROKEN.breaks("test_live_10")
class NoCode(Told):
    async def receive(self) -> AsyncIterator[ModelResponse]:
        try:
            async for response in self.line.receive():
                yield response
        except LiveConnectionClosed as error:
            raise LiveConnectionClosed("gone") from error


@BROKEN.breaks("test_live_10")
class SendsIntoTheVoid(Told):
    async def send_content(self, content: Content) -> None:
        if self.line.code is None:
            await super().send_content(content)


@BROKEN.breaks("test_live_13_close")
class ClosesWithAnError(Told):
    async def receive(self) -> AsyncIterator[ModelResponse]:
        async for response in self.line.receive():
            yield response
        raise LiveConnectionClosed("closed", close_code=1000)


@BROKEN.breaks("test_live_13_close", "test_mod_5")
class ClosesOnce(Told):
    done = False

    async def close(self) -> None:
        if self.done:
            raise RuntimeError("closed already")
        self.done = True
        await self.line.close()


@BROKEN.breaks("test_live_13_leaving", "test_live_13_close", "test_live_13_cancelling")
class StaysOpen(Told):
    async def close(self) -> None:
        assert isinstance(self.peer, Peer)
        self.peer.left_open += 1
        await self.line.close()


@BROKEN.breaks("test_live_13_leaving_closes_the_line_and_leaves", "test_live_13_close")
class Haunts(Told):
    """Leaves a task behind."""

    tasks: ClassVar[list[Any]] = []

    def receive(self) -> AsyncIterator[ModelResponse]:
        self.tasks.append(asyncio.ensure_future(asyncio.sleep(3600)))
        return self.line.receive()


@pytest.fixture(autouse=True)
def _no_ghosts() -> Any:
    yield
    for task in Haunts.tasks:
        task.cancel()
    Haunts.tasks.clear()


@pytest.mark.parametrize("name", sorted(BROKEN.kinds))
async def test_broken_connections_are_caught(name: str) -> None:
    await BROKEN.assert_caught(name, _Suite)


def test_every_line_of_the_suite_catches_something() -> None:
    assert BROKEN.uncaught(BROKEN.lines) == ["test_live_1_a_model_with_connect_says_that_it_is_live"]
