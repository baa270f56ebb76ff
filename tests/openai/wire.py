"""The published wire format of the Responses API and of Chat Completions, as a service writes it."""

from __future__ import annotations

from typing import Any

Event = dict[str, Any]


# --- responses -------------------------------------------------------------------------------------------------------


def message(*texts: str, id: str = "msg_1", **fields: Any) -> Event:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": content, **fields}


def function_call(name: str, arguments: Any, call_id: str = "call_1", id: str = "fc_1", **fields: Any) -> Event:
    item = {"type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": arguments}
    return {**item, "status": "completed", **fields}


def reasoning(*summary: str, id: str = "rs_1", encrypted: str | None = None, content: tuple[str, ...] = ()) -> Event:
    item: Event = {"type": "reasoning", "id": id, "summary": [{"type": "summary_text", "text": t} for t in summary]}
    if content:
        item["content"] = [{"type": "reasoning_text", "text": text} for text in content]
    return item if encrypted is None else {**item, "encrypted_content": encrypted}


def usage(prompt: int = 100, cached: int = 60, output: int = 50, thinking: int = 20) -> Event:
    """The numbers of CASE-USAGE-1."""
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": thinking},
        "total_tokens": prompt + output,
    }


def response(*output: Event, status: str = "completed", **fields: Any) -> Event:
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1767225600,
        "model": "gpt-5.2-2026-01-01",
        "status": status,
        "error": None,
        "incomplete_details": None,
        "output": list(output),
        "usage": usage(),
    }
    return {**whole, **fields}


def created(**fields: Any) -> Event:
    return {"type": "response.created", "response": response(status="in_progress", usage=None, **fields)}


def completed(*output: Event, **fields: Any) -> Event:
    return {"type": "response.completed", "response": response(*output, **fields)}


def incomplete(reason: str, *output: Event, **fields: Any) -> Event:
    details = {"reason": reason}
    whole = response(*output, status="incomplete", incomplete_details=details, **fields)
    return {"type": "response.incomplete", "response": whole}


def added(item: Event, index: int = 0) -> Event:
    """An item as it starts: without content."""
    empty: Event = {"message": {"content": []}, "function_call": {"arguments": ""}, "reasoning": {"summary": []}}
    started = {**item, **empty.get(item["type"], {}), "status": "in_progress"}
    started.pop("encrypted_content", None)
    return {"type": "response.output_item.added", "output_index": index, "item": started}


def done(item: Event, index: int = 0) -> Event:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def text_delta(text: str, item: str = "msg_1", index: int = 0, part: int = 0) -> Event:
    place = {"item_id": item, "output_index": index, "content_index": part}
    return {"type": "response.output_text.delta", **place, "delta": text, "logprobs": []}


def arguments_delta(text: str, item: str = "fc_1", index: int = 0) -> Event:
    return {"type": "response.function_call_arguments.delta", "item_id": item, "output_index": index, "delta": text}


def arguments_done(text: str, item: str = "fc_1", index: int = 0, **fields: Any) -> Event:
    event = {"type": "response.function_call_arguments.done", "item_id": item, "output_index": index}
    return {**event, "arguments": text, **fields}


