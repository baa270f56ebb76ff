"""Order and rules of lifecycle hooks over pluggy (tools-plugins §9, PLUG-01 … PLUG-06)."""

from __future__ import annotations

import asyncio
import functools
import logging
import timeit
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pytest
from attrs import define
from hypothesis import given
from hypothesis import strategies as st

from hookwork.errors import PluginError
from hookwork.hookspecs.table import LIFECYCLE_HOOKS, Rule
from hookwork.plugins.dispatch import NO_HOOKS, Hooks, first, first_callback, notify
from hookwork.plugins.markers import hookimpl
from hookwork.plugins.plugin import FunctionPlugin, Plugin


class Marked:
    """A plugin by marker, in one of the three bands; notes that it was called and gives a value."""

    def __init__(self, name: str, band: str, value: Any, is_async: bool, calls: list[str]) -> None:
        self.name = name

        def plain(ctx: Any) -> Any:
            calls.append(name)
            return value

        async def coroutine(ctx: Any) -> Any:
            await asyncio.sleep(0)
            return plain(ctx)

        marker = hookimpl(tryfirst=band == "first", trylast=band == "last")
        self.before_run = marker(coroutine if is_async else plain)
        self.after_run = marker(coroutine if is_async else plain)


chains: st.SearchStrategy[list[tuple[str, Any, bool]]] = st.lists(
    st.tuples(st.sampled_from(["first", "normal", "last"]), st.sampled_from([None, 0, "", {}, "value"]), st.booleans()),
    max_size=7,
)


def expected_order(chain: list[tuple[str, Any, bool]]) -> list[int]:
    return [i for wanted in ("first", "normal", "last") for i, (band, _, _) in enumerate(chain) if band == wanted]


@given(chains)
async def test_pgy_12_plug_01_first_value_in_band_then_list_order_wins(chain: list[tuple[str, Any, bool]]) -> None:
    calls: list[str] = []
    hooks = Hooks(Marked(f"p{i}", band, value, is_async, calls) for i, (band, value, is_async) in enumerate(chain))
    order = expected_order(chain)
    assert [name for _, name in hooks.before_run] == [f"p{i}" for i in order]
    # "", 0 and {} are values: only None is no opinion (TT-17).
    winner = next((i for i in order if chain[i][1] is not None), None)
    result = await first(hooks.before_run, "before_run", object())
    assert result == (None if winner is None else (chain[winner][1], f"p{winner}"))
    asked = order if winner is None else order[: order.index(winner) + 1]
    assert calls == [f"p{i}" for i in asked]


@given(chains)
async def test_pgy_13_notify_calls_everybody_in_order_and_ignores_values(chain: list[tuple[str, Any, bool]]) -> None:
    calls: list[str] = []
    hooks = Hooks(Marked(f"p{i}", band, value, is_async, calls) for i, (band, value, is_async) in enumerate(chain))
    await notify(hooks.after_run, "after_run", object(), object())
    assert calls == [f"p{i}" for i in expected_order(chain)]


PARAMETERS = LIFECYCLE_HOOKS["after_tool"][1]


@given(st.permutations(PARAMETERS), st.integers(0, len(PARAMETERS)), st.booleans())
async def test_pgy_18_an_implementation_takes_any_subset_by_name(
    order: list[str], count: int, by_default: bool
) -> None:
    taken = order[:count]
    scope: dict[str, Any] = {}
    listed = ", ".join(f"{name}={'None'}" if by_default else name for name in taken)
    exec(f"async def after_tool({listed}): return {{'got': ({''.join(f'{name},' for name in taken)})}}", scope)
    hooks = Hooks([FunctionPlugin("p", after_tool=scope["after_tool"])])
    values = {name: object() for name in PARAMETERS}
    found = await first(hooks.after_tool, "after_tool", *values.values())
    assert found is not None
    assert found[0]["got"] == tuple(values[name] for name in taken)


def test_pgy_13_the_table_states_a_rule_for_every_hook() -> None:
    rules = {rule: {name for name, (found, _) in LIFECYCLE_HOOKS.items() if found is rule} for rule in Rule}
    assert rules[Rule.NOTIFY] == {"after_run", "on_run_error", "on_agent_error", "on_pause", "close"}
    assert rules[Rule.AROUND] == {f"around_{stage}" for stage in ("run", "agent", "model", "tool", "node")}
    assert rules[Rule.EFFECT] == {f"perform_{effect}" for effect in ("model", "tool", "node", "write")}
    assert rules[Rule.FIRST] == {
        *("on_user_message", "before_run", "on_event", "before_agent", "after_agent", "before_model", "after_model"),
        *("on_model_error", "before_tool", "after_tool", "on_tool_error", "before_node", "after_node", "on_node_error"),
    }
    assert LIFECYCLE_HOOKS["after_tool"][1] == ("ctx", "tool", "args", "result", "error")
    assert LIFECYCLE_HOOKS["close"][1] == ()


