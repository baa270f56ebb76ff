"""How a model speaks the Interactions API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from hookwork.errors import ConfigurationError


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
        if value is None or value is False:
            return None
        if isinstance(value, cls):
            return value
        if value is True:
            return cls()
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise ConfigurationError(
                f"interactions: {error}; known keys: {', '.join(cls.__struct_fields__)}"
            ) from error
