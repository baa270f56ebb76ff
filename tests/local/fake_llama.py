"""A stand-in for llama.cpp's in-process server: its chunks, as the real one sends them, from a scripted text.

The form was taken down from xllamacpp 2026.10.11549: a first chunk with the role, one chunk a token, one with the
finish reason, one with the usage and no choices; an error is a chunk with the key ``error``; a callback that returns
a true value stops the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hookwork.errors import ModelError
from hookwork_local.llama import LlamaEngine
from hookwork_local.model import LocalModel
from hookwork_local.options import Options

Script = Callable[[dict[str, Any]], Any]


class FakeServer:
    """Answers every request with ``script(body)``: a text, or an exception to raise, or an error chunk (a dict)."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.bodies: list[dict[str, Any]] = []
        self.stopped = 0

    def handle_chat_completions(self, body: dict[str, Any], callback: Callable[[dict[str, Any]], Any]) -> None:
        self.bodies.append(body)
        answer = self.script(body)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, dict):
            callback(answer)
            return
        tokens = re.findall(r"\s*\S{1,4}|\s+$", answer)
        limit = body["max_tokens"]
        finish = "length" if len(tokens) > limit else "stop"
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
        deltas += [{"content": token} for token in tokens[:limit]]
        for delta in deltas:
            if callback(_chunk([{"finish_reason": None, "index": 0, "delta": delta}])):
                self.stopped += 1
                return
        callback(_chunk([{"finish_reason": finish, "index": 0, "delta": {}}]))
        counts = {"completion_tokens": len(deltas) - 1, "prompt_tokens": len(str(body["messages"])) // 4}
        usage = {
            **counts,
            "total_tokens": sum(counts.values()),
            "prompt_tokens_details": {"cached_tokens": 0},
        }
        callback({**_chunk([]), "usage": usage, "timings": {"prompt_n": 1}})


def _chunk(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "choices": choices,
        "created": 1796068671,
        "id": "chatcmpl-Be74dzE0N9nvVhPAVi4IipnvmLDbmt0H",
        "model": "model.gguf",
        "system_fingerprint": "b0-unknown",
        "object": "chat.completion.chunk",
    }


def local_model(script: Script, **options: Any) -> tuple[LocalModel, FakeServer]:
    """A model whose engine is a fake, and the fake."""
    server = FakeServer(script)
    model = LocalModel("model.gguf", **options)
    model._engine = LlamaEngine("model.gguf", model.options, load=lambda path, settings: server)
    return model, server


def failing_model(error: ModelError) -> LocalModel:
    """A model whose weights cannot be loaded."""

    def load(path: str, settings: Options) -> Any:
        raise error

    model = LocalModel("model.gguf")
    model._engine = LlamaEngine("model.gguf", model.options, load=load)
    return model
