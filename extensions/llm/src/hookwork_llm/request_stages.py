"""The named stages that build a model request, and how plugins and agents change them (core §4.2, REQ-1)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hookwork.errors import ConfigurationError

if TYPE_CHECKING:
    from hookwork_llm.agent import LlmAgent

StageFunction = Callable[..., Any]


class RequestStage:
    """A stage to add, to put in another's place, or to remove.

        RequestStage("style", add_style, before="contents")
        RequestStage("identity", None)                      # removes it
        RequestStage("mine", build, replaces="contents")

    ``fn(ctx, request)`` gets a CallbackContext whose writes go to the step's model event, and the ModelRequest; it may
    be async. Without ``before`` or ``after`` a new stage comes last.
    """

    __slots__ = ("after", "before", "fn", "name", "replaces")

    def __init__(
        self,
        name: str,
        fn: StageFunction | None,
        *,
        before: str | None = None,
        after: str | None = None,
        replaces: str | None = None,
    ) -> None:
        if sum(x is not None for x in (before, after, replaces)) > 1:
            raise ConfigurationError(f"request stage {name!r}: give one of before, after and replaces")
        self.name = name
        self.fn = fn
        self.before = before
        self.after = after
        self.replaces = replaces


#: The built-in stages in order; ``auth``, ``compaction``, ``planning``, ``code_execution``, ``structured_output`` and
#: ``provider_cleanup`` are places for others.
BUILT_IN = (
    "basic",
    "collect_tools",
    "auth",
    "confirmation_resume",
    "instructions",
    "identity",
    "compaction",
    "contents",
    "planning",
    "code_execution",
    "structured_output",
    "transfer",
    "provider_cleanup",
    "tool_requests",
    "toolset_requests",
)


def compile_stages(
    built_in: Sequence[tuple[str, StageFunction | None]], changes: Iterable[RequestStage], where: str
) -> tuple[tuple[str, StageFunction], ...]:
    """The stages of one agent in order.

    Changes are applied in the order given; one that refers to a stage that a later change adds waits for it.

    Raises:
        ConfigurationError: a change names a stage that does not exist, or two changes wait for each other.
    """
    stages: list[tuple[str, StageFunction | None]] = list(built_in)
    left = list(changes)
    for change in left:
        if not isinstance(change, RequestStage):
            raise ConfigurationError(f"{where}: request_stages holds RequestStage objects, not {type(change).__name__}")
    while left:
        waiting = [change for change in left if not _apply(stages, change)]
        if len(waiting) == len(left):
            raise _unplaced(stages, waiting, where)
        left = waiting
    return tuple((name, fn) for name, fn in stages if fn is not None)


def _apply(stages: list[tuple[str, StageFunction | None]], change: RequestStage) -> bool:
    """Apply a change; False when the stage it refers to is not there (yet)."""
    names = [name for name, _ in stages]
    anchor = _anchor(change)
    if anchor is not None and anchor not in names:
        return False
    entry = (change.name, change.fn)
    if change.replaces is not None:
        stages[names.index(change.replaces)] = entry
    elif change.fn is None:
        del stages[names.index(change.name)]
    elif change.before is not None or change.after is not None:
        if change.name in names:  # moved
            del stages[names.index(change.name)]
            names.remove(change.name)
        at = names.index(change.before) if change.before is not None else names.index(change.after or "") + 1
        stages.insert(at, entry)
    elif change.name in names:
        stages[names.index(change.name)] = entry
    else:
        stages.append(entry)
    return True


def _anchor(change: RequestStage) -> str | None:
    """The stage that has to be there before the change can be made."""
    removed = change.name if change.fn is None and change.replaces is None else None
    return change.replaces or change.before or change.after or removed


def _unplaced(
    stages: Sequence[tuple[str, StageFunction | None]], waiting: Sequence[RequestStage], where: str
) -> ConfigurationError:
    names = [name for name, _ in stages]
    added = {change.name for change in waiting if change.fn is not None}
    for change in waiting:
        anchor = _anchor(change) or ""
        if anchor not in added:
            near = difflib.get_close_matches(anchor, names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            return ConfigurationError(
                f"{where}: request stage {change.name!r} refers to {anchor!r}, which does not exist{hint} "
                f"(stages: {', '.join(names)})"
            )
    circle = ", ".join(sorted(repr(change.name) for change in waiting))
    return ConfigurationError(f"{where}: the request stages {circle} refer to each other in a circle")


def changes_for(agent: LlmAgent, plugins: Iterable[Any]) -> list[RequestStage]:
    """The changes of all plugins, in their order, then the agent's own."""
    changes = [change for plugin in plugins for change in getattr(plugin, "request_stages", ())]
    return [*changes, *agent.request_stages]
