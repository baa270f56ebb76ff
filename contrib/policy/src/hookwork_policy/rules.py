"""Rules: what they say, how they are read, and which one decides (tools-plugins SP-41)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any

from hookwork.catalogue import did_you_mean
from hookwork.errors import ConfigurationError
from hookwork_policy.comparisons import COMPARISONS, Incomparable, holds, operand_fault, pointed_at

EFFECTS = ("allow", "deny", "ask")

_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule. All its conditions must hold.

    Attributes:
        effect: ``allow``, ``deny`` or ``ask`` (a person).
        tool, agent: globs over the names of the tool and of the agent that calls it.
        args: JSON pointer → what the argument must be: a value, or an object of comparisons.
        reason: told to the model (``deny``) or to the person (``ask``).

    Raises:
        ConfigurationError: an unknown effect, comparison or operand, or a text that is no JSON pointer.
    """

    effect: str
    tool: str = "*"
    agent: str = "*"
    args: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""

    def __post_init__(self) -> None:
        if self.effect not in EFFECTS:
            raise ConfigurationError(
                f"effect is one of {', '.join(EFFECTS)}, not {self.effect!r}{did_you_mean(str(self.effect), EFFECTS)}"
            )
        for name in ("tool", "agent", "reason"):
            if not isinstance(getattr(self, name), str):
                raise ConfigurationError(f"{name} must be a text, not {getattr(self, name)!r}")
        if not isinstance(self.args, Mapping):
            raise ConfigurationError(f"args must map JSON pointers to comparisons, not be {self.args!r}")
        for pointer, condition in self.args.items():
            _check_condition(pointer, condition)

    @classmethod
    def read(cls, value: Any) -> Rule:
        """A rule as it is, or one from a table of the settings.

        Raises:
            ConfigurationError: no table, or a key that no rule has.
        """
        if isinstance(value, Rule):
            return value
        if not isinstance(value, Mapping):
            raise ConfigurationError(f"a rule is a table, not {value!r}")
        known = [each.name for each in fields(cls)]
        for key in value:
            if key not in known:
                raise ConfigurationError(
                    f"unknown key {key!r}{did_you_mean(str(key), known)}; known: {', '.join(known)}"
                )
        if "effect" not in value:
            raise ConfigurationError(f"a rule needs an effect: {', '.join(EFFECTS)}")
        return cls(**value)

    def matches(self, tool: str, agent: str, args: Any) -> bool:
        """Whether the rule is about this call.

        Raises:
            Incomparable: a comparison cannot be judged; the text names the argument.
        """
        if not (fnmatchcase(tool, self.tool) and fnmatchcase(agent, self.agent)):
            return False
        for pointer, condition in self.args.items():
            value = pointed_at(args, pointer)
            for name, operand in _comparisons(condition).items():
                try:
                    if not holds(name, value, operand):
                        return False
                except Incomparable as error:
                    raise Incomparable(f"argument {pointer!r} cannot be judged: {error}") from None
        return True


def read_rules(rules: Iterable[Any]) -> tuple[Rule, ...]:
    """Rules in order; an error names the rule by its number from 1."""
    read = []
    for number, rule in enumerate(rules, 1):
        try:
            read.append(Rule.read(rule))
        except ConfigurationError as error:
            raise ConfigurationError(f"rule {number}: {error}") from error
    return tuple(read)


def _comparisons(condition: Any) -> Mapping[str, Any]:
    return condition if isinstance(condition, Mapping) else {"eq": condition}


def _check_condition(pointer: Any, condition: Any) -> None:
    if not isinstance(pointer, str) or not _POINTER.fullmatch(pointer):
        raise ConfigurationError(f"args: {pointer!r} is no JSON pointer; write '/city' or '/address/city'")
    comparisons = _comparisons(condition)
    if not comparisons:
        raise ConfigurationError(f"args: {pointer!r} has no comparison; known: {', '.join(COMPARISONS)}")
    for name, operand in comparisons.items():
        if name not in COMPARISONS:
            near = did_you_mean(name, COMPARISONS)
            raise ConfigurationError(
                f"args: {pointer!r}: unknown comparison {name!r}{near}; known: {', '.join(COMPARISONS)}"
            )
        fault = operand_fault(name, operand)
        if fault:
            raise ConfigurationError(f"args: {pointer!r}: {name!r} {fault}, not {operand!r}")
