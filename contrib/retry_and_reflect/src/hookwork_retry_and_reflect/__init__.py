"""A plugin that tells a model how to recover from a failed tool call."""

from __future__ import annotations

from hookwork_retry_and_reflect.plugin import RetryAndReflect
from hookwork_retry_and_reflect.reflection import RESPONSE_TYPE

__all__ = ["RESPONSE_TYPE", "RetryAndReflect"]
