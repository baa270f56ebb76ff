"""The state keys that an app declares, and what checks a write against them (services BEY-3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, get_type_hints

from hookwork.errors import ConfigurationError, ValidationError

_SCOPES = ("app:", "user:", "temp:")

#: Raises ValueError or TypeError when a JSON value is not of a type.
Checker = Callable[[Any], object]


def check_of(declared: Any, where: str) -> Callable[[str, Any], None]:
    """What checks a write: the key is declared and the value is of its type; keys with a scope and None pass.

    Args:
        declared: a pydantic model, another class with annotations (a TypedDict, a dataclass), or a mapping of keys to
            types. Types are read strictly: ``"5"`` is no int; a pydantic model whose config says ``extra="allow"``
            lets undeclared keys pass.
        where: names the app in errors.

    The function raises ValidationError, whose text names the key and the type, never the value.

    Raises:
        ConfigurationError: no such schema.
    """
    types, is_open = _types_of(declared, where)
    checkers = {key: (_checker_of(annotation), _shown(annotation)) for key, annotation in types.items()}

    def check(key: str, value: Any) -> None:
        if key.startswith(_SCOPES):
            return
        known = checkers.get(key)
        if known is None:
            if is_open:
                return
            near = get_close_matches(key, checkers, 1)
            raise ValidationError(
                f"state[{key!r}] is not in the state schema of {where}"
                + (f"; did you mean {near[0]!r}?" if near else f", which declares: {', '.join(sorted(checkers))}"),
                path=key,
            )
        checker, wanted = known
        if value is None:
            return
        try:
            checker(value)
        except (ValueError, TypeError) as error:
            raise ValidationError(
                f"state[{key!r}] must be {wanted} by the state schema of {where}: {_why(error)}",
                path=key,
            ) from error

    return check


def _types_of(declared: Any, where: str) -> tuple[Mapping[str, Any], bool]:
    """The declared keys and their types, and whether others may be written too."""
    fields = getattr(declared, "model_fields", None)
    if isinstance(declared, type) and isinstance(fields, dict):  # a pydantic model
        hints = get_type_hints(declared, include_extras=True)
        types = {field.alias or name: (hints[name], field) for name, field in fields.items()}
        return types, getattr(declared, "model_config", {}).get("extra") == "allow"
    if isinstance(declared, Mapping):
        if not all(isinstance(key, str) and _is_type(value) for key, value in declared.items()):
            raise ConfigurationError(f"{where}: state_schema maps state keys to types, not {dict(declared)!r}")
        return declared, False
    if isinstance(declared, type):
        return get_type_hints(declared, include_extras=True), False
    raise ConfigurationError(
        f"{where}: state_schema is a pydantic model, a class with annotations or a mapping of keys to types, not "
        f"{declared!r}"
    )


def _is_type(value: Any) -> bool:
    return (
        isinstance(value, type)
        or getattr(value, "__origin__", None) is not None
        or hasattr(value, "__args__")
        or (value is Any)
    )


def _checker_of(annotation: Any) -> Checker:
    """What checks one value. Pydantic's own types are checked by pydantic, all others by msgspec."""
    if isinstance(annotation, tuple) or hasattr(annotation, "model_fields"):
        return _pydantic_checker(annotation)
    import msgspec

    from hookwork.records.frozen import thaw

    return lambda value: msgspec.convert(thaw(value), annotation, strict=True)


def _pydantic_checker(annotation: Any) -> Checker:
    from typing import Annotated

    import msgspec
    from pydantic import TypeAdapter

    hint, field = annotation if isinstance(annotation, tuple) else (annotation, None)
    adapter: TypeAdapter[Any] = TypeAdapter(hint if field is None else Annotated[hint, field])
    encode = msgspec.json.encode
    return lambda value: adapter.validate_json(encode(value), strict=True)


def _shown(annotation: Any) -> str:
    hint = annotation[0] if isinstance(annotation, tuple) else annotation
    if hasattr(hint, "__metadata__"):  # Annotated
        hint = hint.__origin__
    plain = isinstance(hint, type) and not hasattr(hint, "__args__")
    return str(hint.__name__) if plain else str(hint).replace("typing.", "")


def _why(error: Exception) -> str:
    """What the checking library says; neither names the value."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    first = errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{first['msg']} - at {place}" if place else str(first["msg"])
