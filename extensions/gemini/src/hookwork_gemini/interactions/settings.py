"""How a model speaks the Interactions API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from hookwork_gemini.chosen import chosen


class Interactions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a model speaks the Interactions API.

    Attributes:
        store: False: the service keeps nothing, and each request goes out in full.
        chain: go on from interactions that the service has, with what is new alone.
    """

    store: bool = True
    chain: bool = True

    @classmethod
    def of(cls, value: Self | Mapping[str, Any] | bool | None) -> Self | None:
        """Settings from what a user writes: an object, a table, True for the defaults; None and False: not at all.

        Raises:
            ConfigurationError: anything else, an unknown key or a wrong type.
        """
        return chosen(cls, value, "interactions")
