"""Checking arguments and results against a server's own schemas (tools-plugins MCP-14)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from hookwork.errors import ToolArgumentError, ToolResultError

logger = logging.getLogger("hookwork.mcp")

#: A text that lists every fault of a long array would fill the prompt.
_SHOWN = 5


class Checker:
    """Says what is wrong with a value. A schema that is none, or that refers to what is not in it, checks nothing."""

    def __init__(self, schema: Any, what: str) -> None:
        self._schema = schema
        self._what = what
        self._iterate: Callable[[Any], Any] | None = None
        self._compiled = False

    def _compile(self) -> None:
        from jsonschema import SchemaError
        from jsonschema.validators import Draft202012Validator, validator_for
        from referencing import Registry

        self._compiled = True
        schema = self._schema
        if schema is None or schema is True:
            return
        if not isinstance(schema, Mapping) and schema is not False:
            logger.warning("%s is not a JSON schema; values are not checked against it", self._what)
            return
        kind = validator_for(schema, default=Draft202012Validator)
        try:
            kind.check_schema(schema)  # type: ignore[arg-type]
        except SchemaError as error:
            logger.warning(
                "%s is not a valid JSON schema (%s); values are not checked against it", self._what, error.message
            )
            return
        # An empty registry: nothing is fetched because a server named a URL.
        self._iterate = kind(schema, registry=Registry()).iter_errors

    def faults(self, value: Any) -> list[str]:
        """``/place: what is expected there``, without the value: it may be a secret, and the model knows it."""
        from referencing.exceptions import Unresolvable

        if not self._compiled:
            self._compile()
        if self._iterate is None:
            return []
        try:
            found = [_told(error) for error in self._iterate(value)]
        except Unresolvable:
            logger.warning("%s refers to what it does not hold; values are not checked against it", self._what)
            self._iterate = None
            return []
        return list(dict.fromkeys(found))


class Checkers:
    """The checkers of a toolset's schemas, kept from list to list: compiling takes longer than checking, and what is
    wrong with a schema is warned about once."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Any, Checker]] = {}

    def of(self, schema: Any, what: str) -> Checker:
        """The checker of a schema; ``what`` names it."""
        kept = self._kept.get(what)
        if kept is not None and json.dumps(kept[0]) == json.dumps(schema):  # 1, 1.0 and True are equal, but not in JSON
            return kept[1]
        checker = Checker(schema, what)
        self._kept[what] = (schema, checker)
        return checker


def _told(error: Any) -> str:
    steps = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in error.absolute_path)
    keyword, expected = error.validator, error.validator_value
    if keyword == "type":
        kinds = expected if isinstance(expected, str) else " or ".join(map(str, expected))
        what = f"must be of type {kinds}"
    elif keyword == "required":
        missing = [name for name in expected if isinstance(error.instance, Mapping) and name not in error.instance]
        what = f"lacks {', '.join(map(repr, missing))}"
    elif keyword in ("enum", "const"):
        what = f"must be {'one of ' if keyword == 'enum' else ''}{expected!r}"
    elif keyword == "additionalProperties":
        known = ", ".join((error.schema.get("properties") or {}).keys()) or "none"
        what = f"has keys that are not allowed (known: {known})"
    elif keyword is None:  # the schema False
        what = "is not allowed"
    elif isinstance(expected, (int, float, str)):
        what = f"must satisfy {keyword} {expected!r}"
    else:
        what = f"does not satisfy {keyword}"
    return f"{steps or 'value'}: {what}"


def _listed(faults: list[str]) -> str:
    shown = "; ".join(faults[:_SHOWN])
    return shown if len(faults) <= _SHOWN else f"{shown}; and {len(faults) - _SHOWN} more"


def argument_error(tool: str, faults: list[str]) -> ToolArgumentError:
    """The error for arguments that do not fit; nothing was sent."""
    return ToolArgumentError(f"invalid arguments for tool {tool!r}: {_listed(faults)}")


def result_error(tool: str, faults: list[str]) -> ToolResultError:
    """The error for structured content that does not fit the schema the server itself gave."""
    return ToolResultError(f"tool {tool!r} returned structured content unlike its own output schema: {_listed(faults)}")
