"""The plugin: writes down how effects went, or answers them from what was written (tools-plugins SP-30)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookwork import Plugin, hookimpl
from hookwork.errors import ConfigurationError, ConsentRequiredError, LimitExceeded
from hookwork.records.codec import dump, load
from hookwork.records.metadata import ModelResponse
from hookwork_record_replay.answers import failure_of, load_tool_result, model_error, tool_error, tool_result
from hookwork_record_replay.calls import MATCHED, Fingerprints, Json, model_request, tool_request
from hookwork_record_replay.library import Library
from hookwork_record_replay.redaction import DEFAULT_PATTERNS, Redactor
from hookwork_record_replay.tape import Recording, TapeWriter, read_tape

if TYPE_CHECKING:
    from hookwork import CallbackContext, InvocationContext, RunOutcome, Stage
    from hookwork.effects import EffectCall, ToolResult
    from hookwork_record_replay.errors import ReplayMismatchError

MODES = ("replay", "record", "auto")


class RecordReplay(Plugin):
    """Records model calls, and tool calls if wanted, in a file, or replays them from it without a network.

    List it first: it then sees what the model would see, and stands before durable engines (CONF-9).

    Args:
        file: JSON Lines, see the README; relative to the working directory.
        mode: ``replay`` answers from the file, ``record`` calls and writes a new file, ``auto`` answers what the file
            holds and calls, and adds, what it does not.
        tools: the results of tools too; without it they are run for real.
        strict: a call without a recording is an error, of its run too; False: it is made for real, unrecorded.
        match: what of a model request must be equal: any of ``model``, ``config``, ``contents``.
        redact: globs over keys; values of keys that match read ``[redacted]``.
        secrets: texts that are hidden wherever they stand, the value of a key for example.
        scrub: a function that changes what is about to be written; only in code.
        normalize: a function that changes what is compared; only in code.
        name: the plugin's name.

    Raises:
        ConfigurationError: an unknown mode or key, or a file to replay that is absent or unreadable.
    """

    def __init__(
        self,
        file: str | os.PathLike[str] = "recordings.jsonl",
        *,
        mode: str = "replay",
        tools: bool = False,
        strict: bool = True,
        match: Iterable[str] = MATCHED,
        redact: Iterable[str] = DEFAULT_PATTERNS,
        secrets: Iterable[str] = (),
        scrub: Callable[[Any], Any] | None = None,
        normalize: Callable[[Json], Json] | None = None,
        name: str = "record_replay",
    ) -> None:
        self.name = name
        given = {"match": match, "redact": redact, "secrets": secrets}
        lists = {option: self._list_of(option, value) for option, value in given.items()}
        for key in lists["match"]:
            if key not in MATCHED:
                raise ConfigurationError(f"plugin {name!r}: match takes {', '.join(MATCHED)}, not {key!r}")
        if mode not in MODES:
            raise ConfigurationError(f"plugin {name!r}: mode is one of {', '.join(MODES)}, not {mode!r}")
        self.file = Path(file)
        self.mode = mode
        self._strict = strict
        self._redacted = Redactor(lists["redact"], lists["secrets"], scrub)
        self._fingerprints = Fingerprints(lists["match"], normalize)
        absent = mode == "record" or (mode == "auto" and not self.file.exists())
        recordings = [] if absent else read_tape(self.file)
        self._library = Library(recordings, self._fingerprints, str(self.file))
        last = recordings[-1].n if recordings else 0
        self._writer = TapeWriter(self.file, append=not absent, last=last) if mode != "replay" else None
        #: invocation id → key of the model stage → what was recorded and waits for the chunks that are still to come.
        self._under_way: dict[str, dict[str, Recording]] = {}
        #: invocation id → the first call without a recording: it ends the run even where a hook took the error.
        self._missed: dict[str, ReplayMismatchError] = {}
        if tools:
            self.perform_tool = self._perform_tool

    def _list_of(self, option: str, value: Iterable[str]) -> tuple[str, ...]:
        if isinstance(value, str):
            raise ConfigurationError(f"plugin {self.name!r}: {option} is a list, not one text; write [{value!r}]")
        return tuple(value)

    @property
    def unused(self) -> list[int]:
        """Numbers of the recordings that no call asked for so far."""
        return [recording.n for recording in self._library.unused()]

    def assert_all_used(self) -> None:
        """Raise if recordings were left over: the agent made fewer calls than when it was recorded.

        Raises:
            AssertionError: with their numbers.
        """
        left = self.unused
        if left:
            raise AssertionError(f"{self.file}: no call asked for the recordings {', '.join(map(str, left))}")

    # --- hooks --------------------------------------------------------------------------------------------------------

    async def perform_model(self, call: EffectCall) -> ModelResponse:
        """The recorded response, or the model's own, which is noted."""
        request = self._redacted(model_request(call))
        found = self._found(call, "model", request)
        if found is not None:
            return self._replayed(call, found)
        if self._writer is None:
            response: ModelResponse = await call.default()
            return response
        entry = self._begun(call, request)
        entry.stream = bool(call.stream)
        try:
            response = await call.default()
        except LimitExceeded:
            raise  # the run's own limit, not an answer of the model
        except Exception as error:
            entry.error = self._redacted(failure_of(error))
            self._recorded(call, entry)
            raise
        entry.response = self._redacted(dump(response))
        self._recorded(call, entry)
        return response

    async def _perform_tool(self, call: EffectCall) -> ToolResult:
        """The recorded result, or the tool's own, which is noted. It is a hook only when tools are recorded."""
        request = self._redacted(tool_request(call))
        found = self._found(call, "tool", request)
        if found is not None:
            if found.error is not None:
                raise tool_error(found.error)
            return load_tool_result(found.result or {})
        if self._writer is None:
            made: ToolResult = await call.default()
            return made
        entry = self._begun(call, request)
        try:
            made = await call.default()
        except ConsentRequiredError:
            raise  # a person is asked; the call comes again
        except Exception as error:
            entry.error = self._redacted(failure_of(error))
            self._writer.write(entry)
            raise
        entry.result = self._redacted(tool_result(made))
        self._writer.write(entry)
        return made

    @hookimpl(tryfirst=True)
    def after_model(self, ctx: CallbackContext, response: ModelResponse) -> None:
        """Note a chunk: chunks pass beside the effect (EFF-4). Behind the last response the recording is whole."""
        waiting = self._under_way.get(ctx.invocation_id)
        entry = waiting.get(ctx.idempotency_key) if waiting else None
        if waiting is None or entry is None:
            return
        if response.partial:
            entry.chunks.append(self._redacted(dump(response)))
        elif entry.response is not None or entry.error is not None:
            self._write(waiting.pop(ctx.idempotency_key))

    @asynccontextmanager
    async def around_run(self, ctx: InvocationContext, stage: Stage) -> AsyncIterator[None]:
        """A call without a recording fails its run, whoever answered it meanwhile."""
        yield
        missed = self._missed.get(ctx.invocation_id)
        if missed is not None:
            raise missed

    def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        """Write what is left: of a run that was left early, and of a call that failed."""
        self._missed.pop(ctx.invocation_id, None)
        for entry in self._under_way.pop(ctx.invocation_id, {}).values():
            if entry.response is not None:
                entry.chunks = []  # not all were seen
                self._write(entry)
            elif entry.error is not None:
                self._write(entry)

    # --- replaying ----------------------------------------------------------------------------------------------------

    def _found(self, call: EffectCall, kind: str, request: Json) -> Recording | None:
        if self.mode == "record":
            return None
        found = self._library.take(kind, self._fingerprints.of(kind, request), call.agent)
        if found is None and self.mode == "replay" and self._strict:
            missed = self._missed.setdefault(call.invocation_id, self._library.mismatch(kind, call.agent, request))
            raise missed
        return found

    def _replayed(self, call: EffectCall, found: Recording) -> ModelResponse:
        if call.stream:
            for chunk in found.chunks:
                call.emit(load(ModelResponse, chunk))
        if found.error is not None:
            raise model_error(found.error)
        return load(ModelResponse, found.response or {})

    # --- recording ----------------------------------------------------------------------------------------------------

    def _begun(self, call: EffectCall, request: Json) -> Recording:
        assert self._writer is not None
        entry = Recording(
            n=self._writer.number(),
            kind=call.kind,
            agent=call.agent,
            fingerprint=self._fingerprints.of(call.kind, request),
            request=request,
            chunks=[],
        )
        if call.kind == "model" and call.stream:
            self._under_way.setdefault(call.invocation_id, {})[call.key] = entry
        return entry

    def _recorded(self, call: EffectCall, entry: Recording) -> None:
        """A whole answer is written at once, a streamed one when its chunks have passed."""
        if not entry.stream:
            self._write(entry)

    def _write(self, entry: Recording) -> None:
        assert self._writer is not None
        self._writer.write(entry)
