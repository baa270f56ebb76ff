"""What of a call is written down, and what of it decides which recording answers it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from hookwork.effects import EffectCall

#: What of a model request counts, unless the user says otherwise.
MATCHED = ("model", "config", "contents")

#: Parts of a config that say how a request travels or is billed, not what it asks; the first may hold keys (CONF-10).
_IRRELEVANT = ("httpOptions", "labels")

Json = dict[str, Any]


def model_request(call: EffectCall) -> Json:
    """The request of a model call without headers, labels and the ids of its calls, which differ from run to run."""
    request = call.request
    config = {name: value for name, value in request.get("config", {}).items() if name not in _IRRELEVANT}
    return {
        "model": request.get("model") or call.model,
        "config": config,
        "contents": [_without_ids(content) for content in request.get("contents", ())],
    }


def tool_request(call: EffectCall) -> Json:
    """Name and arguments of a tool call."""
    return {"tool": call.tool, "args": call.args}


def _without_ids(content: Mapping[str, Any]) -> Json:
    if "parts" not in content:
        return dict(content)
    return {**content, "parts": [_part_without_id(part) for part in content["parts"]]}


def _part_without_id(part: Mapping[str, Any]) -> Json:
    copied = dict(part)
    for name in ("functionCall", "functionResponse"):
        if name in copied:
            copied[name] = {key: value for key, value in copied[name].items() if key != "id"}
    return copied


class Fingerprints:
    """Makes the fingerprint of a redacted request: the SHA-256 of what counts of it, in canonical JSON.

    Args:
        matched: the keys of a model request that count; tool requests count as a whole.
        normalize: changes what is compared, so that a date in an instruction does not count, for example.
    """

    def __init__(self, matched: tuple[str, ...], normalize: Callable[[Json], Json] | None) -> None:
        self._matched = matched
        self._normalize = normalize

    def compared(self, kind: str, request: Json) -> Json:
        """What is compared of a request. Its own copy: ``normalize`` may change it in place."""
        if kind == "model":
            request = {name: request[name] for name in self._matched if name in request}
        if self._normalize is None:
            return request
        copied: Json = json.loads(json.dumps(request))
        changed = self._normalize(copied)
        return copied if changed is None else changed

    def of(self, kind: str, request: Json) -> str:
        """64 hexadecimal digits."""
        text = json.dumps(self.compared(kind, request), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
