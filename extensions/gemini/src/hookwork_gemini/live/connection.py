"""One open live connection (models LIVE-3 … LIVE-8, LIVE-13, LIVE-17)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

from hookwork.live import (
    ActivityEnd,
    ActivityStart,
    LiveConnection,
    LiveRunConfig,
    RealtimeInput,
    check_content,
    check_realtime,
    with_mime_type,
    without_audio,
)
from hookwork.model import ModelRequest
from hookwork.records.content import Content
from hookwork.records.metadata import ModelResponse
from hookwork_gemini.capabilities import version_of
from hookwork_gemini.conversion import as_json, to_genai
from hookwork_gemini.live.failures import is_unknown_message, opening_error, running_error
from hookwork_gemini.live.messages import responses_of
from hookwork_gemini.live.setup import connect_config
from hookwork_gemini.requests import Door

#: Starts the turn that a told history asks for (LIVE-3).
ANSWER_NOW = "Please answer."


@asynccontextmanager
async def opened(
    client: Any, door: Door, request: ModelRequest, config: LiveRunConfig
) -> AsyncIterator[LiveConnection]:
    """A connection, closed on leaving, however that happens."""
    model = request.model or door.name
    settings = connect_config(door, request, config)
    async with AsyncExitStack() as stack:
        try:
            session = await stack.enter_async_context(client.aio.live.connect(model=model, config=settings))
        except Exception as error:
            failed = opening_error(door.provider, model, error)
            if failed is None:
                raise
            raise failed from error
        connection = GeminiLiveConnection(session, door, model, waits_for_history=settings.history_config is not None)
        stack.push_async_callback(connection.close)
        yield connection


class GeminiLiveConnection(LiveConnection):
    """A session of google-genai behind the kernel's contract."""

    def __init__(self, session: Any, door: Door, model: str, *, waits_for_history: bool = False) -> None:
        self._session = session
        self._door = door
        self._model = model
        self._closing = False
        #: the server takes what comes first for a history, up to a completed turn, and does not answer it (LIVE-3).
        self._waits_for_history = waits_for_history
        version = version_of(model)
        #: 3.1 and later take sound and pictures apart on the Gemini API, and text as realtime input (LIVE-4, LIVE-5).
        self._sorts_media = version is not None and version >= 3.1 and not door.vertexai

    @property
    def session_id(self) -> str:
        """See `LiveConnection.session_id`."""
        return self._session.session_id or ""

    # --- sending ------------------------------------------------------------------------------------------------------

    async def send_history(self, contents: Sequence[Content]) -> None:
        """See `LiveConnection.send_history`.

        Before Gemini 3 ``turn_complete`` says whether the model is to answer: when the last role is ``user`` (LIVE-3).

        A history that was announced (`connect_config`, Gemini 3) always ends with ``turn_complete=True``, whoever spoke
        last, because that ends the history and asks for nothing: "the server will wait and at first process
        `client_content` messages until `turn_complete` is `true`. This initial history will not trigger a model call
        and may end with model content. After `turn_complete` is `true`, the client can start the realtime conversation
        via `realtime_input`." (``google.genai.types.HistoryConfig``, google-genai 3.6). So the answer that a last word
        of the user asks for is started by a short realtime text.
        """
        told = without_audio(contents)
        if not told:
            return
        turns = [self._door.content(content) for content in told]
        asks = told[-1].role == "user"
        announced, self._waits_for_history = self._waits_for_history, False
        await self._sent(self._session.send_client_content(turns=turns, turn_complete=asks or announced))
        if asks and announced:
            await self._sent(self._session.send_realtime_input(text=ANSWER_NOW))

    async def _begin(self) -> None:
        """End a history that was announced and did not come, so that what follows is answered."""
        if self._waits_for_history:
            self._waits_for_history = False
            await self._sent(self._session.send_client_content(turn_complete=True))

    async def send_content(self, content: Content) -> None:
        """See `LiveConnection.send_content`."""
        check_content(content)
        await self._begin()
        if content.parts[0].function_response is not None:
            answers = [to_genai(self._answer(answer)) for answer in content.function_responses]
            await self._sent(self._session.send_tool_response(function_responses=answers))
        elif self._sorts_media and len(content.parts) == 1 and content.parts[0].text:
            await self._sent(self._session.send_realtime_input(text=content.parts[0].text))
        else:
            turn = self._door.content(content)
            await self._sent(self._session.send_client_content(turns=[turn], turn_complete=True))

    def _answer(self, answer: Any) -> Any:
        """An answer without an id that we made up: Vertex AI pairs such calls by name.

        On the Gemini API the SDK refuses an answer that has none; that to a call without an id has an empty one.
        """
        if self._door.vertexai:
            return answer.replace(id=None) if (answer.id or "").startswith("adk-") else answer
        return answer if answer.id is not None else answer.replace(id="")

    async def send_realtime(self, item: RealtimeInput) -> None:
        """See `LiveConnection.send_realtime`."""
        check_realtime(item)
        await self._begin()
        if isinstance(item, ActivityStart):
            await self._sent(self._session.send_realtime_input(activity_start={}))
        elif isinstance(item, ActivityEnd):
            await self._sent(self._session.send_realtime_input(activity_end={}))
        else:
            blob = with_mime_type(item)
            kind = "media"
            if self._sorts_media:
                kind = "video" if (blob.mime_type or "").startswith("image/") else "audio"
            await self._sent(self._session.send_realtime_input(**{kind: to_genai(blob)}))

    async def _sent(self, sending: Awaitable[None]) -> None:
        try:
            await sending
        except Exception as error:
            failed = running_error(self._door.provider, self._model, error)
            if failed is error:
                raise
            raise failed from error

    # --- receiving ----------------------------------------------------------------------------------------------------

    async def receive(self) -> AsyncGenerator[ModelResponse, None]:
        """See `LiveConnection.receive`."""
        while not self._closing:
            try:
                # The SDK's iterator ends with each interaction; the connection goes on (LIVE-17).
                async with aclosing(self._session.receive()) as messages:
                    async for message in messages:
                        for response in responses_of(as_json(message)):
                            yield response
            except Exception as error:
                if self._closing:
                    return
                if is_unknown_message(error):
                    continue
                failed = running_error(self._door.provider, self._model, error)
                if failed is error:
                    raise
                raise failed from error

    async def close(self) -> None:
        """See `LiveConnection.close`."""
        if not self._closing:
            self._closing = True
            await self._session.close()
