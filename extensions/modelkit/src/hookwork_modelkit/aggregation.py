"""One whole response out of the pieces of a stream (models §4)."""

from __future__ import annotations

from typing import Any

from hookwork.errors import ModelError
from hookwork.records.content import Content
from hookwork.records.frozen import thaw
from hookwork.records.metadata import (
    CitationMetadata,
    GroundingMetadata,
    LogprobsResult,
    ModelResponse,
    UsageMetadata,
)
from hookwork_modelkit.parts_in_order import PartSequence

#: Ends at which an open call is dropped: its arguments are a torso (models AGG-32; the other ends cut just as hard).
_CUTTING = frozenset(
    {
        "MAX_TOKENS",
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
    }
)
#: Ends that leave what was said a success, whether they come with it or alone (models AGG-25).
_NO_ERROR_WITH_CONTENT = frozenset({"MAX_TOKENS", "UNEXPECTED_TOOL_CALL"})


class StreamAggregator:
    """Folds the responses of one streamed call; make one per call.

    **Errors**: the one that a chunk said last (AGG-25: a trailing chunk of metadata erases nothing); a text that was
    only cut short is a success (CONV-2), a call that was cut off is not (AGG-32). So a stream that says `SAFETY` in a
    chunk without parts, behind some text, has that error beside the text. The content is that of the unstreamed turn
    (MOD-2), whose error differs there: CONV-2 sees one candidate with parts and takes it for a success.

    Each chunk goes through `add`, which gives the partial to yield; `finish` gives the whole response. What a stream
    says about itself is kept as it comes (the last value that is set wins, models AGG-2, AGG-27) and may be set by an
    adapter that knows better, any time before `finish`.

    Attributes:
        usage_metadata, grounding_metadata, citation_metadata, finish_reason, error_code, error_message, model_version,
            avg_logprobs, logprobs_result: as in a ModelResponse.
        custom_metadata: a dict to fill; empty means none.
    """

    __slots__ = (
        "_cut_calls",
        "_model",
        "_parts",
        "_provider",
        "avg_logprobs",
        "chunks",
        "citation_metadata",
        "custom_metadata",
        "error_code",
        "error_message",
        "finish_reason",
        "grounding_metadata",
        "logprobs_result",
        "model_version",
        "usage_metadata",
    )

    def __init__(self, *, provider: str = "", model: str = "") -> None:
        """``provider`` and ``model`` are for error texts."""
        self._provider = provider
        self._model = model
        self._parts = PartSequence()
        self._cut_calls: list[str] = []
        #: how many chunks were added.
        self.chunks = 0
        self.usage_metadata: UsageMetadata | None = None
        self.grounding_metadata: GroundingMetadata | None = None
        self.citation_metadata: CitationMetadata | None = None
        self.finish_reason: str | None = None
        self.error_code: str | None = None
        self.error_message: str | None = None
        self.model_version: str | None = None
        self.avg_logprobs: float | None = None
        self.logprobs_result: LogprobsResult | None = None
        self.custom_metadata: dict[str, Any] = {}

    @property
    def has_content(self) -> bool:
        """Whether a part was received so far that will be in the whole response."""
        return self._parts.has_content

    def add(self, response: ModelResponse) -> ModelResponse:
        """Take in one chunk and give the partial to yield for it.

        The partial carries neither finish reason nor ``turn_complete`` (models AGG-26); the fragments of one function
        call carry one id (AGG-23).
        """
        self.chunks += 1
        self._keep(response)
        content = response.content
        if content is not None and content.parts:
            shown = self._parts.add(content.parts)
            if shown is not None:
                content = content.replace(parts=shown)
        return response.replace(content=content, partial=True, turn_complete=None, finish_reason=None)

    def _keep(self, response: ModelResponse) -> None:
        for name in ("usage_metadata", "grounding_metadata", "citation_metadata", "avg_logprobs", "logprobs_result"):
            value = getattr(response, name)
            if value is not None:
                setattr(self, name, value)
        for name in ("finish_reason", "error_code", "error_message", "model_version"):
            value = getattr(response, name)
            if value:
                setattr(self, name, value)
        if response.custom_metadata:
            self.custom_metadata.update(thaw(response.custom_metadata))

    def cut_call(self, name: str, call_id: str = "") -> None:
        """Say that a call was cut off inside its arguments: it is left out, and `finish` names it (AGG-32)."""
        self._parts.forget(call_id, name)
        self._cut_calls.append(name)

    def finish(self) -> ModelResponse:
        """The whole response: all parts in the order in which they arrived, ``turn_complete`` set.

        Raises:
            ModelError: of kind ``stream``: the stream was empty (models AGG-31).
        """
        if not self.chunks:
            who = " ".join(text for text in (self._provider, f"model {self._model!r}" if self._model else "") if text)
            raise ModelError(
                f"{who or 'the model'}: the stream ended without a single response; try again",
                provider=self._provider,
                model=self._model,
                kind="stream",
                retryable=True,
            )
        parts, dropped = self._parts.finish(keep_open_calls=self.finish_reason not in _CUTTING)
        cut = [*self._cut_calls, *dropped]
        code, message = self._error(bool(parts), cut)
        return ModelResponse(
            content=None if code and not parts else Content(role="model", parts=parts),
            turn_complete=True,
            finish_reason=self.finish_reason or ("MAX_TOKENS" if cut else None),
            error_code=code,
            error_message=message,
            usage_metadata=self.usage_metadata,
            citation_metadata=self.citation_metadata,
            grounding_metadata=self.grounding_metadata,
            avg_logprobs=self.avg_logprobs,
            logprobs_result=self.logprobs_result,
            model_version=self.model_version,
            custom_metadata=self.custom_metadata or None,
        )

    def _error(self, has_parts: bool, cut: list[str]) -> tuple[str | None, str | None]:
        if cut:
            reason = self.finish_reason if self.finish_reason in _CUTTING else "MAX_TOKENS"
            names = ", ".join(repr(name) for name in cut)
            limit = "; raise max_output_tokens or ask for less" if reason == "MAX_TOKENS" else ""
            return reason, f"the answer was cut off inside the arguments of {names}, which was not called{limit}"
        code = self.error_code
        if self.finish_reason == "STOP" or (has_parts and (not code or code in _NO_ERROR_WITH_CONTENT)):
            return None, None
        return code or self.finish_reason, self.error_message
