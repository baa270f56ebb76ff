"""What a `ScriptedModel` plays: helpers that build steps, and the reading of a step as items of one model turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Union

import msgspec

from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.metadata import ModelResponse

if TYPE_CHECKING:
    from hookwork_testkit.scripted import RecordedRequest


class Block(msgspec.Struct, frozen=True):
    """Wait here until `ScriptedModel.release` is called."""


class Delay(msgspec.Struct, frozen=True):
    """Wait here for ``seconds``, through `hookwork.platform.sleep`."""

    seconds: float


#: What may stand inside a list that is one model turn.
Item = Union[str, Part, Content, ModelResponse, BaseException, type[BaseException], Block, Delay]  # noqa: UP007
#: What may stand in a script: one model turn each.
Step = Union[Item, Sequence[Item], Callable[["RecordedRequest"], Union["Step", Awaitable["Step"]]]]  # noqa: UP007


def text(value: str) -> Part:
    """A text part."""
    return Part(text=value)


def thought(value: str) -> Part:
    """A text part that is the model's thinking, not its answer."""
    return Part(text=value, thought=True)


def call(name: str, /, id: str | None = None, **args: Any) -> Part:
    """A function call part: ``call("get_weather", city="Tokyo")``.

    Without ``id`` the kernel gives the call one. For a function with an argument named ``id`` build the part yourself:
    ``Part(function_call=FunctionCall(name=…, args={"id": …}))``.
    """
    return Part(function_call=FunctionCall(id=id, name=name, args=args))


def partial(value: str | Part) -> ModelResponse:
    """One streamed piece: a partial response. Shown only when the call is streamed."""
    part = Part(text=value) if isinstance(value, str) else value
    return ModelResponse(content=Content(role="model", parts=[part]), partial=True)


def stream(*pieces: str | Item) -> list[Item]:
    """A streamed turn: every text or part becomes a partial, the whole turn follows by itself.

    ``stream("It is ", "5.")`` plays two partials and the final ``It is 5.``.
    """
    return [partial(piece) if isinstance(piece, str | Part) else piece for piece in pieces]


def block(then: Item | Sequence[Item] | None = None) -> list[Item]:
    """A turn that waits for `ScriptedModel.release` and plays ``then`` (default: the text ``released``)."""
    return [Block(), *_items("released" if then is None else then)]


def delay(seconds: float, then: Item | Sequence[Item] | None = None) -> list[Item]:
    """A turn that waits ``seconds`` of platform time and plays ``then`` (default: the text ``late``)."""
    return [Delay(seconds), *_items("late" if then is None else then)]


def items_of(step: Any) -> list[Item]:
    """A step (not a callable) as the items of its turn.

    Raises:
        TypeError: the script holds something that is no step.
    """
    return list(_items(step))


def _items(step: Any) -> Iterator[Item]:
    entries = step if isinstance(step, list | tuple) else (step,)
    for entry in entries:
        if isinstance(entry, str | Part | Content | ModelResponse | BaseException | Block | Delay) or (
            isinstance(entry, type) and issubclass(entry, BaseException)
        ):
            yield entry
        else:
            raise TypeError(
                f"a script holds a {type(entry).__name__}; a step is a str, Part, Content, ModelResponse, exception, "
                "block(), delay(), a list of these, or a function of the request"
            )


def joined(parts: Sequence[Part]) -> list[Part]:
    """Parts of one turn with neighbouring texts of one kind (answer or thought) put together."""
    result: list[Part] = []
    for part in parts:
        last = result[-1] if result else None
        if (
            last is not None
            and _is_plain_text(last)
            and _is_plain_text(part)
            and bool(last.thought) == bool(part.thought)
        ):
            result[-1] = last.replace(text=f"{last.text}{part.text}")
        else:
            result.append(part)
    return result


def _is_plain_text(part: Part) -> bool:
    return part.text is not None and part == Part(text=part.text, thought=part.thought)
