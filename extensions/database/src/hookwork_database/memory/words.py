"""Words of texts and queries, their pairs, and how well an entry fits (services MEM-7 … MEM-9, FTS-2)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

_ASCII_WORD = re.compile(r"[a-z0-9_]+")
#: First and last code point of the blocks whose scripts are written without blanks (Thai, Lao, Myanmar, Khmer, Kana,
#: Han), and of Hangul.
_BLOCKS = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x11FF),
    (0x1780, 0x17FF),
    (0x19E0, 0x19FF),
    (0x3005, 0x3007),
    (0x3040, 0x30FF),
    (0x3130, 0x318F),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xA960, 0xA97F),
    (0xA9E0, 0xA9FF),
    (0xAA60, 0xAA7F),
    (0xAC00, 0xD7FF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFFDC),
    (0x1AFF0, 0x1B16F),
    (0x20000, 0x323AF),
)
_UNSPACED = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _BLOCKS) + "]")


def folded(text: str) -> str:
    """The form in which texts are compared: NFC, case-folded."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def words_of(text: str) -> Iterator[str]:
    """The words of a `folded` text: runs of letters, digits, ``_`` and the marks that combine with them."""
    if text.isascii():
        yield from _ASCII_WORD.findall(text)
        return
    word = ""
    for character in text:
        if character.isalnum() or character == "_" or (word and unicodedata.category(character).startswith("M")):
            word += character
        elif word:
            yield word
            word = ""
    if word:
        yield word


def pairs_of(word: str) -> list[str]:
    """The distinct character pairs of a word that is matched by them, in order; none for any other word."""
    if len(word) < 2 or word.isascii() or _UNSPACED.search(word) is None:
        return []
    return list(dict.fromkeys(word[place : place + 2] for place in range(len(word) - 1)))


def search_text(texts: Iterable[str]) -> str:
    """What the index holds of an entry: its words, those matched by pairs as their pairs, joined by blanks."""
    found: list[str] = []
    for text in texts:
        for word in words_of(folded(text)):
            found += pairs_of(word) or [word]
    return " ".join(found)


class Query:
    """The distinct words of a question.

    Attributes:
        tokens: what the index is asked for, any of them.
        inside: words that match inside longer ones too, which an index of words cannot tell.
    """

    __slots__ = ("_pairs", "_words", "inside", "tokens")

    def __init__(self, text: str) -> None:
        self._words = list(dict.fromkeys(words_of(folded(text))))
        self._pairs = {word: pairs for word in self._words if (pairs := pairs_of(word))}
        self.inside = [word for word in self._words if not word.isascii() and word not in self._pairs]
        self.tokens = [token for word in self._words for token in self._pairs.get(word, [word])]

    def __bool__(self) -> bool:
        return bool(self._words)

    @property
    def match(self) -> str:
        """The question in FTS5's syntax: quoted tokens and nothing else, so nothing of it can be syntax (FTS-2)."""
        return " OR ".join('"{}"'.format(token.replace('"', '""')) for token in self.tokens)

    def score(self, texts: Iterable[str]) -> float:
        """How well an entry of these texts fits; 0 when it does not (MEM-8, MEM-9)."""
        prepared = [folded(text) for text in texts]
        known = {word for text in prepared for word in words_of(text)}
        score = 0.0
        for word in self._words:
            if word in known:
                score += 1
            elif word in self._pairs:
                pairs = self._pairs[word]
                most = max((sum(pair in text for pair in pairs) for text in prepared), default=0)
                if most and 4 * most >= len(pairs):
                    score += most / len(pairs)
            elif word in self.inside and any(word in text for text in prepared):
                score += 1
        return score