def test_pgy_15_a_plugin_needs_no_marker_and_unoverridden_hooks_cost_nothing() -> None:
    class Sample(Plugin):
        def before_tool(self, ctx: Any) -> None: ...

        @hookimpl(tryfirst=True)
        async def after_tool(self, ctx: Any) -> None: ...

        @staticmethod
        def on_event(ctx: Any) -> None: ...

        @classmethod
        def before_run(cls, ctx: Any) -> None: ...

    other = FunctionPlugin("other", after_tool=lambda ctx: None)
    hooks = Hooks([other, Sample()])
    assert [name for _, name in hooks.before_tool] == ["Sample"]
    assert [name for _, name in hooks.after_tool] == ["Sample", "other"]
    assert hooks.on_event
    assert hooks.before_run
    assert hooks.before_model == ()


def test_pgy_15_inherited_methods_count() -> None:
    class Base(Plugin):
        async def before_tool(self, ctx: Any) -> None: ...

    class Derived(Base): ...

    assert len(Hooks([Derived()]).before_tool) == 1


async def test_pgy_15_a_module_of_marked_functions_is_a_plugin() -> None:
    module = ModuleType("module_plugin")
    module.before_run = hookimpl(lambda ctx: "from the module")  # type: ignore[attr-defined]
    hooks = Hooks([module])
    assert await first(hooks.before_run, "before_run", None) == ("from the module", "module_plugin")


def test_plug_03_names() -> None:
    hooks = Hooks([FunctionPlugin("a"), Plugin()])
    assert [name for name, _ in hooks.plugins] == ["a", "Plugin"]
    with pytest.raises(PluginError, match="two plugins are named 'a'"):
        Hooks([FunctionPlugin("a"), FunctionPlugin("a")])
    with pytest.raises(PluginError, match="has an empty name"):
        Hooks([FunctionPlugin("")])
    with pytest.raises(PluginError, match="None is not a plugin"):
        Hooks([None])


def test_what_pluggy_would_take_and_never_call_is_refused() -> None:
    with pytest.raises(PluginError, match="Plugin is a class; list an object of it"):
        Hooks([Plugin])
    with pytest.raises(PluginError, match="'audit' is a name, not a plugin"):
        Hooks(["audit"])


def test_pgy_04_plugins_that_compare_equal_are_refused_with_a_reason() -> None:
    @define
    class Valued:
        name: str
        x: int = 1

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Valued) and self.x == other.x

        @hookimpl
        def before_run(self) -> None: ...

    with pytest.raises(PluginError, match="plugin 'b' cannot be used"):
        Hooks([Valued("a"), Valued("b")])

    class TwoEqual(Plugin):
        def __init__(self, name: str) -> None:
            self.name = name

    assert len(Hooks([TwoEqual("a"), TwoEqual("b")]).plugins) == 2


class _NotDerived:
    async def before_tool(self, ctx: Any, tool: Any, args: Any) -> None: ...


@pytest.mark.parametrize("plugin", [_NotDerived(), 3, {"before_tool": print}, print, logging])
def test_pgy_04_an_object_that_implements_no_hook_is_refused(plugin: Any) -> None:
    with pytest.raises(PluginError, match=r"implements no hook; derive its class from hookwork\.Plugin"):
        Hooks([plugin])


def test_pgy_16_a_hook_that_is_no_method_is_refused() -> None:
    with pytest.raises(PluginError, match="'before_tool' is a hook, so it must be a method, not 3"):
        Hooks([type("Sample", (Plugin,), {"before_tool": 3})()])


async def _kw_only(self: Any, ctx: Any, *, tool: Any) -> None: ...


async def _strange(self: Any, ctx: Any, tol: Any = None) -> None: ...


async def _unknown_argument(self: Any, ctx: Any, tol: Any) -> None: ...


async def _generator(self: Any, ctx: Any) -> Any:
    yield


def _plain(self: Any, call: Any) -> Any: ...


async def _coroutine(self: Any, ctx: Any) -> Any: ...


