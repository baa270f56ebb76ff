"""What a user can say about the engine and its answers: arguments, or ``[tool.hookwork.local]``."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from hookwork.catalogue import did_you_mean
from hookwork.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of one model.

    Attributes:
        threads: processor threads. More than one is slower wherever other work keeps the cores busy (models LOC-1).
        context: tokens that prompt and answer may have together.
        gpu_layers: layers that are computed on a GPU; 0: none, -1: all.
        max_output_tokens: of an answer whose request names no limit.
        chat_template: a Jinja template in place of the one in the file.
        unsupported: what becomes of a setting that the engine lacks: ``error``, or ``warn``: it is left out, with one
            warning. It is no matter of the engine, so models that differ in it share one.

    Raises:
        ConfigurationError: a value of a wrong kind or size.
    """

    threads: int = 1
    context: int = 4096
    gpu_layers: int = 0
    max_output_tokens: int = 512
    chat_template: str | None = None
    unsupported: str = field(default="error", compare=False)

    def __post_init__(self) -> None:
        for name, least in (("threads", 1), ("context", 64), ("gpu_layers", -1), ("max_output_tokens", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ConfigurationError(f"local: {name!r} is a whole number from {least}, not {value!r}")
        if self.chat_template is not None and not isinstance(self.chat_template, str):
            raise ConfigurationError("local: 'chat_template' is a Jinja template as text")
        if self.unsupported not in ("error", "warn"):
            raise ConfigurationError(f"local: 'unsupported' is one of error, warn, not {self.unsupported!r}")

    @classmethod
    def of(cls, values: dict[str, Any]) -> Options:
        """Options from keyword arguments. Raises ConfigurationError, also for a key that is none."""
        known = [option.name for option in fields(cls)]
        for key in values:
            if key not in known:
                raise ConfigurationError(
                    f"local: there is no option {key!r}{did_you_mean(key, known)}; options: {', '.join(known)}"
                )
        return cls(**values)
