"""The Tool and Toolset contracts (tools-plugins §1).

A tool has a name and a description; what else it can do is a *capability*, found by protocol: it may process a
request, run, run as a stream, defer its response. `Tool` is a convenient base, not a requirement of the protocols.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from hookwork.errors import DuplicateToolError, ToolResultError
from hookwork.records.content import Blob, FileData, FunctionResponseBlob, FunctionResponsePart, Part
from hookwork.records.request import FunctionDeclaration

if TYPE_CHECKING:
    from hookwork.context import ReadonlyContext, ToolContext
    from hookwork.model import ModelRequest

P = TypeVar("P")

#: Names the kit puts into a request itself; a user's tool may not take them (TL-13).
RESERVED_TOOL_NAMES = frozenset(
    {
        "transfer_to_agent",
        "set_model_response",
        "finish_task",
        "stop_streaming",
        "adk_request_confirmation",
        "adk_request_input",
        "hookwork_wait",
        "adk_request_credential",
    }
)


@runtime_checkable
class RequestProcessor(Protocol):
    """May change a model request before it is sent; asked on every step."""

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None: ...


@runtime_checkable
class FunctionLike(Protocol):
    """Can be executed locally."""

    def declaration(self) -> FunctionDeclaration | None: ...

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any: ...


@runtime_checkable
class StreamingLike(Protocol):
    """Can be executed locally and yields text."""

    def declaration(self) -> FunctionDeclaration | None: ...

    def run_stream(self, ctx: ToolContext, args: dict[str, Any]) -> AsyncIterator[str]: ...


@runtime_checkable
class ArgumentValidator(Protocol):
    """Checks and converts arguments before the confirmation gate (FN-10)."""

    def validate_args(self, args: dict[str, Any]) -> Any:
        """The converted arguments, in whatever form the tool's own `run_validated` takes; raises ToolArgumentError."""

    async def run_validated(self, ctx: ToolContext, converted: Any) -> Any:
        """Run the body with what `validate_args` gave."""


@runtime_checkable
class ConfirmationGate(Protocol):
    """Says whether a call needs a person's approval (HITL-02)."""

    async def needs_confirmation(self, ctx: ToolContext, args: dict[str, Any], converted: Any) -> bool: ...


@runtime_checkable
class ResponseDeferrer(Protocol):
    """May leave its call unanswered."""

    def defers_response(self) -> bool: ...


@runtime_checkable
class SkipSummarizationDisplayer(Protocol):
    """Its result is shown to the user when it ends the loop (TL-28)."""

    def display_result_on_skip_summarization(self) -> bool: ...


@runtime_checkable
class Closable(Protocol):
    async def close(self) -> None: ...


class Finished:
    """What a long-running tool returns to answer at once, like a plain tool (core RES-2)."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class WithMedia:
    """What a tool returns to show the model images, sound or files beside its result.

    They go into the parts of the function response; a model that takes none gets the result alone. Each is a Blob, a
    FileData, or a Part with one of them.

    Raises:
        ToolResultError: something else was given.
    """

    __slots__ = ("media", "value")

    def __init__(self, value: Any, *media: Blob | FileData | Part | FunctionResponsePart) -> None:
        self.value = value
        self.media = tuple(_media_part(one) for one in media)


def _media_part(value: Any) -> FunctionResponsePart:
    if isinstance(value, FunctionResponsePart):
        return value
    found = (value.inline_data or value.file_data) if isinstance(value, Part) else value
    if isinstance(found, Blob):
        blob = FunctionResponseBlob(data=found.data, mime_type=found.mime_type, display_name=found.display_name)
        return FunctionResponsePart(inline_data=blob)
    if isinstance(found, FileData):
        return FunctionResponsePart(file_data=found)
    raise ToolResultError(f"media beside a result are Blob or FileData objects, or Parts with one, not {value!r:.80}")


class Tool(ABC):
    """Base of tools. ``idempotent`` says whether a call may be sent again after a crash (None: unknown, as if True)."""

    name: str = ""
    description: str = ""
    is_long_running: bool = False
    idempotent: bool | None = None

    def declaration(self) -> FunctionDeclaration | None:
        """How the model sees the tool; None: callable, but not shown."""
        return None

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        """Put the tool into the request; the default packs the tool itself (TL-01)."""
        pack_tool(request, self)


class Toolset(ABC):
    """A group of tools that is listed once per agent call. ``optional``: a listing error is logged, not raised."""

    name: str = ""
    optional: bool = False

    @abstractmethod
    async def tools(self, ctx: ReadonlyContext) -> list[Tool]:
        """The tools on offer for this call."""

    async def close(self) -> None:
        """Free what the toolset holds; idempotent."""


class ToolWrapper(Tool):
    """A tool around another one. It keeps the name; capabilities it lacks are found on the inner tool (TL-11)."""

    def __init__(self, inner: Tool) -> None:
        self.inner = inner
        self.name = inner.name
        self.description = inner.description
        self.is_long_running = inner.is_long_running
        self.idempotent = inner.idempotent

    def declaration(self) -> FunctionDeclaration | None:
        return self.inner.declaration()

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        """The inner tool's own; where it packed itself, the wrapper takes its place, so that nothing goes around it."""
        await self.inner.process_request(ctx, request)
        if request.tools.get(self.name) is self.inner:
            request.tools[self.name] = self


@cache
def _members(protocol: Any) -> tuple[str, ...]:
    """The methods that make up a capability."""
    return tuple(name for name, value in vars(protocol).items() if callable(value) and not name.startswith("_"))


def capability(tool: Any, protocol: type[P]) -> P | None:
    """The first object of a wrapper chain that has all methods of the capability, or None.

    What `isinstance` says of these protocols, without its cost of several microseconds for each question.
    """
    members = _members(protocol)  # type: ignore[arg-type]
    while tool is not None:
        for name in members:
            if getattr(tool, name, None) is None:
                break
        else:
            return tool  # type: ignore[no-any-return]
        tool = tool.inner if isinstance(tool, ToolWrapper) else None
    return None


def pack_tool(request: ModelRequest, tool: Tool) -> None:
    """Put a tool into the execution table and its declaration into what the model sees (TL-12, REQ-3).

    Raises:
        DuplicateToolError: a tool of that name is there already, or the tool has no name.
    """
    if not tool.name:
        raise DuplicateToolError(f"a tool of type {type(tool).__name__} has no name; give it one")
    present = request.tools.get(tool.name)
    if present is not None:
        raise DuplicateToolError(
            f"two tools named {tool.name!r} in one request ({type(present).__name__} and {type(tool).__name__}); "
            "rename one of them"
        )
    request.tools[tool.name] = tool
    declaration = tool.declaration()
    if declaration is not None:
        request.add_declarations([declaration])
