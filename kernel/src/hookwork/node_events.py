"""Events of nodes on their way out: what the body left unset, outputs in checked form (workflow NODE-3, NODE-7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.errors import NodeFailed, OutputValidationError
from hookwork.platform import new_uuid, timestamp
from hookwork.records.event import Event
from hookwork.records.frozen import freeze

#: Where an output hangs, for error texts.
_OUTPUT = (None, "output")

if TYPE_CHECKING:
    from hookwork.node import Node
    from hookwork.node_activation import NodeActivation


def stamped(event: Event, activation: NodeActivation, **changes: Any) -> Event:
    """An own event of an activation with everything set that its body left unset (NODE-7, core AGT-17).

    ``changes`` are made on the way: an event is copied once, not for each of them.
    """
    info = changes.get("node_info", event.node_info)
    changes["id"] = event.id or new_uuid()
    changes["timestamp"] = event.timestamp or timestamp()
    changes["invocation_id"] = event.invocation_id or activation.inv.invocation_id
    changes["branch"] = event.branch or activation.branch
    changes["isolation_scope"] = event.isolation_scope or activation.isolation_scope
    if not event.author:
        changes["author"] = activation.owner.name if activation.owner is not None else activation.node.name
    if info is None:
        changes["node_info"] = activation.info
    elif not info.path:
        changes["node_info"] = info.replace(path=activation.path)
    content = event.content
    if content is not None and not content.role:
        answers = any(part.function_response is not None for part in content.parts)
        changes["content"] = content.replace(role="user" if answers else "model")
    return event.replace(**changes)


def checked_output(node: Node, output: Any) -> Any:
    """An output in its checked JSON form. Raises OutputValidationError, or the `NodeFailed` of the node's own check."""
    try:
        return freeze(node.validate_output(output), _OUTPUT)
    except NodeFailed:
        raise
    except Exception as error:
        raise OutputValidationError(node.name, str(error)) from error


def without_output(event: Event) -> Event | None:
    """What is left of an event whose output is a child's to give; None for nothing (DYN-24)."""
    info = event.node_info
    if info is not None and info.message_as_output:
        info = info.replace(message_as_output=None)
    event = event.replace(output=None, node_info=info)
    if event.content is None and not event.routes and event.actions.is_empty:
        return None
    return event
