"""Where a delegation stands, and how it ended (activations §4, ACT-26)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hookwork.view import segment_name

if TYPE_CHECKING:
    from hookwork.records.history import Record
    from hookwork.view import View

_ENCODED = str.maketrans({"%": "%25", "/": "%2F", "@": "%40", "~": "%7E"})


def task_segment(agent_name: str, call_id: str, occurrence: int) -> str:
    """The path segment of a delegation: the call id, with ``~n`` when the id was used before.

    ``/ @ ~ %`` of an id are percent-encoded, so that no id looks like a path or like another's second use.
    """
    return f"{agent_name}@{call_id.translate(_ENCODED)}" + (f"~{occurrence}" if occurrence > 1 else "")


class TaskEnd(NamedTuple):
    """What a finished task gave."""

    output: Any


def task_end(view: View, task: Record, agent_name: str) -> TaskEnd | None:
    """The result that a task's own place recorded: by `finish_task`, or what `before_agent` gave in its place.

    None while it goes on. The end of somebody it was handed over to, and an end by an error, are no end of the task.
    """
    if task.end < 0:
        return None
    if task.output is not None:
        return TaskEnd(task.output)
    if segment_name(task.path) != agent_name or task.handover > task.end or task.end not in task.own:
        return None
    event = view.at(task).events[task.own.index(task.end)]
    if event.function_responses:
        return TaskEnd(None)  # finished with null
    return TaskEnd(event.text) if event.text and not event.error_code else None
