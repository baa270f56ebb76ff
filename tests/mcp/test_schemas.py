"""CASE-MCP-4: schemas as servers write them (tools-plugins MCP-14)."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.mcp.fake import FakeServer
from tests.mcp.looking import by_name

from hookwork.errors import ToolArgumentError, ToolError
from hookwork_mcp import McpToolset
from hookwork_testkit import make_context

ODD: dict[str, Any] = {
    "draft": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {"type": "string"}},
    },
    "refs": {"type": "object", "properties": {"a": {"$ref": "#/$defs/kind"}}, "$defs": {"kind": {"enum": ["x", "y"]}}},
    "closed": {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False},
    "one_of": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {"const": 1}, "b": True}},
    "type_list": {"type": ["object", "null"], "properties": {"a": {"type": ["string", "null"]}}},
    "booleans": {"type": "object", "properties": {"a": True, "b": False}},
    "none": None,
    "any": True,
    "far": {"type": "object", "properties": {"a": {"$ref": "https://example.com/schema.json"}}},
    "broken": {"type": "object", "properties": {"a": {"type": "no-such-type"}}},
}
GOOD = {
    "draft": {"a": "t"}, "refs": {"a": "x"}, "closed": {"a": 1}, "one_of": {"a": 1}, "type_list": {"a": None},
    "booleans": {"a": 1}, "none": {"z": 1}, "any": {}, "far": {"a": 1}, "broken": {"a": 1},
}  # fmt: skip
BAD = {
    "draft": ({"a": 1}, "/a: must be of type string"),
    "refs": ({"a": "z"}, r"/a: must be one of \['x', 'y'\]"),
    "closed": ({"b": 1}, r"value: has keys that are not allowed \(known: a\)"),
    "one_of": ({"a": 1, "b": 2}, "value: does not satisfy oneOf"),
    "type_list": ({"a": 1}, "/a: must be of type string or null"),
    "booleans": ({"b": 1}, "is not allowed"),
}


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_case_mcp_4_schemas_as_servers_write_them(protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    offered = [
        {"name": name, **({"inputSchema": schema} if schema is not None else {})} for name, schema in ODD.items()
    ]
    async with FakeServer(offered) as fake:
        toolset = McpToolset(endpoint=fake.url, protocol=protocol)
        tools = await by_name(toolset)
        assert sorted(tools) == sorted(ODD)
        ctx = make_context("tool")
        for name, schema in ODD.items():
            assert tools[name].input_schema == schema
            shown = tools[name].declaration().parameters_json_schema
            assert shown == (schema if isinstance(schema, dict) else None)
            assert "output" in await tools[name].run(ctx, GOOD[name])
            assert tools[name].input_schema == schema
        await by_name(toolset)  # what is wrong with a schema is said once, not for each list
        calls = fake.methods().count("tools/call")
        for name, (args, told) in BAD.items():
            with pytest.raises(ToolArgumentError, match=told):
                await tools[name].run(ctx, args)
        assert fake.methods().count("tools/call") == calls
        await toolset.close()
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [("'far'" in text, "'broken'" in text) for text in warned] == [(True, False), (False, True)]


async def test_mcp_14_results_are_checked_by_the_server_s_own_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    offered = [{"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}]

    def answer(params: Any) -> Any:
        return {"content": [], "structuredContent": params["arguments"]}

    async with FakeServer(offered, tools_call=answer) as fake:
        toolset = McpToolset(endpoint=fake.url)
        tools = await by_name(toolset)
        assert await tools["t"].run(make_context("tool"), {"n": 1}) == {"output": {"n": 1}}
        with pytest.raises(
            ToolError, match="'t' returned structured content unlike its own output schema: /n"
        ) as caught:
            await tools["t"].run(make_context("tool"), {"n": "s3cret"})
        assert "s3cret" not in str(caught.value)
        assert tools["t"].declaration().response_json_schema == schema
        await toolset.close()
