"""The soak at reduced scale: nothing of a deleted session remains (issue 3)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _load() -> ModuleType:
    """The script, which is no package."""
    spec = importlib.util.spec_from_file_location("hookwork_soak", Path(__file__).with_name("soak.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SOAK: Any = _load()


async def test_what_a_deleted_session_held_is_gone() -> None:
    found = await SOAK.soak(turns=1_000, sessions=50, waves=5)
    # Memory in so short a run is the allocator's affair; objects, tasks, generators and files are ours.
    assert [fault for fault in SOAK.faults(found) if not fault.startswith("memory")] == []
    assert found[-1].generators == found[1].generators


async def test_sessions_that_are_kept_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from hookwork_inmemory import InMemorySessionService

    async def keep(self: Any, **key: Any) -> None:
        """Delete nothing."""

    monkeypatch.setattr(InMemorySessionService, "delete_session", keep)
    found = await SOAK.soak(turns=1_000, sessions=50, waves=5)
    assert any(fault.startswith("objects") for fault in SOAK.faults(found))


def test_each_kind_of_growth_is_named() -> None:
    small = SOAK.Left(memory=100, objects=100_000, tasks=1, generators=1, files=3)
    large = SOAK.Left(memory=103, objects=103_000, tasks=2, generators=4, files=4)
    assert SOAK.faults([large, small, large]) == [
        "memory grew from 100 to 103",
        "objects grew from 100000 to 103000",
        "1 more tasks than after the second wave",
        "3 more generators than after the second wave",
        "1 more files than after the second wave",
    ]
    assert SOAK.faults([large, small, small]) == []


async def test_numbers_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="do not divide evenly"):
        await SOAK.soak(turns=10, sessions=3, waves=2)
