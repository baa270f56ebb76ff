"""Plays recorded runs back (crosscutting CONF-6, 7, 8)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookwork import ModelResponse, Plugin
from hookwork.effects import ToolResult
from hookwork.records.codec import load
from hookwork_record_replay.adk.comparing import comparable, difference
from hookwork_record_replay.adk.files import read_recordings
from hookwork_record_replay.adk.forms import request_form
from hookwork_record_replay.adk.places import FILES, REPLAY_KEY, Place, only_one, place_of
from hookwork_record_replay.errors import ReplayMismatchError

if TYPE_CHECKING:
    from hookwork import InvocationContext, RunOutcome, Stage
    from hookwork.effects import EffectCall

logger = logging.getLogger("hookwork.record_replay")

Json = dict[str, Any]


class _Play:
    """The entries of one message, and which of them were used."""

    def __init__(self, entries: list[Json]) -> None:
        self.models = [entry for entry in entries if "llm_recording" in entry]
        self.tools = [entry for entry in entries if "tool_recording" in entry]
        self.used = 0
        #: real tools that run now.
        self.running = 0
        self.moved = asyncio.Condition()
        self.missed: ReplayMismatchError | None = None

    def left(self) -> int:
        return len(self.models) - self.used + len(self.tools)


class AdkReplayer(Plugin):
    """Answers model and tool calls of a run from ``generated-recordings.yaml``, when session state says which.

    The state key ``_adk_replay_config`` holds ``dir`` and ``user_message_index``. Model calls are answered in the
    recorded order, over all agents; their requests are compared. List the plugin first.

    Args:
        allowed_base_dir: folders of recordings lie below it.
        side_effects: run the real tools too; what they give, and their errors, are not used.
        patience: seconds that a model call of a parallel agent waits for those recorded before it; they count anew from
            each call that is answered, and not while a real tool runs.
        name: the plugin's name.
    """

    def __init__(
        self,
        allowed_base_dir: str | os.PathLike[str] = ".",
        *,
        side_effects: bool = False,
        patience: float = 5.0,
        name: str = "replay_plugin",
    ) -> None:
        self.name = name
        self._base = Path(allowed_base_dir)
        self._side_effects = side_effects
        self._patience = patience
        self._plays: dict[str, _Play] = {}

    def before_run(self, ctx: InvocationContext) -> None:
        """See whether this run is to be replayed. A wrong configuration, or no file, fails it."""
        only_one(ctx.state)
        place = place_of(ctx.state, REPLAY_KEY, self._base, ctx.run_config.streaming_mode)
        if place is not None:
            entries = read_recordings(_file_of(place))
            mine = [entry for entry in entries if entry.get("user_message_index", 0) == place.message]
            self._plays[ctx.invocation_id] = _Play(mine)

    async def perform_model(self, call: EffectCall) -> ModelResponse:
        """The recorded responses, if the request is the recorded one."""
        play = self._plays.get(call.invocation_id)
        if play is None:
            response: ModelResponse = await call.default()
            return response
        recording = (await self._turn(play, call))["llm_recording"]
        differs = difference(recording.get("llm_request"), request_form(call.model, call.request))
        if differs:
            raise self._missed(play, call, f"its request is not the recorded one:\n{differs}")
        told = recording.get("llm_responses") or [recording.get("llm_response") or {}]
        responses = [load(ModelResponse, one) for one in told]
        if call.stream:
            for partial in responses[:-1]:
                call.emit(partial)
        return responses[-1]

    async def _turn(self, play: _Play, call: EffectCall) -> Json:
        """The next entry of this agent, once those before it were used."""
        async with play.moved:
            while not self._is_next(play, call):
                try:
                    async with asyncio.timeout(self._patience):
                        await play.moved.wait()
                except TimeoutError as error:
                    if play.running:
                        continue  # behind its tool the agent that is waited for goes on
                    waits = play.models[play.used].get("agent_name")
                    problem = f"a model call of agent {waits!r} was recorded before it, and none comes"
                    raise self._missed(play, call, problem) from error
            entry = play.models[play.used]
            play.used += 1
            play.moved.notify_all()
            return entry

    def _is_next(self, play: _Play, call: EffectCall) -> bool:
        if play.missed is not None:
            raise play.missed
        left = [entry.get("agent_name") for entry in play.models[play.used :]]
        if call.agent not in left:
            raise self._missed(play, call, "the recording holds no further model call of this agent")
        return left[0] == call.agent

    async def perform_tool(self, call: EffectCall) -> ToolResult:
        """The recorded result of a call with this name and these arguments."""
        play = self._plays.get(call.invocation_id)
        if play is None:
            made: ToolResult = await call.default()
            return made
        for entry in play.tools:
            said = entry["tool_recording"].get("tool_call", {})
            same = (entry.get("agent_name"), said.get("name")) == (call.agent, call.tool)
            if same and comparable(said.get("args") or {}) == comparable(call.args):
                play.tools.remove(entry)
                break
        else:
            raise self._missed(play, call, f"the recording holds no unused call of {call.tool!r} with these arguments")
        if self._side_effects:
            play.running += 1
            try:
                await call.default()
            except Exception:
                logger.info("tool %r raised while it was replayed", call.tool, exc_info=True)
            finally:
                play.running -= 1
        return ToolResult(result=entry["tool_recording"].get("tool_response", {}).get("response"))

    def _missed(self, play: _Play, call: EffectCall, problem: str) -> ReplayMismatchError:
        error = ReplayMismatchError(
            f"a {call.kind} call of agent {call.agent!r}: {problem}", kind=call.kind, agent=call.agent
        )
        play.missed = play.missed or error
        return error

    @asynccontextmanager
    async def around_run(self, ctx: InvocationContext, stage: Stage) -> AsyncIterator[None]:
        """A mismatch fails its run, whoever answered it meanwhile; so does a recording that was not used to its end."""
        yield
        play = self._plays.get(ctx.invocation_id)
        if play is None:
            return
        if play.missed is not None:
            raise play.missed
        if play.left() and stage.outcome is not None and stage.outcome.error is None:
            raise ReplayMismatchError(f"the run ended, and {play.left()} recorded calls were not made", kind="run")

    def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        self._plays.pop(ctx.invocation_id, None)


def _file_of(place: Place) -> Path:
    """The file of the run's mode, else that of the other (CONF-8)."""
    if place.file.exists():
        return place.file
    other = place.folder / next(name for mode, name in FILES.items() if mode != place.mode)
    return other if other.exists() else place.file
