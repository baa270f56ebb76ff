"""The plugin: further arguments in declarations, out of calls, into state (tools-plugins SP-10, SP-11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from hookwork import ModelResponse, Part, Plugin
from hookwork.errors import ConfigurationError
from hookwork_function_call_modifier.declarations import with_arguments

if TYPE_CHECKING:
    from hookwork import (
        CallbackContext,
        FunctionCall,
        FunctionDeclaration,
        ModelRequest,
        Tool,
        ToolContext,
        ToolDeclaration,
    )

Predicate = Callable[[str], bool]


class FunctionCallModifier(Plugin):
    """Asks the model for further arguments with its function calls, such as why it makes them.

    The model sees the arguments in the declarations. They never reach the tool: they are taken out of each call and are
    state values ``<call id>/<argument>`` from then on.

    Args:
        predicate: which functions: a glob over their names, several of them, or a function of the name.
        args: argument → JSON schema. One that the function has already is replaced. None is required.
        override_description: a function of the old description, or a text in which ``{description}`` stands for it.
        name: the plugin's name.

    Raises:
        ConfigurationError: no argument, or one without a schema.
    """

    def __init__(
        self,
        predicate: str | Sequence[str] | Predicate = "*",
        args: Mapping[str, Mapping[str, Any]] | None = None,
        override_description: str | Callable[[str], str] | None = None,
        *,
        name: str = "FunctionCallModifierPlugin",
    ) -> None:
        self.name = name
        if not args:
            raise ConfigurationError(f"plugin {name!r} needs args: argument → JSON schema, e.g. {{'why': {{…}}}}")
        for argument, schema in args.items():
            if not isinstance(schema, Mapping):
                raise ConfigurationError(f"plugin {name!r}: the schema of {argument!r} is a table, not {schema!r}")
        self._args = {argument: dict(schema) for argument, schema in args.items()}
        self._concerns = _predicate(predicate)
        self._description = override_description

    # --- hooks --------------------------------------------------------------------------------------------------------

    def before_model(self, ctx: CallbackContext, request: ModelRequest) -> None:
        """Put changed declarations in the place of those of functions that are carried out here."""
        tools = tuple(self._entry(entry, request) for entry in request.config.tools)
        if tools != request.config.tools:
            request.update_config(tools=tools)

    def after_model(self, ctx: CallbackContext, request: ModelRequest, response: ModelResponse) -> ModelResponse | None:
        """The response without these arguments; None when no call has any. The final one writes them to state."""
        content = response.content
        if content is None or not any(self._found(call) for call in content.function_calls):
            return None
        parts = []
        for part in content.parts:
            call = part.function_call
            found = self._found(call) if call is not None else {}
            if call is None or not found:
                parts.append(part)
                continue
            if not response.partial:
                for argument, value in found.items():
                    ctx.state[f"{call.id}/{argument}"] = value
            parts.append(_without(part, call, found))
        return response.replace(content=content.replace(parts=parts))

    def before_tool(self, ctx: ToolContext, tool: Tool, args: dict[str, Any]) -> None:
        """Take them out of a call that came without a model, from a cache for instance."""
        if self._concerns(tool.name):
            for argument in self._args.keys() & args.keys():
                ctx.state[f"{ctx.function_call_id}/{argument}"] = args.pop(argument)

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _entry(self, entry: ToolDeclaration, request: ModelRequest) -> ToolDeclaration:
        if entry.function_declarations is None:
            return entry
        return entry.replace(
            function_declarations=tuple(
                self._changed(one) if one.name in request.tools and self._concerns(one.name or "") else one
                for one in entry.function_declarations
            )
        )

    def _changed(self, declaration: FunctionDeclaration) -> FunctionDeclaration:
        changed = with_arguments(declaration, self._args)
        if self._description is None:
            return changed
        old = declaration.description or ""
        if isinstance(self._description, str):
            return changed.replace(description=self._description.replace("{description}", old))
        return changed.replace(description=self._description(old))

    def _found(self, call: FunctionCall) -> dict[str, Any]:
        """The arguments of ours that a call brings."""
        if not call.args or not self._concerns(call.name or ""):
            return {}
        return {argument: call.args[argument] for argument in self._args if argument in call.args}


def _without(part: Part, call: FunctionCall, found: Mapping[str, Any]) -> Part:
    args = {name: value for name, value in (call.args or {}).items() if name not in found}
    return part.replace(function_call=call.replace(args=args))


def _predicate(given: str | Sequence[str] | Predicate) -> Predicate:
    if callable(given):
        return given
    globs = (given,) if isinstance(given, str) else tuple(given)
    return lambda tool: any(fnmatchcase(tool, glob) for glob in globs)
