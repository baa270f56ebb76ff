"""Functions as tools (tools-plugins §2)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import types
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from hookwork.context import ToolContext
from hookwork.errors import HookworkError, InvalidToolError, ToolError
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Finished, Tool, WithMedia
from hookwork_llm.functions.annotations import UnresolvedName
from hookwork_llm.functions.binding import Binding
from hookwork_llm.functions.callables import CallableInfo, describe
from hookwork_llm.functions.docstrings import read_docstring
from hookwork_llm.functions.faults import argument_error, result_error
from hookwork_llm.functions.results import NotJson, as_response, to_json
from hookwork_llm.functions.threads import run_in_thread

if TYPE_CHECKING:
    from hookwork_llm.functions.confirmation import ConfirmationProvider

_log = logging.getLogger(__name__)

#: What a model is told about a tool that may answer later (FN-30).
LONG_RUNNING_NOTE = (
    "NOTE: This is a long-running operation. When it has answered with a pending or intermediate status, "
    "do not call it again; wait for its result."
)

Confirmation = bool | Callable[..., Any]


class _CallableTool(Tool):
    """What function tools and streaming tools share: description, schema, validation, the confirmation gate."""

    _streams = False

    def __init__(
        self,
        func: Callable[..., Any],
        *,
        name: str | None,
        description: str | None,
        input_schema: Any,
        output_schema: Any,
        require_confirmation: Confirmation,
        idempotent: bool | None,
        timeout: float | None,
    ) -> None:
        self.func = func
        info = describe(func)
        self.name = info.name if name is None else name
        if not self.name:
            raise InvalidToolError(
                "a lambda has no name of its own; give it one: tool(name=...) or FunctionTool(f, name=...)"
            )
        number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if timeout is not None and not (number and timeout > 0):
            raise InvalidToolError(f"tool {self.name!r}: timeout is a number of seconds above 0, not {timeout!r}")
        self._info = info
        self._method: str | None = None
        text, self._texts = read_docstring(info.doc)
        self.description = text if description is None else description
        self.idempotent = idempotent
        self.timeout = timeout
        self._schemas = (input_schema, output_schema)
        self._require_confirmation = require_confirmation
        self._binding: Binding | None = None
        self._gate: bool | ConfirmationProvider = False
        self._declaration: FunctionDeclaration | None = None
        self._check_kind(info)
        try:
            self._bind()
        except UnresolvedName:
            # A type may be defined below the function; it is asked for again by `resolve` (FN-02). What else can be
            # wrong is found then.
            return

    @abstractmethod
    def _check_kind(self, info: CallableInfo) -> None:
        """Raise InvalidToolError for a callable of the wrong kind."""

    def _bind(self) -> Binding:
        input_schema, output_schema = self._schemas
        binding = Binding(
            self._info, self.name, self._texts, input_schema, output_schema, with_result=not self._streams
        )
        require = self._require_confirmation
        if isinstance(require, bool):
            self._gate = require
        else:
            from hookwork_llm.functions.confirmation import ConfirmationProvider

            self._gate = ConfirmationProvider(require, binding.signature, self.name)
        self._binding = binding
        return binding

    def resolve(self) -> None:
        """Make sure that every annotation is understood; called when the tool enters an agent or toolset.

        Raises:
            InvalidToolError: an annotation names something that is still not defined.
        """
        if self._method is not None:
            raise InvalidToolError(
                f"tool {self.name!r} is a method of a class; take it from an instance, so that it has a self"
            )
        self._bound()

    def __set_name__(self, owner: type, name: str) -> None:
        static = isinstance(self.func, staticmethod)
        if not static and getattr(self.func, "__qualname__", "") == f"{owner.__qualname__}.{name}":
            self._method = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """On an instance of the class in whose body a method was made a tool: the tool of that instance.

        Under ``@classmethod`` the tool of the class: before Python 3.13 that asks with the class as both arguments.
        """
        if instance is not None and instance is owner:
            return self.of_method(instance)
        if instance is None or self._method is None:
            return self
        bound = self._for(self.func.__get__(instance))
        with suppress(AttributeError):  # an instance with slots gets a new tool each time
            instance.__dict__[self._method] = bound
        return bound

    def of_method(self, owner: Any) -> Tool:
        """The same tool with its first parameter, ``self`` or ``cls``, bound."""
        return self._for(types.MethodType(self.func, owner))

    @abstractmethod
    def _for(self, func: Callable[..., Any]) -> Tool:
        """The same tool around another callable."""

    def _bound(self) -> Binding:
        if self._binding is not None:
            return self._binding
        try:
            return self._bind()
        except UnresolvedName as error:
            what = {"return": "the result", "": "a schema"}.get(error.parameter, f"parameter {error.parameter!r}")
            raise InvalidToolError(
                f"tool {self.name!r}: the annotation of {what} uses the name {error.name!r}, which is not defined "
                "where the function is; import it at run time (not under TYPE_CHECKING only) or define it"
            ) from error

    def declaration(self) -> FunctionDeclaration:
        """How the model sees the function; built once."""
        if self._declaration is None:
            binding = self._bound()
            text = self.description
            if self.is_long_running:
                text = f"{text}\n\n{LONG_RUNNING_NOTE}" if text else LONG_RUNNING_NOTE
            self._declaration = FunctionDeclaration(
                name=self.name,
                description=text or None,
                parameters_json_schema=binding.parameters_schema,
                response_json_schema=binding.response_schema,
            )
        return self._declaration

    def validate_args(self, args: Mapping[str, Any] | None) -> dict[str, Any]:
        """The arguments as the function takes them; defaults are left to the function (FN-12..14).

        Raises:
            ToolArgumentError: they do not fit; the text names tool, JSON pointer and what was expected.
        """
        if args is None:
            args = {}
        if not isinstance(args, Mapping):
            raise argument_error(self.name, [("", "Input should be an object")])
        binding = self._bound()
        converted: dict[str, Any] = binding.convert(args)
        return converted

    async def needs_confirmation(self, ctx: ToolContext, args: Mapping[str, Any], converted: dict[str, Any]) -> bool:
        """Whether a person has to approve this call; a provider gets the converted arguments (HITL-02)."""
        gate = self._gate
        return gate if isinstance(gate, bool) else await gate(ctx, converted)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as if it were not a tool."""
        return self.func(*args, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _log_failure(self, error: Exception) -> None:
        # The model gets the text only (TL-21); errors of the kit's own types are meant for it and are no defect.
        if not isinstance(error, HookworkError):
            _log.warning("tool %r failed", self.name, exc_info=error)


class FunctionTool(_CallableTool):
    """A function as a tool.

    Args:
        func: a function, bound method, partial or object with ``__call__``; sync or async.
        name: default: the function's name. A lambda needs one.
        description: default: summary and body of the docstring.
        input_schema: JSON schema (or a type) that replaces the derived one, declared and enforced.
        output_schema: the same for the result.
        long_running: the result may come later; None then leaves the call open, `Finished` answers at once.
        require_confirmation: whether a person approves each call, or a function of its parameters that says so.
        idempotent: whether a call may be sent again after a crash; None: unknown.
        timeout: seconds for one call; None: no limit. A worker thread that is late goes on, its result is dropped.
        inline: run a sync function in the event loop instead of a worker thread; only for quick ones.

    Raises:
        InvalidToolError: no tool can be made of the function; the text says why.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        input_schema: Any = None,
        output_schema: Any = None,
        long_running: bool = False,
        require_confirmation: Confirmation = False,
        idempotent: bool | None = None,
        timeout: float | None = None,
        inline: bool = False,
    ) -> None:
        self.is_long_running = long_running
        self.inline = inline
        super().__init__(
            func,
            name=name,
            description=description,
            input_schema=input_schema,
            output_schema=output_schema,
            require_confirmation=require_confirmation,
            idempotent=idempotent,
            timeout=timeout,
        )
        self._in_loop = inline or self._info.kind == "async"

    def _for(self, func: Callable[..., Any]) -> FunctionTool:
        input_schema, output_schema = self._schemas
        return type(self)(
            func,
            name=self.name,
            description=self.description,
            input_schema=input_schema,
            output_schema=output_schema,
            long_running=self.is_long_running,
            require_confirmation=self._require_confirmation,
            idempotent=self.idempotent,
            timeout=self.timeout,
            inline=self.inline,
        )

    def _check_kind(self, info: CallableInfo) -> None:
        if info.kind == "async generator":
            raise InvalidToolError(f"tool {self.name!r} is an async generator; use StreamingTool or @tool")
        if info.kind == "generator":
            raise InvalidToolError(
                f"tool {self.name!r} is a generator; return a list, or make it an async generator of text to stream"
            )

    async def run(self, ctx: ToolContext, args: Mapping[str, Any] | None) -> Any:
        """Validate and run; see `run_validated`."""
        return await self.run_validated(ctx, self.validate_args(args))

    async def run_validated(self, ctx: ToolContext, converted: dict[str, Any]) -> Any:
        """Run the function with what `validate_args` gave.

        Returns:
            The response: a dict (another value ``v`` as ``{"result": v}``), None, or, from a long-running tool,
            `Finished` around either; `WithMedia` around it where the function gave media beside it.

        Raises:
            ToolResultError: JSON or the output schema cannot hold the result.
            ToolError: the time limit is over.
            Exception: whatever the function raised, its traceback logged.
        """
        try:
            if self.timeout is None:
                value = await self._call(ctx, converted)
            else:
                value = await self._call_in_time(self.timeout, ctx, converted)
        except Exception as error:
            self._log_failure(error)
            raise
        if isinstance(value, Finished):
            response = self._answer(value.value)
            return Finished(response) if self.is_long_running else response
        return self._answer(value)

    def _answer(self, value: Any) -> Any:
        if isinstance(value, WithMedia):
            return WithMedia(self._response(value.value), *value.media)
        return self._response(value)

    async def _call(self, ctx: ToolContext, converted: dict[str, Any]) -> Any:
        positional, keywords = self._bound().place(converted, ctx)
        func = self.func
        if self._in_loop:
            value = func(*positional, **keywords)
        else:
            value = await run_in_thread(ctx.thread_pool(), self.name, lambda: func(*positional, **keywords))
        if inspect.isawaitable(value):
            return await value
        return value

    async def _call_in_time(self, seconds: float, ctx: ToolContext, converted: dict[str, Any]) -> Any:
        try:
            async with asyncio.timeout(seconds) as limit:
                return await self._call(ctx, converted)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ToolError(f"tool {self.name!r} did not finish within {seconds:g} s") from error

    def _response(self, value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        try:
            encoded = to_json(value)
        except NotJson as error:
            raise result_error(self.name, [error.fault]) from error
        binding = self._bound()
        if binding.result_faults is not None:
            faults = binding.result_faults(encoded)
            if faults:
                raise result_error(self.name, faults)
        return as_response(encoded)


class StreamingTool(_CallableTool):
    """An async generator of text as a tool (tools-plugins FN-25).

    Outside a live session its chunks are joined into one result; in one, each chunk goes to the model. Options are
    those of `FunctionTool`; ``timeout`` is for the whole stream when it is joined.
    """

    _streams = True

    def __init__(
        self,
        func: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        input_schema: Any = None,
        require_confirmation: Confirmation = False,
        idempotent: bool | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__(
            func,
            name=name,
            description=description,
            input_schema=input_schema,
            output_schema=None,
            require_confirmation=require_confirmation,
            idempotent=idempotent,
            timeout=timeout,
        )

    def _for(self, func: Callable[..., Any]) -> StreamingTool:
        return type(self)(
            func,
            name=self.name,
            description=self.description,
            input_schema=self._schemas[0],
            require_confirmation=self._require_confirmation,
            idempotent=self.idempotent,
            timeout=self.timeout,
        )

    def _check_kind(self, info: CallableInfo) -> None:
        if info.kind != "async generator":
            raise InvalidToolError(f"streaming tool {self.name!r} is not an async generator; use FunctionTool or @tool")

    async def run_stream(self, ctx: ToolContext, args: Mapping[str, Any] | None) -> AsyncGenerator[str, None]:
        """The chunks. Every error, of arguments too, is raised while iterating; closing runs the function's cleanup."""
        async with aclosing(self.stream_validated(ctx, self.validate_args(args))) as chunks:
            async for chunk in chunks:
                yield chunk

    async def stream_validated(self, ctx: ToolContext, converted: dict[str, Any]) -> AsyncGenerator[str, None]:
        """The chunks, from what `validate_args` gave. Raises ToolResultError for one that is not text."""
        positional, keywords = self._bound().place(converted, ctx)
        try:
            async with aclosing(self.func(*positional, **keywords)) as chunks:
                async for chunk in chunks:
                    if not isinstance(chunk, str):
                        raise result_error(self.name, [("", f"a chunk is text, not a {type(chunk).__name__}")])
                    yield chunk
        except Exception as error:
            self._log_failure(error)
            raise

    async def run_validated(self, ctx: ToolContext, converted: dict[str, Any]) -> dict[str, Any]:
        """All chunks joined, as ``{"result": text}``; after an error nothing of them is kept (FN-26)."""
        chunks: list[str] = []
        try:
            async with asyncio.timeout(self.timeout) as limit:
                async with aclosing(self.stream_validated(ctx, converted)) as stream:
                    async for chunk in stream:
                        chunks.append(chunk)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ToolError(f"tool {self.name!r} did not finish within {self.timeout:g} s") from error
        return {"result": "".join(chunks)}
