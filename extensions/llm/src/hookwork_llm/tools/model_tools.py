"""Tools that the model's provider carries out: search, retrieval, code (tools-plugins §4, BT-31)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hookwork.errors import ConfigurationError
from hookwork.inside import invocation_of, owner_of
from hookwork.records.codec import load
from hookwork.records.request import ToolDeclaration
from hookwork.tool import Tool

if TYPE_CHECKING:
    from hookwork.context import ToolContext
    from hookwork.model import ModelRequest

_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")


class ModelTool(Tool):
    """A tool of the provider's: the given record is added to the request unchanged, nothing is run here.

    A model takes it when its capabilities list the kind among ``builtin_tools``; another one is refused by name before
    the request is sent. Many providers refuse such a tool beside function tools, and so does the agent of a model
    without ``builtin_with_functions``: give it to an agent of its own and that agent to others as an `AgentTool`.

    Args:
        name: for errors and hooks; the model does not see it.
        description: likewise.
        tool: the record in genai ``Tool`` form: a `ToolDeclaration`, or a mapping such as ``{"url_context": {}}``.

    Raises:
        ConfigurationError: no name, or a record that says nothing.
    """

    def __init__(self, name: str, description: str, tool: ToolDeclaration | Mapping[str, Any]) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"a ModelTool needs a name, not {name!r}")
        self.name = name
        self.description = description
        self.tool = tool if isinstance(tool, ToolDeclaration) else load(ToolDeclaration, dict(tool))
        #: the provider's names of what is asked for, e.g. ``google_search``.
        self.kinds = kinds_of(self.tool)
        if not self.kinds:
            raise ConfigurationError(
                f"model tool {name!r}: the record names no tool of the provider; give e.g. {{'url_context': {{}}}}"
            )

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        self._check_capability(ctx)
        request.update_config(tools=(*request.config.tools, self.tool))

    def _check_capability(self, ctx: ToolContext) -> None:
        """Raise when the agent's model does not have the tool (models CAP-5)."""
        owner = owner_of(ctx)
        prepared = invocation_of(ctx).prepared_for(owner) if owner is not None else None  # type: ignore[arg-type]
        model = getattr(prepared, "model", None)
        if model is None:
            return
        known = model.capabilities.builtin_tools
        for kind in self.kinds:
            if kind not in known:
                offered = ", ".join(sorted(known)) or "none"
                raise ConfigurationError(
                    f"tool {self.name!r} of agent {ctx.agent_name!r} needs the model-side tool {kind!r}, which model "
                    f"{model.name!r} does not have (it has: {offered}); use another model or take the tool away"
                )


class GoogleSearchTool(ModelTool):
    """`google_search`: the provider grounds the answer in Google search results."""

    def __init__(self) -> None:
        super().__init__("google_search", "Google search, by the model's provider.", ToolDeclaration(google_search={}))


def kinds_of(record: ToolDeclaration) -> tuple[str, ...]:
    """The names of what a record asks for, in snake_case; function declarations are none of it."""
    own = [name for name in record.__struct_fields__ if name not in ("extra", "function_declarations")]
    named = [name for name in own if getattr(record, name) is not None]
    return (*named, *(_HUMP.sub(r"_\1", key).lower() for key in record.extra or ()))
