"""When a call needs a person's approval (tools-plugins HITL-02)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any

from hookwork.errors import InvalidToolError
from hookwork_llm.functions.annotations import UnresolvedName, is_context, resolve
from hookwork_llm.functions.binding import Signature

#: Names by which a lambda, which cannot annotate, asks for the context.
_CONTEXT_NAMES = frozenset({"ctx", "context", "tool_context"})


class ConfirmationProvider:
    """A function that decides for each call whether it needs approval.

    It takes parameters of the tool's function by name, all or some of them, with their converted values, and a
    ToolContext if it asks for one. It may be async.
    """

    __slots__ = ("_call", "_contexts", "_defaults", "_everything", "_names", "_tool")

    def __init__(self, call: Callable[..., Any], signature: Signature, tool: str) -> None:
        """Check that the provider can be called. Raises InvalidToolError."""
        if not callable(call):
            raise InvalidToolError(f"tool {tool!r}: require_confirmation is a bool or a function, not {call!r}")
        self._call = call
        self._tool = tool
        self._names: list[str] = []
        self._contexts: list[str] = []
        self._everything = False
        self._defaults = {n: a.default for n, a in signature.arguments.items() if a.default is not Parameter.empty}
        try:
            parameters = inspect.signature(call).parameters
        except (TypeError, ValueError) as error:
            raise InvalidToolError(f"tool {tool!r}: the signature of require_confirmation cannot be read") from error
        for name, parameter in parameters.items():
            if parameter.kind is Parameter.VAR_KEYWORD:
                self._everything = True
            elif parameter.kind is Parameter.POSITIONAL_ONLY:
                raise InvalidToolError(f"tool {tool!r}: require_confirmation has a positional-only parameter {name!r}")
            elif parameter.kind is not Parameter.VAR_POSITIONAL:
                self._sort(name, parameter, signature)

    def _sort(self, name: str, parameter: Parameter, signature: Signature) -> None:
        if name in signature.arguments:
            self._names.append(name)
        elif self._asks_for_context(name, parameter, signature):
            self._contexts.append(name)
        elif signature.extras:  # a further argument by that name may come
            self._names.append(name)
        elif parameter.default is Parameter.empty:
            known = ", ".join(signature.arguments) or "none"
            raise InvalidToolError(
                f"tool {self._tool!r}: require_confirmation has a parameter {name!r} that the function lacks; "
                f"the function's are: {known}"
            )

    def _asks_for_context(self, name: str, parameter: Parameter, signature: Signature) -> bool:
        if parameter.annotation is Parameter.empty:
            return name in signature.contexts or name in _CONTEXT_NAMES
        try:
            annotation = resolve(parameter.annotation, self._call)
        except (UnresolvedName, TypeError, SyntaxError):  # then it is no context of ours
            return False
        return is_context(annotation, self._tool, name)

    async def __call__(self, ctx: Any, converted: Mapping[str, Any]) -> bool:
        """Whether this call needs approval."""
        given = {**self._defaults, **converted}
        keywords = given if self._everything else {name: given[name] for name in self._names if name in given}
        answer = self._call(**keywords, **dict.fromkeys(self._contexts, ctx))
        if inspect.isawaitable(answer):
            answer = await answer
        return bool(answer)
