"""Which tool (or which other agent) a person's words point at."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hookwork.records.request import FunctionDeclaration
from hookwork_offline.schema import Schema, as_schema, enum_of, properties, required, variants
from hookwork_offline.words import COMMON_VERBS, DOC_WORDS, STOP_WORDS, name_stems, stem, stems, synonyms, words

#: Weights of a word by where it stands in a declaration. Only their order matters: a name says more than a description.
NAME, PARAMETER, ENUM, DESCRIPTION, DETAIL = 3.0, 2.0, 2.0, 1.0, 0.5
#: What a choice needs at least: one word of a tool's first sentence.
THRESHOLD = 1.0

_COMMON = frozenset(stem(word) for word in COMMON_VERBS)
_DOC = frozenset(stem(word) for word in DOC_WORDS)
_FIRST_SENTENCE = re.compile(r"(?<=[.!?])\s|\n")
_PREFIX = 4  # letters from which a beginning counts as the word: "temp", "info"


@dataclass(frozen=True, slots=True)
class Option:
    """Something that can be chosen: its name, what it is for, and the weight of each stem that speaks for it.

    ``named``: the stems of its name, without verbs that many tools share. ``own_words``: those and the nouns of its
    parameters.
    """

    name: str
    description: str
    weights: Mapping[str, float]
    schema: Schema = field(default_factory=dict)
    result_schema: Schema = field(default_factory=dict)
    own_words: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()

    @property
    def evidence(self) -> frozenset[str]:
        """All stems of the declaration."""
        return frozenset(self.weights)

    @property
    def required(self) -> list[str]:
        """Names of the parameters a call must have."""
        return required(self.schema, self.schema)

    @property
    def parameters(self) -> dict[str, Schema]:
        """The declared parameters in order."""
        return properties(self.schema, self.schema)


@dataclass(frozen=True, slots=True)
class Match:
    """How well an option fits, and by which stems."""

    option: Option
    score: float
    stems: frozenset[str]

    @property
    def names_it(self) -> bool:
        """Whether a word of the option's very name was said."""
        return any(self.option.weights.get(piece) == NAME for piece in self.stems)


def tool_option(declaration: FunctionDeclaration) -> Option:
    """A declared function as an option."""
    schema = as_schema(declaration.parameters_json_schema or declaration.parameters)
    name, description = declaration.name or "", declaration.description or ""
    weights: dict[str, float] = {}
    _describe(weights, description)
    nouns: set[str] = set()
    for parameter, declared in properties(schema, schema).items():
        for piece in name_stems(parameter):
            _add(weights, [piece], DETAIL if piece in _DOC else PARAMETER)
        nouns |= {piece for piece in name_stems(parameter) if piece not in _DOC}
        detail = declared.get("description")
        _add(weights, (s for s in stems(detail if isinstance(detail, str) else "") if s not in _DOC), DETAIL)
        for variant in variants(declared, schema):
            for value in enum_of(variant) or ():
                _add(weights, stems(value) if isinstance(value, str) else (), ENUM)
    named = _name(weights, name)
    return Option(
        name=name,
        description=description,
        weights=weights,
        schema=schema,
        result_schema=as_schema(declaration.response_json_schema or declaration.response),
        own_words=frozenset(piece for piece in nouns | named if piece not in STOP_WORDS),
        named=frozenset(named),
    )


def plain_option(name: str, description: str) -> Option:
    """A target without parameters: another agent."""
    weights: dict[str, float] = {}
    _describe(weights, description)
    named = _name(weights, name)
    return Option(
        name=name, description=description, weights=weights, own_words=frozenset(named), named=frozenset(named)
    )


def _describe(weights: dict[str, float], description: str) -> None:
    first, *rest = _FIRST_SENTENCE.split(description.strip(), maxsplit=1)
    _add(weights, (s for s in stems(first) if s not in _DOC), DESCRIPTION)
    _add(weights, (s for s in stems(" ".join(rest)) if s not in _DOC), DETAIL)


def _name(weights: dict[str, float], name: str) -> set[str]:
    named = {stem(word) for word in words(name) if word not in STOP_WORDS} - {"agent", "tool"}
    specific = named - _COMMON
    _add(weights, specific, NAME)
    _add(weights, named & _COMMON, DESCRIPTION if specific else NAME)
    return specific


def _add(weights: dict[str, float], found: Iterable[str], weight: float) -> None:
    for piece in found:
        weights[piece] = max(weight, weights.get(piece, 0.0))


def rank(found: Sequence[str], options: Sequence[Option]) -> list[Match]:
    """The options with a score above zero, best first (ties: the order of declaration).

    A stem that many options share counts less for each: it does not tell them apart.
    """
    matches = []
    for option in options:
        score, used = _score(found, option, options)
        if score > 0:
            matches.append(Match(option, score, frozenset(used)))
    return sorted(matches, key=lambda match: -match.score)


def best(found: Sequence[str], options: Sequence[Option]) -> Match | None:
    """The best option that reaches the threshold."""
    ranked = rank(found, options)
    return ranked[0] if ranked and ranked[0].score >= THRESHOLD else None


def _score(found: Sequence[str], option: Option, options: Sequence[Option]) -> tuple[float, set[str]]:
    score, used = 0.0, set()
    for piece in dict.fromkeys(found):
        weight = _weight(piece, option.weights)
        if weight:
            sharing = sum(1 for other in options if piece in other.weights)
            # A verb such as "show" is no reason of its own, only a nudge between tools that fit anyway.
            score += (0.2 if piece in _COMMON and weight < NAME else weight) / math.sqrt(max(sharing, 1))
            used.add(piece)
    if score and used <= _COMMON and score < THRESHOLD:
        return 0.0, set()
    return _settle(score, used, option, options)


def _settle(score: float, used: set[str], option: Option, options: Sequence[Option]) -> tuple[float, set[str]]:
    """A word of the name or a description's first sentence is enough, however many options share it."""
    strongest = max((_weight(piece, option.weights) for piece in used - _COMMON), default=0.0)
    if strongest >= DESCRIPTION and score < THRESHOLD:
        return THRESHOLD + score / 100, used
    return score, used


def _weight(piece: str, weights: Mapping[str, float]) -> float:
    direct = weights.get(piece)
    if direct is not None:
        return direct
    near = max((weights.get(other, 0.0) for other in synonyms(piece)), default=0.0)
    if near:
        return near * 0.8
    if len(piece) >= _PREFIX:
        for known, weight in weights.items():
            if len(known) >= _PREFIX and (known.startswith(piece) or piece.startswith(known)):
                return weight * 0.6
    return 0.0
