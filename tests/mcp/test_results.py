"""Laws of results: what a tool gave comes out again where it is served, and schemas set aside come back."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import mcp_types as types
from hypothesis import given
from hypothesis import strategies as st

from hookwork.records.content import Content, FunctionResponse, Part
from hookwork.records.frozen import thaw
from hookwork_mcp.lenient import schema_of, set_aside
from hookwork_mcp.results import response_of, with_media_parts
from hookwork_mcp.serving.content import result_of

_DATA = st.binary(max_size=20).map(lambda raw: base64.b64encode(raw).decode())
#: what any store holds as it is (CASE-SESS-4 is about the rest).
_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
_URI = st.sampled_from(["file:///a", "test://b"])
_BLOCK = st.one_of(
    st.builds(types.TextContent, type=st.just("text"), text=_TEXT),
    st.builds(types.ImageContent, type=st.just("image"), data=_DATA, mimeType=st.just("image/png")),
    st.builds(types.AudioContent, type=st.just("audio"), data=_DATA, mimeType=st.just("audio/wav")),
    st.builds(types.ResourceLink, type=st.just("resource_link"), uri=_URI, name=_TEXT),
    st.builds(
        types.EmbeddedResource,
        type=st.just("resource"),
        resource=st.one_of(
            st.builds(types.TextResourceContents, uri=_URI, text=_TEXT, mimeType=st.just("text/plain")),
            st.builds(types.BlobResourceContents, uri=_URI, blob=_DATA, mimeType=st.just("image/png")),
        ),
    ),
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def wire(blocks: list[Any]) -> list[Any]:
    return [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in blocks]


@given(st.lists(_BLOCK, min_size=1, max_size=4))
def test_content_goes_through_an_agent_and_out_again(blocks: list[Any]) -> None:
    """response_of, then result_of: the blocks themselves; texts alone are joined to one."""
    again = result_of(response_of(types.CallToolResult(content=blocks)))
    assert not again.is_error
    if all(block.type == "text" for block in blocks):
        assert wire(again.content) == [{"type": "text", "text": "".join(block.text for block in blocks)}]
    else:
        assert wire(again.content) == wire(blocks)


@given(st.dictionaries(st.text(max_size=5), _JSON, max_size=4))
def test_structured_content_goes_through_an_agent_and_out_again(value: dict[str, Any]) -> None:
    result = types.CallToolResult(content=[], structured_content=value)
    again = result_of(response_of(result), {"type": "object"})
    assert again.structured_content == {"output": value}  # the schema also fits the response as it stands
    assert json.loads(again.content[0].text) == {"output": value}  # type: ignore[union-attr]


@given(st.lists(_BLOCK, min_size=1, max_size=4))
def test_media_become_parts_and_nothing_else_changes(blocks: list[Any]) -> None:
    response = response_of(types.CallToolResult(content=blocks))
    answer = FunctionResponse(id="1", name="t", response=copy.deepcopy(response))
    contents = [Content(role="user", parts=[Part(function_response=answer)])]
    assert with_media_parts(contents, {"other"}) is None
    shown = with_media_parts(contents, {"t"})
    items = response["output"] if isinstance(response["output"], list) else []
    media = [item for item in items if "data" in item]
    if not media:
        assert shown is None
        return
    assert shown is not None
    new = shown[0].parts[0].function_response
    assert new is not None
    assert new.parts is not None
    assert new.response is not None
    seen = [(part.inline_data.data, part.inline_data.mime_type) for part in new.parts if part.inline_data]
    assert seen == [(base64.b64decode(item["data"]), item["mimeType"]) for item in media]
    assert thaw(new.response["output"]) == [{k: v for k, v in item.items() if k != "data"} for item in items]
    assert thaw(answer.response) == response  # what is stored stays


@given(st.fixed_dictionaries({}, optional={"inputSchema": _JSON, "outputSchema": _JSON}))
def test_mcp_14_schemas_set_aside_come_back(schemas: dict[str, Any]) -> None:
    raw = {"tools": [{"name": "t", **copy.deepcopy(schemas)}]}
    set_aside(raw)
    (tool,) = types.ListToolsResult.model_validate(raw, by_name=False).tools
    assert schema_of(tool, "inputSchema") == schemas.get("inputSchema")
    assert schema_of(tool, "outputSchema") == schemas.get("outputSchema")
