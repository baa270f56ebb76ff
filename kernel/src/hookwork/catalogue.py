"""Well-known names and the distributions that bring them: what an error's ``pip install`` line is made from.

Texts only. Nothing here is imported or asked before somebody names something that no installed distribution takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Pattern of model names → distribution (models REG-9).
MODEL_FAMILIES = (
    (r"^(?:models/|publishers/google/models/)?gemini-|^projects/|^gemini[/:]", "hookwork-gemini"),
    (r"^(?:gpt-|o\d+(?:-|$)|chatgpt-)|^openai[/:]", "hookwork-openai"),
    (r"^apigee/", "hookwork-apigee"),
    (r"^local[/:]", "hookwork-local"),
    (r"^offline\b", "hookwork-offline"),
    (r"^needle\b", "hookwork-needle"),
    (r"^(?:fallback|router|redacted):", "hookwork-llm"),
    (r"^cached:", "hookwork-cache"),
    (r"^budgeted:", "hookwork-budget"),
)

#: How names of these families begin.
_BEGINNINGS = ("gemini", "gpt", "chatgpt", "apigee", "local", "offline", "needle", "fallback")

#: URL scheme → kind of service → distribution (services §9). Driver suffixes (``sqlite+aiosqlite``) are cut off first.
SERVICE_SCHEMES: dict[str, dict[str, str]] = {
    "memory": dict.fromkeys(("sessions", "artifacts", "memory"), "hookwork-inmemory"),
    "sqlite": dict.fromkeys(("sessions", "memory"), "hookwork-database"),
    "postgresql": {"sessions": "hookwork-database"},
    "postgres": {"sessions": "hookwork-database"},
    "mysql": {"sessions": "hookwork-database"},
    "mariadb": {"sessions": "hookwork-database"},
    "spanner": {"sessions": "hookwork-spanner"},
    "vertexai": dict.fromkeys(("sessions", "memory"), "hookwork-vertexai"),
    "agentengine": dict.fromkeys(("sessions", "memory"), "hookwork-vertexai"),
    "rag": {"memory": "hookwork-vertexai"},
    "file": {"artifacts": "hookwork-files"},
    "gs": {"artifacts": "hookwork-gcs"},
}

#: Plugins that live in distributions of their own (tools-plugins §8).
PLUGIN_NAMES = {
    name: f"hookwork-{name.replace('_', '-')}"
    for name in (
        *("analytics", "audit", "budget", "cache", "context_filter", "function_call_modifier", "global_instruction"),
        *("logging", "memory_ingestion", "policy", "record_replay", "retry_and_reflect", "save_files", "size_guard"),
    )
}

#: Command → the distribution it belongs to (servers §7).
COMMANDS = {
    **dict.fromkeys(("run", "chat", "doctor", "sessions"), "hookwork-console"),
    "prompt": "hookwork-llm",
    "graph": "hookwork-workflow",
    "web": "hookwork-web",
    "mcp": "hookwork-mcp",
    "migrate": "hookwork-database",
    "config": "hookwork-config",
    **dict.fromkeys(("new", "conformance"), "hookwork-testkit"),
    "deploy": "hookwork-deploy",
    "audit": "hookwork-audit",
    "dbos": "hookwork-dbos",
    "temporal": "hookwork-temporal",
}


#: Distributions of these tables that are not released yet: nobody is told to install them.
UNRELEASED = frozenset(f"hookwork-{name}" for name in ("config", "dbos", "deploy", "temporal", "web"))


def distributions() -> frozenset[str]:
    """All distributions of these tables."""
    services = [distribution for kinds in SERVICE_SCHEMES.values() for distribution in kinds.values()]
    models = [distribution for _, distribution in MODEL_FAMILIES]
    return frozenset(("hookwork-kernel", *services, *models, *PLUGIN_NAMES.values(), *COMMANDS.values()))


def model_distribution(name: str) -> str | None:
    """The distribution that likely takes a model name."""
    return next((distribution for pattern, distribution in MODEL_FAMILIES if re.search(pattern, name)), None)


def likely_model(name: str) -> str:
    """`` (did you mean 'gemini-3-flash'?)`` for a name whose beginning is misspelt, or nothing."""
    from difflib import get_close_matches

    letters = re.match("[A-Za-z]*", name)
    beginning = letters[0] if letters is not None else ""
    near = get_close_matches(beginning.lower(), _BEGINNINGS, n=1, cutoff=0.65)
    meant = near[0] + name[len(beginning) :] if near else name
    return f" (did you mean {meant!r}?)" if meant != name else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for the nearest known name, or nothing."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def install_line(distribution: str | None) -> str:
    """``; try: pip install x``, that x is not released yet, or nothing."""
    if distribution in UNRELEASED:
        return f"; provided by {distribution}, which is not released yet"
    return f"; try: pip install {distribution}" if distribution else ""
