"""One table: what a hook's result does. Dispatch, documentation and the ordering tests are made from it."""

from __future__ import annotations

import inspect
from enum import Enum

from hookwork.hookspecs.agent import AgentProviders
from hookwork.hookspecs.lifecycle import LIFECYCLE_SPECS
from hookwork.hookspecs.model import ModelProviders
from hookwork.hookspecs.services import ServiceProviders
from hookwork.hookspecs.surfaces import SurfaceProviders
from hookwork.hookspecs.tool import ToolProviders

PROVIDER_SPECS = (ModelProviders, ServiceProviders, ToolProviders, AgentProviders, SurfaceProviders)


class Rule(Enum):
    """What happens with the results of a hook's implementations."""

    FIRST = "the first value that is not None wins; a raise ends the stage"
    NOTIFY = "all are called; values are ignored, raises are logged"
    AROUND = "each gives an async context manager, entered in order, left in reverse"
    EFFECT = "the first implementation decides; later ones are reached through call.default()"
    ALL = "all are called"


NOTIFY_HOOKS = frozenset({"after_run", "on_run_error", "on_agent_error", "on_pause", "close"})
ALL_HOOKS = frozenset({"register_commands", "register_routes", "configure_telemetry"})


def _rule(name: str) -> Rule:
    if name in NOTIFY_HOOKS:
        return Rule.NOTIFY
    if name in ALL_HOOKS:
        return Rule.ALL
    if name.startswith("around_"):
        return Rule.AROUND
    if name.startswith("perform_"):
        return Rule.EFFECT
    return Rule.FIRST


def _table(specs: tuple[type, ...]) -> dict[str, tuple[Rule, tuple[str, ...]]]:
    table: dict[str, tuple[Rule, tuple[str, ...]]] = {}
    for spec in specs:
        for name, function in vars(spec).items():
            if not name.startswith("_") and inspect.isfunction(function):
                code = function.__code__
                table[name] = _rule(name), code.co_varnames[1 : code.co_argcount]
    return table


#: hook name → (rule, parameters in call order).
LIFECYCLE_HOOKS = _table(LIFECYCLE_SPECS)
PROVIDER_HOOKS = _table(PROVIDER_SPECS)
