"""One request in the form of ``POST /responses`` (models OAI-15…25)."""

from __future__ import annotations

from typing import Any

from hookwork.model import ModelRequest
from hookwork_openai import config as settings
from hookwork_openai.call import Call
from hookwork_openai.responses.items import input_items
from hookwork_openai.tools import Choice, Function, choice, functions, reserve_names

_ENCRYPTED_REASONING = "reasoning.encrypted_content"
_LOGPROBS = "message.output_text.logprobs"


def request_body(call: Call, request: ModelRequest) -> dict[str, Any]:
    """The JSON body, without ``stream``.

    Raises:
        ModelError: of kind ``invalid_request``; nothing was sent.
    """
    config, options = request.config, call.options
    settings.refuse_unsupported(call, config)
    reserve_names(call, request)
    body: dict[str, Any] = {"model": call.model, "input": input_items(call, request.contents)}
    body.update(settings.sampling(call, config))
    declared = functions(call, config)
    form = settings.response_format(call, config)
    include = [_ENCRYPTED_REASONING] if options.store is False else []
    if config.response_logprobs:
        body["top_logprobs"] = config.logprobs or 1
        include.append(_LOGPROBS)
    optional = {
        "instructions": settings.system_text(call, config),
        "max_output_tokens": config.max_output_tokens if (config.max_output_tokens or 0) > 0 else None,
        "text": {"format": form} if form is not None else None,
        "tools": [_tool(call, function) for function in declared] or None,
        "tool_choice": _choice(call, choice(call, config)) if declared else None,
        "include": include or None,
        "reasoning": settings.reasoning(call, config) or None,
        "metadata": dict(config.labels) if config.labels and options.store else None,
        "store": options.store,
        "parallel_tool_calls": options.parallel_tool_calls if declared else None,
        "truncation": options.truncation,
        "service_tier": settings.service_tier(call, config),
        "prompt_cache_key": options.prompt_cache_key,
    }
    body.update({name: value for name, value in optional.items() if value is not None})
    return body


def _tool(call: Call, function: Function) -> dict[str, Any]:
    tool: dict[str, Any] = {"type": "function", "name": call.names.wire(function.name)}
    if function.description is not None:
        tool["description"] = function.description
    return {**tool, "parameters": function.parameters, "strict": False}


def _choice(call: Call, wanted: Choice | None) -> Any:
    if wanted is None or not wanted.names:
        return wanted.mode if wanted is not None else None
    tools = [{"type": "function", "name": call.names.wire(name)} for name in wanted.names]
    return {"type": "allowed_tools", "mode": wanted.mode, "tools": tools}
