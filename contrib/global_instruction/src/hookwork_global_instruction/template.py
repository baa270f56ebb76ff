"""State values in an instruction, by the rules of agents' instructions (core INS-1, INS-3); artifacts are not read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hookwork.errors import ConfigurationError

_PLACE = re.compile(
    r"(?P<before>[\\$]?)(?P<open>\{+)(?P<name>(?:(?:app|user|temp):)?[^\W\d]\w*)(?P<optional>\??)(?P<close>\}+)"
)
_ABSENT: Any = object()


def render(template: str, state: Mapping[str, Any]) -> str:
    """The template with ``{name}`` and ``{name?}`` replaced by state values; ``{{name}}`` becomes ``{name}``.

    Raises:
        ConfigurationError: a name without ``?`` is not in the state.
    """

    def put(match: re.Match[str]) -> str:
        before, opened, closed = match["before"], len(match["open"]), len(match["close"])
        inner = match["name"] + match["optional"]
        if before == "\\" and opened == 1:
            return "{" + inner + match["close"]
        if before == "$" or opened > 2 or closed < opened:
            return match[0]
        if opened == 2:
            return f"{before}{{{inner}}}" + "}" * (closed - 2)
        return before + _value(match["name"], bool(match["optional"]), state) + "}" * (closed - 1)

    return _PLACE.sub(put, template)


def _value(name: str, optional: bool, state: Mapping[str, Any]) -> str:
    value = state.get(name, _ABSENT)
    if value is _ABSENT and not optional:
        raise ConfigurationError(
            f"the global instruction needs the state value {name!r}, which is not set; write {{{name}?}} if it may be "
            f"absent, or {{{{{name}}}}} for the braces themselves"
        )
    return "" if value is _ABSENT or value is None else str(value)
