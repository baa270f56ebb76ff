"""Delegations and single-turn calls in odd company: repeated ids, messages in between, crashes (core §2.2, ACT-26)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.acceptance.agent_lab import Lab, Scene, World, play, play_crashed

from hookwork import Runner, ToolContext
from hookwork.errors import NothingToResume
from hookwork.settings import NO_SETTINGS
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent, tool
from hookwork_llm.contents.builder import Transcript
from hookwork_llm.task_places import task_segment
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import ParallelAgent, SequentialAgent

YES = {"confirmed": True}


class Memory:
    """Sessions in the process, as the lab wants them."""

    def __init__(self) -> None:
        self.sessions = InMemorySessionService()


def finish(result: str, id: str = "f1") -> Any:
    return call("finish_task", id=id, result=result)


async def everywhere(scene: Scene) -> list[str]:
    """Play a scene as it is, streamed, and with a crash behind every event; what is stored in the end."""
    lab = await play(scene, Memory())
    await play(scene, Memory(), streaming=True)
    for crash_after in range(1, len(scene.lines) + 1):
        await play_crashed(scene, Memory(), crash_after, by_id=True)
    return await lab.lines()


async def test_act_26_a_message_between_an_approval_and_its_answer_loses_neither() -> None:
    def build(world: World) -> Any:
        pay = world.tool("pay", require_confirmation=True)

        def after(request: Any) -> Any:
            answers = [part.function_response for content in request.contents for part in content.parts]
            pending = any(a and a.response.get("status") == "pending" for a in answers)
            return "noted" if pending else finish("ok")

        book = world.llm("book", call("pay", id="p1"), after, after, mode="task", tools=[pay])
        return world.llm("coord", call("book", id="c1", request="x"), "all booked", sub_agents=[book])

    first = [
        "U 'go'",
        "coord@1 call book#c1",
        "coord@1/book@c1 call pay#p1 [c1]",
        "coord@1/book@c1 response pay#p1 [c1]",
        "coord@1/book@c1 call approve#r1 [c1]",
    ]
    second = ["U 'wait' [c1]", "coord@1/book@c1 'noted' [c1]"]
    third = [
        "U response approve#r1 [c1]",
        "coord@1/book@c1 response pay#p1 [c1]",
        "coord@1/book@c1 call finish_task#f1 [c1]",
        "coord@1/book@c1 response finish_task#f1 =ok ✓ [c1]",
        "coord@1 response book#c1",
        "coord@1 'all booked' ✓",
    ]
    turns: Any = [("go", first, "paused r1,+c1"), ("wait", second, "completed +c1"), ({"r1": YES}, third, "completed")]
    scene = Scene(build=build, turns=turns, ran=["pay"])
    assert len(await everywhere(scene)) == len(scene.lines)


async def test_act_26_what_a_task_called_speaks_in_its_scope_and_is_not_its_result() -> None:
    def build(world: World) -> Any:
        helper = world.llm("helper", "42", mode="single_turn")
        book = world.llm(
            "book", call("helper", id="h1", request="?"), "so?", finish("mon"), mode="task", sub_agents=[helper]
        )
        return world.llm("coord", call("book", id="c1", request="x"), "all booked", sub_agents=[book])

    at = "coord@1/book@c1"
    first = [
        "U 'go'",
        "coord@1 call book#c1",
        f"{at} call helper#h1 [c1]",
        f"{at}/helper@1-1 {{helper@1-1}} '42' ✓ [c1]",
        f"{at} response helper#h1 [c1]",
        f"{at} 'so?' [c1]",
    ]
    second = [
        "U 'yes' [c1]",
        f"{at} call finish_task#f1 [c1]",
        f"{at} response finish_task#f1 =mon ✓ [c1]",
        "coord@1 response book#c1",
        "coord@1 'all booked' ✓",
    ]
    scene = Scene(build=build, turns=[("go", first, "completed +c1"), ("yes", second, "completed")])
    assert len(await everywhere(scene)) == len(scene.lines)


async def test_pnd_3_two_coordinators_use_one_call_id_at_the_same_time() -> None:
    def build(world: World) -> Any:
        def coordinator(name: str) -> Any:
            task = world.llm(f"task_{name}", f"{name}?", finish(name), mode="task")
            return world.llm(name, call(f"task_{name}", id="call_0", request="x"), f"{name} done", sub_agents=[task])

        par = ParallelAgent(name="par", sub_agents=[coordinator("a"), coordinator("b")])
        return SequentialAgent(name="seq", sub_agents=[par, world.llm("z", "bye")])

    a, b = "seq@1/par@1/a@1", "seq@1/par@1/b@1"
    second_scope = "call_0~2"
    first = [
        "U 'go'",
        f"{a} {{par.a}} call task_a#call_0",
        f"{b} {{par.b}} call task_b#call_0",
        f"{a}/task_a@call_0 {{par.a}} 'a?' [call_0]",
        f"{b}/task_b@{second_scope} {{par.b}} 'b?' [{second_scope}]",
    ]
    second = [
        f"U 'for b' [{second_scope}]",
        f"{b}/task_b@{second_scope} {{par.b}} call finish_task#f1 [{second_scope}]",
        f"{b}/task_b@{second_scope} {{par.b}} response finish_task#f1 =b ✓ [{second_scope}]",
        f"{b} {{par.b}} response task_b#call_0",
        f"{b} {{par.b}} 'b done' ✓",
    ]
    third = [
        "U 'for a' [call_0]",
        f"{a}/task_a@call_0 {{par.a}} call finish_task#f1 [call_0]",
        f"{a}/task_a@call_0 {{par.a}} response finish_task#f1 =a ✓ [call_0]",
        f"{a} {{par.a}} response task_a#call_0",
        f"{a} {{par.a}} 'a done' ✓",
        "seq@1/z@1 'bye' ✓",
    ]
    turns: Any = [
        ("go", first, "paused +call_0,+call_0"),
        ("for b", second, "paused +call_0"),
        ("for a", third, "completed"),
    ]
    scene = Scene(build=build, turns=turns, order_is_free=True)
    lab = await play(scene, Memory())
    assert len(await lab.lines()) == len(scene.lines)


async def test_two_open_tasks_are_answered_alternately() -> None:
    """Each coordinator of a parallel agent has an open task; approvals of both are answered in turns."""

    def build(world: World) -> Any:
        def coordinator(name: str) -> Any:
            tools = [world.tool(f"{name}{n}", require_confirmation=True) for n in (1, 2)]
            steps = [call(f"{name}1", id=f"{name}1"), call(f"{name}2", id=f"{name}2"), finish(name, f"f{name}")]
            task = world.llm(f"task_{name}", *steps, mode="task", tools=tools)
            return world.llm(name, call(f"task_{name}", id=f"c{name}", request="x"), "done", sub_agents=[task])

        return ParallelAgent(name="par", sub_agents=[coordinator("a"), coordinator("b")])

    def at(name: str) -> str:
        return f"par@1/{name}@1/task_{name}@c{name} {{par.{name}}}"

    def asked(name: str, n: int, request: int) -> list[str]:
        call_id, end = f"{name}{n}#{name}{n}", f"[c{name}]"
        return [
            f"{at(name)} call {call_id} {end}",
            f"{at(name)} response {call_id} {end}",
            f"{at(name)} call approve#r{request} {end}",
        ]

    def told(name: str, n: int, request: int) -> list[str]:
        return [f"U response approve#r{request} [c{name}]", f"{at(name)} response {name}{n}#{name}{n} [c{name}]"]

    def ended(name: str) -> list[str]:
        return [
            f"{at(name)} call finish_task#f{name} [c{name}]",
            f"{at(name)} response finish_task#f{name} ={name} ✓ [c{name}]",
            f"par@1/{name}@1 {{par.{name}}} response task_{name}#c{name}",
            f"par@1/{name}@1 {{par.{name}}} 'done' ✓",
        ]

    start = ["U 'go'", *(f"par@1/{n}@1 {{par.{n}}} call task_{n}#c{n}" for n in "ab")]
    turns: Any = [
        ("go", [*start, *asked("a", 1, 1), *asked("b", 1, 2)], "paused r1,r2,+ca,+cb"),
        ({"r2": YES}, [*told("b", 1, 2), *asked("b", 2, 3)], "paused r1,r3,+ca,+cb"),
        ({"r1": YES}, [*told("a", 1, 1), *asked("a", 2, 4)], "paused r3,r4,+ca,+cb"),
        ({"r3": YES}, [*told("b", 2, 3), *ended("b")], "paused r4,+ca"),
        ({"r4": YES}, [*told("a", 2, 4), *ended("a")], "completed"),
    ]
    scene = Scene(build=build, turns=turns, ran=["a1", "a2", "b1", "b2"], order_is_free=True)
    assert len(await everywhere(scene)) == len(scene.lines)


async def test_mode_7_what_is_said_while_a_called_agent_waits_takes_nothing_from_its_prompt() -> None:
    def build(world: World) -> Any:
        act = world.tool("act", require_confirmation=True)
        helper = world.llm("helper", call("act", id="b1"), "helped", mode="single_turn", tools=[act])
        return world.llm("root", call("helper", id="a1", request="y"), "noted", sub_agents=[helper])

    at, branch = "root@1/helper@1-1", "{helper@1-1}"
    first = [
        "U 'hi'",
        "root@1 call helper#a1",
        f"{at} {branch} call act#b1",
        f"{at} {branch} response act#b1",
        f"{at} {branch} call approve#r1",
    ]
    third = [
        "U response approve#r1",
        f"{at} {branch} response act#b1",
        f"{at} {branch} 'helped' ✓",
        "root@1 response helper#a1",
        "root@1 'noted' ✓",
    ]
    turns: Any = [
        ("hi", first, "paused r1"),
        ("wait", ["U 'wait'", "root@1 'noted' ✓"], "completed"),
        ({"r1": YES}, third, "completed"),
    ]
    lab = await play(Scene(build=build, turns=turns, ran=["act"]), Memory())
    helper = next(model for model in reversed(lab.world.models) if model.name == "helper" and model.prompts)
    said = [content.text for content in helper.prompts[-1]]
    assert not any("wait" in text or "noted" in text for text in said)
    answers = [part.function_response for content in helper.prompts[-1] for part in content.parts]
    assert [answer.response for answer in answers if answer is not None] == [{"result": "ok"}]


async def test_con_30_an_answer_to_an_earlier_call_brings_its_turn_back() -> None:
    def build(world: World) -> Any:
        act = world.tool("act", require_confirmation=True)

        def start(request: Any) -> Any:
            return "noted" if request.contents[0].text == "meanwhile" else call("act", id="b1")

        return world.llm("root", start, "acted", "acted", tools=[act], include_contents="none")

    lab = Lab(build, Memory())
    await lab.run("first")
    await lab.run("meanwhile")
    await lab.run(await lab.answer({"r1": YES}))
    lab.world.check_prompts()
    assert lab.world.ran == ["act"]
    prompts = [prompt for model in lab.world.models for prompt in model.prompts]
    assert [content.text for content in prompts[1]] == ["meanwhile"]
    assert prompts[2][0].text == "first"
    assert (await lab.lines())[-1] == "root@1 'acted' ✓"


@pytest.mark.parametrize("beside", ["skip", "transfer"])
async def test_mode_11_a_task_is_carried_out_whatever_its_siblings_decide(beside: str) -> None:
    def build(world: World) -> Any:
        @tool(inline=True)
        def skip(ctx: ToolContext) -> str:
            """Ends the loop."""
            ctx.actions.skip_summarization = True
            return "ok"

        other = world.llm("other", "other here")
        task = world.llm("book", "so?", finish("mon"), mode="task")
        sibling = call("skip", id="s1") if beside == "skip" else call("transfer_to_agent", id="s1", agent_name="other")
        turn = [sibling, call("book", id="c1", request="x")]
        coord = world.llm("coord", turn, "all booked", sub_agents=[task, other], tools=[skip])
        return SequentialAgent(name="seq", sub_agents=[coord, world.llm("z", "bye")])

    name = "skip" if beside == "skip" else "transfer_to_agent"
    handed = "" if beside == "skip" else " →other"
    after = "seq@1/coord@1 'all booked' ✓" if beside == "skip" else "seq@1/coord@1/other@1 'other here' ✓"
    first = [
        "U 'go'",
        f"seq@1/coord@1 call {name}#s1 call book#c1",
        f"seq@1/coord@1 response {name}#s1{handed}",
        "seq@1/coord@1/book@c1 'so?' [c1]",
    ]
    second = [
        "U 'yes' [c1]",
        "seq@1/coord@1/book@c1 call finish_task#f1 [c1]",
        "seq@1/coord@1/book@c1 response finish_task#f1 =mon ✓ [c1]",
        "seq@1/coord@1 response book#c1",
        after,
        "seq@1/z@1 'bye' ✓",
    ]
    scene = Scene(build=build, turns=[("go", first, "paused +c1"), ("yes", second, "completed")])
    assert len(await everywhere(scene)) == len(scene.lines)


async def test_act_18_an_answer_inside_a_task_does_not_forget_its_hand_over() -> None:
    def build(world: World) -> Any:
        desk = world.llm("desk", call("transfer_to_agent", id="t2", agent_name="book"))
        turn = [call("go", id="g1"), call("transfer_to_agent", id="t1", agent_name="desk")]
        go = world.tool("go", require_confirmation=True)
        book = world.llm("book", turn, finish("mon"), mode="task", sub_agents=[desk], tools=[go])
        return world.llm("coord", call("book", id="c1", request="x"), "all booked", sub_agents=[book])

    at = "coord@1/book@c1"
    first = [
        "U 'go'",
        "coord@1 call book#c1",
        f"{at} call go#g1 call transfer_to_agent#t1 [c1]",
        f"{at} response go#g1 response transfer_to_agent#t1 →desk [c1]",
        f"{at} call approve#r1 [c1]",
    ]
    second = [
        "U response approve#r1 [c1]",
        f"{at} response go#g1 [c1]",
        f"{at}/desk@1 call transfer_to_agent#t2 [c1]",
        f"{at}/desk@1 response transfer_to_agent#t2 →book [c1]",
        "coord@1/book@t2 call finish_task#f1 [c1]",
        "coord@1/book@t2 response finish_task#f1 =mon ✓ [c1]",
        "coord@1 response book#c1",
        "coord@1 'all booked' ✓",
    ]
    turns: Any = [("go", first, "paused r1,+c1"), ({"r1": YES}, second, "completed")]
    scene = Scene(build=build, turns=turns, ran=["go"])
    assert len(await everywhere(scene)) == len(scene.lines)


async def test_hitl_12_an_id_that_waits_for_an_approval_does_not_come_again() -> None:
    """Another agent's newer, finished call of the id hides nothing: an approved call is run once."""

    def build(world: World) -> Any:
        def gated(name: str) -> Any:
            return world.tool(name, require_confirmation=True)

        inner = world.llm("inner", call("go_in", id="call_0"), "in", "in again", tools=[gated("go_in")])
        turn = [call("ask", id="call_1"), call("go", id="call_0")]
        return world.llm("root", turn, call("go", id="call_0"), "done", tools=[world.asker("ask", inner), gated("go")])

    lab = Lab(build, Memory())
    await lab.run("hi")
    await lab.run(await lab.answer({"r1": YES}))
    for request in ("r2", "r3"):
        await lab.run(await lab.answer({request: YES}))
    assert sorted(name for name in lab.world.ran if name.startswith("go")) == ["go", "go", "go_in"]
    assert (await lab.session()).open_calls == {}
    lab.world.check_prompts()


