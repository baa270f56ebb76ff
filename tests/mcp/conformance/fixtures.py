"""The agent whose tools the conformance suite expects of a server under test; names and texts are the suite's."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from hookwork import ToolContext
from hookwork.errors import ToolError
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool
from hookwork_llm import LlmAgent, tool

PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
        "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
    )
).decode()
WAV = base64.b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00" + bytes(16)).decode()

_EMBEDDED = {
    "type": "resource",
    "uri": "test://embedded-resource",
    "mimeType": "text/plain",
    "text": "This is an embedded resource content.",
}


@tool(name="test_simple_text")
def simple_text() -> Any:
    """A text."""
    return {"output": "This is a simple text response for testing."}


@tool(name="test_image_content")
def image_content() -> Any:
    """An image."""
    return {"output": [{"type": "image", "data": PNG, "mimeType": "image/png"}]}


@tool(name="test_audio_content")
def audio_content() -> Any:
    """A sound."""
    return {"output": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]}


@tool(name="test_embedded_resource")
def embedded_resource() -> Any:
    """A resource within the result."""
    return {"output": [_EMBEDDED]}


@tool(name="test_multiple_content_types")
def multiple_content_types() -> Any:
    """Three kinds of content."""
    text = {"type": "text", "text": "Multiple content types test:"}
    mixed = {
        "type": "resource",
        "uri": "test://mixed-content-resource",
        "mimeType": "application/json",
        "text": '{"test":"data","value":123}',
    }
    return {"output": [text, {"type": "image", "data": PNG, "mimeType": "image/png"}, mixed]}


@tool(name="test_error_handling")
def error_handling() -> str:
    """Fails."""
    raise ToolError("This tool intentionally returns an error for testing")


class SchemaTool(Tool):
    """A tool with a schema that is more than types."""

    name = "json_schema_2020_12_tool"
    description = "Tool with JSON Schema 2020-12 features"

    def declaration(self) -> FunctionDeclaration:
        address = {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
        schema: dict[str, Any] = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": address},
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": False,
        }
        return FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        return {"output": "ok"}


@tool(name="test_tool_with_progress")
async def tool_with_progress(ctx: ToolContext) -> Any:
    """Reports progress."""
    await asyncio.sleep(0)
    return {"output": "done"}


@tool(name="test_input_required_result_tampered_state", require_confirmation=True)
def tampered_state() -> str:
    """Asks for approval, so it hands out state."""
    return "approved"


class HeaderTool(Tool):
    """A tool one of whose arguments also travels as a header."""

    name = "test_x_mcp_header"
    description = "Tool with an argument that is mirrored into a header"

    def declaration(self) -> FunctionDeclaration:
        region = {"type": "string", "x-mcp-header": "Region"}
        schema = {"type": "object", "properties": {"region": region}, "required": ["region"]}
        return FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        return {"output": f"region {args.get('region')}"}


def agent() -> LlmAgent:
    """The agent under test; its model is never asked."""
    tools = [
        simple_text,
        image_content,
        audio_content,
        embedded_resource,
        multiple_content_types,
        error_handling,
        tool_with_progress,
        tampered_state,
        SchemaTool(),
        HeaderTool(),
    ]
    return LlmAgent(name="conformance", model="offline", tools=tools)