@pytest.mark.parametrize(
    ("hook", "function", "text"),
    [
        ("before_tool", _kw_only, "takes keyword-only parameters"),
        ("before_tool", _strange, "'before_tool' has no parameter 'tol'; it offers: ctx, tool, args"),
        ("before_tool", _unknown_argument, "has no parameter 'tol' (did you mean 'tool'?); it offers: ctx, tool, args"),
        ("before_tool", _generator, "must not yield"),
        ("perform_tool", _plain, "'perform_tool' must be an async function"),
        ("around_tool", _coroutine, "must return an async context manager"),
        ("around_tool", _generator, "put @asynccontextmanager on it"),
        ("before_tol", _coroutine, "'before_tol' is not a hook (did you mean 'before_tool'?)"),
        ("befor_tool", _coroutine, "'befor_tool' is not a hook (did you mean 'before_tool'?)"),
        ("on_audit", classmethod(_coroutine), "'on_audit' is not a hook"),
        ("perform_magic", _coroutine, "a helper method needs a leading underscore"),
    ],
)
def test_pgy_16_pgy_11_faults_are_found_when_the_hooks_are_frozen(hook: str, function: Any, text: str) -> None:
    plugin = type("Sample", (Plugin,), {hook: function})()
    with pytest.raises(PluginError) as caught:
        Hooks([plugin])
    assert text in str(caught.value)
    assert "'Sample'" in str(caught.value)


def test_pgy_16_attributes_and_properties_that_are_no_methods_are_left_alone() -> None:
    class Sample(Plugin):
        on_setting = 3

        def __init__(self) -> None:
            self.on_done = print

        @property
        def on_fire(self) -> bool:
            raise AssertionError("a property is never evaluated")

    assert len(Hooks([Sample()]).plugins) == 1


def test_pgy_16_a_marked_misspelt_hook_is_found() -> None:
    class Sample:
        name = "sample"

        @hookimpl
        def befor_tool(self, ctx: Any) -> None: ...

    with pytest.raises(PluginError, match="befor_tool"):
        Hooks([Sample()])


def test_pgy_16_keywords_of_a_function_plugin_are_checked() -> None:
    with pytest.raises(PluginError, match=r"'befor_tool' is not a hook \(did you mean 'before_tool'\?\)"):
        FunctionPlugin("p", befor_tool=lambda ctx: None)
    with pytest.raises(PluginError, match="'before_tool' needs a function or a method"):
        FunctionPlugin("p", before_tool=functools.partial(lambda ctx: None))


@pytest.mark.parametrize(
    ("hook", "around"),
    [
        ("before_tool", "around_tool"),
        ("on_model_error", "around_model"),
        ("after_agent", "around_agent"),
        ("perform_node", "around_node"),
        ("around_tool", "around_tool"),
        ("on_event", "around_run"),
        ("before_run", "around_run"),
    ],
)
@pytest.mark.parametrize("style", ["wrapper", "hookwrapper"])
def test_pgy_19_wrappers_are_refused_naming_the_around_hook(hook: str, around: str, style: str) -> None:
    def wraps(self: Any) -> Any:
        yield

    async def wraps_async(self: Any) -> Any:
        yield

    for function in (wraps, wraps_async):
        marked = hookimpl(function, wrapper=style == "wrapper", hookwrapper=style == "hookwrapper")
        plugin = type("Sample", (), {"name": "sample", hook: marked})()
        with pytest.raises(PluginError, match=f"'sample': a pluggy wrapper on '{hook}' cannot await; .*'{around}'"):
            Hooks([plugin])


def test_tryfirst_and_trylast_at_once_are_refused() -> None:
    plugin = type("Sample", (), {"before_run": hookimpl(tryfirst=True, trylast=True)(lambda self: None)})()
    with pytest.raises(PluginError, match="both tryfirst and trylast"):
        Hooks([plugin])


async def test_plug_06_errors_keep_their_type_and_carry_a_note() -> None:
    class Faulty(Plugin):
        async def before_tool(self, ctx: Any) -> None:
            raise KeyError("x")

    later: list[str] = []
    hooks = Hooks([Faulty(), FunctionPlugin("later", before_tool=lambda ctx: later.append("called"))])
    with pytest.raises(KeyError) as caught:
        await first(hooks.before_tool, "before_tool", 1, 2, 3)
    assert caught.value.__notes__ == ["raised by plugin 'Faulty' in 'before_tool'"]
    assert later == []


