"""Finding code in what a model said, and showing code and results to one that knows text only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from hookwork.records.content import Content, ExecutableCode, Part

RESULT_FENCE = "tool_output"


@lru_cache(maxsize=32)
def _block(fences: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(re.escape(name) for name in fences)
    return re.compile(rf"^```(?:{names})[ \t]*\r?\n(?P<code>.*?)\r?\n?^```[ \t]*\r?$", re.M | re.S | re.I)


def first_code(content: Content, fences: tuple[str, ...]) -> tuple[Content, ExecutableCode] | None:
    """The first code that nobody ran yet, and the content up to it, the code as its last part; None without one.

    Code is an ``executable_code`` part, or a block in the text that is fenced and closed. What the model says after it
    is left out: it was said without knowing what the code gives.
    """
    parts = content.parts
    for i, part in enumerate(parts):
        if part.thought:
            continue
        if part.executable_code is not None:
            if i + 1 < len(parts) and parts[i + 1].code_execution_result is not None:
                continue  # the model's own executor did it
            return content.replace(parts=parts[: i + 1]), part.executable_code
        if part.text:
            for found in _block(fences).finditer(part.text):
                if found["code"].strip():
                    code = ExecutableCode(code=found["code"], language="PYTHON")
                    before = part.text[: found.start()].rstrip()
                    kept = [*parts[:i], *([part.replace(text=before)] if before else []), Part(executable_code=code)]
                    return content.replace(parts=kept), code
    return None


def fenced(name: str, text: str) -> str:
    """Text in a fence that nothing in it can close."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{name}\n{text}\n{fence}"


def as_text(contents: Sequence[Content]) -> Sequence[Content]:
    """Contents with code and results as fenced text; the same object when there are none."""
    if not any(_has_code(content) for content in contents):
        return contents
    return [_content_as_text(content) if _has_code(content) else content for content in contents]


def _has_code(content: Content) -> bool:
    return any(part.executable_code is not None or part.code_execution_result is not None for part in content.parts)


def _content_as_text(content: Content) -> Content:
    return content.replace(parts=[_part_as_text(part) for part in content.parts])


def _part_as_text(part: Part) -> Part:
    if part.executable_code is not None:
        return Part(text=fenced("python", part.executable_code.code or ""))
    if part.code_execution_result is not None:
        return Part(text=fenced(RESULT_FENCE, part.code_execution_result.output or ""))
    return part
