"""What is on its way to the model, over however many connections (models LIVE-12)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hookwork.live import LiveConnection, RealtimeInput
from hookwork.records.content import Content
from hookwork.records.metadata import ModelResponse
from hookwork_llm.live.inbox import Changes

#: Realtime inputs that may wait for the connection before their sender has to.
MAX_WAITING = 64


class _Entry:
    """A content. ``answering``: the model began to speak after it was sent."""

    __slots__ = ("answering", "content")

    def __init__(self, content: Content) -> None:
        self.content = content
        self.answering = False


class Outbox:
    """Contents and realtime input in one order.

    A content is kept until the model has answered it: whole turn, interruption or call. A handle stands for the state
    of the session at the end of a turn (so says the provider that has them), so what was not answered when the line
    broke is not part of it, and is sent again. Realtime input is sent once or never.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Entry | RealtimeInput] = deque()
        self._sent: list[_Entry] = []
        self._changes = Changes()
        self.up = False
        self._in_turn = self._sending = False
        #: the line broke after it had been up, and is not up again.
        self.broken = False

    # --- putting in ---------------------------------------------------------------------------------------------------

    def content(self, content: Content) -> None:
        """Send a content, now or over the next connection."""
        self._waiting.append(_Entry(content))
        self._changes.fire()

    async def realtime(self, item: RealtimeInput) -> None:
        """Send something as it happens; before the first connection it waits, between two it is lost."""
        while not self.broken and (not self.up or len(self._waiting) >= MAX_WAITING):
            await self._changes.next()
        if not self.broken:
            self._waiting.append(item)
            self._changes.fire()

    # --- the connection -----------------------------------------------------------------------------------------------

    def opened(self) -> None:
        """A connection takes what waits."""
        self.up, self.broken = True, False
        self._changes.fire()

    def lost(self) -> None:
        """The connection is gone: what was not answered is sent again, what was to be heard at once is not."""
        self.broken = self.broken or self.up
        self.up = self._in_turn = False
        contents = [entry for entry in self._waiting if isinstance(entry, _Entry)]
        for entry in self._sent:
            entry.answering = False
        self._waiting = deque([*self._sent, *contents])
        self._sent = []
        self._changes.fire()

    async def send_to(self, connection: LiveConnection) -> None:
        """Send what comes, until cancelled or until a send fails."""
        while True:
            while not self._waiting:
                await self._changes.next()
            item = self._waiting.popleft()
            self._sending = True
            try:
                if isinstance(item, _Entry):
                    self._sent.append(item)  # first: a send that fails must not lose it
                    await connection.send_content(item.content)
                else:
                    await connection.send_realtime(item)
            finally:
                self._sending = False
                self._changes.fire()

    async def flushed(self) -> None:
        """Until all that waits was sent, or there is no connection any more."""
        while (self._waiting or self._sending) and not self.broken:
            await self._changes.next()

    # --- what the model said ------------------------------------------------------------------------------------------

    def note(self, message: ModelResponse) -> None:
        """A server message, as soon as it is read: does it answer something?

        The first output of a turn answers what was sent before it; the end of the turn settles that. What is sent
        while the model speaks belongs to the next turn.
        """
        content = message.content
        if (content is not None or message.output_transcription is not None) and not self._in_turn:
            self._in_turn = True
            for entry in self._sent:
                entry.answering = True
        called = content is not None and bool(content.function_calls) and not message.error_code
        if called or message.turn_complete or message.interrupted:
            # What led to a call was acted upon; the call's response is what is to be answered now.
            self._in_turn = False
            self._sent = [entry for entry in self._sent if not entry.answering]

    # --- telling the conversation again -------------------------------------------------------------------------------

    def without_unanswered(self, history: Sequence[Content]) -> list[Content]:
        """The history to tell a new connection, without what is sent again behind it: nothing is said twice.

        Answers to calls stand in the history with their calls and are not sent again; those that the model spoke beside
        and not about stand last in it, so that it goes on with them. Other contents are taken out of it, if they are in
        it (what was said while a call went on is not: core CON-6), so that the model answers them.
        """
        kept = list(history)
        again: deque[_Entry | RealtimeInput] = deque()
        results: list[Content] = []
        for entry in reversed([entry for entry in self._waiting if isinstance(entry, _Entry)]):
            if entry.content.function_responses:
                results.insert(0, entry.content)
                continue
            found = next((i for i in reversed(range(len(kept))) if kept[i].parts == entry.content.parts), None)
            if found is not None:
                del kept[found]
            again.appendleft(entry)
        self._waiting = again
        for content in results:
            _move_to_end(kept, content)
        return kept


def _move_to_end(history: list[Content], results: Content) -> None:
    """Let calls and their results be the last thing said, if the model said something behind them."""
    wanted = [(response.name, response.response) for response in results.function_responses]
    for at in range(len(history) - 1, 0, -1):
        if any((response.name, response.response) in wanted for response in history[at].function_responses):
            if any(content.role == "model" for content in history[at + 1 :]):
                history[at - 1 : at + 1], moved = [], history[at - 1 : at + 1]
                history += moved
            return
