"""What all records have in common."""

from __future__ import annotations

from typing import Any, Self, dataclass_transform

import msgspec

from hookwork.records.frozen import FrozenDict, freeze
from hookwork.records.text import clean, report_cleaned

# The name under which the typed encoder would write `extra`. Such a document is never sent: the codec sees the name
# in the output (or input) and takes the walker, which writes unknown keys at their own place (services COD-9).
EXTRA_WIRE_NAME = "~extra"

set_field = msgspec.structs.force_setattr


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))  # for type checkers
class Record(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename="camel",
    gc=False,
    forbid_unknown_fields=True,
    repr_omit_defaults=True,
):
    """A frozen value in the wire form of genai and ADK: snake_case here, camelCase in JSON, defaults left out.

    ``extra`` keeps keys that this version does not know, as they were read; they are written back unchanged and take
    part in equality. Records compare by value and are unhashable.
    """

    extra: dict[str, Any] | None = msgspec.field(default=None, name=EXTRA_WIRE_NAME)

    def __hash__(self) -> int:
        name = type(self).__name__
        raise TypeError(f"{name} is a record compared by value and cannot be hashed; use its id as a key")

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: Any) -> Self:
        return self


def frozen_map(value: Any) -> Any:
    """``value`` frozen, for a payload field; ``None`` stays."""
    return value if value is None or type(value) is FrozenDict else freeze(value)


def clean_text_fields(record: Record, *names: str) -> None:
    """Replace text that no store can hold in typed text fields (services EVT-12), with one warning."""
    cleaned: list[str] = []
    for name in names:
        value = getattr(record, name)
        if value is not None:
            text = clean(value)
            if text is not value:
                set_field(record, name, text)
                cleaned.append(name)
    if cleaned:
        report_cleaned(cleaned[0], len(cleaned))
