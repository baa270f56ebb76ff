"""Answers in words: results as sentences and tables, errors as errors, questions, and what can be asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hookwork_offline.conversation import Result, Turn
from hookwork_offline.matching import Option
from hookwork_offline.planning import Decision, Question
from hookwork_offline.results import payload
from hookwork_offline.schema import enum_of, types_of, variants
from hookwork_offline.transfer import TRANSFER, Targets
from hookwork_offline.words import spoken, words

MAX_ROWS = 50
_UNITS = {
    "c": "°C", "celsius": "°C", "f": "°F", "fahrenheit": "°F", "km": "km", "kg": "kg", "percent": "%", "pct": "%",
    "gb": "GB", "mb": "MB", "kb": "KB", "bytes": "bytes", "seconds": "s", "ms": "ms", "minutes": "min", "hours": "h",
    "kmh": "km/h", "mm": "mm", "cm": "cm", "meters": "m", "eur": "EUR", "usd": "USD",
}  # fmt: skip
#: Fields that hold a sentence already: said first, and without their name.
_SENTENCES = frozenset({"answer", "message", "text", "summary", "verdict", "content", "output"})


def word(decision: Decision, turn: Turn, options: Sequence[Option], targets: Targets | None) -> str:
    """The text of an answer to a decision that makes no call."""
    if decision.dropped:
        return "All right, I leave it at that."
    if decision.unanswered:
        return _nothing_fits(turn, options, targets)
    pieces = [*_results(turn.results)]
    if decision.question is not None:
        pieces.append(_question(decision.question))
    return "\n\n".join(pieces) or "Done."


# --- results ---------------------------------------------------------------------------------------------------------


def _results(results: Sequence[Result]) -> list[str]:
    said = []
    for result in results:
        text = _result(result)
        if result.attachments:
            text += f"\n\n(It came with {result.attachments} attachment{'s' if result.attachments > 1 else ''}.)"
        if len(results) > 1 and result.status == "ok":
            title = _title(result, results)
            text = f"{title}:\n{text}" if "\n" in text else f"{title}: {text}"
        said.append(text)
    return said


def _title(result: Result, results: Sequence[Result]) -> str:
    """What tells this result from its neighbours: the tool, or what differs where one tool was called twice."""
    twins = [other for other in results if other.name == result.name]
    name = _capital(spoken(result.name))
    if len(twins) == 1:
        return name
    differing = (
        value
        for key, value in result.args.items()
        if not isinstance(value, dict | list) and any(other.args.get(key) != value for other in twins)
    )
    return ", ".join(_inline(value) for value in differing) or name


def _result(result: Result) -> str:
    if result.status == "ok":
        if result.name == TRANSFER:
            return f"Handed over to {', '.join(_inline(value) for value in result.args.values()) or 'another agent'}."
        return _value(payload(result), result.name)
    response = result.response or {}
    detail = response.get("error") or response.get("message") or ""
    detail = detail if isinstance(detail, str) else _inline(detail)
    if result.status == "pending":
        return _stop(f"`{result.name}` has no result yet, it is waiting{': ' + detail if detail else ''}")
    if result.status == "interrupted":
        return _stop(f"`{result.name}` was interrupted and has no result{': ' + detail if detail else ''}")
    extra = {key: value for key, value in response.items() if key not in ("error", "status")}
    verb = "was not run" if "reject" in detail.lower() or "denied" in detail.lower() else "failed"
    text = _stop(f"`{result.name}` {verb}: {detail}")
    return f"{text}\n\n{_value(extra, result.name)}" if extra else text


def _value(value: Any, name: str) -> str:
    if isinstance(value, dict):
        return _mapping(value, name)
    if isinstance(value, list):
        return _listing(value) if value else f"Nothing was found (`{name}`)."
    if value is None or value == "":
        return f"Done (`{name}`)."
    return value.strip() if isinstance(value, str) else f"{_capital(spoken(name))}: {_inline(value)}."


def _mapping(value: dict[str, Any], name: str) -> str:
    """Ready sentences first; then the fields in order, flat neighbours joined, each nested one on its own."""
    sentences: list[str] = []
    pieces: list[str] = []
    flat: list[str] = []
    for key, item in value.items():
        if key in _SENTENCES and isinstance(item, str):
            if item.strip():
                sentences.append(item.strip())
        elif isinstance(item, dict | list):
            pieces += [*_flat(flat), _nested(key, item)]
            flat = []
        else:
            flat.append(_field(key, item))
    return "\n\n".join([*sentences, *pieces, *_flat(flat)]) or f"Done (`{name}`)."


def _flat(fields: list[str]) -> list[str]:
    return [f"{_capital(_joined(fields))}."] if fields else []


def _field(key: str, value: Any) -> str:
    parts = words(key)
    unit = _UNITS.get(parts[-1]) if len(parts) > 1 and isinstance(value, int | float) else None
    label = " ".join(parts[:-1]) if unit else spoken(key)
    text = f"{_inline(value)} {unit}" if unit else _inline(value)
    if isinstance(value, str) and ("\n" in value or len(value) > 200):
        return f"{label}: {value.strip().rstrip('.')}"
    return f"{label} is {text.rstrip('.') if isinstance(value, str) else text}"


def _nested(key: str, value: Any) -> str:
    title = _capital(spoken(key))
    if not value:
        return f"{title}: none."
    if isinstance(value, list):
        return f"{title}:\n{_listing(value)}"
    if all(not isinstance(item, dict | list) for item in value.values()):
        return f"{title}: {_joined([_field(name, item) for name, item in value.items()])}."
    return f"{title}:\n{_indented(value)}"


def _indented(value: dict[str, Any]) -> str:
    return "\n".join(f"- {spoken(key)}: {_inline(item)}" for key, item in value.items())


def _listing(value: list[Any]) -> str:
    rows = [item for item in value if isinstance(item, dict) and item]
    if rows and len(rows) == len(value):
        return _table(rows)
    shown = [f"- {_inline(item)}" for item in value[:MAX_ROWS]]
    return "\n".join([*shown, *_more(len(value))])


def _table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table with padded columns, readable as plain text too."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [[spoken(column) for column in columns]]
    lines += [[_cell(row[column]) if column in row else "" for column in columns] for row in rows[:MAX_ROWS]]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(columns))]
    drawn = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    drawn.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join([*drawn, *_more(len(rows))])


def _cell(value: Any) -> str:
    return _inline(value).replace("|", "\\|").replace("\n", " ")


def _more(count: int) -> list[str]:
    return [f"… and {count - MAX_ROWS} more"] if count > MAX_ROWS else []


def _inline(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(not isinstance(item, dict | list) for item in value):
        return ", ".join(_inline(item) for item in value) or "none"
    return json.dumps(value, ensure_ascii=False, default=str)


def _joined(pieces: Sequence[str]) -> str:
    return pieces[0] if len(pieces) == 1 else f"{', '.join(pieces[:-1])} and {pieces[-1]}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _stop(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else text + "."


# --- questions and offers --------------------------------------------------------------------------------------------


def _question(question: Question) -> str:
    name = question.option.name
    if len(question.missing) == 1:
        missing = question.missing[0]
        hint = _hint(question.option, missing, question.choices)
        return f"Which {spoken(missing)}? I need it for `{name}`{f' ({hint})' if hint else ''}."
    lines = [f"For `{name}` I need some more:"]
    for missing in question.missing:
        hint = _hint(question.option, missing, ())
        lines.append(f"- {spoken(missing)}{f': {hint}' if hint else ''}")
    return "\n".join(lines)


def _hint(option: Option, name: str, choices: Sequence[Any]) -> str:
    schema = option.parameters.get(name, {})
    hints = []
    description = schema.get("description")
    if isinstance(description, str) and description.strip():
        hints.append(description.strip().rstrip("."))
    if choices:
        hints.append(f"one of: {', '.join(_inline(choice) for choice in choices[:10])}")
        return "; ".join(hints)
    for variant in variants(schema, option.schema):
        allowed = enum_of(variant)
        if allowed:
            hints.append(f"one of: {', '.join(_inline(value) for value in allowed[:20])}")
            break
        kind = (types_of(variant) or [""])[0]
        if not hints and kind in _KINDS:
            hints.append(_KINDS[kind])
            break
    return "; ".join(hints)


_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "yes or no",
    "array": "a list",
    "object": "a JSON object",
}


def _nothing_fits(turn: Turn, options: Sequence[Option], targets: Targets | None) -> str:
    offers = [f"- {spoken(option.name)}{_about(option.description)}" for option in options]
    if targets is not None:
        offers += [f"- hand over to {option.name}{_about(option.description)}" for option in targets.options]
    if turn.relayed:
        said = "\n".join(f"- {speaker}: {text}" for speaker, text in turn.relayed)
        return f"This is what was said so far:\n{said}"
    if not offers:
        return (
            "I am the offline model: I match words with tools, and this agent has no tools. "
            "Give it tools, or another model, for more than this answer."
        )
    return "No tool of mine fits that. This is what I can do:\n" + "\n".join(offers)


def _about(description: str) -> str:
    first = description.strip().split("\n", 1)[0].strip()
    return f": {first}" if first else ""
