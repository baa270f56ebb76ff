"""Any JSON schema as a genai Schema, the subset that the Gemini API and Vertex AI take (models GEM-15, CASE-MCP-4).

The keywords of the result are those of the published Schema message: type, format, title, description, nullable, enum,
items, minItems, maxItems, properties, required, minProperties, maxProperties, minimum, maximum, minLength, maxLength,
pattern, default, anyOf. References are put in place, ``const`` becomes ``enum``, lists of types become ``nullable`` or
``anyOf``. What the message cannot say is put in words into the description, so that the model still reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookwork_modelkit.schema_merging import Inexpressible as InexpressibleSchema
from hookwork_modelkit.schema_merging import Schemas, merged, never
from hookwork_modelkit.schema_words import formats_of, in_words

__all__ = ["InexpressibleSchema", "to_genai_schema"]

_GENAI_TYPES = {
    "string": "STRING",
    "number": "NUMBER",
    "integer": "INTEGER",
    "boolean": "BOOLEAN",
    "array": "ARRAY",
    "object": "OBJECT",
    "null": "NULL",
}
#: Keywords that mean something for one type only, and go over as they are.
_OWN = {
    "string": ("minLength", "maxLength", "pattern"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
#: A keyword that gives an unstated type away.
_TELLTALE = {
    **dict.fromkeys(("properties", "required", "additionalProperties", "patternProperties", "propertyNames"), "object"),
    **dict.fromkeys(("items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems"), "array"),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "contentEncoding", "contentMediaType"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
}
_ANNOTATIONS = ("title", "description", "default")
#: Stands for "anything": the message has no such type.
_ANYTHING = ("string", "number", "boolean", "object", "array")


def to_genai_schema(schema: Mapping[str, Any] | bool, *, is_root: bool = True) -> dict[str, Any]:
    """The genai Schema (camelCase, types in upper case) of a JSON schema; the argument is not changed.

    Args:
        schema: any JSON schema, of draft 4 to 2020-12.
        is_root: the parameters of a function, which must be one object.

    Raises:
        InexpressibleSchema: it refers to what it does not hold, contradicts itself, is too large once references are
            put in place, or describes no object where one must be. The text names the place.
    """
    try:
        result = _Rewriter(schema).rewritten(schema, "#", ())
    except (AttributeError, TypeError, RecursionError) as error:
        raise InexpressibleSchema("#: not a well-formed JSON schema") from error
    return _object(result) if is_root else result


class _Rewriter:
    """One conversion."""

    def __init__(self, root: Any) -> None:
        self._schemas = Schemas(root)

    def rewritten(self, schema: Any, at: str, inside: tuple[str, ...]) -> dict[str, Any]:
        if schema is False or schema == {"not": {}}:
            raise never(at)
        node, inside = self._schemas.flat({} if schema is True else schema, at, inside)
        if node is None:  # a schema inside itself, for the second time
            return {"type": "OBJECT"}
        branches = self._branches(node, at, inside)
        if branches is not None:
            return self._union(node, branches, at, inside)
        nullable, kinds = _types(node, at)
        if len(kinds) != 1:
            return self._union(node, [{"type": kind} for kind in kinds or _ANYTHING], at, inside, nullable=nullable)
        built = self._typed(node, kinds[0], at, inside)
        if nullable and kinds[0] != "null":
            built["nullable"] = True
        return built

    # --- unions -------------------------------------------------------------------------------------------------------

    def _branches(self, node: Mapping[str, Any], at: str, inside: tuple[str, ...]) -> list[Any] | None:
        """The alternatives, None when there are none, or none that say more than which keys must be there."""
        for keyword in ("anyOf", "oneOf"):
            branches = node.get(keyword)
            if isinstance(branches, list | tuple) and branches:
                telling = [branch for branch in branches if not _only_requires(branch)]
                return list(branches) if telling else None
        return None

    def _union(
        self, node: Mapping[str, Any], branches: list[Any], at: str, inside: tuple[str, ...], *, nullable: bool = False
    ) -> dict[str, Any]:
        outer = {key: value for key, value in node.items() if key not in ("anyOf", "oneOf", "type", *_ANNOTATIONS)}
        if "type" in node and branches and not all(isinstance(b, Mapping) and set(b) == {"type"} for b in branches):
            outer["type"] = node["type"]
        notes = {key: node[key] for key in _ANNOTATIONS if key in node}
        built: list[dict[str, Any]] = []
        for i, branch in enumerate(branches):
            try:
                whole = merged(outer, {} if branch is True else branch, at)
                choice = self.rewritten(whole, f"{at}/anyOf/{i}", inside)
            except InexpressibleSchema as error:
                if error.is_never or branch is False:
                    continue
                raise
            if choice.get("type") == "NULL":
                nullable = True
                continue
            for one in choice.pop("anyOf", [choice]):
                nullable = bool(one.pop("nullable", False)) or nullable
                if one not in built:
                    built.append(one)
        return _joined(built, notes, nullable, at)

    # --- one type -----------------------------------------------------------------------------------------------------

    def _typed(self, node: Mapping[str, Any], kind: str, at: str, inside: tuple[str, ...]) -> dict[str, Any]:
        result: dict[str, Any] = {"type": _GENAI_TYPES[kind]}
        for key in ("title", *_OWN.get(kind, ())):
            if key in node:
                result[key] = node[key]
        if "default" in node and node["default"] is not None:
            result["default"] = node["default"]
        if kind == "object":
            result |= self._object_keywords(node, at, inside)
        elif kind == "array":
            result |= self._array_keywords(node, at, inside)
        else:
            result |= formats_of(node, kind)
        described = in_words(node, kind)
        if described:
            result["description"] = described
        return result

    def _object_keywords(self, node: Mapping[str, Any], at: str, inside: tuple[str, ...]) -> dict[str, Any]:
        required = [name for name in node.get("required") or () if isinstance(name, str)]
        properties: dict[str, Any] = {}
        for name, sub in (node.get("properties") or {}).items():
            try:
                properties[name] = self.rewritten(sub, f"{at}/properties/{name}", inside)
            except InexpressibleSchema as error:
                if not error.is_never or name in required:
                    raise InexpressibleSchema(str(error)) from error
        for name in required:
            if name not in properties:  # the API refuses to require what is not described
                properties[name] = self.rewritten(True, f"{at}/required", inside)
        result: dict[str, Any] = {}
        if properties:
            result["properties"] = properties
        if required:
            result["required"] = list(dict.fromkeys(required))
        return result

    def _array_keywords(self, node: Mapping[str, Any], at: str, inside: tuple[str, ...]) -> dict[str, Any]:
        items = node.get("items", True)
        prefix = node.get("prefixItems") or (items if isinstance(items, list | tuple) else None)
        if prefix:
            return {
                "items": self.rewritten({"anyOf": list(prefix)}, f"{at}/prefixItems", inside),
                "minItems": node.get("minItems", len(prefix)),
                "maxItems": node.get("maxItems", len(prefix)),
            }
        if items is False:
            return {"items": {"type": "STRING"}, "maxItems": 0}
        return {"items": self.rewritten(items, f"{at}/items", inside) if items is not True else {"type": "STRING"}}


def _types(node: Mapping[str, Any], at: str) -> tuple[bool, list[str]]:
    """(may be null, the other types); no type at all: anything."""
    given = node.get("type")
    values = node.get("enum")
    if given is None:
        kinds = list(dict.fromkeys(_type_of(value) for value in values)) if values else _guessed(node)
    else:
        kinds = [str(kind).lower() for kind in (given if isinstance(given, list | tuple) else [given])]
    for kind in kinds:
        if kind not in _GENAI_TYPES:
            raise InexpressibleSchema(f"{at}: there is no type {kind!r}")
    others = [kind for kind in dict.fromkeys(kinds) if kind != "null"]
    if "integer" in others and "number" in others:
        others.remove("integer")
    null = "null" in kinds or bool(node.get("nullable")) or (given is None and values is not None and None in values)
    if values is not None and len(others) > 1:
        held = {_type_of(value) for value in values}
        others = [kind for kind in others if kind in held or (kind == "number" and "integer" in held)] or others
    return null, others if others or not null else ["null"]


def _guessed(node: Mapping[str, Any]) -> list[str]:
    found = [kind for keyword, kind in _TELLTALE.items() if keyword in node]
    if not found and isinstance(node.get("format"), str):
        found = ["string"]
    return list(dict.fromkeys(found))


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def _only_requires(branch: Any) -> bool:
    return isinstance(branch, Mapping) and bool(branch) and set(branch) <= {"required", "not", "description", "title"}


def _joined(built: list[dict[str, Any]], notes: dict[str, Any], nullable: bool, at: str) -> dict[str, Any]:
    """One schema of several alternatives. Vertex AI takes nothing beside ``anyOf``, so notes go into the branches."""
    if not built:
        if nullable:
            return {"type": "NULL"}
        raise never(at)
    text = notes.get("description")
    for one in built:
        own = one.get("description")
        if text and own != text:
            one["description"] = f"{text} {own}" if own else text
    if len(built) == 1:
        only = {**{key: notes[key] for key in ("title", "default") if notes.get(key) is not None}, **built[0]}
        return {**only, "nullable": True} if nullable else only
    if nullable:
        built[0]["nullable"] = True
    return {"anyOf": built}


def _object(schema: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a function: one object. Alternatives of objects are laid over each other."""
    schema.pop("nullable", None)
    branches = schema.get("anyOf")
    if branches is not None:
        objects = [branch for branch in branches if branch.get("type") == "OBJECT"]
        if not objects:
            raise InexpressibleSchema("#: a function takes an object, and no alternative is one")
        properties: dict[str, Any] = {}
        for branch in objects:
            for name, sub in branch.get("properties", {}).items():
                properties.setdefault(name, sub)
        common = set.intersection(*(set(branch.get("required", ())) for branch in objects))
        schema = {"type": "OBJECT", **({"properties": properties} if properties else {})}
        if common:
            schema["required"] = [name for name in properties if name in common]
        if "description" in objects[0]:
            schema["description"] = objects[0]["description"]
    if schema.get("type") != "OBJECT":
        raise InexpressibleSchema(f"#: a function takes an object, not {schema.get('type')}")
    return schema
