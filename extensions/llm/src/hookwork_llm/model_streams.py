"""The checked stream of a model; it lives in the kernel."""

from __future__ import annotations

from hookwork.model_streams import not_a_response, open_stream

__all__ = ["not_a_response", "open_stream"]
