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
from hookwork_openai.reading import count_in, number_in, object_in, objects_in, text_in


def logprobs_result(tokens: Iterable[Mapping[str, Any]]) -> LogprobsResult | None:
    """Per token the chosen one and the most likely ones; None when there are none."""
    entries = list(tokens)
    if not entries:
        return None
    return LogprobsResult(
        chosen_candidates=tuple(_candidate(entry) for entry in entries),
        top_candidates=tuple(
            LogprobsTopCandidates(candidates=tuple(_candidate(top) for top in objects_in(entry, "top_logprobs")))
            for entry in entries
        ),
    )


def _candidate(entry: Mapping[str, Any]) -> LogprobsCandidate:
    return LogprobsCandidate(token=text_in(entry, "token"), log_probability=number_in(entry, "logprob"))


def citation_metadata(annotations: Iterable[Mapping[str, Any]]) -> CitationMetadata | None:
    """The URL citations among annotations, those nested under ``url_citation`` (Chat Completions) too."""
    found = []
    for annotation in annotations:
        if annotation.get("type") == "url_citation":
            cited = object_in(annotation, "url_citation") or annotation
            found.append(
                Citation(
                    start_index=count_in(cited, "start_index"),
                    end_index=count_in(cited, "end_index"),
                    title=text_in(cited, "title") or None,
                    uri=text_in(cited, "url") or None,
                )
            )
    return CitationMetadata(citations=tuple(found)) if found else None
