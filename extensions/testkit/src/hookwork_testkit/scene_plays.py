"""The scenes of core §7 as data: an agent, what is said to it turn by turn, and the events that must follow.

Every model turn streams, thoughts first, so that each scene has partial events when the run is streamed; what is
stored is the same either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, repeat
from typing import Any

from hookwork.agent import Agent
from hookwork.records.content import Content, FunctionResponse, Part
from hookwork.run import RunOutcome
from hookwork_testkit.scene_tools import Appender, Recorder
from hookwork_testkit.scripted import ScriptedModel
from hookwork_testkit.steps import call, partial, stream, thought

#: Makes an agent of the flow under test: name, model, and the keywords ``tools`` and ``sub_agents``.
MakeAgent = Callable[..., Agent]
#: What is said in a turn: a message, or what it is after the turn before.
Said = str | Callable[[RunOutcome], Content]

#: What models answer once their script is used up; a scene that was cut may ask once more.
AFTERWARDS = "all right"


class Staged:
    """A scene that is ready to be played once.

    Attributes:
        turns: what is said, the events that follow, as `RunnerScenes` writes them down, and how the run ends.
        tools: those that must not run more than once, however the scene is cut.
        state: the session's state after the last turn.
    """

    def __init__(
        self,
        agent: Agent,
        models: tuple[ScriptedModel, ...],
        *turns: tuple[Said, tuple[str, ...], str],
        tools: tuple[Recorder, ...] = (),
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self.agent = agent
        self.models = models
        self.turns = turns
        self.tools = tools
        self.state = dict(state or {})
        #: the outcome of the newest turn that was played.
        self.last: RunOutcome | None = None

    def message(self, turn: int) -> str | Content:
        """What is said in a turn, once the turns before it were played."""
        said = self.turns[turn][0]
        if not callable(said):
            return said
        assert self.last is not None
        return said(self.last)


def scripted(*steps: Any) -> ScriptedModel:
    """A model that plays these steps, each after a thought, and then agrees to whatever it is asked."""

    def turns() -> Iterator[Any]:
        for step in steps:
            yield [partial(thought("hm")), *(stream(step) if isinstance(step, str) else step)]

    return ScriptedModel(chain(turns(), repeat(AFTERWARDS)))


def reply(response: dict[str, Any]) -> Callable[[RunOutcome], Content]:
    """The user's answer to everything that is open."""

    def answered(outcome: RunOutcome) -> Content:
        responses = [FunctionResponse(id=one.id, name=one.name, response=response) for one in outcome.open_calls]
        return Content(role="user", parts=[Part(function_response=one) for one in responses])

    return answered


def _text(make: MakeAgent) -> Staged:
    model = scripted(stream("It is ", "5."), "Still 5.")
    line = ("a: text",)
    return Staged(make("a", model), (model,), ("time?", line, "completed"), ("and now?", line, "completed"))


def _tool_call(make: MakeAgent) -> Staged:
    model, look = scripted([call("look")], "clear"), Recorder("look")
    lines = ("a: call look", "a: response look", "a: text")
    return Staged(make("a", model, tools=[look]), (model,), ("sky?", lines, "completed"), tools=(look,))


def _parallel(make: MakeAgent) -> Staged:
    calls = [call("look"), call("add", item="a", turns=3), call("add", item="b", turns=0)]
    model, look = scripted(calls, "done"), Recorder("look")
    lines = ("a: call look + call add + call add", "a: response look + response add + response add", "a: text")
    agent = make("a", model, tools=[look, Appender()])
    state = {"items": ["b", "a"], "has_a": True, "has_b": True}  # "a" waits longer, so it writes last (CASE-STATE-1)
    return Staged(agent, (model,), ("go", lines, "completed"), tools=(look,), state=state)


def _confirm(confirmed: bool) -> Callable[[MakeAgent], Staged]:
    def stage(make: MakeAgent) -> Staged:
        model, act = scripted([call("act", x=1)], "done"), Recorder("act", confirm=True)
        asking = ("a: call act", "a: response act", "a: call adk_request_confirmation")
        return Staged(
            make("a", model, tools=[act]),
            (model,),
            ("go", asking, "paused"),
            (reply({"confirmed": confirmed}), ("a: response act", "a: text"), "completed"),
            tools=(act,),
        )

    return stage


def _transfer(make: MakeAgent) -> Staged:
    expert, first = scripted("I know.", "still me"), scripted([call("transfer_to_agent", agent_name="b")])
    handing = ("a: call transfer_to_agent", "a: response transfer_to_agent", "b: text")
    agent = make("a", first, sub_agents=[make("b", expert)])
    return Staged(agent, (first, expert), ("who knows?", handing, "completed"), ("and now?", ("b: text",), "completed"))


def _long_running(make: MakeAgent) -> Staged:
    model, ship = scripted([call("ship")], "shipped"), Recorder("ship", long_running=True, answer=None)
    return Staged(
        make("a", model, tools=[ship]),
        (model,),
        ("go", ("a: call ship",), "paused"),
        (reply({"status": "arrived"}), ("a: text",), "completed"),
        tools=(ship,),
    )


def _long_running_fails(make: MakeAgent) -> Staged:
    model, ship = scripted([call("ship")], "sorry"), Recorder("ship", long_running=True, error="no ship")
    lines = ("a: call ship", "a: response ship", "a: text")
    return Staged(make("a", model, tools=[ship]), (model,), ("go", lines, "completed"), tools=(ship,))


#: Name of a scene → what stages it.
SCENES: dict[str, Callable[[MakeAgent], Staged]] = {
    "text": _text,
    "tool_call": _tool_call,
    "parallel_tools": _parallel,
    "confirm": _confirm(True),
    "reject": _confirm(False),
    "transfer": _transfer,
    "long_running_without_a_response": _long_running,
    "long_running_that_fails": _long_running_fails,
}
