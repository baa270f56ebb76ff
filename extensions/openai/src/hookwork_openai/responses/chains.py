"""Responses that the service keeps: only what is new is sent, after ``previous_response_id`` (models Beyond)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hookwork.errors import ModelError
from hookwork.records.content import Content
from hookwork.records.frozen import thaw
from hookwork.records.metadata import ModelResponse
from hookwork_modelkit.chains import Chains
from hookwork_openai.call import Call
from hookwork_openai.responses.items import input_items

#: `custom_metadata` key that names the response a request went on from.
PREVIOUS = "openai_previous_response_id"
_FIELD = "previous_response_id"


def shortened(chains: Chains, body: dict[str, Any]) -> dict[str, Any] | None:
    """The request that sends only what is new; None when the service knows none of it."""
    known = chains.find(body["model"], body["input"])
    return None if known is None else {**body, "input": body["input"][known.length :], _FIELD: known.id}


def remember(chains: Chains, call: Call, contents: Sequence[Content], response: ModelResponse) -> None:
    """Note a whole answer, unless it cannot be gone on from: cut off, filtered or without an id."""
    response_id = (response.custom_metadata or {}).get("openai_response_id")
    if not response_id or response.error_code or response.finish_reason != "STOP" or response.content is None:
        return
    try:
        items = input_items(call, [*contents, response.content])
    except ModelError:
        return  # it cannot be sent back, so no request will begin with it
    chains.remember(call.model, items, str(response_id))


def noted(response: ModelResponse, response_id: str) -> ModelResponse:
    """A response that says which one it went on from."""
    return response.replace(custom_metadata={**thaw(response.custom_metadata or {}), PREVIOUS: response_id})


def is_forgotten(error: Exception) -> bool:
    """Whether the service says that it does not have the response a request wants to go on from."""
    status, code = getattr(error, "status_code", None), getattr(error, "code", None)
    param = getattr(error, "param", None)
    return status in (400, 404) and (code == "previous_response_not_found" or param == _FIELD)


def may_chain(extra_body: Mapping[str, Any]) -> bool:
    """Whether the caller leaves it to us what a request goes on from."""
    return not ({_FIELD, "conversation"} & extra_body.keys())
