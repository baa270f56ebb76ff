"""What other agents said and did, as text for this one (core CON-4)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hookwork.records.content import Content, Part
from hookwork_llm.contents.visibility import has_substance

_LEAD_IN = Part(text="For context:")


def as_json(value: Any) -> str:
    """Compact, readable JSON; the same text for the same value."""
    return json.dumps(value, ensure_ascii=False)


def relay(author: str, parts: Sequence[Part]) -> Content | None:
    """A user content that tells what ``author`` said, called and got; None when nothing is left to tell.

    Thoughts and signatures are left out: they belong to the model that made them.
    """
    told = [tell(author, part) for part in parts if not part.thought and (part.text or has_substance(part))]
    if not told:
        return None
    return Content(role="user", parts=[_LEAD_IN, *told])


def tell(author: str, part: Part) -> Part:
    """One part as text about its author; kinds that text cannot tell are passed on."""
    call = part.function_call
    if call is not None:
        arguments = as_json({} if call.args is None else call.args)
        return Part(text=f"[{author}] called tool `{call.name}` with parameters: {arguments}")
    response = part.function_response
    if response is not None:
        return Part(text=f"[{author}] `{response.name}` tool returned result: {as_json(response.response)}")
    if part.text:
        return Part(text=f"[{author}] said: {part.text}")
    return part if part.thought_signature is None else part.replace(thought_signature=None)
