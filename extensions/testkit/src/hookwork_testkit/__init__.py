"""Test helpers for Hookwork: scripted models, prompt checks, contexts without a runner, fixtures, conformance suites.

Names are resolved on first use, so the pytest plugin costs a test session that does not need them nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_testkit.contexts import make_context
    from hookwork_testkit.live import Cut, Hear, ScriptedConnection, ScriptedLiveModel
    from hookwork_testkit.prompts import assert_valid_prompt, prompt_faults
    from hookwork_testkit.scenes import RunnerScenes
    from hookwork_testkit.scripted import RecordedRequest, ScriptedModel, ScriptExhausted
    from hookwork_testkit.steps import block, call, delay, partial, stream, text, thought

_HOMES = {
    "Cut": "live",
    "Hear": "live",
    "RecordedRequest": "scripted",
    "RunnerScenes": "scenes",
    "ScriptExhausted": "scripted",
    "ScriptedConnection": "live",
    "ScriptedLiveModel": "live",
    "ScriptedModel": "scripted",
    "assert_valid_prompt": "prompts",
    "block": "steps",
    "call": "steps",
    "delay": "steps",
    "make_context": "contexts",
    "partial": "steps",
    "prompt_faults": "prompts",
    "stream": "steps",
    "text": "steps",
    "thought": "steps",
}

__all__ = [
    "Cut",
    "Hear",
    "RecordedRequest",
    "RunnerScenes",
    "ScriptExhausted",
    "ScriptedConnection",
    "ScriptedLiveModel",
    "ScriptedModel",
    "assert_valid_prompt",
    "block",
    "call",
    "delay",
    "make_context",
    "partial",
    "prompt_faults",
    "stream",
    "text",
    "thought",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
