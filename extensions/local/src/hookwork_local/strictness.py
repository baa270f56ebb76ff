"""Settings that a model in the process lacks: an error, or left out with one warning (models Beyond, T-18)."""

from __future__ import annotations

import logging

from hookwork_local.llama import PROVIDER
from hookwork_modelkit.errors import refusal

logger = logging.getLogger("hookwork.local")


class Strictness:
    """What one model does about such settings; each is warned about once.

    Args:
        name: the model's.
        warns: leave out what the engine lacks instead of refusing it.
    """

    __slots__ = ("_name", "_warned", "_warns")

    def __init__(self, name: str, *, warns: bool = False) -> None:
        self._name = name
        self._warns = warns
        self._warned: set[str] = set()

    def lacking(self, setting: str, what: str) -> None:
        """A setting that would change the answer; returns when it is to be left out.

        Raises:
            ModelError: of kind ``invalid_request``.
        """
        if not self._warns:
            problem = f"{what} not supported by local models; leave it out, or set unsupported='warn' to send the rest"
            raise refusal(PROVIDER, self._name, problem, code=f"unsupported_{setting}")
        self.ignored(setting, f"{what} not supported by local models")

    def ignored(self, setting: str, why: str) -> None:
        """A setting that is left out in any case, with one warning."""
        if setting not in self._warned:
            self._warned.add(setting)
            logger.warning("model %r: %s; it is left out", self._name, why)
