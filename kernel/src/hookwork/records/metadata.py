"""What a model says about its answer: usage, grounding, citations, log-probabilities, transcriptions.

Field names and meaning are those of the genai types; token counts follow models MOD-16 (output excludes reasoning,
prompt includes cached) and ``None`` means "not reported" (MOD-17).
"""

# No postponed annotations here: the codec asks for them at its first use, and evaluating texts took it half its time.

from typing import Any

from hookwork.records.base import Record, clean_text_fields
from hookwork.records.content import Content


class ModalityTokenCount(Record):
    modality: str | None = None
    token_count: int | None = None


class UsageMetadata(Record):
    """Token counts of one model call (genai GenerateContentResponseUsageMetadata)."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    total_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    prompt_tokens_details: tuple[ModalityTokenCount, ...] | None = None
    candidates_tokens_details: tuple[ModalityTokenCount, ...] | None = None
    cache_tokens_details: tuple[ModalityTokenCount, ...] | None = None
    tool_use_prompt_tokens_details: tuple[ModalityTokenCount, ...] | None = None
    traffic_type: str | None = None


class Segment(Record):
    part_index: int | None = None
    start_index: int | None = None
    end_index: int | None = None
    text: str | None = None


class GroundingSupport(Record):
    grounding_chunk_indices: tuple[int, ...] | None = None
    confidence_scores: tuple[float, ...] | None = None
    segment: Segment | None = None
    rendered_parts: tuple[int, ...] | None = None


class GroundingChunkWeb(Record):
    domain: str | None = None
    title: str | None = None
    uri: str | None = None


class RagChunkPageSpan(Record):
    first_page: int | None = None
    last_page: int | None = None


class RagChunk(Record):
    page_span: RagChunkPageSpan | None = None
    text: str | None = None


class GroundingChunkRetrievedContext(Record):
    document_name: str | None = None
    rag_chunk: RagChunk | None = None
    text: str | None = None
    title: str | None = None
    uri: str | None = None


class ReviewSnippet(Record):
    review_id: str | None = None
    review: str | None = None
    google_maps_uri: str | None = None
    title: str | None = None


class PlaceAnswerSources(Record):
    review_snippets: tuple[ReviewSnippet, ...] | None = None
    flag_content_uri: str | None = None


class GroundingChunkMaps(Record):
    place_answer_sources: PlaceAnswerSources | None = None
    place_id: str | None = None
    text: str | None = None
    title: str | None = None
    uri: str | None = None


class GroundingChunk(Record):
    maps: GroundingChunkMaps | None = None
    retrieved_context: GroundingChunkRetrievedContext | None = None
    web: GroundingChunkWeb | None = None


class SearchEntryPoint(Record):
    rendered_content: str | None = None
    sdk_blob: bytes | None = None


class RetrievalMetadata(Record):
    google_search_dynamic_retrieval_score: float | None = None


class GroundingMetadata(Record):
    google_maps_widget_context_token: str | None = None
    grounding_chunks: tuple[GroundingChunk, ...] | None = None
    grounding_supports: tuple[GroundingSupport, ...] | None = None
    retrieval_metadata: RetrievalMetadata | None = None
    retrieval_queries: tuple[str, ...] | None = None
    search_entry_point: SearchEntryPoint | None = None
    web_search_queries: tuple[str, ...] | None = None


class Citation(Record):
    start_index: int | None = None
    end_index: int | None = None
    title: str | None = None
    uri: str | None = None
    license: str | None = None
    publication_date: dict[str, Any] | None = None


class CitationMetadata(Record):
    citations: tuple[Citation, ...] | None = None


class LogprobsCandidate(Record):
    log_probability: float | None = None
    token: str | None = None
    token_id: int | None = None


class LogprobsTopCandidates(Record):
    candidates: tuple[LogprobsCandidate, ...] | None = None


class LogprobsResult(Record):
    chosen_candidates: tuple[LogprobsCandidate, ...] | None = None
    top_candidates: tuple[LogprobsTopCandidates, ...] | None = None


class Transcription(Record):
    """Speech as text; live sessions."""

    text: str | None = None
    finished: bool | None = None

    def __post_init__(self) -> None:
        clean_text_fields(self, "text")


class ModelResponse(Record):
    """One response of a model (models §1): a partial piece, or the whole turn with ``partial`` unset or False."""

    content: Content | None = None
    partial: bool | None = None
    turn_complete: bool | None = None
    interrupted: bool | None = None
    finish_reason: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    usage_metadata: UsageMetadata | None = None
    citation_metadata: CitationMetadata | None = None
    grounding_metadata: GroundingMetadata | None = None
    avg_logprobs: float | None = None
    logprobs_result: LogprobsResult | None = None
    input_transcription: Transcription | None = None
    output_transcription: Transcription | None = None
    session_resumption_handle: str | None = None
    model_version: str | None = None
    custom_metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.error_message is not None or self.error_code is not None:
            clean_text_fields(self, "error_code", "error_message")

    @property
    def text(self) -> str:
        """The non-thought text of the content."""
        content = self.content
        return "" if content is None else content.text
