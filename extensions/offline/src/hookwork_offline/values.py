"""The values that a person's words hold: quoted text, numbers, dates, addresses, codes, capitalised names."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from hookwork_offline.words import ORDER_VERBS, STOP_WORDS, stem, word_set, words

_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
_LARGE = {
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "hundred": 100,
    "thousand": 1000,
    "dozen": 12,
}
_NUMBER_WORDS = {word: number for number, word in enumerate(_SMALL)} | _LARGE

# In order: a later pattern sees only what earlier ones left.
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("quoted", re.compile(r"\"([^\"\n]+)\"|“([^”\n]+)”|«([^»\n]+)»|`([^`\n]+)`|(?<!\w)'([^'\n]+)'(?!\w)|‘([^’\n]+)’")),
    ("url", re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://[^\s,;]*[^\s,;.?!)]", re.I)),
    ("email", re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}")),
    ("uuid", re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.I)),
    ("datetime", re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?(?!\w)")),
    ("date", re.compile(r"\b\d{4}-\d\d-\d\d\b")),
    ("time", re.compile(r"\b\d{1,2}:\d\d(?::\d\d)?\b(?:\s?[ap]m\b)?", re.I)),
    ("path", re.compile(r"(?<![\w/])(?:~|\.{1,2})?/(?:[\w.@+-]+/?)*")),
    ("path", re.compile(r"(?<![\w-])[\w-]{1,64}(?:/[\w-]{1,64}){0,16}\.[A-Za-z][A-Za-z0-9]{1,4}\b(?![.@])")),
    ("code", re.compile(r"#?(?<![\w-])(?=[\w-]{0,64}\d)(?=[\w-]{0,64}[A-Za-z_])\w+(?:-\w+)*\b")),
    ("code", re.compile(r"\b\d+(?:-\d+)+\b|\b\d{16,}\b")),
    ("number", re.compile(r"(?<![\w.])[-+−]?(?:\d{1,3}(?:,\d{3}){1,4}|\d+)(?:\.\d+)?(?!\w|[.,]\d)")),
)
_UNIT_NUMBER = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)([A-Za-z°]{1,3})")
_NAME = re.compile(r"\b[A-Z][\w'’&.-]*[\w]|\b[A-Z]\b")
_CONNECTORS = re.compile(r"\s+(?:(?:of|de|da|do|del|di|la|le|van|von|der|den|the)\s+){0,2}(?=[A-Z])")
_AFTER_VERB = re.compile(
    r"\s+(?:a|an|the|my|me|all|this|that|these|those|for|to|it|some|every|each|our|your|up|about)\b"
)
_FOLLOWING = re.compile(r"\s+([^\W\d_]+)")
_OPENERS = ORDER_VERBS | word_set("good hello help hi how please thanks")


_JSON_START = re.compile(r"[{\[]")
_MAX_JSON = 8
_MAX_TRIES = 64


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


@dataclass(frozen=True, slots=True)
class Value:
    """One value in a text: where it stands, of what kind it is, and itself (numbers as numbers)."""

    start: int
    end: int
    kind: str
    value: Any


def find_values(text: str, evidence: frozenset[str] = frozenset(), own: frozenset[str] = frozenset()) -> list[Value]:
    """All values of a text in order, none overlapping.

    ``evidence`` holds the stems by which the tool was chosen: a capitalised one at the start of a sentence is such a
    word ("Weather in Paris"), not a name. ``own`` holds those of the tool's and its parameters' names, which are no
    values anywhere ("Buy a Report").
    """
    found: list[Value] = []
    masked = text
    for kind, pattern in _PATTERNS:
        found += [_value_of(kind, match) for match in pattern.finditer(masked)]
        masked = pattern.sub(lambda match: "\0" * len(match.group()), masked)
    found += _number_words(masked)
    found += [name for name in _names(masked, evidence) if not _is_own(name, own)]
    return sorted(found, key=lambda value: value.start)


def _value_of(kind: str, match: re.Match[str]) -> Value:
    raw = match.group()
    if kind == "quoted":
        raw = next(group for group in match.groups() if group is not None)
        return Value(match.start(), match.end(), kind, raw)
    if kind == "number":
        return Value(match.start(), match.end(), kind, _number(raw))
    if kind == "code":
        unit = _UNIT_NUMBER.fullmatch(raw)
        if unit is not None:
            return Value(match.start(), match.end(), "measure", raw)
        return Value(match.start(), match.end(), kind, raw.removeprefix("#"))
    return Value(match.start(), match.end(), kind, raw)


def _number(raw: str) -> int | float:
    plain = raw.replace(",", "").replace("−", "-")
    return float(plain) if "." in plain else int(plain)


def number_of(value: Value) -> int | float | None:
    """The number that a value is or begins with (``21``, ``5km``); None when it is none."""
    if value.kind == "number":
        return value.value  # type: ignore[no-any-return]
    if value.kind == "measure":
        unit = _UNIT_NUMBER.fullmatch(value.value)
        return _number(unit.group(1)) if unit else None
    if value.kind in ("quoted", "code") and re.fullmatch(r"[-+]?\d{1,15}(?:\.\d{1,15})?", value.value):
        return _number(value.value)
    return None


def _number_words(masked: str) -> list[Value]:
    return [
        Value(match.start(), match.end(), "number", _NUMBER_WORDS[match.group().lower()])
        for match in re.finditer(r"\b[A-Za-z]+\b", masked)
        if match.group().lower() in _NUMBER_WORDS and match.group().lower() != "one"
    ]


def _names(masked: str, evidence: frozenset[str]) -> list[Value]:
    found: list[Value] = []
    position = 0
    shouted = masked.isupper() or _is_title(masked)
    while (match := _NAME.search(masked, position)) is not None:
        start, end = match.span()
        position = end
        word = match.group().lower()
        if _opens_sentence(masked, match, evidence) or word in ("i", "ok") or word.startswith(("i'", "i’")):
            continue
        if shouted and (word in STOP_WORDS or stem(word) in evidence):
            continue
        while (gap := _CONNECTORS.match(masked, end)) and (more := _NAME.match(masked, gap.end())):
            end = more.end()
        position = end
        found.append(Value(start, end, "name", _without_possessive(masked, start, end)))
    return found


def _is_title(text: str) -> bool:
    """Whether Every Word Is Capitalised, so that capitals tell nothing."""
    found = re.findall(r"[^\W\d_]+", text)
    return len(found) > 3 and all(word[0].isupper() for word in found)


def _is_own(name: Value, own: frozenset[str]) -> bool:
    return all(stem(word) in own for word in words(name.value))


def _without_possessive(masked: str, start: int, end: int) -> str:
    """``Ada's orders`` speaks of Ada; ``a table at Luigi's for two`` of Luigi's."""
    name = masked[start:end]
    following = _FOLLOWING.match(masked, end)
    if name.endswith(("'s", "’s")) and following and following.group(1).lower() not in STOP_WORDS:
        return name[:-2]
    return name


def _opens_sentence(masked: str, match: re.Match[str], evidence: frozenset[str]) -> bool:
    """Whether a capital is only there because a sentence begins."""
    before = match.start() - 1
    while before >= 0 and masked[before] in " \t\"“'(*":
        before -= 1
    if before >= 0 and masked[before] not in ".?!:\n":
        return False
    word = match.group().lower()
    if word in STOP_WORDS or word in _OPENERS or stem(word) in evidence:
        return True
    return word.split("'")[0].split("’")[0] in STOP_WORDS or _AFTER_VERB.match(masked, match.end()) is not None


def find_json(text: str) -> list[Any]:
    """Objects and lists written as JSON inside a text."""
    found: list[Any] = []
    position = 0
    for _ in range(_MAX_TRIES):
        match = _JSON_START.search(text, position)
        if match is None or len(found) == _MAX_JSON:
            break
        try:
            value, position = _DECODER.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            position = match.start() + 1
        else:
            found.append(value)
    return found


def read_json(text: str) -> Any:
    """A text that is one JSON value, as that value.

    Raises:
        ValueError: it is not JSON, or nested too deeply to be read.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