async def test_pgy_14_notify_logs_and_goes_on_and_cancellation_passes(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []

    def faulty(ctx: Any) -> None:
        raise ValueError("observer fault")

    async def cancelled(ctx: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    hooks = Hooks([FunctionPlugin("a", after_run=faulty), FunctionPlugin("b", after_run=lambda ctx: calls.append("b"))])
    await notify(hooks.after_run, "after_run", 1, 2)
    assert calls == ["b"]
    assert "plugin 'a' raised in 'after_run'" in caplog.text
    stopping = Hooks([FunctionPlugin("c", after_run=cancelled), *(plugin for _, plugin in hooks.plugins)])
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(notify(stopping.after_run, "after_run", 1, 2))
    assert calls == ["b"]
    with pytest.raises(asyncio.CancelledError) as caught:
        await asyncio.create_task(first(stopping.after_run, "after_run", 1, 2))  # type: ignore[arg-type]
    assert not hasattr(caught.value, "__notes__")


async def test_inv_3_a_cancelled_error_that_nobody_asked_for_is_the_plugins_own_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def waits_for_a_cancelled_task(ctx: Any) -> None:
        task = asyncio.ensure_future(asyncio.sleep(1))
        task.cancel()
        await task

    calls: list[str] = []
    hooks = Hooks(
        [
            FunctionPlugin("c", before_run=waits_for_a_cancelled_task, after_run=waits_for_a_cancelled_task),
            FunctionPlugin("d", after_run=lambda ctx: calls.append("d")),
        ]
    )
    with pytest.raises(PluginError, match="plugin 'c' let a CancelledError escape from 'before_run'") as caught:
        await first(hooks.before_run, "before_run", None)
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    await notify(hooks.after_run, "after_run", None, None)
    assert calls == ["d"]
    assert "plugin 'c' raised in 'after_run'" in caplog.text


async def test_plug_02_every_plugin_gets_the_same_object() -> None:
    seen: list[Any] = []
    hooks = Hooks([FunctionPlugin(name, before_tool=lambda args: seen.append(args)) for name in "abc"])
    args: dict[str, Any] = {}
    assert await first(hooks.before_tool, "before_tool", None, None, args) is None
    assert all(value is args for value in seen)
    assert len(seen) == 3


async def test_tt_11_returning_the_input_is_told_in_the_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    hooks = Hooks([FunctionPlugin("echo", on_event=lambda event: event)])
    event = object()
    with caplog.at_level(logging.DEBUG, "hookwork.plugins"):
        assert await first(hooks.on_event, "on_event", None, event) == (event, "echo")
    assert "plugin echo returned its input; return None instead" in caplog.text


async def test_plug_01_agent_callbacks_follow_the_same_rule() -> None:
    calls: list[str] = []

    async def none(ctx: Any) -> None:
        calls.append("none")

    def value(ctx: Any) -> dict[str, Any]:
        calls.append("value")
        return {}

    assert await first_callback([none, value, none], 1) == {}
    assert calls == ["none", "value"]
    assert await first_callback([none], 1) is None
    assert await first_callback([], 1) is None


async def test_around_hooks_are_compiled_by_position() -> None:
    class Around(Plugin):
        @asynccontextmanager
        async def around_tool(self, stage: Any, args: Any) -> AsyncIterator[None]:
            args["seen"] = stage
            yield

    ((call, name),) = Hooks([Around()]).around_tool
    args: dict[str, Any] = {}
    async with call("ctx", "tool", args, "stage"):
        assert args == {"seen": "stage"}
    assert name == "Around"


def test_a_frozen_hooks_object_has_one_attribute_for_each_hook() -> None:
    assert all(getattr(NO_HOOKS, hook) == () for hook in LIFECYCLE_HOOKS)
    with pytest.raises(AttributeError, match="no lifecycle hook named 'before_tol'"):
        _ = NO_HOOKS.before_tol


async def test_s11_a_call_of_a_noop_hook_costs_no_task_and_little_time() -> None:
    async def noop(ctx: Any) -> None: ...

    hooks = Hooks([FunctionPlugin(f"p{i}", before_run=noop) for i in range(10)])
    before = len(asyncio.all_tasks())
    await first(hooks.before_run, "before_run", None)
    assert len(asyncio.all_tasks()) == before

    def drive() -> None:
        with pytest.raises(StopIteration):
            first(hooks.before_run, "before_run", None).send(None)

    # The bar is 0.4 µs a call (budgets S11); this guards against a wrong order of magnitude only.
    per_call = min(timeit.repeat(drive, number=200, repeat=5)) / 200 / 10
    assert per_call < 20e-6
