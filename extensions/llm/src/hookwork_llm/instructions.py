"""Instruction templates: ``{name}`` in a text stands for a state value or an artifact (core §2.3).

    {city}  {user:lang?}  {artifact.notes.md}     a value; `?`: empty when absent
    {{city}}  \\{city}                              a literal {city}
    ${expr}  { page }  {"a": {"b": 1}}  {{{x}}}    anything else stays as it is

One pass, left to right; what is put in is not read again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from hookwork.errors import ConfigurationError, HookworkError
from hookwork_llm.errors import MissingStateKey

if TYPE_CHECKING:
    from hookwork.context import ReadonlyContext

#: Gives the text for a name; the flag says whether it may be absent.
Lookup = Callable[[str, bool], str]

_ARTIFACT = "artifact."
_NAME = r"artifact\.[^\s{}?]+|(?:(?:app|user|temp):)?[^\W\d]\w*"
_BRACED = re.compile(rf"(?P<before>[\\$]?)(?P<open>\{{+)(?P<name>{_NAME})(?P<optional>\??)(?P<close>\}}+)")
_MISSING: Any = object()


class Placeholder(NamedTuple):
    """A place in a template. ``optional``: empty when there is no such value."""

    name: str
    optional: bool


class Template:
    """A parsed instruction. Parsing happens here, once; `render` only looks values up.

    Attributes:
        text: the source.
        static: the finished text when nothing has to be looked up, else None.
    """

    __slots__ = ("_segments", "static", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._segments = _parse(text)
        self.static = (
            "".join(s for s in self._segments if isinstance(s, str))
            if all(isinstance(s, str) for s in self._segments)
            else None
        )

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        """What is looked up, in order; a name that occurs twice is there twice."""
        return tuple(s for s in self._segments if isinstance(s, Placeholder))

    def fill(self, lookup: Lookup) -> str:
        """The text with each placeholder replaced by ``lookup(name, optional)``."""
        if self.static is not None:
            return self.static
        return "".join(s if isinstance(s, str) else lookup(s.name, s.optional) for s in self._segments)

    async def render(self, ctx: ReadonlyContext) -> str:
        """The text with the values of this moment.

        Raises:
            MissingStateKey: a state value that is not optional is absent.
            ConfigurationError: an artifact is named and the runner has no artifact service.
            UnsupportedInContext: an artifact is named in a context without artifacts.
            ArtifactNotFoundError: an artifact that is not optional does not exist (other load errors likewise).
        """
        if self.static is not None:
            return self.static
        pieces: list[str] = []
        for segment in self._segments:
            if isinstance(segment, str):
                pieces.append(segment)
            elif segment.name.startswith(_ARTIFACT):
                pieces.append(await _artifact_text(ctx, segment))
            else:
                pieces.append(_state_text(ctx, segment))
        return "".join(pieces)

    def __repr__(self) -> str:
        return f"Template({self.text!r})"


def render_template(template: str, lookup: Lookup) -> str:
    """A template with each placeholder replaced by ``lookup(name, optional)``."""
    return Template(template).fill(lookup)


async def inject_session_state(ctx: ReadonlyContext, template: str) -> str:
    """A template with the state values and artifacts of ``ctx``, for instruction providers (INS-6).

    Text that comes from a provider is not a template; a provider that wants placeholders calls this. Raises what
    `Template.render` raises.
    """
    return await Template(template).render(ctx)


def _parse(text: str) -> tuple[str | Placeholder, ...]:
    segments: list[str | Placeholder] = []
    literal: list[str] = []
    end = 0
    for match in _BRACED.finditer(text):
        literal.append(text[end : match.start()])
        end = match.end()
        before, opened, closed = match["before"], len(match["open"]), len(match["close"])
        inner = match["name"] + match["optional"]
        if before == "\\" and opened == 1:
            literal.append("{" + inner + match["close"])
        elif before == "$" or opened > 2 or closed < opened:
            literal.append(match[0])
        elif opened == 2:
            literal.append(f"{before}{{{inner}}}" + "}" * (closed - 2))
        else:
            # Braces behind the pair belong to something around it, as in {"city": {city}}.
            segments += ["".join(literal), Placeholder(match["name"], bool(match["optional"]))]
            literal = ["}" * (closed - 1)]
    segments.append("".join(literal) + text[end:])
    return tuple(s for s in segments if s)


def _state_text(ctx: ReadonlyContext, place: Placeholder) -> str:
    value = ctx.state.get(place.name, _MISSING)
    if value is _MISSING:
        if place.optional:
            return ""
        raise MissingStateKey(place.name, ctx.agent_name)
    return "" if value is None else str(value)


async def _artifact_text(ctx: ReadonlyContext, place: Placeholder) -> str:
    artifacts = ctx.artifacts
    try:
        part = await artifacts.load(place.name.removeprefix(_ARTIFACT))
    except ConfigurationError:
        raise  # no service at all: a mistake of the program, not an absent file
    except HookworkError:
        if place.optional:
            return ""
        raise
    return part.text or ""