def item_events(item: Event, index: int = 0, size: int = 3) -> list[Event]:
    """The events that stream one item, its texts in pieces of a size."""
    events = [added(item, index)]
    if item["type"] == "message":
        for part, content in enumerate(item["content"]):
            place = {"item_id": item["id"], "output_index": index, "content_index": part}
            if content["type"] == "refusal":
                pieces = _pieces(content["refusal"], size)
                events += [{"type": "response.refusal.delta", **place, "delta": piece} for piece in pieces]
                events.append({"type": "response.refusal.done", **place, "refusal": content["refusal"]})
                continue
            blank = {**content, "text": ""}
            events.append({"type": "response.content_part.added", **place, "part": blank})
            events += [text_delta(piece, item["id"], index, part) for piece in _pieces(content["text"], size)]
            for number, annotation in enumerate(content.get("annotations", ())):
                kind = "response.output_text.annotation.added"
                events.append({"type": kind, **place, "annotation_index": number, "annotation": annotation})
            events.append({"type": "response.output_text.done", **place, "text": content["text"]})
            events.append({"type": "response.content_part.done", **place, "part": content})
    elif item["type"] == "function_call":
        events += [arguments_delta(piece, item["id"], index) for piece in _pieces(item["arguments"], size)]
        events.append(arguments_done(item["arguments"], item["id"], index))
    elif item["type"] == "reasoning":
        for name, kind, key in (
            ("content", "response.reasoning_text", "content_index"),
            ("summary", "response.reasoning_summary_text", "summary_index"),
        ):
            for number, entry in enumerate(item.get(name, ())):
                place = {"item_id": item["id"], "output_index": index, key: number}
                events += [{"type": f"{kind}.delta", **place, "delta": piece} for piece in _pieces(entry["text"], size)]
                events.append({"type": f"{kind}.done", **place, "text": entry["text"]})
    return [*events, done(item, index)]


def stream(*items: Event, size: int = 3, **fields: Any) -> list[Event]:
    """A whole stream of some items."""
    events = [created(), {"type": "response.in_progress", "response": response(status="in_progress", usage=None)}]
    for index, item in enumerate(items):
        events += item_events(item, index, size)
    return [*events, completed(*items, **fields)]


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


# --- chat completions ------------------------------------------------------------------------------------------------


def chat_usage(prompt: int = 100, cached: int = 60, output: int = 50, thinking: int = 20) -> Event:
    return {
        "prompt_tokens": prompt,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens": output,
        "completion_tokens_details": {"reasoning_tokens": thinking, "audio_tokens": 0},
        "total_tokens": prompt + output,
    }


def tool_call(name: str, arguments: Any, id: str | None = "call_1", **fields: Any) -> Event:
    call: Event = {"type": "function", "function": {"name": name, "arguments": arguments}, **fields}
    return call if id is None else {"id": id, **call}


def completion(content: str | None = None, *calls: Event, finish: str | None = None, **fields: Any) -> Event:
    """``fields``: of the message, but ``usage``, which is the completion's own."""
    reported = fields.pop("usage", chat_usage())
    said: Event = {"role": "assistant", "content": content, **fields}
    if calls:
        said["tool_calls"] = list(calls)
    reason = finish or ("tool_calls" if calls else "stop")
    whole: Event = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1767225600,
        "model": "local-model",
        "choices": [{"index": 0, "message": said, "finish_reason": reason, "logprobs": None}],
    }
    return whole if reported is None else {**whole, "usage": reported}


def chunk(delta: Event | None = None, finish: str | None = None, **fields: Any) -> Event:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1767225600, "model": "local-model"}
    return {**head, "choices": choices, **fields}


def chat_stream(content: str = "", *calls: Event, finish: str = "", size: int = 3, **fields: Any) -> list[Event]:
    """The chunks of a whole completion. ``fields``: ``reasoning_content``, ``usage``."""
    reported = fields.pop("usage", chat_usage())
    chunks = [chunk({"role": "assistant", "content": ""})]
    for name, text in fields.items():
        chunks += [chunk({name: piece}) for piece in _pieces(text, size)]
    chunks += [chunk({"content": piece}) for piece in _pieces(content, size)]
    for index, call in enumerate(calls):
        function = {"name": call["function"]["name"], "arguments": ""}
        chunks.append(chunk({"tool_calls": [{**call, "index": index, "function": function}]}))
        for piece in _pieces(call["function"]["arguments"], size):
            chunks.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    chunks.append(chunk({}, finish or ("tool_calls" if calls else "stop")))
    return chunks if reported is None else [*chunks, chunk(usage=reported)]
