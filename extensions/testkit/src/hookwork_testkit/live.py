"""A live model that plays back connections and remembers what it was told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hookwork.errors import LiveConnectionClosed
from hookwork.live import LiveConnection, LiveRunConfig, RealtimeInput, check_content, check_realtime, without_audio
from hookwork.model import ModelCapabilities, ModelRequest
from hookwork.records.content import Blob, Content, FunctionResponse, Part
from hookwork.records.metadata import ModelResponse, Transcription
from hookwork_testkit.scripted import RecordedRequest, ScriptedModel, ScriptExhausted

_CAPABILITIES = ModelCapabilities(provider="scripted", live=True)


class Hear(msgspec.Struct, frozen=True):
    """The server waits until it got ``contents`` more contents, or ``realtime`` more realtime inputs."""

    contents: int = 1
    realtime: int = 0


class Cut(msgspec.Struct, frozen=True):
    """The line is lost with this close code. ``on_send``: not now, but when the next content is sent, which is lost."""

    code: int = 1006
    on_send: bool = False


#: What a server does, one after the other: a text (a fragment), a Part, a whole ModelResponse, a `Hear`, a `Cut`, an
#: exception to raise from `receive`, or a function (plain or async) of the connection that gives such a step or a list.
LiveStep = Any


def said(text: str, *, finished: bool = False) -> ModelResponse:
    """What the user said, as the server hears it; ``finished``: the whole utterance."""
    transcription = Transcription(text=text, finished=finished or None)
    return ModelResponse(input_transcription=transcription, partial=None if finished else True)


def spoke(text: str, *, finished: bool = False) -> ModelResponse:
    """What the model says, in writing."""
    transcription = Transcription(text=text, finished=finished or None)
    return ModelResponse(output_transcription=transcription, partial=None if finished else True)


def audio(data: bytes = b"\0\1", mime_type: str = "audio/pcm;rate=24000") -> ModelResponse:
    """A piece of the model's voice."""
    return ModelResponse(content=Content(role="model", parts=[Part(inline_data=Blob(data=data, mime_type=mime_type))]))


def turn_complete(**fields: Any) -> ModelResponse:
    """The model is done with its turn."""
    return ModelResponse(turn_complete=True, **fields)


def interrupted() -> ModelResponse:
    """The user cut the model off."""
    return ModelResponse(interrupted=True)


def handle(value: str) -> ModelResponse:
    """A resumption handle."""
    return ModelResponse(session_resumption_handle=value)


def calls(*parts: Part) -> ModelResponse:
    """One message with function calls: ``calls(call("look", id="c1"))``."""
    return ModelResponse(content=Content(role="model", parts=list(parts)))


