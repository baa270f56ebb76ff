"""Runs on behalf of an MCP client: progress on the way, forms when a run waits, what came out of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hookwork.errors import InvalidResumeResponse, NothingToResume, SessionNotFoundError
from hookwork.records.content import Content
from hookwork.records.event import Event
from hookwork.records.history import Call
from hookwork.run import RunOutcome
from hookwork.runner import Runner
from hookwork_mcp.serving.forms import answer_of, form_of, message_of

logger = logging.getLogger("hookwork.mcp.serving")

#: Times one call may ask its client before it is handed back as waiting.
MAX_ROUNDS = 20


class Talk:
    """One client call and the runs that carry it out, all on one session."""

    def __init__(
        self, runner: Runner, ctx: Any, *, user_id: str, session_id: str, ephemeral: Mapping[str, Any] | None
    ) -> None:
        self.runner = runner
        self.user_id = user_id
        self.session_id = session_id
        self.events: list[Event] = []
        self._ctx = ctx
        self._ephemeral = ephemeral
        self._steps = 0

    async def run(self, message: Content | str) -> RunOutcome:
        """Run to the end or the next pause, telling the client how it goes."""
        async with self.runner.run(
            user_id=self.user_id, session_id=self.session_id, message=message, ephemeral=self._ephemeral
        ) as run:
            async for event in run:
                if not event.partial:
                    self.events.append(event)
                await self._tell(event)
        assert run.outcome is not None
        return run.outcome

    async def _tell(self, event: Event) -> None:
        text = event.text or ", ".join(f"calls {call.name}" for call in event.function_calls)
        if text and event.author != "user":
            self._steps += 1
            await self._ctx.session.report_progress(self._steps, None, text)

    # --- asking back --------------------------------------------------------------------------------------------------

    @property
    def can_ask(self) -> bool:
        """Whether the client can show forms."""
        capabilities = self._ctx.session.client_capabilities
        return capabilities is not None and capabilities.elicitation is not None

    async def settled(self, outcome: RunOutcome) -> RunOutcome | types.InputRequiredResult:
        """The outcome once everything the client's user can answer is answered.

        Newer protocol versions get the questions as a result and call again with the answers; older ones are asked
        while the call goes on.
        """
        for _ in range(MAX_ROUNDS):
            asked = {call.id: (call, form) for call in outcome.open_calls if (form := form_of(call)) is not None}
            if outcome.kind != "paused" or not asked or not self.can_ask:
                return outcome
            if self._ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                requests: Any = {ident: types.ElicitRequest(params=form) for ident, (_, form) in asked.items()}
                return types.InputRequiredResult(input_requests=requests, request_state=self.session_id)
            answers = []
            for call, form in asked.values():
                result = await self._ctx.session.elicit_form(form.message, form.requested_schema)
                answer = answer_of(call, result)
                if answer is not None:
                    answers.append((call, answer))
            if not answers:
                return outcome
            outcome = await self.run(message_of(answers))
        return outcome

    async def answered(self, responses: Mapping[str, Any]) -> RunOutcome | None:
        """Go on with the answers that came with the call; None when nothing of it can be used."""
        try:
            open_calls: list[Call] = await self.runner.open_calls(user_id=self.user_id, session_id=self.session_id)
        except SessionNotFoundError:
            return None
        answers = []
        for call in open_calls:
            result = responses.get(call.id)
            answer = answer_of(call, result) if isinstance(result, types.ElicitResult) else None
            if answer is not None:
                answers.append((call, answer))
        if not answers:
            return None
        try:
            return await self.run(message_of(answers))
        except (NothingToResume, InvalidResumeResponse) as error:
            logger.info("answers of an MCP client were not taken: %s", error)
            return None


#: From the HTTP headers of a call (empty on stdio): whose it is, and what goes into the ephemeral scope.
Identify = Callable[[Mapping[str, str]], "tuple[str, Mapping[str, Any] | None]"]


def headers_of(ctx: Any) -> dict[str, str]:
    """The HTTP headers of a call, names in lower case; empty when it did not come by HTTP."""
    request = ctx.request
    return {key.lower(): value for key, value in request.headers.items()} if request is not None else {}
