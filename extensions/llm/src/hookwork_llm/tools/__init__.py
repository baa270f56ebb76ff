"""Built-in tools and toolset wrappers (tools-plugins §1, §4). The public names are those of `hookwork_llm`."""

from __future__ import annotations
