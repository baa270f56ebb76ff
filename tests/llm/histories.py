"""Histories written by hand, and the prompt that an agent gets from them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part
from hookwork.records.event import Event
from hookwork.records.session import EventLog, Session
from hookwork_llm.contents import PromptContents, build_contents
from hookwork_testkit import assert_valid_prompt

AGENT = object()


class History:
    """A session to which events are appended by hand; ``prompt()`` is what the agent ``me`` is shown."""

    def __init__(self) -> None:
        self.session = Session(
            app_name="app",
            user_id="u",
            id="s",
            log=EventLog(),
            last_update_time=datetime(2026, 1, 1, tzinfo=UTC),
            revision="0",
        )

    def add(self, author: str, *parts: Part, role: str | None = None, **fields: Any) -> Event:
        at = self.session.length
        content = Content(role=role or ("user" if author == "user" else "model"), parts=list(parts)) if parts else None
        fields = {"id": f"ev{at}", "timestamp": float(at), "invocation_id": "e0", "content": content, **fields}
        event = Event(author=author, **fields)
        self.session.log.append(event)
        self.session.length += 1
        return event

    def prompt(self, name: str = "me", **options: Any) -> PromptContents:
        prompt = build_contents(self.session, agent=AGENT, agent_name=name, **options)
        assert_valid_prompt(prompt)
        return prompt


def text(value: str, **fields: Any) -> Part:
    return Part(text=value, **fields)


def call(call_id: str | None, name: str = "f", args: Any = None, **fields: Any) -> Part:
    return Part(function_call=FunctionCall(id=call_id, name=name, args={} if args is None else args), **fields)


def response(call_id: str | None, payload: Any, name: str = "f") -> Part:
    return Part(function_response=FunctionResponse(id=call_id, name=name, response=payload))
