"""The key of a request: what the answer depends on, and nothing else (tools-plugins SP-40)."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from hookwork.records.codec import dump

if TYPE_CHECKING:
    from hookwork import CallbackContext, Content, ModelRequest

#: Parts of a config that say how a request travels or is billed, not what it asks.
_IRRELEVANT = ("httpOptions", "labels")


def request_key(ctx: CallbackContext, request: ModelRequest, scope: str) -> str:
    """SHA-256 over app, user (scope ``user``), model, config with declarations, and contents without call ids."""
    return key_of(
        request,
        app=ctx.app_name,
        user=ctx.user_id if scope == "user" else None,
        # A model that gives no name is told apart by the agent it belongs to.
        model=request.model or f"agent:{ctx.agent_name}",
    )


def key_of(request: ModelRequest, *, model: str, app: str | None = None, user: str | None = None) -> str:
    """SHA-256 over what is asked, and of whom."""
    config = dump(request.config)
    for name in _IRRELEVANT:
        config.pop(name, None)
    asked = {
        "app": app,
        "user": user,
        "model": model,
        "config": config,
        "contents": [_without_ids(content) for content in request.contents],
    }
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _without_ids(content: Content) -> dict[str, Any]:
    """The wire form; ids of calls differ from run to run and mean nothing by themselves."""
    data = dump(content)
    for part in data.get("parts", ()):
        for name in ("functionCall", "functionResponse"):
            if name in part:
                part[name].pop("id", None)
    return data
