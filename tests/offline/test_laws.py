"""Laws: whatever is said and declared, nothing raises, every call fits its declaration, every turn ends."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hookwork.model import ModelRequest
from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part, user_content
from hookwork.records.request import FunctionDeclaration, GenerateContentConfig, ToolDeclaration
from hookwork_offline import OfflineModel
from hookwork_offline.model import respond

NAMES = [
    "city",
    "customer_id",
    "limit",
    "query",
    "email",
    "date",
    "mode",
    "items",
    "name",
    "x",
    "outside",
    "to_currency",
]
WORDS = [
    "weather", "in", "Paris", "and", "Rome", "the", "customer", "7", "find", "orders", "of", "limit", "3.5", "tomorrow",
    "high", "ann@example.com", '"two words"', "please", "no", "outside", "mode:", "New York", "[1, 2]", '{"a": 1}', ",",
    "?", "A-17", "-4", "twelve", "it", "again", "2026-05-02", "null", "x", "items", "'q'", "cancel", "to", "EUR",
]  # fmt: skip

# Most messages name a tool, so that calls are made; the rest is anything.
HEADS = ["weather in Paris", "find customer Ada", "list orders", "set mode", "lookup x", "weather and customer", ""]
phrases = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
texts = st.one_of(
    st.builds("{} {}".format, st.sampled_from(HEADS), phrases),
    st.builds("{} {}".format, st.sampled_from(HEADS), st.text(max_size=20)),
    st.text(max_size=60),
)
scalars = st.sampled_from(["low", "high", "", 1, 2.5, True, None, "Paris"])


def bounds(low: str, high: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={low: st.integers(0, 3), high: st.integers(3, 40)})


leaves = st.one_of(
    st.just({}),
    st.builds(lambda b: {"type": "integer", **b}, bounds("minimum", "maximum")),
    st.builds(lambda b: {"type": "number", **b}, bounds("exclusiveMinimum", "maximum")),
    st.builds(lambda b: {"type": "string", **b}, bounds("minLength", "maxLength")),
    st.sampled_from(
        [
            {"type": "boolean"},
            {"type": "null"},
            {"type": "STRING", "nullable": True},
            {"type": ["integer", "null"]},
            {"type": "string", "format": "date"},
            {"type": "string", "format": "email"},
            {"type": "string", "pattern": "^[A-Z]"},
            {"type": "string", "pattern": "("},
            {"$ref": "#/$defs/Loop"},
            {"$ref": "#/nowhere"},
        ]
    ),
    st.builds(lambda values: {"enum": values}, st.lists(scalars, max_size=4)),
    st.builds(lambda value: {"const": value}, scalars),
)


def objects(children: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    named = st.dictionaries(st.sampled_from(NAMES), children, max_size=4)
    return named.flatmap(
        lambda properties: st.builds(
            lambda required, closed: {
                "type": "object",
                "properties": properties,
                "required": required,
                **({"additionalProperties": False} if closed else {}),
            },
            st.lists(st.sampled_from([*properties, "x"]), unique=True, max_size=4),
            st.booleans(),
        )
    )


schemas = st.recursive(
    leaves,
    lambda children: st.one_of(
        st.builds(lambda items, b: {"type": "array", "items": items, **b}, children, bounds("minItems", "maxItems")),
        st.builds(lambda options: {"anyOf": options}, st.lists(children, min_size=1, max_size=3)),
        st.builds(lambda options: {"oneOf": options}, st.lists(children, min_size=1, max_size=3)),
        st.builds(lambda schema, value: {**schema, "default": value}, children, scalars),
        objects(children),
    ),
    max_leaves=6,
)
DEFS = {"$defs": {"Loop": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Loop"}}, "required": ["next"]}}}
declarations = st.builds(
    lambda name, description, schema: FunctionDeclaration(
        name=name, description=description, parameters_json_schema={**schema, **DEFS}
    ),
    st.sampled_from(["get_weather", "find_customer", "list_orders", "setMode", "lookup", "delete_x"]),
    st.sampled_from(["Current weather of a city.", "Find a customer.", "", "Sets the mode. Items and limits."]),
    objects(schemas),
)
toolboxes = st.lists(declarations, min_size=1, max_size=4, unique_by=lambda declaration: declaration.name)
answers = st.one_of(
    st.fixed_dictionaries({"error": st.text(max_size=10)}),
    st.dictionaries(
        st.sampled_from([*NAMES, "id", "result", "status"]), st.one_of(scalars, st.lists(scalars)), max_size=4
    ),
)


FORMATS = {
    "": r"[\s\S]*",
    "date": r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])",
    "email": r"[^@\s]+@[^@\s]+\.[^@\s]+",
}


def is_type(value: Any, name: str) -> bool:
    return {
        "string": isinstance(value, str),
        "integer": (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value % 1 == 0),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
        "null": value is None,
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }[name]


def same(first: Any, second: Any) -> bool:
    return first == second and isinstance(first, bool) is isinstance(second, bool)


def satisfies(value: Any, schema: dict[str, Any], root: dict[str, Any], depth: int = 0) -> bool:
    """An own, plain validator of the keywords generated above."""
    if depth > 30:
        return False
    deeper = [schema.get("anyOf"), schema.get("oneOf")]
    if schema.get("$ref") == "#/$defs/Loop" and not satisfies(value, root["$defs"]["Loop"], root, depth + 1):
        return False
    if deeper[0] and not any(satisfies(value, option, root, depth + 1) for option in deeper[0]):
        return False
    if deeper[1] and [satisfies(value, option, root, depth + 1) for option in deeper[1]].count(True) != 1:
        return False
    if "enum" in schema and not any(same(value, option) for option in schema["enum"]):
        return False
    if "const" in schema and not same(value, schema["const"]):
        return False
    names = schema.get("type", [])
    names = [name.lower() for name in ([names] if isinstance(names, str) else names)]
    if schema.get("nullable") and names:
        names.append("null")
    if names and not any(is_type(value, name) for name in names):
        return False
    if is_type(value, "number"):
        checks = [
            value >= schema.get("minimum", value),
            value <= schema.get("maximum", value),
            "exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"],
        ]
        return all(checks)
    if isinstance(value, str):
        pattern = schema.get("pattern", "")
        fitting = pattern == "(" or re.search(pattern, value) is not None
        fitting = fitting and re.fullmatch(FORMATS[schema.get("format", "")], value) is not None
        return fitting and schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**9)
    if isinstance(value, list):
        sized = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 10**9)
        return sized and all(satisfies(item, schema.get("items", {}), root, depth + 1) for item in value)
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        if any(name not in value for name in schema.get("required", [])):
            return False
        if schema.get("additionalProperties") is False and not set(value) <= set(properties):
            return False
        return all(satisfies(item, properties[n], root, depth + 1) for n, item in value.items() if n in properties)
    return True


def config(tools: list[FunctionDeclaration]) -> GenerateContentConfig:
    return GenerateContentConfig(tools=(ToolDeclaration(function_declarations=tuple(tools)),))


def check_calls(content: Content, tools: list[FunctionDeclaration]) -> None:
    schemas_by_name = {declaration.name: declaration.parameters_json_schema or {} for declaration in tools}
    for call in content.function_calls:
        schema = schemas_by_name[call.name]
        assert satisfies(call.args, schema, schema), (call.name, call.args, schema)


@settings(max_examples=300, deadline=None)
@given(said=texts, tools=toolboxes)
def test_calls_always_satisfy_the_declared_schema(said: str, tools: list[FunctionDeclaration]) -> None:
    content = respond([user_content(said)], config(tools))
    assert content.role == "model"
    assert bool(content.text) is not bool(content.function_calls)
    check_calls(content, tools)


@settings(max_examples=200, deadline=None)
@given(said=st.lists(texts, min_size=1, max_size=3), tools=toolboxes, data=st.data())
def test_every_turn_ends_and_no_call_is_made_twice(
    said: list[str], tools: list[FunctionDeclaration], data: st.DataObject
) -> None:
    contents: list[Content] = []
    for message in said:
        contents.append(user_content(message))
        made: list[str] = []
        for _ in range(30):
            content = respond(contents, config(tools))
            assert content == respond(contents, config(tools))
            check_calls(content, tools)
            contents.append(content)
            if not content.function_calls:
                break
            made += [repr((call.name, sorted((call.args or {}).items()))) for call in content.function_calls]
            contents.append(
                Content(
                    role="user",
                    parts=[
                        Part(function_response=FunctionResponse(name=call.name, response=data.draw(answers)))
                        for call in content.function_calls
                    ],
                )
            )
        else:
            raise AssertionError("the turn did not end")
        assert len(made) == len(set(made))


parts = st.one_of(
    st.builds(lambda text: Part(text=text), texts),
    st.builds(lambda text: Part(text=text, thought=True), texts),
    st.builds(
        lambda args: Part(function_call=FunctionCall(name="get_weather", args=args)), st.none() | st.just({"a": 1})
    ),
    st.builds(lambda r: Part(function_response=FunctionResponse(name="get_weather", response=r)), st.none() | answers),
    st.just(Part()),
    st.just(Part(text="For context:")),
    st.just(Part(text="[other] said: weather in Paris")),
)
histories = st.lists(
    st.builds(Content, role=st.sampled_from(["user", "model", None]), parts=st.lists(parts)), max_size=8
)


@settings(max_examples=200, deadline=None)
@given(contents=histories, tools=toolboxes, stream=st.booleans())
async def test_mod_2_any_history_gives_exactly_one_whole_response(
    contents: list[Content], tools: list[FunctionDeclaration], stream: bool
) -> None:
    request = ModelRequest(contents=contents, config=config(tools))
    *partials, whole = [response async for response in OfflineModel().generate(request, stream=stream)]
    assert all(partial.partial for partial in partials)
    assert not whole.partial
    assert not partials or "".join(partial.text for partial in partials) == whole.text
    assert whole.content is not None
    check_calls(whole.content, tools)


def test_a_long_or_hostile_text_is_read_in_linear_time() -> None:
    """Patterns are bounded: a paste of 100,000 characters costs no more than a few hundred milliseconds."""
    weather = FunctionDeclaration(
        name="get_weather",
        description="Weather.",
        parameters_json_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    )
    for unit in ("a", "a-", "[", "weather and ", "A'", "1,", "/", "a@", "weather        "):
        text = "weather in " + unit * (100_000 // len(unit))
        content = respond([user_content(text)], config([weather]))
        assert content.role == "model"
