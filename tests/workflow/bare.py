"""Bodies of nodes run by hand, with a bare context."""

from __future__ import annotations

from typing import Any

from hookwork import Event, Node


class Bare:
    """As much of a context as these bodies use."""

    def __init__(self, **state: Any) -> None:
        self.state = state


async def events_of(made: Node, input: Any = None, ctx: Any = None) -> list[Event]:
    return [event async for event in made.run(ctx or Bare(), made.validate_input(input))]


async def output_of(made: Node, input: Any = None, ctx: Any = None) -> Any:
    [event] = await events_of(made, input, ctx)
    return made.validate_output(event.output)
