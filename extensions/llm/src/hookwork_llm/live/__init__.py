"""Live (bidirectional) sessions of LLM agents (core §3.6, models §7). Loaded by `LlmAgent.live_body` only."""

from __future__ import annotations

from hookwork_llm.live.session import run_live_flow

__all__ = ["run_live_flow"]
