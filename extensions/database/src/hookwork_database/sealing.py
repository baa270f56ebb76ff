"""What events say and what state holds, sealed before it reaches the database (services BEY-16).

A sealed event is a document with its id, its invocation, its time and, where there is one, a mark that it is a summary
or a rewind, which queries look for; all the rest is in one token. Of a state every value is a token of its own, since
servers merge states key by key; keys stay plain. What is sealed begins with the event's id or the key, so that a token
that is put somewhere else does not open.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from hookwork.errors import BackendError, ConfigurationError, ValidationError
from hookwork.records.event import Event
from hookwork.records.frozen import FrozenDict, freeze

if TYPE_CHECKING:
    from hookwork_database.layouts.base import Layout

#: Key of a token, in an event's document and in place of a state's value.
MARK = "hookwork_sealed"
#: Parts of an event that queries look for, by their keys under ``actions``.
_SOUGHT = ("compaction", "rewind_before_invocation_id")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Cipher(Protocol):
    """Seals bytes; a ``Fernet`` or ``MultiFernet`` of the library ``cryptography`` is one."""

    def encrypt(self, data: bytes, /) -> bytes:
        """A token in ASCII that only `decrypt` opens."""

    def decrypt(self, token: bytes, /) -> bytes:
        """What was sealed. Raises anything when the token was sealed with another key, or changed since."""


class SealError(BackendError):
    """What is stored is sealed and does not open; ``code`` is ``no_key`` or ``wrong_key``. Nothing was changed."""


def cipher_of_keys(*keys: str | bytes) -> Cipher:
    """A cipher of Fernet keys (``Fernet.generate_key()``): the first seals, all of them open.

    To change keys put the new one in front; the old one can go when everything was written anew (``hookwork migrate``).

    Raises:
        ConfigurationError: no key, one that is none, or the library is not installed.
    """
    try:
        from cryptography.fernet import Fernet, MultiFernet
    except ImportError as error:
        raise ConfigurationError(
            "sealing needs the library cryptography: pip install 'hookwork-database[encryption]'"
        ) from error
    if not keys:
        raise ConfigurationError("sealing needs a key; Fernet.generate_key() of the library cryptography makes one")
    fernets = []
    for number, key in enumerate(keys, 1):
        try:
            fernets.append(Fernet(key))
        except (ValueError, TypeError):
            raise ConfigurationError(
                f"key {number} of {len(keys)} is no Fernet key (32 bytes in URL-safe base64); make one with "
                "Fernet.generate_key() of the library cryptography"
            ) from None
    return MultiFernet(fernets)


def cipher_of_variable(name: str) -> Cipher:
    """The cipher of the keys in an environment variable, separated by commas or blanks.

    Raises:
        ConfigurationError: the variable is not set, or holds something else.
    """
    keys = os.environ.get(name, "").replace(",", " ").split()
    if not keys:
        raise ConfigurationError(
            f"environment variable {name!r}, which key_variable names, holds no key; nothing is stored unsealed"
        )
    try:
        return cipher_of_keys(*keys)
    except ConfigurationError as error:
        raise ConfigurationError(f"environment variable {name!r}: {error}") from error


class Sealing:
    """Seals and opens what a layout stores, with one cipher."""

    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher

    def event(self, document: str, event: Event) -> str:
        """The sealed form of an ``event_data``."""
        shown: dict[str, Any] = {
            "id": event.id,
            "invocation_id": event.invocation_id,
            "timestamp": event.timestamp,
            MARK: self._seal(event.id, document.encode()),
        }
        sought = {key: True for key in _SOUGHT if getattr(event.actions, key)}
        if sought:
            shown["actions"] = sought
        return _encode(shown).decode()

    def opened_event(self, data: Any, id: str) -> Any:
        """The ``event_data`` that was sealed; one that is plain as it is.

        Raises:
            SealError: it does not open.
        """
        token = sealed_token(data)
        return data if token is None else self._open(id, token, f"event {id!r}").decode()

    def state(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """A state with its values sealed."""
        return {key: {MARK: self._seal(key, _encode(value))} for key, value in state.items()}

    def opened_state(self, state: FrozenDict, where: str) -> FrozenDict:
        """A state with the values that were sealed; plain ones as they are.

        Raises:
            SealError: one does not open.
        """
        if not any(map(is_sealed, state.values())):
            return state
        opened = {k: self._opened_value(k, value, where) if is_sealed(value) else value for k, value in state.items()}
        found: FrozenDict = freeze(opened)
        return found

    def _opened_value(self, key: str, value: Any, where: str) -> Any:
        return _decode(self._open(key, value[MARK], f"{where}, state key {key!r}"))

    def _seal(self, place: str, data: bytes) -> str:
        return self._cipher.encrypt(place.encode() + b"\0" + data).decode("ascii")

    def _open(self, place: str, token: str, where: str) -> bytes:
        try:
            found = self._cipher.decrypt(token.encode())
        except Exception as error:
            raise SealError(
                f"{where} does not open: it was sealed with another key, or changed since. Add the key it was sealed "
                "with behind the newer ones; nothing was changed",
                code="wrong_key",
            ) from error
        begin = place.encode() + b"\0"
        if not found.startswith(begin):
            raise SealError(f"{where} holds what was sealed for another place; restore it", code="wrong_key")
        return found[len(begin) :]


def use_cipher(layout: Layout, cipher: Cipher | None) -> None:
    """Let a layout seal what it stores from now on. Raises ConfigurationError when it cannot."""
    if cipher is None:
        return
    if not layout.seals:
        raise ConfigurationError(
            f"the layout {layout.name} has a column for each field and cannot be sealed; copy the sessions into a "
            "database of the other layout first: hookwork migrate SOURCE TARGET"
        )
    layout.sealing = Sealing(cipher)


def sealed_token(data: Any) -> str | None:
    """The token of a sealed ``event_data``, in whatever form a driver gives it; None of a plain one."""
    if isinstance(data, str | bytes):
        if (MARK if isinstance(data, str) else MARK.encode()) not in data:  # type: ignore[operator]
            return None
        try:
            data = _decode(data)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return None
    token = data.get(MARK) if isinstance(data, Mapping) else None
    return token if isinstance(token, str) else None


def is_sealed(value: Any) -> bool:
    """Whether a value of a state is a token."""
    return isinstance(value, Mapping) and len(value) == 1 and isinstance(value.get(MARK), str)


def without_key(where: str) -> SealError:
    """The error for what is sealed where no key was given."""
    return SealError(
        f"{where} is sealed and no key was given; open the database with cipher= or the option key_variable",
        code="no_key",
    )


def check_unsealed(state: Mapping[str, Any]) -> None:
    """Raise `ValidationError` when a value would be taken for a sealed one."""
    for key, value in state.items():
        if is_sealed(value):
            raise ValidationError(f"state key {key!r}: an object whose only key is {MARK!r} is reserved", path=key)
