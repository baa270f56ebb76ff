"""Handing the conversation to another agent (core §2.5)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hookwork.records.request import FunctionDeclaration, GenerateContentConfig
from hookwork_offline.conversation import Turn
from hookwork_offline.matching import THRESHOLD, Match, Option, plain_option, rank
from hookwork_offline.schema import as_schema, enum_of, properties, variants
from hookwork_offline.words import name_stems, stems, word_set, words

TRANSFER = "transfer_to_agent"
#: How much better than the best own tool another agent must fit.
CLEARLY = 1.5

_HAND_OVER = word_set("transfer connect hand switch forward redirect route escalate")
_SPEAK = word_set("talk speak chat")
_IDENTIFIER = r"(?<![\w]){}(?![\w])"


@dataclass(frozen=True, slots=True)
class Targets:
    """The agents a request allows to transfer to, with what is known of them."""

    parameter: str
    options: tuple[Option, ...]


def read_targets(declarations: list[FunctionDeclaration], config: GenerateContentConfig) -> Targets | None:
    """The targets of the declared transfer tool; their descriptions stand in the system instruction."""
    declaration = next((d for d in declarations if d.name == TRANSFER), None)
    if declaration is None:
        return None
    schema = as_schema(declaration.parameters_json_schema or declaration.parameters)
    declared = properties(schema, schema)
    parameter = "agent_name" if "agent_name" in declared or not declared else next(iter(declared))
    allowed: list[str] = []
    for variant in variants(declared.get(parameter, {}), schema):
        allowed += [name for name in enum_of(variant) or () if isinstance(name, str) and name]
    instruction = config.system_instruction.text if config.system_instruction is not None else ""
    known = f"{declaration.description or ''}\n{instruction}"
    names = tuple(dict.fromkeys(allowed))
    return Targets(parameter, tuple(plain_option(name, describe(name, names, known)) for name in names))


def describe(name: str, names: tuple[str, ...], text: str) -> str:
    """What a text says about an agent: each line that names it, from there to the next agent's name.

    A line below that begins with a word like ``description`` belongs to it.
    """
    mention = re.compile(_IDENTIFIER.format(re.escape(name)))
    others = [re.compile(_IDENTIFIER.format(re.escape(other))) for other in names if other != name]
    lines = text.splitlines()
    found: list[str] = []
    for i, line in enumerate(lines):
        match = mention.search(line)
        if match is None:
            continue
        ends = [other.start() for pattern in others if (other := pattern.search(line, match.end())) is not None]
        found.append(line[match.end() : min(ends, default=len(line))].strip(" \t:-–—.*`\"'()|,"))
        following = lines[i + 1] if i + 1 < len(lines) else ""
        if "description" in following.lower().split(":", 1)[0]:
            found.append(following.split(":", 1)[-1].strip())
    return ". ".join(piece for piece in found if piece)


def choose_target(targets: Targets | None, turn: Turn, own: Match | None, *, only_by_name: bool) -> str | None:
    """The agent that fits the message clearly better than any own tool, or that the person asked for by name.

    Agents that already had this turn are left out, so a message cannot travel in a circle. ``only_by_name``: the
    message answers a question, so what it is about is settled.
    """
    if targets is None or turn.results:
        return None
    options = [option for option in targets.options if option.name not in turn.speakers]
    asked = _asked_for(turn.message, options)
    if asked is not None or only_by_name:
        return asked
    ranked = rank(stems(turn.message), options)
    if not ranked or ranked[0].score < THRESHOLD:
        return None
    if own is not None and ranked[0].score < own.score * CLEARLY:
        return None
    tied = len(ranked) > 1 and ranked[1].score == ranked[0].score
    return None if tied else ranked[0].option.name


def _asked_for(message: str, options: list[Option]) -> str | None:
    said = set(words(message))
    if not said & _HAND_OVER and not said & _SPEAK:
        return None
    spoken = set(stems(message))
    for option in options:
        named = set(name_stems(option.name)) - {"agent"}
        if option.name.lower() in message.lower() or (named and named <= spoken):
            return option.name
    return None
