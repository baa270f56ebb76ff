"""Long conversations made short: summaries that stand for old events (core §3.5).

`EventsCompaction` is given to an App or a Runner. After a run it may summarise a window of whole invocations (sliding
window), before a model request everything but the newest events (tail retention). History is never edited: a summary
is one more event, and prompts are built from it in place of what it covers.
"""

from __future__ import annotations

from hookwork_llm.compaction.config import EventsCompaction
from hookwork_llm.compaction.engine import Compaction
from hookwork_llm.compaction.summarizer import LlmSummarizer, Summarizer

__all__ = ["Compaction", "EventsCompaction", "LlmSummarizer", "Summarizer"]
