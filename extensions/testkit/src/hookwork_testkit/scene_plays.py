"""The scenes of core §7 as data: an agent, what is said to it turn by turn, and the events that must follow.

Every model turn streams, thoughts first, so that each scene has partial events when the run is streamed; what is
stored is the same either way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from hookwork.agent import Agent
from hookwork.model import Model
from hookwork.records.content import Content, FunctionResponse, Part
from hookwork.records.session import Session
from hookwork.run import RunOutcome
from hookwork_testkit.scene_tools import Appender, Recorder
from hookwork_testkit.scripted import RecordedRequest, ScriptedModel
from hookwork_testkit.steps import call, partial, stream, thought


class NotMade(Exception):
    """The suite makes no agents of the kind that a scene needs; its text says which."""


class Make(Protocol):
    """Makes the agents of a scene. What the suite does not make raises `NotMade`."""

    def __call__(
        self, name: str, model: Model, *, tools: Sequence[Any] = (), sub_agents: Sequence[Agent] = ()
    ) -> Agent:
        """An agent of the flow under test."""

    def task(self, name: str, model: Model, *, tools: Sequence[Any] = (), sub_agents: Sequence[Agent] = ()) -> Agent:
        """An agent that its parent hands tasks over to."""

    def sequence(self, name: str, *sub_agents: Agent) -> Agent:
        """An agent that runs its children one after the other."""

    def parallel(self, name: str, *sub_agents: Agent) -> Agent:
        """An agent that runs its children side by side."""


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
        order_is_free: events of agents side by side may come in any order.
    """

    def __init__(
        self,
        agent: Agent,
        models: tuple[ScriptedModel, ...],
        *turns: tuple[Said, tuple[str, ...], str],
        tools: tuple[Recorder, ...] = (),
        state: Mapping[str, Any] | None = None,
        order_is_free: bool = False,
    ) -> None:
        self.agent = agent
        self.models = models
        self.turns = turns
        self.tools = tools
        self.state = dict(state or {})
        self.order_is_free = order_is_free
        #: the outcome of the newest turn that was played.
        self.last: RunOutcome | None = None

    def message(self, turn: int) -> str | Content:
        """What is said in a turn, once the turns before it were played."""
        said = self.turns[turn][0]
        if not callable(said):
            return said
        assert self.last is not None
        return said(self.last)

    def take_up(self, session: Session) -> None:
        """Go on from what is stored, as after a crash: what is open is read off the session."""
        self.last = RunOutcome("paused", open_calls=list(session.open_calls.values()))

    def assert_lines(self, found: Sequence[str], expected: Sequence[str], what: str) -> None:
        """Assert the events of a turn, in their order where there is one."""
        if self.order_is_free:
            found, expected = sorted(found), sorted(expected)
        assert list(found) == list(expected), f"{what}: other events than expected"


def scripted(*steps: Any) -> ScriptedModel:
    """A model whose n-th turn in its prompt is the n-th step, after a thought; then it agrees to whatever it is asked.

    So a turn that was cut, or lost in a crash, comes out the same when the model is asked again.
    """

    def turn(request: RecordedRequest) -> Any:
        number = sum(content.role == "model" for content in request.contents)
        step = steps[number] if number < len(steps) else AFTERWARDS
        return [partial(thought("hm")), *(stream(step) if isinstance(step, str) else step)]

    return ScriptedModel(turn)


def reply(response: dict[str, Any]) -> Callable[[RunOutcome], Content]:
    """The user's answer to everything that is open."""

    def answered(outcome: RunOutcome) -> Content:
        responses = [FunctionResponse(id=one.id, name=one.name, response=response) for one in outcome.open_calls]
        return Content(role="user", parts=[Part(function_response=one) for one in responses])

    return answered


def _text(make: Make) -> Staged:
    model = scripted(stream("It is ", "5."), "Still 5.")
    line = ("a: text",)
    return Staged(make("a", model), (model,), ("time?", line, "completed"), ("and now?", line, "completed"))


def _tool_call(make: Make) -> Staged:
    model, look = scripted([call("look")], "clear"), Recorder("look")
    lines = ("a: call look", "a: response look", "a: text")
    return Staged(make("a", model, tools=[look]), (model,), ("sky?", lines, "completed"), tools=(look,))


def _parallel(make: Make) -> Staged:
    calls = [call("look"), call("add", item="a", turns=3), call("add", item="b", turns=0)]
    model, look = scripted(calls, "done"), Recorder("look")
    lines = ("a: call look + call add + call add", "a: response look + response add + response add", "a: text")
    agent = make("a", model, tools=[look, Appender()])
    state = {"items": ["b", "a"], "has_a": True, "has_b": True}  # "a" waits longer, so it writes last (CASE-STATE-1)
    return Staged(agent, (model,), ("go", lines, "completed"), tools=(look,), state=state)


def _confirm(confirmed: bool) -> Callable[[Make], Staged]:
    def stage(make: Make) -> Staged:
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


def _transfer(make: Make) -> Staged:
    expert, first = scripted("I know.", "still me"), scripted([call("transfer_to_agent", agent_name="b")])
    handing = ("a: call transfer_to_agent", "a: response transfer_to_agent", "b: text")
    agent = make("a", first, sub_agents=[make("b", expert)])
    return Staged(agent, (first, expert), ("who knows?", handing, "completed"), ("and now?", ("b: text",), "completed"))


def _long_running(make: Make) -> Staged:
    model, ship = scripted([call("ship")], "shipped"), Recorder("ship", long_running=True, answer=None)
    return Staged(
        make("a", model, tools=[ship]),
        (model,),
        ("go", ("a: call ship",), "paused"),
        (reply({"status": "arrived"}), ("a: text",), "completed"),
        tools=(ship,),
    )


def _long_running_fails(make: Make) -> Staged:
    model, ship = scripted([call("ship")], "sorry"), Recorder("ship", long_running=True, error="no ship")
    lines = ("a: call ship", "a: response ship", "a: text")
    return Staged(make("a", model, tools=[ship]), (model,), ("go", lines, "completed"), tools=(ship,))


#: Name of a scene → what stages it.
PLAIN_SCENES: dict[str, Callable[[Make], Staged]] = {
    "text": _text,
    "tool_call": _tool_call,
    "parallel_tools": _parallel,
    "confirm": _confirm(True),
    "reject": _confirm(False),
    "transfer": _transfer,
    "long_running_without_a_response": _long_running,
    "long_running_that_fails": _long_running_fails,
}
