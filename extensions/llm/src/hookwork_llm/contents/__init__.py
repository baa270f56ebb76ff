"""What a model is shown of a session's history (core §4.5).

`build_contents` gives the contents of the next request. Events are read once: what was derived from them hangs on the
session's log and the next request extends it (CON-16). Whatever the history looks like, the result is a valid prompt
(CON-15); repair happens here and never in the store.
"""

from __future__ import annotations

from hookwork_llm.contents.cache import build_contents, rebuild_contents
from hookwork_llm.contents.sequence import PromptContents

__all__ = ["PromptContents", "build_contents", "rebuild_contents"]
