"""The packaged tool-calling model (models LOC-3)."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

from hookwork.catalogue import did_you_mean
from hookwork.errors import ConfigurationError
from hookwork.model import Model, ModelCapabilities, ModelRequest
from hookwork.platform import now
from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.metadata import ModelResponse
from hookwork.records.request import FunctionDeclaration
from hookwork_modelkit.engines import Engine
from hookwork_modelkit.errors import refusal
from hookwork_needle.library import NAME, PROVIDER, Library, found, load
from hookwork_needle.prose import offer, report
from hookwork_needle.turns import Turn, described, has_media, tools_of, turns_of

#: Earlier turns that are played to the engine again, for "and in Rome?"; each costs some tenths of a second.
HISTORY = 3


class Process:
    """The engine of this process: its state is one per process, so it is loaded once and used by one call at a time.

    Its thread lives while a model is in use; the library stays loaded, since nothing can unload it.
    """

    def __init__(self, load: Callable[[], Library] = load) -> None:
        self._load = load
        self._library: Library | None = None
        self._lock = threading.Lock()
        self._users = 0
        self._thread: Engine[list[dict[str, Any]]] | None = None
        self._pid = os.getpid()

    def acquire(self) -> None:
        """One more model is in use."""
        with self._lock:
            if self._pid != os.getpid():  # a fork took no thread along
                self._pid, self._users, self._thread = os.getpid(), 0, None
            self._users += 1
            if self._thread is None:
                self._thread = Engine("needle-engine", provider=PROVIDER, model=NAME)

    def release(self) -> None:
        """One less; the last one ends the thread."""
        with self._lock:
            if self._pid != os.getpid():
                return
            self._users -= 1
            if self._users == 0 and self._thread is not None:
                self._thread.close()
                self._thread = None

    async def answer(self, work: Callable[[Library], list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """What ``work`` makes of the engine, on its thread."""

        def run() -> list[dict[str, Any]]:
            if self._library is None:
                self._library = self._load()
            return work(self._library)

        thread = self._thread
        assert thread is not None
        return await thread.call(run)


_process = Process()


class NeedleModel(Model):
    """Chooses tools and fills in their arguments; answers are put together from what the tools give.

    Args:
        history: earlier questions, with their results, that the engine hears again before the newest one.
        process: for tests: another engine than this process's.

    Raises:
        ConfigurationError: ``history`` is no whole number from 0.
    """

    name = NAME
    capabilities = ModelCapabilities(provider=PROVIDER)

    def __init__(self, *, history: int = HISTORY, process: Process | None = None) -> None:
        if type(history) is not int or history < 0:
            raise ConfigurationError(f"needle: 'history' is a whole number from 0, not {history!r}")
        self.history = history
        self._process = process if process is not None else _process
        self._counted = False

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> NeedleModel:
        """The model of ``[tool.hookwork.needle]``. Raises ConfigurationError: an unknown key or a bad value."""
        for key in settings:
            if key != "history":
                raise ConfigurationError(
                    f"[tool.hookwork.needle] has no key {key!r}{did_you_mean(key, ['history'])}; keys: history"
                )
        return cls(**settings)

    def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        """See `Model.generate`. A streamed answer comes in one piece: the engine shows nothing before it decided."""
        return self._generate(request, stream)

    async def _generate(self, request: ModelRequest, stream: bool) -> AsyncGenerator[ModelResponse, None]:
        parts = await self._parts(request)
        content = Content(role="model", parts=parts)
        if stream:
            yield ModelResponse(content=content, partial=True, model_version=self.name)
        yield ModelResponse(content=content, turn_complete=True, finish_reason="STOP", model_version=self.name)

    async def _parts(self, request: ModelRequest) -> list[Part]:
        if has_media(request):
            raise refusal(PROVIDER, NAME, "this model reads text only; leave files and images out",
                          code="unsupported_media")  # fmt: skip
        if any(tool.function_declarations is None for tool in request.config.tools):
            raise refusal(PROVIDER, NAME, "tools that a service carries out itself are not there for this model")
        turns = turns_of(request)
        if not turns:
            raise refusal(PROVIDER, NAME, "the request asks nothing: it holds no text of a user")
        tools = tools_of(request.config)
        calls = await self._calls(turns, tools) if tools else []
        if calls:
            return [Part(function_call=call) for call in calls]
        results = turns[-1].results
        return [Part(text=report(results) if results else offer(tools))]

    async def check(self) -> None:
        """See whether the engine and its weights are there; `hookwork doctor` asks this. Raises ModelError."""
        await asyncio.to_thread(found)

    async def close(self) -> None:
        """Give the engine up; the last model of the process ends its thread."""
        if self._counted:
            self._counted = False
            self._process.release()

    async def _calls(self, turns: list[Turn], tools: list[FunctionDeclaration]) -> list[FunctionCall]:
        *earlier, newest = turns
        heard = earlier[len(earlier) - min(self.history, len(earlier)) :]
        system = f"date: {now():%Y-%m-%d %a %H:%M}"  # without it relative dates cannot be resolved (ECO-LLM-1)

        messages = [message for turn in (*heard, newest) for message in turn.messages]

        def work(library: Library) -> list[dict[str, Any]]:
            chosen: list[dict[str, Any]] = (
                library.converse(system, described(tools), messages).get("function_calls") or []
            )
            return chosen

        if not self._counted:
            self._counted = True
            self._process.acquire()
        known = {tool.name for tool in tools}
        calls = [
            FunctionCall(name=chosen["name"], args=chosen.get("arguments") or {})
            for chosen in await self._process.answer(work)
            if chosen.get("name") in known
        ]
        return [call for call in calls if not newest.repeats(call)]  # a tool that answered is not asked the same again
