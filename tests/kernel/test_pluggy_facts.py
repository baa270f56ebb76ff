"""What pluggy does by itself and what this kit makes of it (tools-plugins PGY-01 … PGY-07, PGY-10, PGY-17)."""

from __future__ import annotations

import ast
import inspect
import logging
from pathlib import Path
from typing import Any

import pluggy
import pytest

import hookwork
from hookwork.errors import PluginError
from hookwork.hookspecs.lifecycle import LIFECYCLE_SPECS
from hookwork.hookspecs.table import LIFECYCLE_HOOKS
from hookwork.plugins.discovery import use_extensions
from hookwork.plugins.dispatch import Hooks, first, ordered
from hookwork.plugins.markers import PROJECT_NAME, hookimpl
from hookwork.plugins.plugin import FunctionPlugin, Plugin

BANDS = ("normal", "last", "first", "last", "normal", "first")


class Spec:
    @pluggy.HookspecMarker(PROJECT_NAME)
    def before_run(self, ctx: Any) -> Any: ...


class FirstSpec:
    @pluggy.HookspecMarker(PROJECT_NAME)(firstresult=True)
    def before_run(self, ctx: Any) -> Any: ...


def manager_of(spec: Any, *plugins: Any) -> pluggy.PluginManager:
    manager = pluggy.PluginManager(PROJECT_NAME)
    manager.add_hookspecs(spec)
    for plugin in plugins:
        manager.register(plugin, name=plugin.name)
    return manager


class InBand:
    def __init__(self, name: str, band: str, called: list[str]) -> None:
        self.name = name

        @hookimpl(tryfirst=band == "first", trylast=band == "last")
        def before_run(ctx: Any) -> None:
            called.append(name)

        self.before_run = before_run


def test_pgy_1_native_calls_reverse_two_of_three_bands_and_ours_none() -> None:
    called: list[str] = []
    manager = manager_of(Spec, *[InBand(f"{band}{i}", band, called) for i, band in enumerate(BANDS)])
    manager.hook.before_run(ctx=None)
    assert called == ["first5", "first2", "normal4", "normal0", "last1", "last3"]
    assert [i.plugin_name for i in reversed(manager.hook.before_run.get_hookimpls())] == called
    assert [i.plugin_name for i in ordered(manager, "before_run")] == [
        "first2", "first5", "normal0", "normal4", "last1", "last3",
    ]  # fmt: skip


class NoOpinion:
    name = "silent"

    @hookimpl
    async def before_run(self, ctx: Any) -> None:
        return None


class Opinion:
    name = "decides"

    @hookimpl
    async def before_run(self, ctx: Any) -> str:
        return "decided"


async def test_pgy_2_a_native_call_takes_any_coroutine_for_a_value_and_ours_awaits_it() -> None:
    native = manager_of(FirstSpec, Opinion(), NoOpinion()).hook.before_run(ctx=None)
    assert inspect.iscoroutine(native)
    assert await native is None  # the first to be asked has no opinion, and the other was never asked
    hooks = Hooks([NoOpinion(), Opinion()])
    assert await first(hooks.before_run, "before_run", None) == ("decided", "decides")


def test_pgy_3_wrappers_are_generators_and_no_lifecycle_hook_takes_one() -> None:
    class Async:
        name = "async"

        @hookimpl(wrapper=True)
        async def before_run(self, ctx: Any) -> Any:
            yield

    with pytest.raises(pluggy.PluginValidationError, match="generator function"):
        manager_of(Spec, Async())

    class Plain:
        name = "plain"

        @hookimpl(wrapper=True)
        def before_run(self, ctx: Any) -> Any:
            return (yield)

    manager_of(Spec, Plain())
    for plugin in (Async(), Plain()):
        with pytest.raises(PluginError, match="around_run"):
            Hooks([plugin])


def test_pgy_5_attributes_are_looked_up_statically_and_a_faulty_plugin_changes_nothing() -> None:
    evaluated: list[str] = []

    class Tricky:
        name = "tricky"

        @property
        def after_run(self) -> Any:
            evaluated.append("after_run")
            return None

        @hookimpl
        def before_run(self, ctx: Any, nonsense: Any) -> None: ...

    manager = manager_of(Spec)
    with pytest.raises(pluggy.PluginValidationError, match="nonsense"):
        manager.register(Tricky(), name="tricky")
    assert (evaluated, manager.hook.before_run.get_hookimpls()) == ([], [])

    class WithProperty(Plugin):
        name = "p"

        @property
        def helper(self) -> Any:
            evaluated.append("helper")
            return None

        def before_run(self, ctx: Any) -> None: ...

    assert [name for _, name in Hooks([WithProperty()]).before_run] == ["p"]
    assert evaluated == []
    with pytest.raises(PluginError, match="nonsense"):
        Hooks([FunctionPlugin("tricky", before_run=lambda ctx, nonsense: None)])


def test_pgy_6_keyword_only_parameters_are_seen_by_nobody_so_they_are_refused() -> None:
    class KeywordOnly:
        name = "k"

        @hookimpl
        def before_run(self, *, ctx: Any) -> None: ...

    manager = manager_of(Spec, KeywordOnly())
    [implementation] = manager.hook.before_run.get_hookimpls()
    assert implementation.argnames == ()  # so that a call would fail for want of `ctx`
    with pytest.raises(PluginError, match="keyword-only"):
        Hooks([KeywordOnly()])
    for spec in LIFECYCLE_SPECS:
        for hook in LIFECYCLE_HOOKS:
            function = getattr(spec, hook, None)
            kinds = {p.kind for p in inspect.signature(function).parameters.values()} if function is not None else set()
            assert kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD}, hook


KERNEL = Path(hookwork.__file__).parent


def test_pgy_7_pgy_10_neither_pluggys_own_loader_nor_its_calls_are_used() -> None:
    """Entry points are read in a fixed order by our own loader; hooks are never called as ``manager.hook.name(…)``."""
    calls, loads = [], []
    for file in sorted(KERNEL.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr == "load_setuptools_entrypoints":
                loads.append(file.name)
            owner = node.func.value
            if isinstance(owner, ast.Attribute) and owner.attr == "hook":
                calls.append(file.name)
    assert (calls, loads) == ([], [])


def test_pgy_10_two_managers_share_one_marker_and_neither_takes_the_others_hooks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Both:
        name = "both"

        @hookimpl
        def create_model(self, name: str) -> Any:
            return None

        @hookimpl
        def before_run(self, ctx: Any) -> Any:
            return None

    with pytest.raises(PluginError, match="create_model"):
        Hooks([Both()])
    with use_extensions([Both()]) as registry, caplog.at_level(logging.WARNING):
        assert registry.first("create_model", name="x") is None
    assert [record.state for record in registry.broken] == ["broken"]
    assert "before_run" in caplog.text


async def test_pgy_17_the_dispatch_tells_in_the_debug_log_who_decided(caplog: pytest.LogCaptureFixture) -> None:
    hooks = Hooks([NoOpinion(), Opinion()])
    with caplog.at_level(logging.DEBUG, logger="hookwork.plugins"):
        await first(hooks.before_run, "before_run", None)
    assert [record.getMessage() for record in caplog.records] == ["hook before_run: plugin decides gave a value"]
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="hookwork.plugins"):
        await first(hooks.before_run, "before_run", None)
    assert caplog.records == []
