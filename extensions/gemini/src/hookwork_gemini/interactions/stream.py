"""The events of a streamed interaction: partial responses while it goes on, the whole one at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookwork.errors import ModelError
from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.metadata import ModelResponse
from hookwork_gemini.interactions.reading import objects_in, whole_response
from hookwork_modelkit import model_error

Json = dict[str, Any]

#: Kinds of deltas whose content is one thing, whole.
_MEDIA = ("image", "audio", "video", "document")
#: Where texts are put together.
_WITH_TEXTS = frozenset({"arguments", "content", "summary", "text"})
#: Status of an interaction that the SDK goes on with by itself: a further one follows in the same stream.
_GOES_ON = "requires_continuation"


class InteractionStream:
    """Folds one stream: `take` each event, yield what it gives, then `finish`. Make one per call."""

    def __init__(self, provider: str, model: str) -> None:
        self._provider = provider
        self._model = model
        self._events = 0
        self._shown = False
        self._over = False
        self._head: Json = {}
        self._usage: dict[str, int] = {}
        self._rest: Json = {}
        self._steps: list[Json] = []
        self._by_index: dict[int | None, Json] = {}

    def take(self, event: Json) -> ModelResponse | None:
        """Take in one event; the partial response to show for it, if any.

        Raises:
            ModelError: the event says that the call failed.
        """
        self._events += 1
        kind = event.get("event_type")
        shown: Part | None = None
        if kind in ("interaction.created", "interaction.completed"):
            self._lifecycle(event, completed=kind == "interaction.completed")
        elif kind == "step.start":
            shown = self._started(event)
        elif kind == "step.delta":
            shown = self._delta(event)
        elif kind == "error":
            raise self._failed(event.get("error"))
        if shown is None:
            return None
        self._shown = True
        version = self._head.get("model")
        return ModelResponse(
            content=Content(role="model", parts=[shown]),
            partial=True,
            model_version=version if isinstance(version, str) and version else None,
        )

    def finish(self) -> ModelResponse:
        """The whole response.

        Raises:
            ModelError: the stream ended early, the interaction failed, or what came cannot be used.
        """
        if not self._over:
            detail = "the stream ended without interaction.completed, so the answer is not whole; try again"
            raise model_error(
                self._provider, self._model, kind="stream", retryable=True, detail=detail, started=self._shown
            )
        steps = [_joined(step) for step in self._steps] or self._head.get("steps") or []
        usage = {**self._rest, **self._usage} or None
        whole = {**self._head, "steps": steps, "usage": usage}
        return whole_response(self._provider, self._model, whole, started=self._shown, unparsed=bool(self._steps))

    # --- events -------------------------------------------------------------------------------------------------------

    def _lifecycle(self, event: Json, *, completed: bool) -> None:
        interaction = event.get("interaction")
        if not isinstance(interaction, Mapping):
            return
        self._head.update({name: value for name, value in interaction.items() if value is not None})
        if not completed:
            self._by_index.clear()  # indexes begin anew in each interaction
            return
        self._add_usage(interaction.get("usage"))
        self._over = interaction.get("status") != _GOES_ON or self._over

    def _add_usage(self, usage: Any) -> None:
        """Counts of each interaction of the stream together, as the SDK gives them unstreamed."""
        for name, value in usage.items() if isinstance(usage, Mapping) else ():
            if type(value) is int and value >= 0:
                self._usage[name] = self._usage.get(name, 0) + value
            else:
                self._rest[name] = value

    def _failed(self, error: Any) -> ModelError:
        said: Mapping[str, Any] = error if isinstance(error, Mapping) else {}
        code = str(said.get("code") or "").rpartition("/")[2]
        status = int(code) if code.isdecimal() and len(code) == 3 and code >= "400" else None
        return model_error(self._provider, self._model, status=status, code="" if status else code, started=self._shown)

    def _started(self, event: Json) -> Part | None:
        given = event.get("step")
        step: Json = dict(given) if isinstance(given, Mapping) else {}
        self._put(event.get("index"), step)
        kind = step.get("type")
        if kind == "function_call":
            step["arguments"] = step["arguments"] if step.get("arguments") else ""
            return self._fragment(step, "")
        if kind == "model_output":
            step["content"] = [dict(one) for one in objects_in(step, "content")]
            text = "".join([str(one.get("text") or "") for one in step["content"] if one.get("type") == "text"])
            return Part(text=text) if text else None
        if kind == "thought":
            step["summary"] = [dict(one) for one in objects_in(step, "summary")]
        return None

    def _put(self, index: Any, step: Json) -> None:
        self._steps.append(step)
        self._by_index[_place(index)] = step

    def _delta(self, event: Json) -> Part | None:
        given = event.get("delta")
        delta: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        kind = delta.get("type")
        if kind == "text":
            return self._text(self._step(event, "model_output"), str(delta.get("text") or ""))
        if kind in _MEDIA:
            self._step(event, "model_output").setdefault("content", []).append(dict(delta))
            return None
        if kind == "thought_summary":
            said = delta.get("content")
            text = str(said.get("text") or "") if isinstance(said, Mapping) else ""
            return self._thought(self._step(event, "thought"), text)
        if kind == "thought_signature":
            self._step(event, "thought")["signature"] = delta.get("signature")
        elif kind == "arguments_delta":
            return self._arguments(self._step(event, "function_call"), str(delta.get("arguments") or ""))
        elif kind == "text_annotation_delta":
            self._annotations(self._step(event, "model_output"), delta.get("annotations"))
        else:  # of tools that the service runs: the delta is the whole
            self._step(event, "").update({name: value for name, value in delta.items() if name != "type"})
        return None

    def _step(self, event: Json, kind: str) -> Json:
        """The step that a delta belongs to; a new one where its start was not told."""
        found = self._by_index.get(_place(event.get("index")))
        if found is None:
            found = {"type": kind}
            self._put(event.get("index"), found)
        return found

    def _text(self, step: Json, text: str) -> Part | None:
        content: list[Json] = step.setdefault("content", [])
        if not content or content[-1].get("type") != "text":
            content.append({"type": "text", "text": ""})
        _append(content[-1], "text", text)
        return Part(text=text) if text else None

    def _thought(self, step: Json, text: str) -> Part | None:
        summary: list[Json] = step.setdefault("summary", [])
        if not summary:
            summary.append({"type": "text", "text": ""})
        _append(summary[-1], "text", text)
        return Part(text=text, thought=True) if text else None

    def _arguments(self, step: Json, text: str) -> Part | None:
        if isinstance(step.get("arguments"), Mapping):
            step["arguments"] = ""  # the start told an empty object, the deltas tell the text
        _append(step, "arguments", text)
        return self._fragment(step, text)

    @staticmethod
    def _fragment(step: Json, text: str) -> Part | None:
        name, call_id = step.get("name"), step.get("id")
        if not isinstance(name, str) or not name:
            return None
        own = call_id if isinstance(call_id, str) and call_id else None
        call = FunctionCall(id=own, name=name, will_continue=True)
        return Part(function_call=call, part_metadata={"gemini": {"arguments_delta": text}} if text else None)

    @staticmethod
    def _annotations(step: Json, annotations: Any) -> None:
        content: list[Json] = step.setdefault("content", [])
        if content and isinstance(annotations, list):
            content[-1].setdefault("annotations", []).extend(annotations)


def _place(index: Any) -> int | None:
    return index if isinstance(index, int) else None


class _Pieces(list[str]):
    """A text in pieces, so that a long one costs no more than it is long (AGG-30). Lists of the service are others."""


def _append(target: Json, name: str, text: str) -> None:
    pieces = target.get(name)
    if not isinstance(pieces, _Pieces):
        pieces = target[name] = _Pieces([pieces] if isinstance(pieces, str) else [])
    pieces.append(text)


def _joined(value: Any) -> Any:
    """A step, or what is in one, with whole texts."""
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, dict):
        return {name: _joined(item) if name in _WITH_TEXTS else item for name, item in value.items()}
    return [_joined(item) for item in value] if isinstance(value, list) else value
