"""What to do next: call tools, hand over, ask back, or answer. Pure: the same request gives the same decision."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hookwork_offline.arguments import Filled, answer, fill, finish, nothing
from hookwork_offline.conversation import Result, Turn
from hookwork_offline.matching import THRESHOLD, Match, Option, best, rank
from hookwork_offline.results import can_provide, field_values, only_reads
from hookwork_offline.schema import enum_of, equal, types_of, variants
from hookwork_offline.strings import is_free_text
from hookwork_offline.transfer import TRANSFER, Targets, choose_target
from hookwork_offline.words import ORDER_VERBS, stems, word_set, words

#: How many turns back an unanswered question is remembered.
MEMORY = 6
#: More calls than this are never made in answer to one message.
MAX_CALLS = 24

_CLAUSE = re.compile(
    r"\s{0,4}[;,]\s+(?:(?:and|then)\s+){0,2}|\s{1,4}(?:and\s+then|and\s+also|and|then|also|plus)\s+|[.?!]\s+|\n+", re.I
)
_QUOTED = re.compile(r"\"[^\"\n]*\"|“[^”\n]*”|`[^`\n]*`|«[^»\n]*»|(?<!\w)'[^'\n]*'(?!\w)")
_CANCEL = re.compile(r"^\W*(?:never ?mind|cancel(?: (?:it|that))?|forget (?:it|that)|stop|drop it|leave it)\W*$", re.I)
_REFERS_BACK = word_set("it its there that this same again them they their those he she his her")
_NEW_TOPIC = 2.0  # score from which words are a new wish, not the answer to a question


@dataclass(frozen=True, slots=True)
class Call:
    """A function call to make."""

    name: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """Arguments that a call still needs; ``choices`` are values that earlier results offer."""

    option: Option
    args: dict[str, Any]
    missing: tuple[str, ...]
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Clause:
    """A piece of a message and where it stands."""

    start: int
    end: int
    text: str


@dataclass(slots=True)
class Decision:
    """Calls to make; or else what to say: results, a question, that nothing fits, that a wish was dropped."""

    calls: list[Call] = field(default_factory=list)
    question: Question | None = None
    unanswered: bool = False
    dropped: bool = False


@dataclass(slots=True)
class Intent:
    """A wish for one tool: the words that speak of it and the arguments known so far."""

    option: Option
    text: str
    start: int = 0
    known: dict[str, Any] = field(default_factory=dict)
    used: frozenset[str] = frozenset()
    filled: Filled = field(default_factory=Filled)
    choices: tuple[Any, ...] = ()


class Planner:
    """Decides for one request; holds its options and turns."""

    def __init__(self, options: Sequence[Option], targets: Targets | None, turns: Sequence[Turn]) -> None:
        self.options = options
        self.targets = targets
        self.turns = turns

    def decide(self) -> Decision:
        """The decision for the newest turn."""
        return self._decide(len(self.turns) - 1)

    def _decide(self, i: int) -> Decision:
        turn = self.turns[i]
        asked = self._open_question(i)
        if asked is not None and _CANCEL.match(turn.message):
            return Decision(dropped=True)
        own = self._best(turn.message, turn.message)
        target = choose_target(self.targets, turn, own, only_by_name=asked is not None)
        if target is not None and self.targets is not None:
            return Decision(calls=[Call(TRANSFER, {self.targets.parameter: target})])
        intents = self._intents(turn.message, asked)
        if not intents:
            return Decision(unanswered=not turn.results)
        self._complete(intents, turn, self._earlier_results(i))
        return self._next_step(intents, turn)

    def _open_question(self, i: int) -> Question | None:
        """What the turn before asked for, when the model said something then and did not call."""
        if i == 0 or not self.turns[i - 1].answered:
            return None
        return self._decide(i - 1).question

    def _earlier_results(self, i: int) -> list[Result]:
        """Results of earlier turns, newest turn first, when the message refers back ("there", "again")."""
        if not _REFERS_BACK.intersection(words(self.turns[i].message)):
            return []
        return [result for turn in reversed(self.turns[:i]) for result in turn.results]

    def _best(self, text: str, message: str) -> Match | None:
        """The tool that words speak of.

        One that needs a value out of a list, of which the whole message says none, loses to one that the same words
        fill: "the temperature in Paris" reads it and does not set its unit. A tool that was named in full stays.
        """
        found = best(stems(text), self.options)
        if found is None or _is_named(found, text) or not self._lacks_choice(found.option, message):
            return found
        others = [option for option in self.options if option.name != found.option.name and only_reads(option)]
        likely = {match.option.name: match for match in rank(stems(text), others)}
        for option in sorted(others, key=lambda option: option.name not in likely):
            filled = fill(option, text, foreign=self._foreign(option))
            match = likely.get(option.name, Match(option, 0.0, frozenset()))
            said = any(not is_free_text(name) for name in filled.said)
            if not filled.missing and (said or match.score >= THRESHOLD):
                return match
        return found

    def _lacks_choice(self, option: Option, message: str) -> bool:
        """Whether a required parameter takes one of some values, and the message says none of them."""
        missing = fill(option, message, foreign=self._foreign(option)).missing
        return any(
            enum_of(variant) is not None
            for name in missing
            for variant in variants(option.parameters.get(name, {}), option.schema)
        )

    # --- from words to wishes ----------------------------------------------------------------------------------------

    def _intents(self, message: str, asked: Question | None) -> list[Intent]:
        if asked is not None:
            answered = self._answered(asked, message)
            if answered:
                return answered
        intents: list[Intent] = []
        for clause in clauses(message):
            self._take_clause(intents, clause, message)
        return intents

    def _answered(self, asked: Question, message: str) -> list[Intent]:
        """The wish of the turn before with what this message adds to it; empty when the message is a new wish."""
        found = best(stems(message), self.options)
        if found is not None and found.option.name == asked.option.name:
            if not fill(asked.option, message, known=asked.args).missing:
                return [Intent(asked.option, message, known=dict(asked.args), used=found.stems)]
        elif found is not None and found.score >= _NEW_TOPIC and found.names_it:
            return []
        name = asked.missing[0]
        alone = len(asked.missing) == 1 and not _has_list(asked.option, name)
        if alone and not is_free_text(name) and re.search(r"(?<!\w)and(?!\w)", message, re.IGNORECASE):
            values = [answer(asked.option, piece.text, name) for piece in clauses(message)]
            if len(values) > 1 and nothing() not in values:  # "Paris and Rome" answers "which city?" twice
                return [Intent(asked.option, "", known={**asked.args, name: value}) for value in values]
        filled = fill(asked.option, message, known=asked.args)
        if alone and (value := answer(asked.option, message, name)) is not nothing():
            filled.args[name] = value
        added = {key: filled.args[key] for key in asked.missing if key in filled.args}
        return [Intent(asked.option, message, known={**asked.args, **added})]

    def _take_clause(self, intents: list[Intent], clause: Clause, message: str) -> None:
        """Add a clause to the wishes: a new one, the last one once more, or more words for the last one."""
        found = self._best(clause.text, message)
        last = intents[-1] if intents else None
        if found is not None and (last is None or found.option.name != last.option.name):
            start = 0 if last is None else clause.start
            intents.append(Intent(found.option, message[start : clause.end], start=start, used=found.stems))
        elif last is not None and not self._take_values(intents, last, clause.text) and last.text:
            last.text = message[last.start : clause.end]
            last.used |= found.stems if found else frozenset()

    def _take_values(self, intents: list[Intent], last: Intent, clause: str) -> bool:
        """Read a clause as other values for the last wish (``… and in Rome``) or as settings (``…, limit 3``).

        Settings said once hold for all the wishes of that tool which have none of their own.
        """
        foreign = self._foreign(last.option)
        before = fill(last.option, last.text, known=last.known, foreign=foreign)
        if before.missing:
            return False
        here = fill(last.option, clause, foreign=foreign).said
        here = {name: v for name, v in here.items() if not _has_list(last.option, name) and not is_free_text(name)}
        other = {name: value for name, value in here.items() if name in before.said}
        if any(equal(before.said[name], value) for name, value in other.items()):
            return False
        settings = {name: value for name, value in here.items() if name not in before.said}
        if not other and not (settings and any(is_free_text(name) for name in before.said)):
            return False
        last.known = before.said
        if other:
            intents.append(Intent(last.option, "", known={**before.said, **other}))
        for intent in intents:
            if intent.option is last.option:
                intent.known = {**settings, **intent.known}
        return True

    # --- from wishes to calls ----------------------------------------------------------------------------------------

    def _foreign(self, option: Option) -> frozenset[str]:
        """Words that tie a value to another tool."""
        others = {word for other in self.options if other.name != option.name for word in other.own_words}
        return frozenset(others - option.evidence)

    def _complete(self, intents: list[Intent], turn: Turn, earlier: list[Result]) -> None:
        """Fill the arguments of all wishes: own words, results, then the rest of the message."""
        for intent in intents:
            intent.filled = fill(intent.option, intent.text, known=intent.known, foreign=self._foreign(intent.option))
        whole = turn.message
        for intent in list(intents):
            for source in (turn.results, earlier):
                self._from_results(intent, source)
            if intent.filled.missing and intent.text != whole:
                self._from_rest(intent, intents, whole)
            if intent.filled.missing:
                helper = self._helper(intent, intents, whole)
                if helper is not None:
                    intents.insert(0, helper)

    def _from_results(self, intent: Intent, source: Sequence[Result]) -> None:
        for name in list(intent.filled.missing):
            values = field_values(intent.option, name, source)
            if len(values) == 1:
                intent.filled = finish(intent.option, {**intent.filled.said, name: values[0]})
            elif values:
                intent.choices = tuple(values)

    def _from_rest(self, intent: Intent, intents: list[Intent], whole: str) -> None:
        """Values said elsewhere in the message, unless another wish used them for something else."""
        wide = fill(intent.option, whole, known=dict(intent.filled.said), foreign=self._foreign(intent.option))
        for name in intent.filled.missing:
            if name not in wide.args or is_free_text(name):
                continue
            spent = any(
                key != name and equal(value, wide.args[name])
                for other in intents
                if other is not intent
                for key, value in other.filled.said.items()
            )
            if not spent:
                intent.filled = finish(intent.option, {**intent.filled.said, name: wide.args[name]})

    def _helper(self, intent: Intent, intents: list[Intent], whole: str) -> Intent | None:
        """Another tool that may give what is missing: one the message names too, or one that declares the field."""
        named = [piece for piece in stems(whole) if piece not in intent.used]
        chosen = {other.option.name for other in intents}
        free = [option for option in self.options if option.name not in chosen]
        candidates = [m for m in rank(named, free) if m.score >= THRESHOLD and m.stems & m.option.own_words]
        candidates += [
            Match(option, 0.0, frozenset())
            for option in free
            if any(can_provide(option, name) for name in intent.filled.missing)
        ]
        candidates = [match for match in candidates if only_reads(match.option)]
        for match in candidates:
            filled = fill(match.option, whole, foreign=self._foreign(match.option))
            if not filled.missing:
                return Intent(match.option, whole, known=filled.said, used=match.stems, filled=filled)
        return None

    def _next_step(self, intents: list[Intent], turn: Turn) -> Decision:
        """Calls not made yet; if there are none, the open question, if any.

        A tool is called at most once for each wish, so whatever the tools answer, a turn comes to its end.
        """
        decision = Decision()
        budget = MAX_CALLS - len(turn.results)
        for name in dict.fromkeys(intent.option.name for intent in intents):
            made = [result.args for result in turn.results if result.name == name]
            wishes = [intent for intent in intents if intent.option.name == name and not intent.filled.missing]
            room = min(len(wishes) - len(made), budget - len(decision.calls))
            for wish in wishes:
                planned = [call.args for call in decision.calls if call.name == name]
                if room > 0 and not any(_same_args(wish.filled.args, args) for args in [*made, *planned]):
                    decision.calls.append(Call(name, wish.filled.args))
                    room -= 1
        if not decision.calls:
            decision.question = next((_question(intent) for intent in intents if intent.filled.missing), None)
        return decision


def _is_named(match: Match, text: str) -> bool:
    """Whether a text says all of a tool's name, or the verb it begins with."""
    verb = words(match.option.name)[:1]
    return match.option.named <= match.stems or bool(ORDER_VERBS.intersection(verb, words(text)))


def _question(intent: Intent) -> Question:
    return Question(intent.option, intent.filled.said, tuple(intent.filled.missing), intent.choices)


def clauses(text: str) -> list[Clause]:
    """The pieces of a message that may each speak of another tool; quoted text is never cut."""
    hidden = _QUOTED.sub(lambda match: "\0" * len(match.group()), text)
    cuts = [0, *(edge for match in _CLAUSE.finditer(hidden) for edge in match.span()), len(text)]
    if len(cuts) > 2 * MAX_CALLS:  # a pasted document: its remainder is one piece
        cuts = [*cuts[: 2 * MAX_CALLS - 1], len(text)]
    pieces = [Clause(start, end, text[start:end]) for start, end in zip(cuts[::2], cuts[1::2], strict=True)]
    return [piece for piece in pieces if stems(piece.text) or re.search(r"\d", piece.text)]


def _has_list(option: Option, name: str) -> bool:
    return any(types_of(variant) == ["array"] for variant in variants(option.parameters.get(name, {}), option.schema))


def _same_args(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return _canonical(first) == _canonical(second)


def _canonical(args: dict[str, Any]) -> str:
    return json.dumps(args, sort_keys=True, default=str)
