"""Parameter schemas as servers really write them (CASE-MCP-4)."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.openai.asking import a_call, asked

from hookwork import FunctionDeclaration, ToolDeclaration
from hookwork.records.frozen import thaw
from hookwork_modelkit.schema_merging import Inexpressible
from hookwork_openai.parameters import function_parameters
from hookwork_openai.responses.request import request_body

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def an_object(**fields: Any) -> dict[str, Any]:
    return {"type": "object", **fields}


CLOSED = an_object(properties={"a": {"type": ["string", "null"], "const": "x"}}, additionalProperties=False)


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        (None, an_object(properties={})),
        (True, an_object(properties={})),
        ({}, an_object(properties={})),
        ({"type": "object"}, an_object(properties={})),
        ({"$schema": "https://json-schema.org/schema", "$id": "x", "type": "object"}, an_object(properties={})),
        ({"properties": {"a": TEXT}}, an_object(properties={"a": TEXT})),
        ({"type": ["object", "null"], "properties": {"a": TEXT}}, an_object(properties={"a": TEXT})),
        (an_object(properties={"a": True, "b": False}), an_object(properties={"a": {}, "b": {"not": {}}})),
        (
            {"$ref": "#/$defs/A", "$defs": {"A": an_object(properties={"a": TEXT})}},
            an_object(properties={"a": TEXT}) | {"$defs": {"A": an_object(properties={"a": TEXT})}},
        ),
        (
            {"allOf": [an_object(properties={"a": TEXT}, required=["a"]), {"properties": {"b": NUMBER}}]},
            an_object(properties={"a": TEXT, "b": NUMBER}, required=["a"]),
        ),
        (
            {
                "oneOf": [
                    an_object(properties={"a": TEXT, "k": TEXT}, required=["a", "k"]),
                    an_object(properties={"a": NUMBER, "k": TEXT}, required=["k"]),
                ]
            },
            an_object(properties={"a": {"anyOf": [TEXT, NUMBER]}, "k": TEXT}, required=["k"]),
        ),
        (
            an_object(properties={"a": TEXT, "b": TEXT}, anyOf=[{"required": ["a"]}, {"required": ["b"]}]),
            an_object(properties={"a": TEXT, "b": TEXT}),
        ),
        ({"anyOf": [an_object(properties={"a": TEXT}), {"type": "null"}]}, an_object(properties={"a": TEXT})),
        (CLOSED, CLOSED),
        ({**CLOSED, "not": {"required": ["a"]}}, CLOSED),
    ],
)
def test_case_mcp_4_the_top_is_an_object(written: Any, sent: dict[str, Any]) -> None:
    before = thaw(written) if isinstance(written, dict) else written
    assert function_parameters(written) == sent
    assert written == before, "the server's own schema is unchanged"
    assert function_parameters(sent) == sent


@pytest.mark.parametrize(
    "written",
    [
        TEXT,
        {"type": ["string", "array"]},
        {"anyOf": [TEXT, NUMBER]},
        {"$ref": "https://elsewhere"},
        {"$ref": "#/$defs/no"},
        {"$ref": "#"},
        7,
    ],
)
def test_case_mcp_4_what_no_declaration_can_hold(written: Any) -> None:
    with pytest.raises(Inexpressible):
        function_parameters(written)


def test_case_mcp_4_such_a_tool_is_left_out_with_one_warning_and_the_others_work(
    caplog: pytest.LogCaptureFixture,
) -> None:
    functions = tuple(
        FunctionDeclaration(name=name, parameters_json_schema=schema)
        for name, schema in (("odd", TEXT), ("good", an_object(properties={"a": TEXT})))
    )
    call = a_call()
    for _ in range(2):
        body = request_body(call, asked("hi", tools=(ToolDeclaration(function_declarations=functions),)))
        assert [tool["name"] for tool in body["tools"]] == ["good"]
    assert [record.getMessage() for record in caplog.records if "'odd'" in record.getMessage()] != []
    assert len(caplog.records) == 1


kinds = st.sampled_from([TEXT, NUMBER, {"type": "boolean"}, True])
names = st.sampled_from(["a", "b", "c"])
plain = st.builds(
    lambda properties, required: an_object(properties=properties, required=[n for n in required if n in properties]),
    st.dictionaries(names, kinds, max_size=3),
    st.lists(names, max_size=2, unique=True),
)
combined = st.builds(
    lambda key, parts: {key: parts}, st.sampled_from(["anyOf", "oneOf"]), st.lists(plain, min_size=1, max_size=3)
)
values = st.dictionaries(names, st.text(max_size=2) | st.integers() | st.booleans(), max_size=3)


@given(plain | combined, values, st.integers(0, 2))
def test_case_mcp_4_what_an_alternative_says_fits_the_declaration(
    schema: dict[str, Any], value: dict[str, Any], chosen: int
) -> None:
    """Values of the properties that an alternative names; of the others it says nothing."""
    alternatives = next((schema[key] for key in ("anyOf", "oneOf") if key in schema), [schema])
    alternative = alternatives[chosen % len(alternatives)]
    value = {name: item for name, item in value.items() if name in alternative["properties"]}
    sent = function_parameters(schema)
    if jsonschema.Draft202012Validator(alternative).is_valid(value):
        jsonschema.validate(value, sent)
    assert sent["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "$ref", "enum", "not"} & set(sent)
