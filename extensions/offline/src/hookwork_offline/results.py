"""Arguments that are not in the person's words but in what earlier calls gave back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hookwork_offline.conversation import Result
from hookwork_offline.matching import Option
from hookwork_offline.schema import equal, fits, properties
from hookwork_offline.values import read_json
from hookwork_offline.words import COMMON_VERBS, READING, name_stems, stem, words

_MAX_NODES = 2000
_VERBS = frozenset(stem(word) for word in COMMON_VERBS)


def payload(result: Result) -> Any:
    """What a tool gave, out of its ``{"result": …}`` envelope; JSON in a text is read."""
    response: Any = result.response or {}
    if set(response) == {"result"}:
        response = response["result"]
    if isinstance(response, str) and response.lstrip()[:1] in ("{", "["):
        try:
            return read_json(response)
        except ValueError:
            return response
    return response


def field_values(option: Option, name: str, results: Iterable[Result]) -> list[Any]:
    """Distinct values for a parameter among the fields of results, in order; only those that fit its schema.

    A field stands for a parameter when it has its name, or when the parameter is called ``customer_id`` and the field
    is the ``id`` of something called customer. A tool never feeds itself, so a chain of calls always ends.
    """
    found: list[Any] = []
    schema = option.parameters.get(name, {})
    for result in results:
        if result.status != "ok" or result.name == option.name:
            continue
        given = payload(result)
        owner = name_stems(result.name)
        if not isinstance(given, dict | list):
            # A tool that returns one value names it: `find_customer_id` → 7.
            given = {" ".join(piece for piece in owner if piece not in _VERBS): given}
        for value in _fields(given, name, owner):
            if fits(value, schema, option.schema) and not any(equal(value, other) for other in found):
                found.append(value)
        if found:
            return found
    return found


def only_reads(option: Option) -> bool:
    """Whether a tool's name or description says that it looks something up and changes nothing."""
    return any(words(text)[:1] and words(text)[0] in READING for text in (option.name, option.description))


def can_provide(option: Option, name: str) -> bool:
    """Whether a tool declares a result field of that name, or is named after the thing whose id is wanted."""
    declared = properties(option.result_schema, option.result_schema)
    owner = name_stems(option.name)
    wanted = name_stems(name)
    if any(_stands_for(key, name, owner) for key in declared):
        return True
    return len(wanted) > 1 and wanted[-1] == "id" and set(wanted[:-1]) <= set(owner)


def _stands_for(key: str, name: str, owner: list[str]) -> bool:
    wanted, present = name_stems(name), name_stems(key)
    if not wanted:
        return False
    if wanted == present:
        return True
    return len(wanted) > 1 and wanted[-1:] == present and set(wanted[:-1]) <= set(owner)


def _fields(value: Any, name: str, owner: list[str]) -> Iterator[Any]:
    """Values of matching fields, the shallow ones first."""
    level: list[tuple[Any, list[str]]] = [(value, owner)]
    seen = 0
    while level and seen < _MAX_NODES:
        deeper: list[tuple[Any, list[str]]] = []
        for node, names in level:
            seen += 1
            if isinstance(node, dict):
                for key, item in node.items():
                    if item is not None and _stands_for(key, name, names):
                        yield item
                    deeper.append((item, name_stems(key)))
            elif isinstance(node, list):
                deeper += [(item, names) for item in node]
        level = [entry for entry in deeper if isinstance(entry[0], dict | list)]
