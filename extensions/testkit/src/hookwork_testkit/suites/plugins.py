"""The plugin suite: tools-plugins §7 and §9 for any lifecycle plugin."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from hookwork.agent import Agent
from hookwork.context import InvocationContext
from hookwork.errors import HookworkError
from hookwork.hookspecs.table import LIFECYCLE_HOOKS
from hookwork.model import Model
from hookwork.plugins.dispatch import Hooks
from hookwork.plugins.plugin import plugin_name
from hookwork.records.content import text_content
from hookwork.records.event import Event
from hookwork.run import RunOutcome
from hookwork.runner import Runner
from hookwork.settings import NO_SETTINGS
from hookwork_testkit.scene_tools import Recorder
from hookwork_testkit.scripted import RecordedRequest, ScriptedModel
from hookwork_testkit.steps import call, stream
from hookwork_testkit.suites.hook_turns import EFFECTS, NOTIFIED, VALUES, HookTurn, Planted
from hookwork_testkit.suites.leftovers import PATIENCE, assert_cancellable, keys_in, no_tasks_left, take, within

USER = "u1"
#: Makes the suite's agent fail.
FAIL = "please fail"


class PluginSuite(ABC):
    """Subclass it in a test module and say how a plugin is made.

    Attributes:
        observes: the plugin only looks: it gives no value and changes nothing it is given.
        deterministic: a run with it goes the same way each time.
        keeps_runs: it remembers runs on purpose after they ended, by their invocation ids.
    """

    pytestmark = pytest.mark.asyncio

    observes: bool = False
    deterministic: bool = True
    keeps_runs: bool = False

    @abstractmethod
    def make_plugin(self) -> Any:
        """A fresh plugin."""

    def make_failing_plugin(self) -> Any | None:
        """A plugin that raises in a hook of every run, by its own fault; None where that cannot be arranged."""
        return None

    def make_agent(self, name: str, model: Model, tools: Sequence[Any]) -> Agent | None:
        """An agent of some flow, so that model and tool hooks are called in a run; None: they are only called alone."""
        return None

    # --- steps --------------------------------------------------------------------------------------------------------

    def agent(self) -> Agent:
        """The agent of the suite's runs: it looks once and repeats what was said; `FAIL` makes it fail."""
        made = self.make_agent("suite_agent", ScriptedModel(_answer), [Recorder("look", answer={"sky": "clear"})])
        return made if made is not None else Agent(name="suite_agent", body=_echo)

    def runner(self, *plugins: Any) -> Runner:
        """A runner with these plugins, whose settings are nobody's."""
        return Runner(self.agent(), sessions="memory:", plugins=list(plugins), settings=NO_SETTINGS)

    async def play(self, runner: Runner, message: str, session_id: str) -> tuple[list[str], RunOutcome]:
        """The texts of one run, and its outcome; the suite's own failure is part of it."""
        run = runner.run(user_id=USER, session_id=session_id, message=message)
        texts: list[str] = []
        try:
            async with run:
                texts.extend([event.text async for event in run])
        except Planted:
            pass
        assert run.outcome is not None
        return texts, run.outcome

    async def turn(self, **options: Any) -> HookTurn:
        """One turn, hook by hook."""
        turn = HookTurn(Hooks([self.make_plugin()]), **options)
        await within(PATIENCE, "a turn of the plugin's hooks", turn.play())
        return turn

    # --- what a plugin is ---------------------------------------------------------------------------------------------

    async def test_plug_03_a_plugin_has_a_name_and_hooks(self) -> None:
        plugin = self.make_plugin()
        name = plugin_name(plugin)
        assert name.strip(), "a plugin needs a name; the errors of its hooks show it"
        hooks = Hooks([plugin])
        assert any(getattr(hooks, hook) for hook in LIFECYCLE_HOOKS), f"plugin {name!r} implements no hook"
        async with self.runner(plugin) as runner:
            await self.play(runner, "hello", "s-1")
        assert plugin_name(plugin) == name, "the name changed"

    async def test_pgy_04_plugins_are_compared_by_identity(self) -> None:
        plugin, other = self.make_plugin(), self.make_plugin()
        assert plugin is not other, "make_plugin() gives a fresh object each time"
        assert plugin == plugin, "a plugin equals itself"
        assert plugin != other, "two plugins made alike are still two"
        assert len({plugin, other}) == 2, "plugins can be members of a set"

    # --- values -------------------------------------------------------------------------------------------------------

    async def test_plug_01_a_value_is_of_the_kind_of_its_hook_or_none(self) -> None:
        for error in (None, Planted("planted")):
            turn = await self.turn(error=error)
            for hook, kind in VALUES.items():
                value = turn.gave.get(hook)
                assert value is None or isinstance(value, kind), f"{hook} gave a {type(value).__name__}"

    async def test_plug_02_no_hook_returns_what_it_was_given(self) -> None:
        for error in (None, Planted("planted")):
            turn = await self.turn(error=error)
            for hook, value in turn.gave.items():
                given = any(value is one for one in turn.inputs.values())
                assert value is None or hook in EFFECTS or not given, (
                    f"{hook} returned its own input, which silences every later plugin; return None instead"
                )

    async def test_plug_01_hooks_raise_nothing_but_the_kits_errors(self) -> None:
        for error in (None, Planted("planted")):
            turn = await self.turn(error=error)
            for hook, raised in turn.raised.items():
                wanted = isinstance(raised, HookworkError) and hook not in NOTIFIED
                assert wanted or raised is error, f"{hook} raised {raised!r}"

    async def test_plug_observers_give_no_value_and_change_nothing(self) -> None:
        if not self.observes:
            pytest.skip("the plugin does more than observe")
        for error in (None, Planted("planted")):
            turn = HookTurn(Hooks([self.make_plugin()]), error=error)
            request, args = turn.inputs["request"], dict(turn.inputs["args"])
            before = (list(request.contents), request.config, dict(request.tools), request.model)
            await turn.play()
            values = {hook: value for hook, value in turn.gave.items() if value is not None and hook in VALUES}
            assert not values, f"an observer gave values: {values}"
            after = (list(request.contents), request.config, dict(request.tools), request.model)
            assert after == before, "an observer changed the request"
            assert turn.inputs["args"] == args, "an observer changed the arguments"
            assert not turn.inputs["ctx/tool"].actions.state_delta, "an observer wrote to the state"

    async def test_eff_1_effects_are_carried_out(self) -> None:
        turn = await self.turn()
        implemented = [hook for hook in EFFECTS if getattr(turn.hooks, hook)]
        if not implemented:
            pytest.skip("the plugin carries out no effect")
        for hook in implemented:
            assert isinstance(turn.gave.get(hook), EFFECTS[hook]), f"{hook} gave {turn.gave.get(hook)!r}"

    async def test_ard_14_around_hooks_are_left_when_the_stage_is_cancelled(self) -> None:
        turn = await self.turn(error=asyncio.CancelledError("planted"))
        raised = {hook: error for hook, error in turn.raised.items() if hook.startswith("around_")}
        assert not raised, f"left with a cancellation, around hooks raised {raised}"

    # --- runs ---------------------------------------------------------------------------------------------------------

    async def test_plug_12_a_run_ends_as_it_would_however_it_ends(self) -> None:
        async with self.runner(self.make_plugin()) as runner:
            _, outcome = await self.play(runner, "hello", "s-1")
            assert outcome.kind in ("completed", "ended", "limit"), f"the run ended {outcome}"
            _, outcome = await self.play(runner, FAIL, "s-2")
            assert outcome.kind == "failed" or not self.observes, f"the agent failed, the run ended {outcome}"
            for taken in (0, 1):
                for way in ("leave", "stop", "cancel"):
                    what = f"a run ended ({way}) after {taken} events"
                    async with no_tasks_left(what):
                        run = runner.run(user_id=USER, session_id=f"{way}-{taken}", message="hello")
                        await within(PATIENCE, what, take(run, taken, way))
                    assert run.outcome is not None

    async def test_plug_05_runs_at_once_do_not_mix(self) -> None:
        names = [f"message {i}" for i in range(8)]
        async with self.runner(self.make_plugin()) as runner:
            alone = [await self.play(runner, name, f"alone {name}") for name in names]
        async with self.runner(self.make_plugin()) as runner, no_tasks_left("runs at once"):
            stories = await asyncio.gather(*[self.play(runner, name, f"s {name}") for name in names])
        assert {outcome.kind for _, outcome in stories} == {outcome.kind for _, outcome in alone}
        if self.deterministic:
            assert [texts for texts, _ in stories] == [texts for texts, _ in alone], "runs differ beside each other"

    async def test_plug_03_one_plugin_may_serve_two_runners(self) -> None:
        plugin = self.make_plugin()
        async with self.runner(plugin) as one, self.runner(plugin) as two:
            stories = await asyncio.gather(*[self.play(runner, "hello", "s-1") for runner in (one, two)])
        assert stories[0][1].kind == stories[1][1].kind

    async def test_tool_3_a_run_can_be_cancelled_at_any_time(self) -> None:
        async with self.runner(self.make_plugin()) as runner:

            async def whole_run() -> None:
                await self.play(runner, "hello", "s-1")

            await assert_cancellable("a run with the plugin", whole_run)

    async def test_plug_a_run_that_is_over_leaves_nothing_in_the_plugin(self) -> None:
        if self.keeps_runs:
            pytest.skip("the plugin remembers runs on purpose")
        plugin = self.make_plugin()
        over: list[str] = []
        async with self.runner(plugin) as runner:
            for message in ("hello", FAIL):
                _, outcome = await self.play(runner, message, f"s {message}")
                over.append(outcome.invocation_id)
            run = runner.run(user_id=USER, session_id="left", message="hello")
            await take(run, 1, "leave")
            over.append(run.invocation_id or "")
            left = keys_in(plugin) & {*over}
            assert not left, (
                f"after the runs ended the plugin still holds something under their ids {sorted(map(str, left))}"
            )

    async def test_plug_06_an_error_of_the_plugin_names_it(self) -> None:
        plugin = self.make_failing_plugin()
        if plugin is None:
            pytest.skip("the suite was not told how the plugin fails")
        name = plugin_name(plugin)
        async with self.runner(plugin) as runner:
            run = runner.run(user_id=USER, session_id="s-1", message="hello")
            raised: Exception | None = None
            try:
                await run.wait()
            except Exception as error:  # noqa: BLE001 - it is looked at below
                raised = error
        assert raised is not None, "the run did not fail"
        notes = getattr(raised, "__notes__", [])
        assert any(repr(name) in note for note in notes), f"no note names the plugin: {raised!r} {notes}"

    # --- the end ------------------------------------------------------------------------------------------------------

    async def test_plug_41_close_ends_soon_and_may_be_called_twice(self) -> None:
        async with no_tasks_left("a closed plugin"):
            plugin = self.make_plugin()
            async with self.runner(plugin) as runner:
                await self.play(runner, "hello", "s-1")
            for close, name in Hooks([plugin]).close:  # the runner has closed it once
                result = close()
                if result is not None:
                    await within(PATIENCE, f"close() of plugin {name!r}", result)


async def _echo(ctx: InvocationContext) -> AsyncIterator[Event]:
    """Two events, with a turn of the loop before each."""
    said = ctx.user_content.text if ctx.user_content is not None else ""
    await asyncio.sleep(0)
    yield Event(content=text_content("let me see"))
    await asyncio.sleep(0)
    if said == FAIL:
        raise Planted("the agent failed")
    yield Event(content=text_content(f"you said {said}"))


def _answer(request: RecordedRequest) -> Any:
    last = request.contents[-1]
    said = next((content.text for content in reversed(request.contents) if content.role == "user" and content.text), "")
    if not last.function_responses:
        return [*stream("let me see"), call("look")]
    return Planted("the model failed") if said == FAIL else stream("you said ", said)
