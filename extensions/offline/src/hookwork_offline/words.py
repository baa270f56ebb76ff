"""Words and their stems: what the rules compare instead of meaning."""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def word_set(text: str) -> frozenset[str]:
    """The blank-separated words of a text: how the tables of this package are written."""
    return frozenset(text.split())


#: Words that carry no choice between tools.
STOP_WORDS = word_set(
    """
    a about after again all also am an and any are as at be been before but by can could did do does doing done for
    from give had has have he hello her hers hey hi him his how i i'd i'll i'm if in into is it it's its just let let's
    like may me might mine more most my need no not now of off ok okay on one or our out over please she should so
    some tell than thank thanks that that's the their them then there these they this those to too under up us very
    want was we were what what's when where where's which who who's whose why will with would yes yet you your
    """
)

#: Words so common in descriptions of functions that a match on them alone says nothing.
DOC_WORDS = word_set(
    """
    an available based call called current e.g etc example function given id input item items kind list make name names
    number object one optional output parameter provide result results return returned returns set show specific
    string tool type use used using value values
    """
)

#: Verbs that many tools share in their names: weak evidence next to the noun they stand by.
COMMON_VERBS = word_set("check do fetch find get list load lookup make query read run search set show")

#: Verbs in the form in which a wish begins: as an order, or after "to".
ORDER_VERBS = word_set(
    """
    add ask book buy calculate call cancel change check close compare compute convert count create delete describe
    display explain fetch find flip generate get give go know learn list look make move open order pay plan play print
    put read remind remove rename reserve run save schedule search see send set show start stop summarise summarize
    switch tell translate turn update use write
    """
)

#: After these "to" begins an infinitive, whatever verb follows: "I want to buy", "how to fly".
_BEFORE_INFINITIVE = word_set(
    """
    able ask decide decided forget happy hate hope how intend like love need needs plan planning prefer ready remember
    trying try want wanted wants way wish wishes
    """
)

#: First words of tools that only look something up; others are never called on the model's own initiative.
READING = word_set(
    "check current fetch find get list load locate look lookup query read resolve return returns search show where who"
)

# Groups of everyday equivalents. Small on purpose: the model is a demo of the contract, not of language.
_GROUPS = (
    ("delete", "remove", "erase"),
    ("create", "add", "make"),
    ("find", "search", "look", "lookup"),
    ("price", "cost"),
    ("weather", "forecast"),
    ("mail", "email"),
    ("movie", "film"),
    ("photo", "picture", "image"),
)

_SUFFIXES = ("ing", "ed", "es", "s")


def words(text: str) -> list[str]:
    """The words of a text in lower case; ``snake_case``, ``kebab-case`` and ``camelCase`` come apart."""
    return [
        piece.lower()
        for match in _WORD.finditer(text)
        for piece in _CAMEL.split(match.group().replace("’", "'"))
        if piece
    ]


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A crude stem: plural and verb endings cut, so ``cities``/``city`` and ``booking``/``book`` meet."""
    if word.endswith("'s"):
        word = word[:-2]
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and not word.endswith("ss"):
            base = word[: -len(suffix)]
            if suffix in ("ing", "ed") and len(base) > 3 and base[-1] == base[-2] and base[-1] not in "ls":
                base = base[:-1]
            return base.rstrip("e") if len(base) > 3 else base
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


_SYNONYMS: dict[str, frozenset[str]] = {
    stem(word): frozenset(stem(other) for other in group if other != word) for group in _GROUPS for word in group
}


def synonyms(stemmed: str) -> frozenset[str]:
    """Stems that mean about the same."""
    return _SYNONYMS.get(stemmed, frozenset())


def stems(text: str) -> list[str]:
    """The stems of all words but the stop words, in order."""
    return [stem(word) for word in words(text) if word not in STOP_WORDS]


def name_stems(name: str) -> list[str]:
    """The stems of an identifier's words, none left out."""
    return [stem(word) for word in words(name)]


def is_infinitive(before: str, verb: str) -> bool:
    """Whether the "to" between two words is no preposition: ``want to buy``, not ``flight to rome``."""
    return before.lower() in _BEFORE_INFINITIVE or verb.lower() in ORDER_VERBS


def spoken(name: str) -> str:
    """An identifier as a person would say it: ``customer_id`` → ``customer id``."""
    return " ".join(words(name)) or name
