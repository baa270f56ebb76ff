"""What model adapters of Hookwork share. Names are resolved on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_modelkit.aggregation import StreamAggregator
    from hookwork_modelkit.calls import guarded
    from hookwork_modelkit.clients import ClientPool, ModelClients
    from hookwork_modelkit.conversion import convert_response, whole_response
    from hookwork_modelkit.errors import model_error, refusal, transport_error
    from hookwork_modelkit.genai_schemas import InexpressibleSchema, to_genai_schema
    from hookwork_modelkit.retrying import RetryPolicy, with_retries
    from hookwork_modelkit.schemas import to_json_schema

_HOMES = {
    "ClientPool": "clients",
    "InexpressibleSchema": "genai_schemas",
    "ModelClients": "clients",
    "RetryPolicy": "retrying",
    "StreamAggregator": "aggregation",
    "convert_response": "conversion",
    "guarded": "calls",
    "model_error": "errors",
    "refusal": "errors",
    "to_genai_schema": "genai_schemas",
    "to_json_schema": "schemas",
    "transport_error": "errors",
    "whole_response": "conversion",
    "with_retries": "retrying",
}

__all__ = [
    "ClientPool",
    "InexpressibleSchema",
    "ModelClients",
    "RetryPolicy",
    "StreamAggregator",
    "convert_response",
    "guarded",
    "model_error",
    "refusal",
    "to_genai_schema",
    "to_json_schema",
    "transport_error",
    "whole_response",
    "with_retries",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