class ScriptedConnection(LiveConnection):
    """One connection of a `ScriptedLiveModel`, and what went over it.

    Attributes:
        config: the live settings it was opened with; request: what else it was opened with.
        history: what `send_history` told, None when it was not called.
        contents: the contents sent, in order; realtime: the realtime inputs; sent: both, in order.
        closed: the client closed it; code: the close code, once the server cut it.
        session_id: what the server calls the session; a step may set it.
    """

    session_id = ""

    def __init__(self, script: Iterable[LiveStep], request: RecordedRequest, config: LiveRunConfig) -> None:
        self.request = request
        self.config = config
        self.history: list[Content] | None = None
        self.contents: list[Content] = []
        self.realtime: list[RealtimeInput] = []
        self.sent: list[Content | RealtimeInput] = []
        self.closed = False
        self.code: int | None = None
        self._script = list(script)
        self._heard = Hear(0, 0)
        self._cut_on_send: int | None = None
        self._changed = asyncio.Event()

    @property
    def texts(self) -> list[str]:
        """The texts of the contents sent."""
        return [content.text for content in self.contents]

    @property
    def responses(self) -> list[FunctionResponse]:
        """The function responses sent, in order."""
        return [response for content in self.contents for response in content.function_responses]

    async def wait_for(self, condition: Callable[[ScriptedConnection], Any]) -> None:
        """Until something that was sent, or the end of the line, makes a condition true."""
        while not condition(self):
            self._changed.clear()
            await self._changed.wait()

    # --- the client's side --------------------------------------------------------------------------------------------

    async def send_history(self, contents: Sequence[Content]) -> None:
        self._check_open()
        self.history = without_audio(contents) or None
        self._changed.set()

    async def send_content(self, content: Content) -> None:
        self._check_open()
        check_content(content)
        if content.parts[0].function_response is not None:
            content = content.replace(parts=[part for part in content.parts if part.function_response is not None])
        if self._cut_on_send is not None:
            self.cut(self._cut_on_send)
        self._check_open()
        self.contents.append(content)
        self.sent.append(content)
        self._changed.set()

    async def send_realtime(self, item: RealtimeInput) -> None:
        self._check_open()
        self.realtime.append(check_realtime(item))
        self.sent.append(item)
        self._changed.set()

    async def close(self) -> None:
        self.closed = True
        self._changed.set()

    def _check_open(self) -> None:
        if self.code is not None or self.closed:
            raise self._lost()

    def _lost(self) -> LiveConnectionClosed:
        code = self.code if self.code is not None else 1000
        return LiveConnectionClosed(f"the scripted line was cut with {code}", close_code=code, provider="scripted")

    def cut(self, code: int = 1006) -> None:
        """Lose the line now."""
        self.code = code
        self._changed.set()

    # --- the server's side --------------------------------------------------------------------------------------------

    def receive(self) -> AsyncIterator[ModelResponse]:
        return self._play()

    async def _play(self) -> AsyncGenerator[ModelResponse, None]:
        while self._script and not self.closed:
            for response in await self._step(self._script.pop(0)):
                yield response
            self._check_cut()
        await self.wait_for(lambda _: self.closed or self.code is not None)
        self._check_cut()

    def _check_cut(self) -> None:
        if self.code is not None and not self.closed:
            raise self._lost()

    async def _step(self, step: LiveStep) -> list[ModelResponse]:
        if isinstance(step, ModelResponse):
            await asyncio.sleep(0)  # a message takes its time: the client's tasks run in between
            return [step]
        if isinstance(step, str):
            step = ModelResponse(content=Content(role="model", parts=[Part(text=step)]), partial=True)
            return await self._step(step)
        if isinstance(step, Part):
            return await self._step(calls(step))
        if isinstance(step, Hear):
            wanted = Hear(self._heard.contents + step.contents, self._heard.realtime + step.realtime)
            await self.wait_for(
                lambda _: (
                    self.closed
                    or self.code is not None
                    or (len(self.contents) >= wanted.contents and len(self.realtime) >= wanted.realtime)
                )
            )
            self._heard = wanted
        elif isinstance(step, Cut):
            if step.on_send:
                self._cut_on_send = step.code
            else:
                self.cut(step.code)
        elif isinstance(step, BaseException):
            raise step
        elif isinstance(step, list | tuple):
            self._script[:0] = step
        elif callable(step):
            given = step(self)
            given = await given if asyncio.iscoroutine(given) else given
            if given is not None:
                self._script.insert(0, given)
        else:
            raise TypeError(f"a live script holds a {type(step).__name__}; see LiveStep")
        return []


class ScriptedLiveModel(ScriptedModel):
    """Plays one script per connection, in order, and keeps every connection in ``connections``.

    A script is a list of `LiveStep`; after its last step the line stays open and silent. An exception in the place of a
    script is raised when that connection is opened. Typed calls play ``responses``, as `ScriptedModel` does.

    Raises:
        ScriptExhausted: (from `connect`) more connections than scripts.
    """

    def __init__(
        self,
        *connections: Sequence[LiveStep] | Exception,
        responses: Any = (),
        name: str = "scripted-live",
        capabilities: ModelCapabilities = _CAPABILITIES,
    ) -> None:
        super().__init__(responses, name=name, capabilities=capabilities)
        self._connections = list(connections)
        self.connections: list[ScriptedConnection] = []
        #: settings of every attempt to connect, those that failed included.
        self.attempts: list[LiveRunConfig] = []

    @property
    def open_connections(self) -> int:
        """How many were opened and not closed by the client."""
        return sum(not connection.closed for connection in self.connections)

    @asynccontextmanager
    async def connect(self, request: ModelRequest, config: LiveRunConfig) -> AsyncIterator[ScriptedConnection]:
        self.attempts.append(config)
        if not self._connections:
            raise ScriptExhausted(
                f"ScriptedLiveModel {self.name!r} was connected {len(self.attempts)} times, but has "
                f"{len(self.connections)} script(s) that were played"
            )
        script = self._connections.pop(0)
        if isinstance(script, Exception):
            raise script
        recorded = RecordedRequest(
            model=request.model,
            contents=tuple(request.contents),
            config=request.config,
            tools=tuple(sorted(request.tools)),
            stream=False,
        )
        connection = ScriptedConnection(script, recorded, config)
        self.connections.append(connection)
        try:
            yield connection
        finally:
            await connection.close()
