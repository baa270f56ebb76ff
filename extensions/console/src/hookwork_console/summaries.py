"""Events on one line each, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork_console.answers import compact

if TYPE_CHECKING:
    from hookwork.records.event import Event


def summary(event: Event) -> str:
    """What an event says and does, cut at 160 characters."""
    pieces: list[Any] = [event.text] if event.text else []
    pieces += [f"{call.name}({compact(call.args or {})})" for call in event.function_calls]
    pieces += [f"{response.name} → {compact(response.response)}" for response in event.function_responses]
    if event.actions.transfer_to_agent:
        pieces.append(f"→ {event.actions.transfer_to_agent}")
    pieces += [f"saved {name} (version {version})" for name, version in event.actions.artifact_delta.items()]
    if event.actions.rewind_before_invocation_id:
        pieces.append("(undo)")
    if event.actions.state_delta:
        pieces.append(f"state {compact(event.actions.state_delta)}")
    if event.error_code:
        pieces.append(f"{event.error_code}: {event.error_message or ''}")
    text = " ".join(str(piece) for piece in pieces).replace("\n", " ")
    return text if len(text) <= 160 else f"{text[:159]}…"
