"""Grounding that a live server tells bit by bit, as one record for the turn (models LIVE-7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hookwork.records.metadata import GroundingMetadata

T = TypeVar("T")


def merged(one: GroundingMetadata | None, more: GroundingMetadata) -> GroundingMetadata:
    """Both together: what ``more`` repeats stands once, and its supports point at the chunks where these now stand.

    So it does not matter whether a server tells what is new each time, or all that it knows.
    """
    if one is None:
        return more
    chunks = list(one.grounding_chunks or ())
    places: list[int] = []
    for chunk in more.grounding_chunks or ():
        if chunk not in chunks:
            chunks.append(chunk)
        places.append(chunks.index(chunk))
    supports = [
        support.replace(
            grounding_chunk_indices=tuple(
                places[index] if 0 <= index < len(places) else index for index in support.grounding_chunk_indices or ()
            )
            or None
        )
        for support in more.grounding_supports or ()
    ]
    return GroundingMetadata(
        google_maps_widget_context_token=more.google_maps_widget_context_token or one.google_maps_widget_context_token,
        grounding_chunks=tuple(chunks) or None,
        grounding_supports=_together(one.grounding_supports, supports),
        retrieval_metadata=more.retrieval_metadata or one.retrieval_metadata,
        retrieval_queries=_together(one.retrieval_queries, more.retrieval_queries),
        search_entry_point=more.search_entry_point or one.search_entry_point,
        web_search_queries=_together(one.web_search_queries, more.web_search_queries),
        extra={**one.extra, **(more.extra or {})} if one.extra else more.extra,
    )


def _together(one: Sequence[T] | None, more: Sequence[T] | None) -> tuple[T, ...] | None:
    known = list(one or ())
    known += [item for item in more or () if item not in known]
    return tuple(known) or None
