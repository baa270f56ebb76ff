"""Words of a text and how well a query's words fit it (services MEM-7 … MEM-9)."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"\w+")
_NO_WORD = re.compile(r"\W")
#: Scripts written without blanks between words, and Hangul, whose particles stick to the noun: Han, Kana, Hangul,
#: Thai, Lao, Khmer, Myanmar, by their Unicode blocks.
_PAIR_SCRIPT = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u19e0-\u19ff\u3005-\u3007\u3040-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
    "\U0001aff0-\U0001b16f\U00020000-\U000323af]"
)


def normal(text: str) -> str:
    """The form in which texts are compared: composed (NFC) and case-folded."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _mark_or_blank(match: re.Match[str]) -> str:
    return match[0] if unicodedata.category(match[0])[0] == "M" else " "


def words(text: str) -> list[str]:
    """The words of a `normal` text in order: runs of letters, digits and ``_``, and marks that combine with them."""
    if text.isascii():
        return _WORD.findall(text)
    found: list[str] = []
    # Blanks are put in place of everything that is no part of a word; \w knows no combining marks, hence the look-up.
    for run in _NO_WORD.sub(_mark_or_blank, text).split(" "):
        first = _WORD.search(run)  # a mark without a letter before it (an emoji's variant selector) begins no word
        if first is not None:
            found.append(run[first.start() :])
    return found


class IndexedText:
    """The text parts of one entry, ready to be searched."""

    __slots__ = ("texts", "words")

    def __init__(self, texts: list[str]) -> None:
        self.texts = [normal(text) for text in texts]
        self.words = frozenset(word for text in self.texts for word in words(text))


class Query:
    """The distinct words of a query, each with the way it may match."""

    __slots__ = ("_other", "_pairs", "_words")

    def __init__(self, text: str) -> None:
        self._words = list(dict.fromkeys(words(normal(text))))
        self._pairs: dict[str, tuple[frozenset[str], int]] = {}
        self._other: set[str] = set()
        for word in self._words:
            if word.isascii():
                continue
            if len(word) > 1 and _PAIR_SCRIPT.search(word):
                pairs = frozenset(word[i : i + 2] for i in range(len(word) - 1))
                self._pairs[word] = pairs, max(1, -(-len(pairs) // 4))
            else:
                self._other.add(word)

    def __bool__(self) -> bool:
        return bool(self._words)

    def score(self, entry: IndexedText) -> float:
        """0 when nothing matches; else the sum over the words of 1, or of the share of their pairs (MEM-9)."""
        score = 0.0
        for word in self._words:
            if word in entry.words:
                score += 1.0
            elif word in self._other:
                score += any(word in text for text in entry.texts)
            elif word in self._pairs:
                pairs, needed = self._pairs[word]
                most = max((sum(pair in text for pair in pairs) for text in entry.texts), default=0)
                if most >= needed:
                    score += most / len(pairs)
        return score
