"""What every step of one model call knows about it, and how it refuses (models OAI-48)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hookwork.errors import ModelError
from hookwork_modelkit.errors import model_error, refusal
from hookwork_openai.names import FunctionNames
from hookwork_openai.options import Options

logger = logging.getLogger("hookwork.openai")

# models SDK-13: the o-series, and gpt-5 and later except the chat ones.
_REASONING = re.compile(r"^(?:o\d|gpt-(?:[5-9]|\d\d))")


def is_reasoning_model(name: str) -> bool:
    """Whether a name is that of one of OpenAI's reasoning models."""
    return _REASONING.match(name) is not None and "-chat" not in name


class Call:
    """One model call: who is asked, how strictly, and what was said about it already.

    Attributes:
        provider, model: for error texts and telemetry.
        official: OpenAI's own dialect is spoken; compatible servers know less.
        chat: Chat Completions; False: Responses.
        options: those of the model.
        warned: what the model has warned about; shared by its calls, so that each warning comes once.
        names: function names as they are sent, and back.
    """

    __slots__ = ("chat", "model", "names", "official", "options", "provider", "warned")

    def __init__(
        self,
        *,
        model: str,
        provider: str = "openai",
        official: bool = True,
        chat: bool = False,
        options: Options | None = None,
        warned: set[str] | None = None,
    ) -> None:
        self.provider = provider
        self.model = model
        self.official = official
        self.chat = chat
        self.options = options if options is not None else Options()
        self.warned = warned if warned is not None else set()
        self.names = FunctionNames()

    def refused(self, code: str, problem: str) -> ModelError:
        """The error of a request that cannot be made; nothing was sent (``kind`` is ``invalid_request``)."""
        return refusal(self.provider, self.model, problem, code=code)

    def unreadable(self, code: str, problem: str) -> ModelError:
        """The error of an answer that cannot be used (``kind`` is ``invalid_response``)."""
        return model_error(self.provider, self.model, kind="invalid_response", code=code, detail=problem)

    def unsupported(self, code: str, what: str) -> None:
        """A setting this service lacks: an error, or left out with one warning (option ``unsupported``).

        Raises:
            ModelError: of kind ``invalid_request``.
        """
        if self.options.unsupported == "error":
            raise self.refused(code, f"{what}; leave it out, or set unsupported='warn' to send the rest")
        self.warn(code, f"{what}; it is left out")

    def warn(self, key: str, text: str) -> None:
        """Log a warning, once for each model and key."""
        if key not in self.warned:
            self.warned.add(key)
            logger.warning("%s model %r: %s", self.provider, self.model, text)


def lookup(mapping: Mapping[str, Any] | None, name: str) -> Any:
    """A value by its snake_case name, whichever of the two spellings the mapping uses; None when absent."""
    if not mapping:
        return None
    value = mapping.get(name)
    return value if value is not None else mapping.get(camel(name))


def camel(name: str) -> str:
    """``thinking_level`` → ``thinkingLevel``."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def snake(name: str) -> str:
    """``thinkingLevel`` → ``thinking_level``."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def set_items(mapping: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    """(snake_case name, value) of what a mapping really sets."""
    for name, value in (mapping or {}).items():
        if value is not None:
            yield snake(name), value
