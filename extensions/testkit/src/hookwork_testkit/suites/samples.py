"""Events and parts with every field set, for the round-trip lines."""

from __future__ import annotations

from typing import Any

from hookwork.records.content import (
    Blob,
    CodeExecutionResult,
    Content,
    ExecutableCode,
    FileData,
    FunctionCall,
    FunctionResponse,
    Part,
    VideoMetadata,
)
from hookwork.records.event import Event, EventActions, NodeInfo, RequestInput, ToolConfirmation
from hookwork.records.metadata import (
    Citation,
    CitationMetadata,
    GroundingChunk,
    GroundingChunkWeb,
    GroundingMetadata,
    LogprobsCandidate,
    LogprobsResult,
    Transcription,
    UsageMetadata,
)
from hookwork_testkit.suites.base import BASE_TIME

#: Keys that look like field names, nulls and falsy leaves: free-form content nobody may touch (services COD-4).
FREE_FORM: dict[str, Any] = {"stateDelta": {"snake_key": None}, "camelKey": [0, "", False, {}, []], "Δ": 1.5}


def every_part() -> list[Part]:
    """One part of every kind."""
    return [
        Part(text="text"),
        Part(text="thinking", thought=True, thought_signature=b"\x00\xff"),
        Part(inline_data=Blob(data=b"\x89PNG", mime_type="image/png", display_name="pic")),
        Part(file_data=FileData(file_uri="gs://b/o", mime_type="video/mp4"), video_metadata=VideoMetadata(fps=2.0)),
        Part(function_call=FunctionCall(id="c-1", name="f", args=FREE_FORM)),
        Part(function_response=FunctionResponse(id="c-1", name="f", response=FREE_FORM)),
        Part(executable_code=ExecutableCode(code="print(1)", language="PYTHON")),
        Part(code_execution_result=CodeExecutionResult(outcome="OUTCOME_OK", output="1\n")),
        Part(text="with metadata", part_metadata=FREE_FORM),
    ]


def every_event_field() -> Event:
    """An event whose every field differs from its default (``partial`` apart: partial events are never stored)."""
    values: dict[str, Any] = {
        "id": "evt-1",
        "timestamp": BASE_TIME + 1.234567,
        "invocation_id": "inv-1",
        "author": "agent",
        "actions": EventActions(
            state_delta={"k": FREE_FORM},
            artifact_delta={"a.png": 3},
            requested_tool_confirmations={"c-1": ToolConfirmation(hint="sure?", payload=FREE_FORM)},
            skip_summarization=True,
            transfer_to_agent="other",
            escalate=True,
            rewind_before_invocation_id=None,
            extra={"agentState": {"n": 1}},
        ),
        "branch": "root.agent",
        "isolation_scope": "scope",
        "long_running_tool_ids": ("c-1",),
        "routes": ("left",),
        "requested_input": RequestInput(interrupt_id="i-1", message="?", payload=FREE_FORM),
        "output": FREE_FORM,
        "node_info": NodeInfo(path="root@1/agent@1", message_as_output=True),
        "content": Content(role="model", parts=[Part(text="hi")]),
        "partial": False,
        "turn_complete": True,
        "interrupted": True,
        "finish_reason": "STOP",
        "error_code": "E",
        "error_message": "x" * 20000,
        "usage_metadata": UsageMetadata(prompt_token_count=0, candidates_token_count=5, total_token_count=5),
        "citation_metadata": CitationMetadata(citations=(Citation(uri="http://c", start_index=0),)),
        "grounding_metadata": GroundingMetadata(
            web_search_queries=("q",), grounding_chunks=(GroundingChunk(web=GroundingChunkWeb(uri="http://g")),)
        ),
        "avg_logprobs": -0.25,
        "logprobs_result": LogprobsResult(chosen_candidates=(LogprobsCandidate(token="t", log_probability=-0.5),)),
        "input_transcription": Transcription(text="in", finished=True),
        "output_transcription": Transcription(text="out"),
        "session_resumption_handle": "handle",
        "model_version": "m-1",
        "custom_metadata": FREE_FORM,
        "extra": {"goAway": {"timeLeft": "1s"}},
    }
    missing = set(Event.__struct_fields__) - set(values)
    assert not missing, f"the sample lacks the event fields {sorted(missing)}"
    return Event(**values)