async def test_res_3_a_crash_changes_nothing_for_a_turn_with_a_call_that_waits() -> None:
    """The loop stops behind a batch with an unanswered long-running call, also when the rest of it was run again."""

    def build(world: World) -> Any:
        tools = [world.tool("look"), world.tool("wait", None, long_running=True)]
        return world.llm("root", [call("look", id="l1"), call("wait", id="w1")], "done", tools=tools)

    first = ["U 'hi'", "root@1 call look#l1 call wait#w1", "root@1 response look#l1"]
    second = ["U response wait#w1", "root@1 'done' ✓"]
    turns: Any = [("hi", first, "paused w1"), ({"w1": {"result": 1}}, second, "completed")]
    scene = Scene(build=build, turns=turns, ran=["look", "wait"], unsure=["wait"])
    assert len(await everywhere(scene)) == len(scene.lines)


async def test_pnd_3_a_task_that_uses_the_id_of_its_own_call_gives_its_result_to_the_caller() -> None:
    def build(world: World) -> Any:
        book = world.llm("book", finish("mon", "call_0"), mode="task")
        return world.llm("coord", call("book", id="call_0", request="x"), "all booked", sub_agents=[book])

    lab = Lab(build, Memory())
    await lab.run("go")
    lab.world.check_prompts()
    coord = next(model for model in lab.world.models if model.name == "coord" and model.prompts)
    answer = coord.prompts[-1][-1].function_responses[0]
    assert (answer.name, answer.response) == ("book", {"output": "mon"})


