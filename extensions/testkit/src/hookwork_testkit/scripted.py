"""A model that plays back a script and remembers what it was asked."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import msgspec

from hookwork.model import Model, ModelCapabilities, ModelRequest
from hookwork.platform import sleep
from hookwork.records.content import Content, Part
from hookwork.records.metadata import ModelResponse, UsageMetadata
from hookwork.records.request import GenerateContentConfig
from hookwork_testkit.steps import Block, Delay, Step, items_of, joined

_CAPABILITIES = ModelCapabilities(provider="scripted")


class ScriptExhausted(AssertionError):
    """A `ScriptedModel` was called more often than its script has steps."""


class RecordedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request as the model met it; nothing that happens later changes it.

    Attributes:
        contents: the prompt, as frozen records.
        tools: names in the execution table, sorted.
        stream: whether the call was to be streamed.
    """

    model: str
    contents: tuple[Content, ...]
    config: GenerateContentConfig
    tools: tuple[str, ...]
    stream: bool

    @property
    def declared(self) -> list[str]:
        """Names of the functions the model was shown, in order."""
        return [declaration.name or "" for declaration in self.config.function_declarations()]

    @property
    def instruction(self) -> str:
        """The system instruction's text, ``""`` without one."""
        return self.config.system_instruction.text if self.config.system_instruction is not None else ""


class ScriptedModel(Model):
    """Plays its steps in order, one per call, and records every request.

    A step is a text, a Part, a Content, a whole ModelResponse, an exception to raise, a list of these (one turn: parts
    are put together, `partial` pieces are shown when the call is streamed, an exception breaks the stream there), a
    `block` or `delay`, or a function (plain or async) of the `RecordedRequest` that returns a step. The script may be
    any iterable, endless ones included, or one function that answers every request.

    Args:
        responses: the script.
        name: the model's name.
        capabilities: what it claims to be able to do; default: streaming and tools.
        usage: token counts to report with each whole response that brings none.

    Raises:
        ScriptExhausted: (from the call) the script is used up. It is an AssertionError: the test is wrong, or the
            code under test asks too often.
    """

    def __init__(
        self,
        responses: Iterable[Step] | Callable[[RecordedRequest], Any] = (),
        *,
        name: str = "scripted",
        capabilities: ModelCapabilities = _CAPABILITIES,
        usage: UsageMetadata | None = None,
    ) -> None:
        self.name = name
        self.capabilities = capabilities
        self.usage = usage
        self.requests: list[RecordedRequest] = []
        #: calls that were closed or cancelled before their final response.
        self.cut_short = 0
        self.closed = False
        self._always = responses if callable(responses) else None
        if isinstance(responses, str):
            responses = [responses]
        self._script: Iterator[Step] = iter(()) if callable(responses) else iter(responses)
        self._played = 0
        self._gate = _Gate()

    def __repr__(self) -> str:
        return f"ScriptedModel({self.name!r}, calls={len(self.requests)})"

    @property
    def prompts(self) -> list[list[Content]]:
        """The contents of every request so far."""
        return [list(request.contents) for request in self.requests]

    @property
    def calls(self) -> int:
        """How often the model was called."""
        return len(self.requests)

    def add(self, *steps: Step) -> None:
        """Append steps to the script."""
        rest = self._script

        def longer() -> Iterator[Step]:
            yield from rest
            yield from steps

        self._script = longer()

    def release(self, times: int = 1) -> None:
        """Let a call that waits at a `block` go on; given in advance it lets the next one pass."""
        self._gate.release(times)

    async def wait_blocked(self) -> None:
        """Return as soon as a call waits at a `block`."""
        await self._gate.wait_blocked()

    async def close(self) -> None:
        self.closed = True

    async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        recorded = RecordedRequest(
            model=request.model,
            contents=tuple(request.contents),
            config=request.config,
            tools=tuple(sorted(request.tools)),
            stream=stream,
        )
        self.requests.append(recorded)
        step = self._next(recorded)
        finished = False
        try:
            while callable(step) and not _is_error(step):
                step = step(recorded)
                if inspect.isawaitable(step):
                    step = await step
            parts: list[Part] = []
            whole: ModelResponse | None = None
            for item in items_of(step):
                if isinstance(item, Block):
                    await self._gate.wait()
                elif isinstance(item, Delay):
                    await sleep(item.seconds)
                elif _is_error(item):
                    finished = True
                    raise item  # type: ignore[misc]
                elif isinstance(item, ModelResponse) and item.partial:
                    parts.extend(item.content.parts if item.content is not None else ())
                    if stream:
                        yield item
                elif isinstance(item, ModelResponse):
                    whole = item
                else:
                    parts.extend(_parts_of(item))
            finished = True
            yield self._whole(whole, parts)
        finally:
            if not finished:
                self.cut_short += 1

    def _next(self, recorded: RecordedRequest) -> Any:
        if self._always is not None:
            return self._always
        try:
            step = next(self._script)
        except StopIteration:
            pass
        else:
            self._played += 1
            return step
        last = recorded.contents[-1] if recorded.contents else None
        raise ScriptExhausted(
            f"ScriptedModel {self.name!r} was called {len(self.requests)} times, but its script has {self._played} "
            f"step(s); the unexpected request ends with {last!r}. Add a step, or find out why the model is asked again."
        )

    def _whole(self, whole: ModelResponse | None, parts: list[Part]) -> ModelResponse:
        if whole is None:
            whole = ModelResponse(content=Content(role="model", parts=joined(parts)), finish_reason="STOP")
        if self.usage is not None and whole.usage_metadata is None:
            whole = whole.replace(usage_metadata=self.usage)
        return whole


class _Gate:
    """Counted permits; a call that finds none waits. One event loop at a time."""

    def __init__(self) -> None:
        self._permits = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._watchers: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        if self._permits:
            self._permits -= 1
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        for watcher in self._watchers:
            if not watcher.done():
                watcher.set_result(None)
        self._watchers.clear()
        try:
            await future
        finally:
            if future in self._waiting:
                self._waiting.remove(future)

    async def wait_blocked(self) -> None:
        if self._waiting:
            return
        watcher = asyncio.get_running_loop().create_future()
        self._watchers.append(watcher)
        await watcher

    def release(self, times: int) -> None:
        for _ in range(times):
            if self._waiting:
                future = self._waiting.pop(0)
                if not future.done():
                    future.set_result(None)
            else:
                self._permits += 1


def _is_error(item: Any) -> bool:
    return isinstance(item, BaseException) or (isinstance(item, type) and issubclass(item, BaseException))


def _parts_of(item: Any) -> Iterable[Part]:
    if isinstance(item, str):
        return (Part(text=item),)
    if isinstance(item, Part):
        return (item,)
    content: Content = item
    return content.parts
