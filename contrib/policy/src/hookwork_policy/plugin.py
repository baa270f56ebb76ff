"""The plugin: asks the rules before each tool call (tools-plugins SP-41)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hookwork import Plugin
from hookwork.errors import ConfigurationError
from hookwork_policy.comparisons import Incomparable
from hookwork_policy.rules import EFFECTS, Rule, read_rules

if TYPE_CHECKING:
    from hookwork import Tool, ToolContext

logger = logging.getLogger("hookwork.policy")


class Policy(Plugin):
    """Allows, denies or asks before a tool call. The first rule that matches decides.

    Args:
        rules: `Rule` objects or tables with their keys, in order.
        default: what happens to a call that no rule is about: ``allow``, ``deny`` or ``ask``.
        name: the plugin's name.

    It fails closed: a call that cannot be judged is denied.

    Raises:
        ConfigurationError: an unknown key, effect or comparison; the text names the rule.
    """

    def __init__(
        self, rules: Iterable[Rule | Mapping[str, Any]] = (), *, default: str = "allow", name: str = "policy"
    ) -> None:
        self.name = name
        if isinstance(rules, str | Mapping):
            raise ConfigurationError(f"plugin {name!r}: rules is a list of tables; in TOML write [[…{name}.rules]]")
        try:
            self.rules = read_rules(rules)
        except ConfigurationError as error:
            raise ConfigurationError(f"plugin {name!r}: {error}") from error
        if default not in EFFECTS:
            raise ConfigurationError(f"plugin {name!r}: default is one of {', '.join(EFFECTS)}, not {default!r}")
        self._default = Rule(effect=default)

    def decide(self, tool: str, agent: str, args: Mapping[str, Any]) -> Rule:
        """The rule that decides about a call.

        Raises:
            Incomparable: the call cannot be judged.
        """
        return next((rule for rule in self.rules if rule.matches(tool, agent, args)), self._default)

    def before_tool(self, ctx: ToolContext, tool: Tool, args: dict[str, Any]) -> dict[str, Any] | None:
        """None for a call that may run, else what the model is told in its place."""
        try:
            return self._judge(ctx, tool.name, args)
        except Incomparable as error:
            logger.warning("call of %r denied: %s", tool.name, error)
            return _denied(tool.name, str(error))
        except Exception:
            # Whatever went wrong, a call that was not judged must not run.
            logger.exception("call of %r denied: the policy itself failed", tool.name)
            return _denied(tool.name, "the policy could not judge the call")

    def _judge(self, ctx: ToolContext, tool: str, args: dict[str, Any]) -> dict[str, Any] | None:
        rule = self.decide(tool, ctx.agent_name, args)
        if rule.effect == "allow":
            return None
        if rule.effect == "deny":
            return _denied(tool, rule.reason)
        if ctx.tool_confirmation is not None:
            return None  # a person has decided; the gate carries that out
        ctx.request_confirmation(rule.reason or f"Please approve the call of the tool {tool!r}.")
        return {"error": f"the call of {tool!r} needs the user's approval and has not run yet"}


def _denied(tool: str, reason: str) -> dict[str, Any]:
    return {"error": reason or f"the call of {tool!r} is not allowed"}
