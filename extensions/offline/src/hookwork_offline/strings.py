"""Text arguments: by the kind that a parameter's name or format asks for, by preposition, by quotes, by capitals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta

from hookwork.platform import now
from hookwork_offline.reading import Reading
from hookwork_offline.schema import Schema
from hookwork_offline.values import Value
from hookwork_offline.words import COMMON_VERBS, ORDER_VERBS, STOP_WORDS, is_infinitive, stem, stems, word_set, words

Accept = Callable[[str], bool]

#: Parameters that take what is asked as it was said.
VERBATIM = frozenset({"question", "request", "prompt", "utterance", "instruction", "instructions", "input", "command"})
#: Parameters that take a stretch of text, not a name.
FREE_TEXT = VERBATIM | word_set(
    """
    body caption comment content description expression formula keyword keywords message note notes phrase q query
    reason remark search sentence statement subject summary task term terms text title topic
    """
)

_BY_FORMAT: dict[str, tuple[str, ...]] = {
    "email": ("email",), "uri": ("url",), "url": ("url",), "uuid": ("uuid",), "date": ("date",),
    "date-time": ("datetime",), "time": ("time",),
}  # fmt: skip
_BY_WORD: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("email", "mail"), ("email",)),
    **dict.fromkeys(("url", "uri", "link", "website", "webpage"), ("url",)),
    **dict.fromkeys(("uuid", "guid"), ("uuid",)),
    **dict.fromkeys(("path", "file", "filename", "directory", "folder"), ("path", "url")),
    **dict.fromkeys(("date", "day", "when", "deadline", "due"), ("date", "datetime")),
    **dict.fromkeys(("time",), ("time", "datetime")),
    **dict.fromkeys(("id", "ids", "code", "sku", "key", "reference", "ref", "isbn", "identifier", "number"),
                    ("code", "uuid", "number")),
}  # fmt: skip

# Which prepositions lead to a parameter, by a word of its name. The first group that matches decides.
_ROLES: tuple[tuple[frozenset[str], tuple[str, ...]], ...] = (
    (word_set("origin source from start departure sender base"), ("from",)),
    (word_set("destination target to end arrival"), ("to", "into")),
    (word_set("recipient receiver"), ("to", "for")),
    (word_set("city location place country region town where area state timezone zone address"),
     ("in", "at", "near", "for", "of", "to", "from")),
    (word_set("person user customer owner name author assignee employee client member"),
     ("named", "called", "for", "of", "by", "with", "to")),
)  # fmt: skip

_RELATIVE_DAYS = {"yesterday": -1, "today": 0, "tonight": 0, "tomorrow": 1}
_WHEN = re.compile(
    r"(?<!\w)(?:yesterday|today|tonight|tomorrow|(?:(?:next|this|last)\s+)?"
    r"(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|week|weekend|month|year))(?!\w)",
    re.IGNORECASE,
)
_TIMES = word_set(
    "morning afternoon evening night day days week weeks month months year years hour hours minute minutes moment now "
    "today tonight tomorrow yesterday weekend monday tuesday wednesday thursday friday saturday sunday time"
)
_OBJECT = re.compile(
    r"(?<!\w)(in|at|for|near|of|from|to|about|on|named|called|by|with|is)\s+(?:(?:the|my|a|an|our)\s+)?"
    r"(?=([^\W\d_][\w'’-]*(?:\s+[^\W\d_][\w'’-]*){0,2}))"
)
_FREE_STARTS = (
    re.compile(r":\s+|(?<!\w)(?:saying|that says|says|titled)\s+", re.IGNORECASE),
    re.compile(r"(?<!\w)(?:about|for)\s+", re.IGNORECASE),
    re.compile(r"(?<!\w)(?:that|named|called|to)\s+", re.IGNORECASE),
)
_RAW_WORD = re.compile(r"[^\W_][\w.'’-]*")
_POLITE = re.compile(
    r"^(?:please|can you|could you|would you|will you|i want to|i'd like to|i would like to|hey|hi|hello)[\s,]+", re.I
)
_LONGEST_ANSWER = 300
_LEAD_IN = re.compile(
    r"^(?:(?:it|that|this)(?:'s|’s| is)|i want|i'd like|i mean|use|take|make it|in|at|for|to|the|with|please|well|oh)"
    r"[\s,:]+",
    re.IGNORECASE,
)
_LEAD_OUT = re.compile(r"[\s,]*(?:please|thanks|thank you)?[\s.!?]*$", re.IGNORECASE)


def find_text(reading: Reading, name: str, schema: Schema, accept: Accept, *, named_only: bool) -> str | None:
    """Text for a parameter, or None. ``named_only``: only what its name, format or preposition leads to."""
    kinds = _kinds(name, schema)
    if kinds:
        return _by_kind(reading, name, schema, kinds, accept)
    named = _cued(reading, name, accept) or _by_role(reading, name, accept)
    if named is not None or named_only:
        return named
    if is_free_text(name):
        return _free_text(reading, name, accept)
    return _loose(reading, name, accept)


def is_free_text(name: str) -> bool:
    """Whether a parameter takes a stretch of text rather than a name."""
    return bool(FREE_TEXT.intersection(words(name)[-1:]))


def _kinds(name: str, schema: Schema) -> tuple[str, ...]:
    form = schema.get("format")
    if isinstance(form, str) and form in _BY_FORMAT:
        return _BY_FORMAT[form]
    return next((_BY_WORD[word] for word in reversed(words(name)) if word in _BY_WORD), ())


def _taken_as(reading: Reading, value: Value) -> str:
    """A value as text, as it was written (leading zeros kept)."""
    return value.value if isinstance(value.value, str) else reading.text[value.start : value.end]


def _first(reading: Reading, found: Iterator[Value], accept: Accept) -> str | None:
    for value in found:
        text = _taken_as(reading, value)
        if not reading.is_foreign(value) and accept(text):
            reading.take(value.start, value.end)
            return text
    return None


def _by_kind(reading: Reading, name: str, schema: Schema, kinds: tuple[str, ...], accept: Accept) -> str | None:
    cued = _first(reading, reading.cued(name), accept)
    if cued is not None:
        return cued
    for kind in kinds:
        found = _first(reading, reading.free(kind), accept)
        if found is not None:
            return found
    if "date" in kinds:
        found = _when(reading, schema, accept)
        if found is not None:
            return found
    return _first(reading, reading.free("quoted"), accept) or _cued(reading, name, accept)


def _when(reading: Reading, schema: Schema, accept: Accept) -> str | None:
    """A day said in words: as a date where the schema wants one, else as it was said."""
    for match in _WHEN.finditer(reading.head):
        said = match.group()
        offset = _RELATIVE_DAYS.get(said.lower())
        candidates = [said]
        if offset is not None:
            candidates.append((now() + timedelta(days=offset)).date().isoformat())
        for text in candidates if schema.get("format") != "date" else candidates[1:]:
            if accept(text):
                reading.take(match.start(), match.end())
                return text
    return None


def _cued(reading: Reading, name: str, accept: Accept) -> str | None:
    found = _first(reading, reading.cued(name), accept)
    if found is not None:
        return found
    for end in reading.cue_ends(name):
        link = reading.text[max(0, end - 8) : end].rstrip()
        match = _RAW_WORD.match(reading.text, end)
        if match and link.endswith((":", "=", "named", "called", " is")) and not reading.is_taken(*match.span()):
            word = match.group().rstrip(".'’-")
            if word.lower() not in STOP_WORDS and accept(word):
                reading.take(*match.span())
                return word
    return None


def _prepositions(name: str) -> tuple[str, ...]:
    parts = set(words(name))
    return next((prepositions for group, prepositions in _ROLES if group & parts), ())


def _by_role(reading: Reading, name: str, accept: Accept) -> str | None:
    for preposition in _prepositions(name):
        found = (
            v for v in reading.free("name", "email", "quoted", "code") if reading.word_before(v.start) == preposition
        )
        text = _first(reading, found, accept)
        if text is not None:
            return text
    return None


def _loose(reading: Reading, name: str, accept: Accept) -> str | None:
    for kind in ("quoted", "name", "code", "email", "path"):
        text = _first(reading, reading.free(kind), accept)
        if text is not None:
            return text
    return _object(reading, name, accept)


def _object(reading: Reading, name: str, accept: Accept) -> str | None:
    """A lower-case object of a preposition: ``weather in paris``."""
    wanted = _prepositions(name)
    for match in _OBJECT.finditer(reading.head):
        if (wanted and match.group(1) not in wanted) or reading.holds_value(*match.span(2)):
            continue
        if match.group(1) == "to" and _begins_infinitive(reading, match.start(), match.group(2)):
            continue
        phrase = _phrase(match.group(2), reading.own)
        text = " ".join(phrase)
        if phrase and stem(phrase[0].lower()) not in reading.foreign and accept(text):
            reading.take(match.start(2), match.start(2) + match.group(2).index(phrase[0]) + len(text))
            return text
    return None


def _phrase(text: str, own: frozenset[str]) -> list[str]:
    """The words of an object up to the first that belongs to something else; a noun before it is left out."""
    phrase: list[str] = []
    for word in text.split():
        lower = word.lower()
        if stem(lower) in own:
            if phrase:
                break
            continue  # "for the city paris"
        if lower in STOP_WORDS or lower in _TIMES:
            break
        phrase.append(word)
    return phrase


def _begins_infinitive(reading: Reading, position: int, following: str) -> bool:
    """Whether the "to" at a place belongs to a verb: by the words on both sides, or because the verb is the tool's."""
    verb = following.split(maxsplit=1)[0]
    return is_infinitive(reading.word_before(position), verb) or stem(verb.lower()) in reading.own


