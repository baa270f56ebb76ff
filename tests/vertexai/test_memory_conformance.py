"""The memories pass what applies of the testkit's suite against the fake (services §8.2).

Both find by meaning, so the lines about words, scripts and ranks (CM-5, CM-7) are not theirs (CM-11).
"""

from __future__ import annotations

import itertools

import pytest
from tests.vertexai.fake import FakeVertex

from hookwork.records.event import Event
from hookwork.services import MemoryService
from hookwork_testkit.suites import MemoryServiceSuite
from hookwork_vertexai import VertexAiMemoryBankService, VertexAiRagMemoryService

_numbers = itertools.count(1)


class SemanticSuite(MemoryServiceSuite):
    app_name = "42"
    other_app_name = "43"

    test_cm_05_rank_by_distinct_words_then_by_age = None  # type: ignore[assignment]
    test_cm_07_words_are_runs_of_letters_and_digits = None  # type: ignore[assignment]
    test_cm_07_languages_without_blanks = None  # type: ignore[assignment]
    test_cm_07_more_overlap_ranks_first = None  # type: ignore[assignment]
    test_cm_07_other_scripts_match_inside_a_text_and_ascii_never = None  # type: ignore[assignment]

    @pytest.fixture(autouse=True)
    def server(self, fake: FakeVertex) -> None:
        self.fake = fake


class TestRag(SemanticSuite):
    async def make_service(self) -> MemoryService:
        corpus = f"projects/p/locations/us-central1/ragCorpora/c-{next(_numbers)}"
        self.fake.rag.make(corpus)
        self.fake.rag.chunk_lines, self.fake.rag.chunk_overlap = 1, 0
        return VertexAiRagMemoryService(corpus, base_url=self.fake.url, token_source=lambda: "token")


class TestMemoryBank(SemanticSuite):
    """Facts outlive the session that they were drawn from, and have neither its author nor its times (VMB-4)."""

    test_cm_04_a_session_taken_in_again_replaces_itself = None  # type: ignore[assignment]
    test_cm_08_an_entry_keeps_author_time_and_content = None  # type: ignore[assignment]
    test_cm_10_a_search_sees_a_session_whole = None  # type: ignore[assignment]

    async def check_a_session_replaces_its_events(self, service: MemoryService, event: Event) -> None:
        """Facts stay."""

    async def make_service(self) -> MemoryService:
        return VertexAiMemoryBankService(
            f"m-{next(_numbers)}", "us-central1", base_url=self.fake.url, token_source=lambda: "token"
        )
