"""Settings that a service lacks: an error, or left out with one warning (option ``unsupported``, models Beyond)."""

from __future__ import annotations

import re
from typing import Any

from hookwork.errors import ConfigurationError
from hookwork_gemini.conversion import warn_once
from hookwork_modelkit import refusal

STRICTNESS = ("error", "warn")
#: How the SDK says that a backend lacks a parameter.
_LACKING = re.compile(r"^([A-Za-z_]\w*) parameter is (?:only supported|not supported)")


def lacking_parameter(error: Exception) -> str:
    """The parameter that the SDK refused to send because the backend lacks it; empty for another error."""
    found = _LACKING.match(str(error)) if type(error) is ValueError else None
    return found[1] if found is not None else ""


class Strictness:
    """What one model does about a setting that its service lacks.

    Raises:
        ConfigurationError: a mode that is neither ``error`` nor ``warn``.
    """

    __slots__ = ("provider", "warns")

    def __init__(self, provider: str, mode: str) -> None:
        if mode not in STRICTNESS:
            raise ConfigurationError(f"option 'unsupported' is one of {', '.join(STRICTNESS)}, not {mode!r}")
        self.provider = provider
        self.warns = mode == "warn"

    def lacking(self, model: str, code: str, what: str) -> None:
        """The request of ``model`` holds a setting without a counterpart; returns when it is to be left out.

        Raises:
            ModelError: of kind ``invalid_request`` and this code: it is not to be left out.
        """
        if not self.warns:
            problem = f"{what}; leave it out, or set unsupported='warn' to send the rest"
            raise refusal(self.provider, model, problem, code=code)
        warn_once(f"{model} {code}", "%s model %r: %s; it is left out", self.provider, model, what)

    def without_lacking(self, model: str, config: Any, error: Exception) -> Any:
        """The SDK's config without the setting over which the SDK stumbled; None: it is to be an error, or is none."""
        name = lacking_parameter(error)
        if not self.warns or not name or getattr(config, name, None) is None:
            return None
        self.lacking(model, f"unsupported_{name}", f"this backend does not take {name!r}")
        return config.model_copy(update={name: None})
