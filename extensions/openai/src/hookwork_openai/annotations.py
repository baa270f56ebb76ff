"""Log-probabilities and citations of both APIs as records (models OAI-33, OAI-37)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hookwork.records.metadata import (
    Citation,
    CitationMetadata,
    LogprobsCandidate,
    LogprobsResult,
    LogprobsTopCandidates,
)


def logprobs_result(tokens: Iterable[Any]) -> LogprobsResult | None:
    """Per token the chosen one and the most likely ones; None when there are none."""
    entries = [token for token in tokens if isinstance(token, Mapping)]
    if not entries:
        return None
    return LogprobsResult(
        chosen_candidates=tuple(_candidate(entry) for entry in entries),
        top_candidates=tuple(
            LogprobsTopCandidates(
                candidates=tuple(_candidate(top) for top in entry.get("top_logprobs") or () if isinstance(top, Mapping))
            )
            for entry in entries
        ),
    )


def _candidate(entry: Mapping[str, Any]) -> LogprobsCandidate:
    return LogprobsCandidate(token=entry.get("token"), log_probability=entry.get("logprob"))


def citation_metadata(annotations: Iterable[Any]) -> CitationMetadata | None:
    """The URL citations among annotations, those nested under ``url_citation`` (Chat Completions) too."""
    found = []
    for annotation in annotations:
        if isinstance(annotation, Mapping) and annotation.get("type") == "url_citation":
            nested = annotation.get("url_citation")
            cited = nested if isinstance(nested, Mapping) else annotation
            found.append(
                Citation(
                    start_index=cited.get("start_index"),
                    end_index=cited.get("end_index"),
                    title=cited.get("title"),
                    uri=cited.get("url"),
                )
            )
    return CitationMetadata(citations=tuple(found)) if found else None
