"""Resources and prompts of a server as records, and two tools that let a model read resources."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import attrs

from hookwork.records.content import Blob, Content, FileData, Part
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool

if TYPE_CHECKING:
    from hookwork.context import ToolContext
    from hookwork_mcp.toolset import McpToolset


@attrs.frozen
class McpResource:
    """A resource on offer. ``uri`` may be a template with ``{names}`` in it; ``size`` in bytes."""

    uri: str
    name: str
    description: str = ""
    mime_type: str | None = None
    size: int | None = None
    template: bool = False


@attrs.frozen
class McpPrompt:
    """A prompt on offer; ``arguments``: name → whether it is required."""

    name: str
    description: str = ""
    arguments: dict[str, bool] = attrs.field(factory=dict)


def resource_of(item: Any) -> McpResource:
    """A resource or resource template of the SDK."""
    template = hasattr(item, "uri_template")
    return McpResource(
        uri=str(item.uri_template if template else item.uri),
        name=item.name,
        description=item.description or "",
        mime_type=item.mime_type,
        size=None if template else item.size,
        template=template,
    )


def prompt_of(item: Any) -> McpPrompt:
    """A prompt of the SDK."""
    arguments = {argument.name: bool(argument.required) for argument in item.arguments or ()}
    return McpPrompt(name=item.name, description=item.description or "", arguments=arguments)


def parts_of(result: Any) -> list[Part]:
    """What was read: texts as text parts, bytes as inline data."""
    return [_resource_part(item) for item in result.contents]


def _resource_part(item: Any) -> Part:
    text = getattr(item, "text", None)
    if text is not None:
        return Part(text=text)
    return Part(
        inline_data=Blob(
            data=base64.b64decode(item.blob),
            mime_type=item.mime_type or "application/octet-stream",
            display_name=str(item.uri),
        )
    )


def contents_of(result: Any) -> list[Content]:
    """A prompt's messages."""
    return [
        Content(role="model" if message.role == "assistant" else "user", parts=[_part(message.content)])
        for message in result.messages
    ]


def _part(block: Any) -> Part:
    if block.type == "text":
        return Part(text=block.text)
    if block.type in ("image", "audio"):
        return Part(inline_data=Blob(data=base64.b64decode(block.data), mime_type=block.mime_type))
    if block.type == "resource":
        return _resource_part(block.resource)
    return Part(file_data=FileData(file_uri=str(block.uri), mime_type=block.mime_type, display_name=block.name))


class ListResourcesTool(Tool):
    """Lets a model see which resources there are."""

    description = "List the resources that can be read: their URIs, names and descriptions."
    idempotent = True

    def __init__(self, toolset: McpToolset) -> None:
        self.toolset = toolset
        self.name = f"{toolset.prefix}list_resources"

    def declaration(self) -> FunctionDeclaration:
        schema = {"type": "object", "properties": {}}
        return FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        found = await self.toolset.resources(ctx)
        return {"resources": [attrs.asdict(r, filter=lambda _, value: value not in (None, "", False)) for r in found]}


class ReadResourceTool(Tool):
    """Lets a model read a resource."""

    description = "Read one resource by its URI, as the list of resources gives it."
    idempotent = True

    def __init__(self, toolset: McpToolset) -> None:
        self.toolset = toolset
        self.name = f"{toolset.prefix}read_resource"

    def declaration(self) -> FunctionDeclaration:
        schema = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}
        return FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

    def validate_args(self, args: dict[str, Any]) -> str:
        """The URI. Raises ToolArgumentError."""
        from hookwork_mcp.schemas import argument_error

        uri = args.get("uri")
        if not isinstance(uri, str):
            raise argument_error(self.name, ["/uri: must be of type string"])
        return uri

    async def run_validated(self, ctx: ToolContext, converted: str) -> dict[str, Any]:
        items = []
        for part in await self.toolset.read_resource(ctx, converted):
            if part.inline_data is not None:
                data = base64.b64encode(part.inline_data.data or b"").decode("ascii")
                items.append(
                    {"type": "resource", "uri": converted, "mimeType": part.inline_data.mime_type, "data": data}
                )
            else:
                items.append({"type": "resource", "uri": converted, "text": part.text or ""})
        return {"output": items}

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        return await self.run_validated(ctx, self.validate_args(args))
