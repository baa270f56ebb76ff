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
    """The stages of one agent in order, changes applied in the order given.

    Raises:
        ConfigurationError: a change names a stage that does not exist, or adds one that does.
    """
    stages: list[tuple[str, StageFunction | None]] = list(built_in)

    def position(name: str, change: RequestStage) -> int:
        names = [stage for stage, _ in stages]
        if name in names:
            return names.index(name)
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(
            f"{where}: request stage {change.name!r} refers to {name!r}, which does not exist{hint} "
            f"(stages: {', '.join(names)})"
        )

    for change in changes:
        if not isinstance(change, RequestStage):
            raise ConfigurationError(f"{where}: request_stages holds RequestStage objects, not {type(change).__name__}")
        if change.replaces is not None:
            stages[position(change.replaces, change)] = (change.name, change.fn)
        elif change.fn is None:
            del stages[position(change.name, change)]
        elif any(name == change.name for name, _ in stages):
            stages[position(change.name, change)] = (change.name, change.fn)
        else:
            at = len(stages)
            if change.before is not None:
                at = position(change.before, change)
            elif change.after is not None:
                at = position(change.after, change) + 1
            stages.insert(at, (change.name, change.fn))
    return tuple((name, fn) for name, fn in stages if fn is not None)


def changes_for(agent: LlmAgent, plugins: Iterable[Any]) -> list[RequestStage]:
    """The changes of all plugins, in their order, then the agent's own."""
    changes = [change for plugin in plugins for change in getattr(plugin, "request_stages", ())]
    return [*changes, *agent.request_stages]
