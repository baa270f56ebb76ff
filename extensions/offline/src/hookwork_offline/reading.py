"""One text as a source of arguments: its values, which of them are taken, and what stands around them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hookwork_offline.values import Value, find_values
from hookwork_offline.words import DOC_WORDS, stem, words

_LINK = r"(?:\s*(?:is|are|was|=|:|to|of|as|named|called|number|no\.|should be|#)(?!\w)){0,2}\s*[\"'“]?"
_WORD_BEFORE = re.compile(r"([^\W_]+)[\s:=#\"'“(]*$")
_WORD_AFTER = re.compile(r"[\"'”)%]?[\s-]*([^\W_]+)")
_ARTICLES = frozenset({"the", "a", "an", "my", "our", "this"})
_NAMING = frozenset({"id", "named", "called", "number", "no", "name"})
_SUFFIXES = frozenset({"id", "code", "key", "name", "no", "num", "number"})  # "order 7" speaks of an order_id
_COUNTING = frozenset({"num", "number", "max", "maximum", "min", "minimum", "count", "total", "limit", "in", "per"})


#: Characters of a text that are searched for values. What stands further down is content, not a wish.
READ_LIMIT = 4000


class Reading:
    """A text being read for one call. Each value is used once."""

    __slots__ = ("depth", "foreign", "own", "taken", "text", "values")

    def __init__(
        self,
        text: str,
        evidence: frozenset[str],
        foreign: frozenset[str] = frozenset(),
        own: frozenset[str] = frozenset(),
    ) -> None:
        self.text = text
        self.own = own
        self.values = find_values(text[:READ_LIMIT], evidence, own)
        self.foreign = foreign
        self.taken: list[tuple[int, int]] = []
        self.depth = 0  # how many nested objects the reading is inside of

    def free(self, *kinds: str) -> Iterator[Value]:
        """Values of those kinds (any kind when none is given) that nobody took, in order."""
        for value in self.values:
            if (not kinds or value.kind in kinds) and not self.is_taken(value.start, value.end):
                yield value

    @property
    def head(self) -> str:
        """The part of the text in which arguments are looked for."""
        return self.text[:READ_LIMIT]

    def take(self, start: int, end: int) -> None:
        """Mark a stretch of the text as used."""
        self.taken.append((start, end))

    def is_taken(self, start: int, end: int) -> bool:
        """Whether any of that stretch is used already."""
        return any(start < taken_end and taken_start < end for taken_start, taken_end in self.taken)

    def holds_value(self, start: int, end: int) -> bool:
        """Whether that stretch is taken or touches a value of a kind of its own."""
        return self.is_taken(start, end) or any(start < value.end and value.start < end for value in self.values)

    def word_before(self, position: int) -> str:
        """The word that stands before a place, articles skipped, in lower case; empty at the beginning."""
        for _ in range(3):
            match = _WORD_BEFORE.search(self.text, max(0, position - 40), position)
            if match is None:
                return ""
            if match.group(1).lower() not in _ARTICLES:
                return match.group(1).lower()
            position = match.start()
        return ""

    def word_after(self, position: int) -> str:
        """The word right after a place, in lower case."""
        match = _WORD_AFTER.match(self.text, position)
        return match.group(1).lower() if match else ""

    def is_foreign(self, value: Value) -> bool:
        """Whether the text ties a value to another tool: ``user 42`` is no city and no order."""
        before = self.word_before(value.start)
        if before in _NAMING:
            match = _WORD_BEFORE.search(self.text, max(0, value.start - 60), value.start)
            before = self.word_before(match.start()) if match else ""
        return bool(before) and stem(before) in self.foreign

    def cue_ends(self, name: str) -> Iterator[int]:
        """Places right after a mention of a parameter's name and a link ("amount of", "city:", "limit =")."""
        pieces = words(name)
        spellings = [pieces, pieces[:-1]] if pieces and pieces[-1] in _SUFFIXES else [pieces]
        for spelling in spellings:
            if spelling:
                mention = r"[\s_-]*".join(re.escape(piece) for piece in spelling)
                for match in re.finditer(rf"(?<!\w){mention}s?(?!\w){_LINK}", self.head, re.IGNORECASE):
                    yield match.end()

    def cued(self, name: str) -> Iterator[Value]:
        """Free values that stand right after the parameter's name."""
        for end in self.cue_ends(name):
            for value in self.free():
                if value.start <= end <= value.end and end - value.start <= 1:
                    yield value

    def counted(self, name: str) -> Iterator[Value]:
        """Free numbers that stand right before the parameter's noun: ``5 days`` for ``days`` or ``num_days``."""
        nouns = {stem(word) for word in words(name) if word not in _COUNTING and word not in DOC_WORDS}
        for value in self.free("number", "measure"):
            if stem(self.word_after(value.end)) in nouns:
                yield value
