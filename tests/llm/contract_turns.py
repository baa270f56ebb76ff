"""What the line-by-line tests of the contract share: tools that wait, answers to them, notes of who is entered."""

from __future__ import annotations

from typing import Any

from hookwork import FunctionPlugin, FunctionResponse, Part, Runner
from hookwork_llm import tool

WHO: dict[str, Any] = {"user_id": "u", "session_id": "s"}


@tool(long_running=True, inline=True)
def wait() -> None:
    """Waits for somebody."""


@tool(require_confirmation=True, inline=True)
def pay(amount: int = 1) -> dict[str, int]:
    """Pays."""
    return {"paid": amount}


def reply(asked: Any, response: dict[str, Any]) -> Part:
    return Part(function_response=FunctionResponse(id=asked.id, name=asked.name, response=response))


def entered(log: list[str]) -> FunctionPlugin:
    """Notes where a run enters, and the agents that are entered."""
    return FunctionPlugin(
        "entered",
        on_user_message=lambda ctx: log.append(f"run at {ctx.agent.name}"),
        before_agent=lambda ctx, agent: log.append(agent.name),
    )


async def session_of(runner: Runner) -> Any:
    return await runner.sessions.get_session(app_name=runner.app_name, **WHO)
