"""Scenes of agent trees: tasks, sequences and parallel agents that wait (core §7, activations §6)."""

from __future__ import annotations

from collections.abc import Callable

from hookwork_testkit.scene_plays import PLAIN_SCENES, Make, Staged, reply, scripted
from hookwork_testkit.scene_tools import Recorder
from hookwork_testkit.steps import call


def _task(make: Make) -> Staged:
    """S5: a task asks in plain text; the next message is for it, and its result goes to who handed it over."""
    first = scripted([call("b", request="a table")], "booked")
    booker = scripted("which day?", [call("finish_task", result="monday")])
    agent = make("a", first, sub_agents=[make.task("b", booker)])
    asks = ("a: call b", "b: text")
    ends = ("b: call finish_task", "b: response finish_task", "user: response b", "a: text")
    return Staged(agent, (first, booker), ("book it", asks, "completed"), ("monday", ends, "completed"))


def _task_in_a_sequence(make: Make) -> Staged:
    """The same under a sequence, which holds until the task has its result."""
    first, booker = scripted([call("b", request="a table")], "booked"), scripted("which day?", _finish())
    last = scripted("bye")
    agent = make.sequence("seq", make("a", first, sub_agents=[make.task("b", booker)]), make("c", last))
    asks = ("a: call b", "b: text")
    ends = ("b: call finish_task", "b: response finish_task", "user: response b", "a: text", "c: text")
    return Staged(agent, (first, booker, last), ("book it", asks, "paused"), ("monday", ends, "completed"))


def _finish() -> list[object]:
    return [call("finish_task", result="monday")]


def _approval_in_a_task(make: Make) -> Staged:
    """A person is asked for approval inside a task; the answer goes on there, then with the parent."""
    first, act = scripted([call("b", request="pay")], "paid"), Recorder("act", confirm=True)
    payer = scripted([call("act", x=1)], [call("finish_task", result="done")])
    agent = make("a", first, sub_agents=[make.task("b", payer, tools=[act])])
    asks = ("a: call b", "b: call act", "b: response act", "b: call adk_request_confirmation")
    ends = ("b: response act", "b: call finish_task", "b: response finish_task", "user: response b", "a: text")
    approved = reply({"confirmed": True})
    return Staged(agent, (first, payer), ("pay", asks, "paused"), (approved, ends, "completed"), tools=(act,))


def _sequence(make: Make) -> Staged:
    """S2: the second step is not begun while the first one waits (CASE-FLOW-1)."""
    first, ship = scripted([call("ship")], "shipped"), Recorder("ship", long_running=True, answer=None)
    last = scripted("bye")
    agent = make.sequence("seq", make("a", first, tools=[ship]), make("c", last))
    arrived = reply({"status": "arrived"})
    return Staged(
        agent,
        (first, last),
        ("go", ("a: call ship",), "paused"),
        (arrived, ("a: text", "c: text"), "completed"),
        tools=(ship,),
    )


def _approval_deep_in_the_tree(make: Make) -> Staged:
    """S1: an approval in a sequence below a hand-over; the asker finishes, then the sequence goes on (CASE-HITL-2)."""
    first, act = scripted([call("transfer_to_agent", agent_name="seq")]), Recorder("act", confirm=True)
    planner, last = scripted([call("act", x=1)], "planned"), scripted("reported")
    seq = make.sequence("seq", make("b", planner, tools=[act]), make("c", last))
    asks = (
        *("a: call transfer_to_agent", "a: response transfer_to_agent"),
        *("b: call act", "b: response act", "b: call adk_request_confirmation"),
    )
    return Staged(
        make("a", first, sub_agents=[seq]),
        (first, planner, last),
        ("do it", asks, "paused"),
        (reply({"confirmed": True}), ("b: response act", "b: text", "c: text"), "completed"),
        tools=(act,),
    )


def _parallel_agent(make: Make) -> Staged:
    """S3: one of two side by side waits; the other finishes, and what follows them is not begun."""
    first, ship = scripted([call("ship")], "shipped"), Recorder("ship", long_running=True, answer=None)
    other, last = scripted("done"), scripted("bye")
    beside = make.parallel("par", make("a", first, tools=[ship]), make("b", other))
    return Staged(
        make.sequence("seq", beside, make("c", last)),
        (first, other, last),
        ("go", ("a: call ship", "b: text"), "paused"),
        (reply({"status": "arrived"}), ("a: text", "c: text"), "completed"),
        tools=(ship,),
        order_is_free=True,
    )


#: All scenes by name.
SCENES: dict[str, Callable[[Make], Staged]] = {
    **PLAIN_SCENES,
    "task": _task,
    "task_in_a_sequence": _task_in_a_sequence,
    "approval_in_a_task": _approval_in_a_task,
    "sequence": _sequence,
    "approval_deep_in_the_tree": _approval_deep_in_the_tree,
    "parallel_agents": _parallel_agent,
}
