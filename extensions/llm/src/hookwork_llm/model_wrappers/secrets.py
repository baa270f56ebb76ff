"""What a redacting model looks for in texts, and how it takes it out (models Beyond)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hookwork.errors import ConfigurationError
from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part
from hookwork.records.frozen import thaw

#: Kinds that are known by name. Keys: of OpenAI, Google, GitHub, Slack and AWS, bearer tokens, private keys.
KINDS = {
    "keys": (
        r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}|\bAIza[\w-]{35}|\bgh[pousr]_[A-Za-z0-9]{36,}|\bxox[abprs]-[\w-]{10,}"
        r"|\bAKIA[0-9A-Z]{16}\b|(?<=[Bb]earer )[\w.~+/-]{16,}=*"
        r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----"
    ),
    "emails": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "cards": r"\b\d(?:[ -]?\d){12,18}\b",
}
DEFAULT_KINDS = ("keys", "emails", "cards")


class Redactor:
    """Takes out of texts what matches.

    Args:
        patterns: kinds of `KINDS` by name, and regular expressions.
        replacement: what stands there instead.

    Raises:
        ConfigurationError: no pattern, or one that is no regular expression.
    """

    def __init__(self, patterns: Iterable[str], replacement: str) -> None:
        if isinstance(patterns, str):
            raise ConfigurationError(f"patterns of a redacting model are a list; write [{patterns!r}]")
        self._replacement = replacement
        self._steps: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = []
        for pattern in patterns:
            replace = self._card if pattern == "cards" else self._always
            try:
                self._steps.append((re.compile(KINDS.get(pattern, pattern)), replace))
            except re.error as error:
                raise ConfigurationError(
                    f"{pattern!r} is neither a kind ({', '.join(KINDS)}) nor a regular expression: {error}"
                ) from error
        if not self._steps:
            raise ConfigurationError("a redacting model needs at least one pattern")

    def text(self, text: str) -> str:
        """The text without what matches."""
        for pattern, replace in self._steps:
            text = pattern.sub(replace, text)
        return text

    def content(self, content: Content) -> Content:
        """The content, itself when nothing in it matches. Bytes, files and signatures are left alone."""
        parts = [self._part(part) for part in content.parts]
        if all(new is old for new, old in zip(parts, content.parts, strict=True)):
            return content
        return content.replace(parts=parts)

    def _part(self, part: Part) -> Part:
        if part.text:
            clean = self.text(part.text)
            return part if clean == part.text else part.replace(text=clean)
        if part.function_call is not None and part.function_call.args:
            call: FunctionCall = part.function_call
            args = self._value(thaw(call.args))
            return part if args == call.args else part.replace(function_call=call.replace(args=args))
        if part.function_response is not None and part.function_response.response:
            answer: FunctionResponse = part.function_response
            said = self._value(thaw(answer.response))
            return part if said == answer.response else part.replace(function_response=answer.replace(response=said))
        return part

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self._value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(item) for item in value]
        return value

    def _always(self, match: re.Match[str]) -> str:
        return self._replacement

    def _card(self, match: re.Match[str]) -> str:
        """Only a number whose check digit is right (ISO/IEC 7812-1, Luhn): other long numbers are no cards."""
        digits = [int(digit) for digit in match[0] if digit.isdigit()][::-1]
        doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
        return self._replacement if (sum(digits[::2]) + sum(doubled)) % 10 == 0 else match[0]
