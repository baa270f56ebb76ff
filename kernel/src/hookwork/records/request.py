"""What goes to a model besides the contents: declarations and generation settings, in the wire form of genai."""

from __future__ import annotations

from typing import Any

from hookwork.records.base import Record, frozen_map, set_field
from hookwork.records.content import Content


class FunctionDeclaration(Record):
    """A function as a model sees it. ``parameters_json_schema`` is a JSON schema; an absent schema is an absent key."""

    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    parameters_json_schema: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    response_json_schema: dict[str, Any] | None = None
    behavior: str | None = None

    def __post_init__(self) -> None:
        for name in ("parameters", "parameters_json_schema", "response", "response_json_schema"):
            value = getattr(self, name)
            if value is not None:
                set_field(self, name, frozen_map(value))


class ToolDeclaration(Record):
    """The wire form of genai's ``Tool``: function declarations, or one model-side tool."""

    function_declarations: tuple[FunctionDeclaration, ...] | None = None
    google_search: dict[str, Any] | None = None
    google_search_retrieval: dict[str, Any] | None = None
    google_maps: dict[str, Any] | None = None
    enterprise_web_search: dict[str, Any] | None = None
    retrieval: dict[str, Any] | None = None
    url_context: dict[str, Any] | None = None
    code_execution: dict[str, Any] | None = None
    computer_use: dict[str, Any] | None = None
    file_search: dict[str, Any] | None = None


class GenerateContentConfig(Record):
    """Generation settings (genai GenerateContentConfig). Keys not listed here travel in ``extra``."""

    system_instruction: Content | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    candidate_count: int | None = None
    max_output_tokens: int | None = None
    stop_sequences: tuple[str, ...] | None = None
    response_logprobs: bool | None = None
    logprobs: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    response_mime_type: str | None = None
    response_schema: dict[str, Any] | None = None
    response_json_schema: dict[str, Any] | None = None
    response_modalities: tuple[str, ...] | None = None
    media_resolution: str | None = None
    safety_settings: tuple[dict[str, Any], ...] | None = None
    tools: tuple[ToolDeclaration, ...] = ()
    tool_config: dict[str, Any] | None = None
    thinking_config: dict[str, Any] | None = None
    speech_config: dict[str, Any] | None = None
    cached_content: str | None = None
    labels: dict[str, str] | None = None
    http_options: dict[str, Any] | None = None

    def function_declarations(self) -> list[FunctionDeclaration]:
        """All function declarations, in order."""
        return [d for tool in self.tools for d in tool.function_declarations or ()]
