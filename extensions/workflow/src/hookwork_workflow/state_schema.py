"""Writes of nodes against the state schema of their workflow, when they run (workflow STATE-3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from hookwork.errors import ValidationError
from hookwork.records.deleted import DELETED
from hookwork_workflow.schemas import Schema, SchemaFault, schema_of

_SCOPES = ("app:", "user:", "temp:")


def state_check(declared: Any, workflow: str) -> Callable[[str, Any], None]:
    """What checks a write: the key is declared and the value is of its type; keys with a scope pass.

    Args:
        declared: a mapping of keys to types, a class with annotations, or a JSON schema.

    The returned function raises ValidationError; the text names the key, never the value.
    """
    types: Mapping[str, Any]
    if isinstance(declared, Mapping):
        properties = declared.get("properties")  # of a JSON schema
        types = properties if isinstance(properties, Mapping) else declared
    else:
        types = get_type_hints(declared)
    schemas: dict[str, Schema | None] = {key: schema_of(annotation) for key, annotation in types.items()}

    def check(key: str, value: Any) -> None:
        if key.startswith(_SCOPES):
            return
        if key not in schemas:
            raise ValidationError(
                f'state[{key!r}] is not declared in the state schema of workflow "{workflow}"; declared: '
                f"{', '.join(sorted(schemas))}",
                path=key,
            )
        schema = schemas[key]
        if schema is None or value is None or value is DELETED:
            return
        try:
            schema.validate(_plain(value))
        except SchemaFault as fault:
            raise ValidationError(
                f'state[{key!r}] does not fit the state schema of workflow "{workflow}": {fault}', path=key
            ) from fault

    return check


def _plain(value: Any) -> Any:
    from hookwork_workflow.json_form import to_json

    return to_json(value)
