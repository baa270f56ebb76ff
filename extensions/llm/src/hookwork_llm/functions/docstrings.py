"""Descriptions out of docstrings in Google, NumPy and Sphinx style (tools-plugins FN-07).

The library that reads them is loaded only for a docstring that has sections; any other is its own description.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from types import MappingProxyType

_SECTION = (
    r"^\s*(?:"
    r"(?:args?|arguments|parameters?|params|other parameters|attributes|returns?|yields?|raises|exceptions?|except|"
    r"examples?)\s*:?\s*$"
    r"|:(?:param|parameter|arg|argument|key|keyword|type|attribute|returns?|rtype|raises?|except|exception|yields?)\b"
    r"|@(?:param|return|raise)\b"
    r")"
)
#: The library's name of a section that is neither about arguments nor results → its heading.
_TEXT_SECTIONS = {"notes": "Note", "warnings": "Warning"}
_NOTHING: Mapping[str, str] = MappingProxyType({})


def read_docstring(doc: str) -> tuple[str, Mapping[str, str]]:
    """(description, parameter name → description) of a docstring.

    The description is the summary and the body; argument, return and raises sections are not part of it.
    """
    text = inspect.cleandoc(doc) if doc else ""
    if ("\n" not in text and ":" not in text) or not re.search(_SECTION, text, re.IGNORECASE | re.MULTILINE):
        return text, _NOTHING
    from docstring_parser import ParseError, parse

    try:
        parsed = parse(text)
    except ParseError:  # not in one of the styles: what was written still describes the tool
        return text, _NOTHING
    blocks = [parsed.short_description, parsed.long_description]
    for meta in parsed.meta:  # NumPy's sections of plain text belong to the body
        heading = _TEXT_SECTIONS.get(meta.args[0] if meta.args else "")
        if heading and meta.description:
            blocks.append(f"{heading}:\n{meta.description}")
    blocks += [f"Example:\n{example.description or example.snippet}" for example in parsed.examples]
    described = {
        name.strip().lstrip("*"): " ".join(parameter.description.split())
        for parameter in parsed.params
        if parameter.description
        for name in parameter.arg_name.split(",")
    }
    return "\n\n".join(block.strip() for block in blocks if block), described
