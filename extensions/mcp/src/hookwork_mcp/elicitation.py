"""Questions a server asks the user in the middle of a call (elicitation), and the defaults of its forms."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs

from hookwork_mcp.calls import Calls

logger = logging.getLogger("hookwork.mcp")

#: Takes an Elicitation, gives the form's values, or None to decline; may be async.
ElicitationHandler = Callable[["Elicitation"], "Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None"]


@attrs.frozen
class Elicitation:
    """One question.

    Attributes:
        message: what the user is to be told.
        schema: JSON schema of the form, an object of plain values; empty when a page is to be visited instead.
        url: the page to visit, for questions that must not pass through here (passwords, payments); None for forms.
        ctx: the context of the tool call behind the question, None when it cannot be told.
    """

    message: str
    schema: Mapping[str, Any] = attrs.field(factory=dict)
    url: str | None = None
    ctx: Any = attrs.field(default=None, repr=False)

    @property
    def defaults(self) -> dict[str, Any]:
        """The values the form starts with."""
        fields = self.schema.get("properties") or {}
        return {k: f["default"] for k, f in fields.items() if isinstance(f, Mapping) and "default" in f}


def accept_defaults(question: Elicitation) -> Mapping[str, Any] | None:
    """A handler that accepts each form as it stands; it declines URLs and forms with a required value left open."""
    if question.url is not None:
        return None
    values = question.defaults
    return values if all(name in values for name in question.schema.get("required") or ()) else None


def elicitation_callback(handler: ElicitationHandler, calls: Calls) -> Any:
    """The SDK's callback: values left out take the form's defaults (SEP-1034)."""
    import mcp_types as types

    async def ask(context: Any, params: Any) -> Any:
        url = getattr(params, "url", None)
        schema = getattr(params, "requested_schema", None)
        schema = (
            schema
            if isinstance(schema, Mapping)
            else schema.model_dump(by_alias=True, exclude_none=True)
            if schema
            else {}
        )
        question = Elicitation(message=params.message, schema=schema, url=url, ctx=calls.current())
        try:
            values = handler(question)
            if inspect.isawaitable(values):
                values = await values
        except Exception as error:  # the server is told; our caller is a protocol engine
            logger.warning("the elicitation handler raised; the question is cancelled", exc_info=error)
            return types.ElicitResult(action="cancel")
        if values is None:
            return types.ElicitResult(action="decline")
        content = None if url is not None else {**question.defaults, **values}
        return types.ElicitResult(action="accept", content=content)

    return ask
