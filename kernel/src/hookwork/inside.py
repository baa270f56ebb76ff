"""What those who carry runs out reach behind a context: flows, schedulers, tools that start runs of their own.

A context offers what its call site may do (core §5). Code that is itself part of how a run works needs what all
contexts of the run share: hooks, services, live state, counters. It gets that here, by name, and is answerable for what
it does with it: nothing is checked. Tools, callbacks and plugins have no need of this module.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork.agent import Agent
    from hookwork.context import CallbackContext, ReadonlyContext
    from hookwork.effects import EffectCall
    from hookwork.invocation import Invocation
    from hookwork.node import Node
    from hookwork.state import DeltaBuffer


def invocation_of(ctx: ReadonlyContext) -> Invocation:
    """What all contexts of a run share."""
    return ctx._inv


def owner_of(ctx: ReadonlyContext) -> Agent | Node | None:
    """The agent or node that runs; None in run hooks before an agent was chosen."""
    return ctx._owner


def buffer_of(ctx: CallbackContext) -> DeltaBuffer | None:
    """Where the writes of a call site are collected until an event takes them; None where nothing can be written."""
    return ctx._buffer


def effect_call(
    ctx: CallbackContext,
    kind: str,
    key: str,
    data: dict[str, Any],
    default: Callable[[], Awaitable[Any]],
    emit: Callable[[Any], None] | None = None,
) -> EffectCall:
    """The description of an effect as its hook gets it (tools-plugins EFF-2).

    Args:
        kind: ``model``, ``tool``, ``node`` or ``write``. key: the effect's key. data: what the kind adds.
        default: carries the effect out here. emit: hands on a partial response (EFF-4).
    """
    return ctx._effect(kind, key, data, default, emit)  # type: ignore[no-any-return]
