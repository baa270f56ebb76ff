"""What is wrong with a value, as (where, what) pairs, and the errors made of them (tools-plugins FN-13).

Texts name the place and what was expected, never the value: it may be a secret, and the model knows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from hookwork.errors import ToolArgumentError, ToolResultError

#: (JSON pointer such as ``/a/x``, what was expected there)
Fault = tuple[str, str]

#: A text that lists every fault of a long array would fill the prompt.
_SHOWN = 5

# The texts of pydantic, so that both ways of checking say the same (plain.py).
EXPECTED = {
    "string": "Input should be a valid string",
    "integer": "Input should be a valid integer",
    "number": "Input should be a valid number",
    "boolean": "Input should be a valid boolean",
}
MISSING = "Field required"
UNKNOWN = "Extra inputs are not permitted"


def pointer(steps: Sequence[str | int]) -> str:
    """A JSON pointer (RFC 6901): ``["a", 0]`` → ``/a/0``."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def _listed(faults: Sequence[Fault], whole: str) -> str:
    unique = list(dict.fromkeys(faults))
    text = "; ".join(f"{where or whole}: {what}" for where, what in unique[:_SHOWN])
    return text if len(unique) <= _SHOWN else f"{text}; and {len(unique) - _SHOWN} more"


def argument_error(tool: str, faults: Sequence[Fault]) -> ToolArgumentError:
    """The error for arguments that do not fit; the body was not run."""
    return ToolArgumentError(f"invalid arguments for tool {tool!r}: {_listed(faults, 'arguments')}")


def result_error(tool: str, faults: Sequence[Fault]) -> ToolResultError:
    """The error for a result that JSON, or the tool's output schema, cannot hold."""
    return ToolResultError(f"invalid result of tool {tool!r}: {_listed(faults, 'result')}")
