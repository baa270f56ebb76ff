"""Open calls and their answers: what a person is shown, and how a typed line becomes a response (servers CON-5)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from hookwork.records.content import Content, FunctionResponse, Part

if TYPE_CHECKING:
    from hookwork.records.history import Call

_YES = frozenset({"y", "yes", "true", "confirm"})


def question(call: Call) -> list[str]:
    """The lines that ask a person for an answer to an open call."""
    if call.kind == "confirmation":
        lines = [call.message or f"Confirm {confirmed_tool(call)}?"]
        lines += _described("Arguments", confirmed_arguments(call)) + _described("Payload", call.payload)
        return [*lines, "  Type 'yes' to confirm, anything else to reject."]
    if call.kind == "input":
        lines = [call.message or "Input requested", *_described("Payload", call.payload)]
        if call.response_schema is not None:
            lines.append(f"  Expected response schema: {compact(call.response_schema)}")
        return lines
    if call.kind == "credential":
        how = "the key" if _wants_key(call) else "the code, or the whole address that the page led to"
        return [call.message or "A credential is needed", f"  Type {how}; nothing of it is stored."]
    return [f"waiting for response (kind: {call.name})", f"  Args: {compact(call.args)}"]


def confirmed_tool(call: Call) -> str:
    """The name of the tool that a confirmation request is about."""
    original = call.args.get("originalFunctionCall")
    return str(original.get("name") or call.name) if isinstance(original, Mapping) else call.name


def confirmed_arguments(call: Call) -> Any:
    """The arguments of the tool call that a confirmation request is about; None when it has none."""
    original = call.args.get("originalFunctionCall")
    return (original.get("args") or None) if isinstance(original, Mapping) else None


def answer_from_line(call: Call, line: str) -> dict[str, Any] | None:
    """The response that a typed line stands for; None leaves the call open (an empty line for a long-running tool)."""
    if call.kind == "confirmation":
        given = _json(line)
        return given if isinstance(given, dict) else {"confirmed": line.strip().lower() in _YES}
    if call.kind in ("tool", "credential") and not line.strip():
        return None
    if call.kind == "credential":
        return _credential(call, line.strip())
    value = _json(line)
    if isinstance(value, dict):
        return value
    return {"payload" if call.kind == "input" else "result": line if value is _NOTHING else value}


def _wants_key(call: Call) -> bool:
    config = call.args.get("authConfig")
    shown = config.get("exchangedAuthCredential") if isinstance(config, Mapping) else None
    return isinstance(shown, Mapping) and shown.get("authType") == "apiKey"


def _credential(call: Call, line: str) -> dict[str, Any]:
    """What was typed as a credential in wire form (crosscutting AUTH-32)."""
    given = _json(line)
    if isinstance(given, dict):
        return given
    if _wants_key(call):
        return {"response": line}
    oauth2 = {"authCode": line}
    if "://" in line:
        query = parse_qs(urlsplit(line).query)
        oauth2 = {"authResponseUri": line}
        oauth2 |= {name: query[key][0] for key, name in (("code", "authCode"), ("state", "state")) if key in query}
    return {"authType": "oauth2", "oauth2": oauth2}


def answers_content(answers: Mapping[str, tuple[Call, dict[str, Any]]], text: str | None = None) -> Content:
    """One user content with all responses, and a text after them if there is one."""
    parts = [
        Part(function_response=FunctionResponse(id=call_id, name=call.name, response=response))
        for call_id, (call, response) in answers.items()
    ]
    if text:
        parts.append(Part(text=text))
    return Content(role="user", parts=parts)


def compact(value: Any) -> str:
    """JSON on one line."""
    return json.dumps(value, ensure_ascii=False)


_NOTHING: Any = object()


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return _NOTHING


def _described(label: str, value: Any) -> list[str]:
    if value is None:
        return []
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return [f"  {label}: {text}".replace("\n", "\n  ")]
