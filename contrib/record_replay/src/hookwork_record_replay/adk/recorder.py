"""Records runs whose session state asks for it, in google-adk's form (crosscutting CONF-3, 4, 9, 10)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookwork import ModelResponse, Plugin, hookimpl
from hookwork.errors import ConfigurationError
from hookwork.records.codec import dump
from hookwork.records.content import FunctionResponse
from hookwork_record_replay.adk.files import write_recordings
from hookwork_record_replay.adk.forms import request_form, response_form
from hookwork_record_replay.adk.places import RECORD_KEY, Place, only_one, place_of

if TYPE_CHECKING:
    from hookwork import CallbackContext, InvocationContext, RunOutcome
    from hookwork.effects import EffectCall, ToolResult

logger = logging.getLogger("hookwork.record_replay")

Json = dict[str, Any]


class _Tape:
    """What was recorded of one run: entries in the order in which their effects began."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.entries: list[Json] = []
        #: key of a model effect → the entry whose partial responses are still to come.
        self.open: dict[str, Json] = {}


class AdkRecorder(Plugin):
    """Writes model and tool calls of a run to ``generated-recordings.yaml``, when session state says where.

    The state key ``_adk_recordings_config`` holds ``dir``, ``user_message_index`` and ``streaming_mode``.
    List the plugin first.

    Args:
        allowed_base_dir: folders of recordings lie below it.
        redact: changes an entry before it is written, to take out secrets.
        name: the plugin's name.
    """

    def __init__(
        self,
        allowed_base_dir: str | os.PathLike[str] = ".",
        *,
        redact: Callable[[Json], Json] | None = None,
        name: str = "record_plugin",
    ) -> None:
        self.name = name
        self._base = Path(allowed_base_dir)
        self._redact = redact
        self._tapes: dict[str, _Tape] = {}

    def before_run(self, ctx: InvocationContext) -> None:
        """See whether this run is to be recorded. A wrong configuration fails it."""
        only_one(ctx.state)
        place = place_of(ctx.state, RECORD_KEY, self._base, ctx.run_config.streaming_mode)
        if place is not None:
            self._tapes[ctx.invocation_id] = _Tape(place)

    async def perform_model(self, call: EffectCall) -> ModelResponse:
        """Carry the call out, and note it. A call that fails leaves no entry."""
        tape = self._tapes.get(call.invocation_id)
        if tape is None:
            response: ModelResponse = await call.default()
            return response
        request = request_form(call.model, call.request)
        entry = self._begun(tape, call, {"llm_recording": {"llm_request": request, "llm_responses": []}})
        if call.stream:  # its responses pass by `after_model`, the partial ones among them
            tape.open[call.key] = entry
        try:
            response = await call.default()
        except BaseException:
            tape.open.pop(call.key, None)
            _remove(tape.entries, entry)
            raise
        if not call.stream:
            entry["llm_recording"]["llm_responses"].append(response_form(response))
        return response

    @hookimpl(tryfirst=True)
    def after_model(self, ctx: CallbackContext, response: ModelResponse) -> None:
        """Partial responses, and the last one of a streamed call."""
        tape = self._tapes.get(ctx.invocation_id)
        if tape is None:
            return
        entry = tape.open.get(ctx.idempotency_key)
        if entry is None:
            return
        entry["llm_recording"]["llm_responses"].append(response_form(response))
        if not response.partial:
            del tape.open[ctx.idempotency_key]

    async def perform_tool(self, call: EffectCall) -> ToolResult:
        """Carry the call out, and note it. A call that fails leaves no entry."""
        tape = self._tapes.get(call.invocation_id)
        if tape is None:
            made: ToolResult = await call.default()
            return made
        said = {"id": call.call_id, "name": call.tool, "args": call.args}
        entry = self._begun(tape, call, {"tool_recording": {"tool_call": said}})
        try:
            made = await call.default()
        except BaseException:
            _remove(tape.entries, entry)
            raise
        value = made.result if isinstance(made.result, dict) or made.result is None else {"result": made.result}
        answer = FunctionResponse(id=call.call_id, name=call.tool, response=value)
        entry["tool_recording"]["tool_response"] = dump(answer, keys="snake")
        return made

    def _begun(self, tape: _Tape, call: EffectCall, what: Json) -> Json:
        entry = {"user_message_index": tape.place.message, "agent_name": call.agent, **what}
        tape.entries.append(entry)
        return entry

    def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        """Write what is whole. That it cannot be written is no fault of the run."""
        tape = self._tapes.pop(ctx.invocation_id, None)
        if tape is None:
            return
        whole = [entry for entry in tape.entries if _is_whole(entry)]
        if self._redact is not None:
            whole = [self._redact(entry) for entry in whole]
        try:
            write_recordings(tape.place.file, tape.place.message, whole)
        except (OSError, ConfigurationError) as error:
            logger.error("plugin %r: the recording %s was not written: %s", self.name, tape.place.file, error)


def _remove(entries: list[Json], entry: Json) -> None:
    """Take out this very entry; another may be equal to it."""
    entries[:] = [one for one in entries if one is not entry]


def _is_whole(entry: Json) -> bool:
    if "tool_recording" in entry:
        return "tool_response" in entry["tool_recording"]
    responses = entry["llm_recording"]["llm_responses"]
    return bool(responses) and not responses[-1].get("partial")