async def test_con_16_a_task_reads_no_more_of_a_long_history_than_of_a_short_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = 0
    take = Transcript.take

    def counted(self: Transcript, *arguments: Any, **more: Any) -> None:
        nonlocal taken
        taken += 1
        take(self, *arguments, **more)

    monkeypatch.setattr(Transcript, "take", counted)
    book = LlmAgent(name="book", mode="task", model=ScriptedModel(lambda request: finish("mon", "call_0")))
    steps = (step for _ in range(40) for step in (call("book", id="call_0", request="x"), "done"))
    root = LlmAgent(name="coord", model=ScriptedModel(steps), sub_agents=[book])
    counts: list[int] = []
    async with Runner(root, sessions="memory:", settings=NO_SETTINGS) as runner:
        for _ in range(40):
            before = taken
            await runner.run(user_id="u", session_id="s", message="go").wait()
            counts.append(taken - before)
    assert counts[-1] <= counts[1]


async def test_act_26_a_task_that_finishes_closes_what_still_waits_in_it() -> None:
    def build(world: World) -> Any:
        tools = [world.tool(name, require_confirmation=True) for name in ("pay", "tip")]
        book = world.llm("book", [call("pay", id="p1"), call("tip", id="p2")], finish("mon"), mode="task", tools=tools)
        return world.llm("coord", call("book", id="c1", request="x"), "all booked", sub_agents=[book])

    at = "coord@1/book@c1"
    first = [
        "U 'go'",
        "coord@1 call book#c1",
        f"{at} call pay#p1 call tip#p2 [c1]",
        f"{at} response pay#p1 response tip#p2 [c1]",
        f"{at} call approve#r1 call approve#r2 [c1]",
    ]
    second = [
        "U response approve#r1 [c1]",
        f"{at} response pay#p1 [c1]",
        f"{at} call finish_task#f1 [c1]",
        f"{at} response finish_task#f1 =mon ✓ [c1]",
        "coord@1 response book#c1",
        "coord@1 'all booked' ✓",
    ]
    turns: Any = [("go", first, "paused r1,r2,+c1"), ({"r1": YES}, second, "completed")]
    scene = Scene(build=build, turns=turns, ran=["pay"])
    assert len(await everywhere(scene)) == len(scene.lines)
    lab = await play(scene, Memory())
    late = await lab.run(await lab.answer({"r2": YES}))
    assert isinstance(late.error, NothingToResume)
    assert lab.world.ran == ["pay"]


def test_activations_4_ids_of_calls_cannot_look_like_places() -> None:
    assert task_segment("book", "c1", 2) == "book@c1~2"
    assert task_segment("book", "c1~2", 1) == "book@c1%7E2"
    assert task_segment("book", "a/b@c%", 1) == "book@a%2Fb%40c%25"
