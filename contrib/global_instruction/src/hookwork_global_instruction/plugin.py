"""The plugin: one instruction for all agents of an app (tools-plugins SP-43)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from hookwork import Content, Part, Plugin
from hookwork.errors import ConfigurationError
from hookwork_global_instruction.template import render

if TYPE_CHECKING:
    from hookwork import CallbackContext, ModelRequest, ReadonlyContext

    Provider = Callable[[ReadonlyContext], str | Awaitable[str]]


class GlobalInstruction(Plugin):
    """Puts an instruction in front of the system instruction of every model request.

    Args:
        instruction: the text, in which ``{name}`` stands for a state value and ``{name?}`` for one that may be absent;
            or a function, async or not, that takes a readonly context and gives the text, which is then no template.
            An empty text changes nothing.
        templating: False: the text is taken as it is.
        name: the plugin's name.

    Raises:
        ConfigurationError: neither text nor function.
    """

    def __init__(
        self, instruction: str | Provider, *, templating: bool = True, name: str = "global_instruction"
    ) -> None:
        if not isinstance(instruction, str) and not callable(instruction):
            raise ConfigurationError(f"plugin {name!r}: instruction is a text or a function, not {instruction!r}")
        self.name = name
        self._instruction = instruction
        self._templating = templating

    async def before_model(self, ctx: CallbackContext, request: ModelRequest) -> None:
        text = await self._text(ctx)
        if text:
            request.update_config(system_instruction=_in_front(text, request.config.system_instruction))

    async def _text(self, ctx: CallbackContext) -> str:
        if isinstance(self._instruction, str):
            return render(self._instruction, ctx.state) if self._templating else self._instruction
        text = self._instruction(ctx.readonly())
        return await text if inspect.isawaitable(text) else text


def _in_front(text: str, present: Content | None) -> Content:
    """The instruction with a text before its first part, joined by a blank line as its other pieces are."""
    if present is None or not present.parts:
        return Content(role=present.role if present is not None else "user", parts=[Part(text=text)])
    first, *rest = present.parts
    if first.text is None:
        return present.replace(parts=[Part(text=text), first, *rest])
    joined = f"{text}\n\n{first.text}" if first.text else text
    return present.replace(parts=[first.replace(text=joined), *rest])
