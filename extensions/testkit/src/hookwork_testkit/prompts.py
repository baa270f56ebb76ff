"""The check that a prompt is one that every provider accepts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part


def prompt_faults(contents: Iterable[Content], *, ids: bool = True) -> list[str]:
    """What keeps a prompt from being valid, one line a fault, in order; empty when it is valid.

    A prompt is valid when no content and no part is empty, every function call is answered in the very next content
    by exactly one response of the same name and id, and no response stands without its call.

    Args:
        ids: compare call ids too. Where ids are not sent, calls and responses pair by name; pass False then if one
            side still carries ids.
    """
    prompt = list(contents)
    faults: list[str] = []
    for number, content in enumerate(prompt):
        if not content.parts:
            faults.append(f"content {number} is empty")
        faults.extend(
            f"content {number}, part {i} is empty" for i, part in enumerate(content.parts) if not _says_anything(part)
        )
        faults.extend(_repeated_ids(number, content) if ids else ())
        following = prompt[number + 1].function_responses if number + 1 < len(prompt) else []
        faults.extend(_call_faults(number, content.function_calls, following, ids))
    if prompt:
        faults.extend(f"content 0: response {_name(r, ids)} has no call" for r in prompt[0].function_responses)
    return faults


def assert_valid_prompt(contents: Iterable[Content], ids: bool = True) -> None:
    """Raise an AssertionError that lists every fault of `prompt_faults` and shows the prompt."""
    prompt = list(contents)
    faults = prompt_faults(prompt, ids=ids)
    if faults:
        raise AssertionError("the prompt is not valid:\n  - " + "\n  - ".join(faults) + "\n" + render_prompt(prompt))


def render_prompt(contents: Sequence[Content]) -> str:
    """A prompt for a person to read: one line a part."""
    lines = []
    for number, content in enumerate(contents):
        lines.append(f"[{number}] {content.role or '(no role)'}")
        lines.extend(f"      {_shown(part)}" for part in content.parts)
    return "\n".join(lines)


def _says_anything(part: Part) -> bool:
    return part.replace(thought=None) not in (Part(), Part(text=""))


def _name(item: FunctionCall | FunctionResponse, ids: bool) -> str:
    return f"{item.name!r} (id {item.id!r})" if ids else repr(item.name)


def _repeated_ids(number: int, content: Content) -> list[str]:
    counted = Counter(call.id for call in content.function_calls if call.id)
    return [f"content {number}: call id {call_id!r} is used {n} times" for call_id, n in counted.items() if n > 1]


def _call_faults(
    number: int, calls: Sequence[FunctionCall], responses: Sequence[FunctionResponse], ids: bool
) -> list[str]:
    def key(item: FunctionCall | FunctionResponse) -> Any:
        return (item.name, item.id or None) if ids else item.name

    asked = Counter(key(call) for call in calls)
    answered = Counter(key(response) for response in responses)
    everything: list[FunctionCall | FunctionResponse] = [*responses, *calls]
    names = {key(item): _name(item, ids) for item in everything}
    faults = []
    for one in dict.fromkeys([*asked, *answered]):
        left = asked[one] - answered[one]
        if asked[one] and left > 0:
            faults.append(f"content {number}: call {names[one]} has no response in content {number + 1}")
        elif asked[one] and left < 0:
            faults.append(f"content {number}: call {names[one]} has {answered[one]} responses in content {number + 1}")
        elif left < 0:
            faults.append(f"content {number + 1}: response {names[one]} has no call in content {number}")
    return faults


def _shown(part: Part) -> str:
    if part.function_call is not None:
        call = part.function_call
        return f"call {call.name} id={call.id!r} args={dict(call.args or {})!r}"
    if part.function_response is not None:
        response = part.function_response
        return f"response {response.name} id={response.id!r} {response.response!r}"
    if part.text is not None:
        shown = part.text if len(part.text) <= 120 else f"{part.text[:117]}..."
        return f"{'thought' if part.thought else 'text'} {shown!r}"
    return repr(part)
