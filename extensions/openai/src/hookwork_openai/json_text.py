"""JSON values as the text the APIs carry them in."""

from __future__ import annotations

from typing import Any

import msgspec


def json_text(value: Any) -> str:
    """Compact JSON text of a JSON value."""
    return msgspec.json.encode(value).decode()
