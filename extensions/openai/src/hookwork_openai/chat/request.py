"""One request in the form of ``POST /chat/completions`` (models CHAT-2)."""

from __future__ import annotations

from typing import Any

from hookwork.model import ModelRequest
from hookwork_openai import config as settings
from hookwork_openai.call import Call
from hookwork_openai.chat.messages import messages
from hookwork_openai.tools import Choice, Function, choice, functions, reserve_names


def request_body(call: Call, request: ModelRequest) -> dict[str, Any]:
    """The JSON body, without ``stream``.

    Raises:
        ModelError: of kind ``invalid_request``; nothing was sent.
    """
    config, options = request.config, call.options
    settings.refuse_unsupported(call, config)
    reserve_names(call, request)
    system = settings.system_text(call, config)
    body: dict[str, Any] = {"model": call.model, "messages": messages(call, request.contents, system)}
    body.update(settings.sampling(call, config))
    body.update(_limit(call, config.max_output_tokens))
    if config.response_logprobs:
        body.update(logprobs=True, top_logprobs=config.logprobs or 1)
    declared = functions(call, config)
    optional = {
        "stop": list(config.stop_sequences) if config.stop_sequences else None,
        "frequency_penalty": config.frequency_penalty,
        "presence_penalty": config.presence_penalty,
        "seed": config.seed,
        "response_format": _format(settings.response_format(call, config)),
        "tools": [_tool(call, function) for function in declared] or None,
        "tool_choice": _choice(call, choice(call, config)) if declared else None,
        "reasoning_effort": _effort(call, settings.reasoning(call, config)),
        "metadata": dict(config.labels) if config.labels and options.store else None,
        "store": options.store,
        "parallel_tool_calls": options.parallel_tool_calls if declared else None,
        "service_tier": settings.service_tier(call, config),
        "prompt_cache_key": options.prompt_cache_key,
    }
    body.update({name: value for name, value in optional.items() if value is not None})
    if options.truncation is not None:
        call.warn("truncation", "Chat Completions know no truncation; it is left out")
    return body


def _limit(call: Call, tokens: int | None) -> dict[str, int]:
    if not tokens or tokens < 0:
        return {}
    return {"max_completion_tokens" if call.official else "max_tokens": tokens}


def _format(form: dict[str, Any] | None) -> dict[str, Any] | None:
    if form is None or form["type"] != "json_schema":
        return form
    return {"type": "json_schema", "json_schema": {name: value for name, value in form.items() if name != "type"}}


def _effort(call: Call, reasoning: dict[str, Any]) -> Any:
    for name in reasoning:
        if name != "effort":
            call.warn(f"reasoning.{name}", f"Chat Completions know no reasoning {name}; it is left out")
    return reasoning.get("effort")


def _tool(call: Call, function: Function) -> dict[str, Any]:
    declared: dict[str, Any] = {"name": call.names.wire(function.name)}
    if function.description is not None:
        declared["description"] = function.description
    return {"type": "function", "function": {**declared, "parameters": function.parameters, "strict": False}}


def _choice(call: Call, wanted: Choice | None) -> Any:
    if wanted is None:
        return None
    if not wanted.names:
        return wanted.mode
    tools = [{"type": "function", "function": {"name": call.names.wire(name)}} for name in wanted.names]
    if wanted.mode == "required" and len(tools) == 1:
        return tools[0]
    if call.official:
        return {"type": "allowed_tools", "allowed_tools": {"mode": wanted.mode, "tools": tools}}
    return wanted.mode  # compatible servers cannot be told of several: all tools, and whether one must be called
