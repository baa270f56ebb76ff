"""Which calls the server waits for, and how an answer reaches it (models LIVE-4, LIVE-10)."""

from __future__ import annotations

import json

from hookwork.records.content import Content, FunctionResponse, Part
from hookwork.records.frozen import thaw


class ServerCalls:
    """The calls that the server knows of: those of this connection, and of the ones that it resumes.

    A server that was told the conversation anew knows calls from its history only: it waits for no answer to them, and
    one with the id of such a call is none that it can place. So an answer that comes that late goes as a text.
    """

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        #: id of a call here → the id that the server gave it.
        self._ids: dict[str, str | None] = {}

    def made(self, own_id: str, given_id: str | None) -> None:
        """The model called something."""
        self._ids[own_id] = given_id

    def forget(self) -> None:
        """The next connection is told the conversation from its beginning."""
        self._ids.clear()

    def own_id(self, given_id: str) -> str:
        """What a call goes by here: the newest that the server gave this id."""
        return next((own for own, given in reversed(self._ids.items()) if given == given_id), given_id)

    def answer(self, content: Content) -> list[Content]:
        """Responses as contents to send: to calls that are waited for, with the server's ids; then late ones, as text.

        Args:
            content: function responses, with our ids.
        """
        waited_for: list[Part] = []
        late: list[Part] = []
        for part in content.parts:
            response = part.function_response
            if response is None:
                continue
            if response.id in self._ids:
                waited_for.append(part.replace(function_response=response.replace(id=self._ids[response.id])))
            else:
                late.append(Part(text=late_text(response)))
        return [Content(role="user", parts=parts) for parts in (waited_for, late) if parts]


def late_text(response: FunctionResponse) -> str:
    """A response in words, for a model that does not wait for it any more."""
    return f"Function {response.name} returned: {json.dumps(thaw(response.response or {}), ensure_ascii=False)}"