def _free_text(reading: Reading, name: str, accept: Accept) -> str | None:
    quoted = _first(reading, reading.free("quoted"), accept)
    if quoted is not None:
        return quoted
    whole = _POLITE.sub("", reading.text.strip())
    if VERBATIM.isdisjoint(words(name)[-1:]):
        for match in (match for start in _FREE_STARTS for match in start.finditer(reading.head)):
            rest = reading.text[match.end() :].strip().rstrip("?.!")
            if match.group().strip().lower() == "to" and rest and _begins_infinitive(reading, match.start(), rest):
                continue
            if rest and not reading.is_taken(match.end(), match.end() + 1) and accept(rest):
                return rest
        whole = whole.rstrip("?.!")
        if _only_asks(whole, reading.own):
            return None
    return whole if whole and accept(whole) else None


_ORDERS = frozenset(stem(word) for word in ORDER_VERBS | COMMON_VERBS)


def _only_asks(text: str, own: frozenset[str]) -> bool:
    """Whether every word of a text is one that asks for the tool ("add a task"): it holds no value then."""
    return all(piece in own or piece in _ORDERS for piece in stems(text))


def whole_answer(text: str, name: str, accept: Accept) -> str | None:
    """The answer to "which …?": the text itself without the words around it ("It's paris, please." → ``paris``)."""
    answer = text.strip()
    if is_free_text(name):
        return answer if answer and accept(answer) else None
    if len(answer) > _LONGEST_ANSWER:
        return None
    for _ in range(3):
        answer = _LEAD_IN.sub("", answer)
    answer = _LEAD_OUT.sub("", answer).strip("\"'“”«»` ")
    if answer and len(answer.split()) <= 5 and accept(answer):
        return answer
    return None
