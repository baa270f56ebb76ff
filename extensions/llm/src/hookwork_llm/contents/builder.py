"""Derives a prompt from events, one event at a time (core CON-1 … CON-14).

A `Transcript` is what one agent sees of one log: the contents so far, and what is still needed to go on when further
events come. The list of contents grows at its end; an item that was handed out is never changed in it: when a stand-in
response gives way to a real one, the list is copied first (CON-16).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hookwork.records.content import Content, FunctionResponse, Part, text_content
from hookwork.records.event import Event
from hookwork.records.session import Session
from hookwork.view import segment_name
from hookwork_llm.contents.pairing import CallSlot, CallTurn, Pairs, open_turn
from hookwork_llm.contents.relay import relay, tell
from hookwork_llm.contents.repair import PENDING, Waiting, asked_for_id, response_content
from hookwork_llm.contents.sequence import PromptContents
from hookwork_llm.contents.visibility import is_blank, sees_branch, shown_parts, survey

_NOT_YET = Content(role="user")


class Transcript:
    """The contents of one agent over the events it was given. ``position`` is the number of events taken in."""

    __slots__ = (
        "_dirty",
        "_doubtful",
        "_interrupted",
        "_newest",
        "_pairs",
        "_pending",
        "_published",
        "_relayed",
        "_run",
        "_run_key",
        "_tool_texts",
        "begin",
        "branch",
        "contents",
        "name",
        "opening",
        "pairs_by_id",
        "position",
        "scope",
        "start",
    )

    def __init__(
        self,
        *,
        name: str,
        branch: str,
        scope: str,
        pairs_by_id: bool,
        start: int = 0,
        relayed: dict[int, Content | None] | None = None,
    ) -> None:
        self.name = name
        self.branch = branch
        self.scope = scope
        self.pairs_by_id = pairs_by_id
        #: first event of the log that belongs to the range; positions count from there.
        self.start = start
        #: what other agents' events became, by position in the log; shared by all agents that hear them.
        self._relayed = relayed if relayed is not None else {}
        self.position = 0
        #: where the events of its scope begin at the earliest.
        self.begin = 0
        self.contents: list[Content] = []
        #: the leading content of a scoped agent once it is known for good (CON-9).
        self.opening: Content | None = None
        self._pairs = Pairs()
        #: turns whose response content has to be written, by position.
        self._dirty: dict[int, CallTurn] = {}
        #: turns with a call that waits, and turns with calls that nobody waits for.
        self._pending: dict[int, CallTurn] = {}
        self._interrupted: dict[int, CallTurn] = {}
        #: whether events came that may have changed what waits: 1 for pending turns, 2 for interrupted ones too.
        self._doubtful = 0
        #: the turns that the newest event answers, and where its own contents begin; None when it answers none.
        self._newest: tuple[list[CallTurn], int] | None = None
        #: contents below this index were handed out.
        self._published = 0
        #: texts of the newest run of transcriptions, and whose they are.
        self._run: list[str] = []
        self._run_key: tuple[str, str] = ("", "")
        #: indices of texts that stood beside responses.
        self._tool_texts: set[int] = set()

    # --- taking events in ---------------------------------------------------------------------------------------------

    def take(self, position: int, event: Event, *, covered: bool = False) -> None:
        """Take in one event. ``covered``: a summary stands for it; only its calls and responses are remembered."""
        if event.isolation_scope != self.scope or event.partial:
            self._pass_by(event)
            return
        if self.scope and event.author != "user":
            self._doubtful = 2  # a call that has the id of this very scope may be waited for by now (PND-4)
        theirs = event.branch
        if theirs and theirs != self.branch and not sees_branch(self.branch, theirs):
            self._pass_by(event)
            return
        content = event.content
        if content is not None and not self._run and not covered:
            parts = content.parts
            if len(parts) == 1:  # the common case, one text by the user or by this agent, first and fast
                part = parts[0]
                text = part.text
                if text and part.function_call is None and part.function_response is None:
                    author = event.author
                    if (author == "user" or author == self.name) and content.role and not text.isspace():
                        self.contents.append(content)
                        self._newest = None
                        return
        self._take_any(position, event, covered)

    def _pass_by(self, event: Event) -> None:
        """An event that is not shown here may still change what waits, and whose calls an id means."""
        if event.partial:
            return
        if event.isolation_scope:
            self._doubtful = 2
        content = event.content
        if content is not None:
            self._note_doubt(event, content.parts)
            if event.author != "user":
                self._pairs.add_foreign(content.parts)

    def _note_doubt(self, event: Event, parts: Sequence[Part]) -> None:
        if event.long_running_tool_ids:
            self._doubtful = 2
        elif not self._doubtful:
            for part in parts:
                if part.function_call is not None or part.function_response is not None:
                    self._doubtful = 1
                    return

    def _take_any(self, position: int, event: Event, covered: bool) -> None:
        content = event.content
        if content is None or not content.parts or not content.role:
            if not covered:
                self._take_transcription(event)
            return
        parts: Sequence[Part] = content.parts
        calls, responses, hidden = survey(parts)
        if calls or responses:
            self._note_doubt(event, parts)
        if hidden:
            if calls:
                self._note_requests(event, parts)
            parts = shown_parts(parts)
            calls, responses, _ = survey(parts)
        author = event.author
        own = author == "user" or author == self.name or not author
        if not own:
            self._pairs.add_foreign(content.parts)
        if not calls and not responses and is_blank(parts):
            return
        if calls and author == "user" and content.role == "user":
            self._pairs.add_foreign(parts)
            parts, calls = _told(parts), False
        if own and (calls or responses):
            self._take_tools(position, event, parts, covered, calls=calls, responses=responses)
        elif not covered:
            shown: Content | None = content
            if own and parts is not content.parts:
                shown = content.replace(parts=parts)
            elif not own:
                shown = self._told_by(position, author, parts, whole=parts is content.parts)
            if shown is not None:
                self._end_run()
                self.contents.append(shown)
                self._newest = None

    def _told_by(self, position: int, author: str, parts: Sequence[Part], *, whole: bool) -> Content | None:
        """Another agent's event as text; told once, whoever hears it."""
        if not whole:
            return relay(author, parts)
        key = self.start + position
        if key not in self._relayed:
            self._relayed[key] = relay(author, parts)
        return self._relayed[key]

    def _note_requests(self, event: Event, parts: Sequence[Part]) -> None:
        """Remember for which calls the question to a person was stored."""
        if event.author != self.name:
            return
        for part in parts:
            if part.function_call is not None:
                for slot in self._pairs.group(asked_for_id(part.function_call.name, part.function_call.args)):
                    slot.asked = True

    def _take_tools(
        self, position: int, event: Event, parts: Sequence[Part], covered: bool, *, calls: bool, responses: bool
    ) -> None:
        content = event.content
        assert content is not None
        self._end_run()
        answered = self._answer(event, parts, covered) if responses else []
        begin = len(self.contents)
        turn = open_turn(position, content, pairs_by_id=self.pairs_by_id) if calls else None
        if turn is not None and turn.slots:
            self._pairs.add(turn)
            if not covered:
                self._show(turn)
                self._newest = None
            return
        if covered:
            return
        rest = [part for part in parts if part.function_response is None]
        if rest and not is_blank(rest):
            self._tool_texts.add(begin)
            self.contents.append(content.replace(parts=rest))
        self._newest = (answered, begin)

    def _show(self, turn: CallTurn) -> None:
        turn.index = len(self.contents) + 1
        self.contents.append(turn.content)
        self.contents.append(_NOT_YET)
        self._dirty[turn.position] = turn

    def _answer(self, event: Event, parts: Sequence[Part], covered: bool) -> list[CallTurn]:
        """Give each response to its call; the turns that were answered."""
        asked = event.actions.requested_tool_confirmations or {}
        extra = event.actions.extra
        credentials = (extra.get("requestedAuthConfigs") or {}) if extra else {}
        used: list[CallSlot] = []
        counts: dict[str, int] = {}
        answered: list[CallTurn] = []
        by_user = event.author == "user"
        if by_user and event.path:  # the result of a task, for the agent that handed it over
            if segment_name(event.path) != self.name:
                return answered
            by_user = False
        for part in parts:
            response = part.function_response
            if response is None:
                continue
            key = _pair_key(response)
            nth = counts.get(key, 0)
            counts[key] = nth + 1
            slot = self._pairs.find(response, used, nth, by_user=by_user)
            if slot is None:
                continue
            used.append(slot)
            turn = slot.turn
            slot.answer = part
            slot.placeholder = slot.call_id in asked or slot.call_id in credentials
            slot.asked = False
            if turn not in answered:
                answered.append(turn)
            if turn.index < 0 and not covered:
                self._show(turn)  # a summary swallowed the call, its real response came later (CMP-11)
            if turn.index >= 0:
                self._dirty[turn.position] = turn
            turn.source = event.content
        return answered

    # --- transcriptions (CON-5) ---------------------------------------------------------------------------------------

    def _take_transcription(self, event: Event) -> None:
        for side, said in (("user", event.input_transcription), ("model", event.output_transcription)):
            if said is not None and said.text:
                key = (side, event.author if side == "model" else "user")
                if self._run and key != self._run_key:
                    self._end_run()
                self._run_key = key
                self._run.append(said.text)
                self._newest = None

    def _end_run(self) -> None:
        if self._run:
            self.contents.extend(self._run_contents())
            self._run = []

    def _run_contents(self) -> tuple[Content, ...]:
        if not self._run:
            return ()
        text = "".join(self._run)
        side, author = self._run_key
        if not text or text.isspace():
            return ()
        if side == "model" and author and author not in ("user", self.name):
            relayed = relay(author, [Part(text=text)])
            return () if relayed is None else (relayed,)
        return (text_content(text, side),)

    def insert(self, contents: Iterable[Content]) -> None:
        """Put contents that no event holds (summaries) at the end."""
        for content in contents:
            self._end_run()
            self.contents.append(content)
            self._newest = None

    # --- handing out --------------------------------------------------------------------------------------------------

    def view(
        self, session: Session, *, head: tuple[Content, ...] = (), extra: Sequence[Content] = ()
    ) -> PromptContents:
        """The prompt as of the events taken in so far."""
        if self._dirty or self._doubtful:
            self._settle(session)
        contents = self.contents
        length = len(contents)
        tail = self._run_contents() if self._run else ()
        newest = self._newest
        if newest is not None and not self._run:
            first = min((turn.index for turn in newest[0] if turn.index >= 0), default=length)
            if first + 1 < newest[1]:
                tail = self._without_chatter(first + 1, newest[1])
                length = first + 1
        if length > self._published:
            self._published = length
        if extra:
            tail = (*tail, *extra)
        return PromptContents(contents, length, head, tail)

    def _without_chatter(self, first: int, begin: int) -> tuple[Content, ...]:
        """Contents from ``first`` on, between a call and the newest response only what belongs to tools (CON-6)."""
        kept = [
            content
            for i, content in enumerate(self.contents[first:begin], first)
            if i in self._tool_texts
            or any(part.function_call is not None or part.function_response is not None for part in content.parts)
        ]
        return (*kept, *self.contents[begin:])

    def _settle(self, session: Session) -> None:
        """Write the responses of turns that changed, and judge anew what may have begun or ceased to wait."""
        turns = self._dirty
        if self._doubtful and self._pending:
            turns = {**self._pending, **turns}
        if self._doubtful == 2 and self._interrupted:
            turns = {**self._interrupted, **turns}
        waiting: Waiting | None = None
        for position, turn in turns.items():
            changed = position in self._dirty
            self._pending.pop(position, None)
            self._interrupted.pop(position, None)
            for slot in turn.slots:
                state = ""
                if not slot.is_settled:
                    waiting = waiting or Waiting(session)
                    state = waiting.state(slot)
                    table = self._pending if state == PENDING or slot.answer is not None else self._interrupted
                    table[position] = turn
                if state != slot.state:
                    slot.state = state
                    changed = True
            if changed:
                self._write(turn.index, response_content(turn))
        self._dirty = {}
        self._doubtful = 0

    def _write(self, index: int, content: Content) -> None:
        if index < self._published:
            self.contents = list(self.contents)
            self._published = 0
        self.contents[index] = content


def _told(parts: Sequence[Part]) -> list[Part]:
    """A person's message with calls as words: they must not pass for calls that a model made."""
    return [tell("user", part) if part.function_call is not None else part for part in parts]


def _pair_key(response: FunctionResponse) -> str:
    return f"id:{response.id}" if response.id else f"name:{response.name}"
