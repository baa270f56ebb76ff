"""The Model contract (models §1): one request in, a lazy stream of responses out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import msgspec

from hookwork.errors import UnsupportedOperationError
from hookwork.records.content import Content, Part
from hookwork.records.metadata import ModelResponse
from hookwork.records.request import FunctionDeclaration, GenerateContentConfig, ToolDeclaration

if TYPE_CHECKING:
    from hookwork.live import LiveConnection, LiveRunConfig
    from hookwork.tool import Tool

_DEFAULT_CONFIG = GenerateContentConfig()


class ModelCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a model can do; flow, codec and hooks ask only this, never a name (models CAP-5)."""

    provider: str = ""
    streaming: bool = True
    live: bool = False
    tools: bool = True
    output_schema: bool = False
    output_schema_with_tools: bool = False
    builtin_tools: frozenset[str] = frozenset()
    builtin_with_functions: bool = False
    pairs_calls_by_id: bool = False
    alternating_roles: bool = False
    equal_response_counts: bool = False
    file_uris: bool = False
    media: tuple[str, ...] = ()
    reasoning: bool = False
    max_parallel_live_tools: int | None = None


class ModelRequest:
    """One request to a model. Mutable while request stages and ``before_model`` hooks prepare it, read-only afterwards.

    Attributes:
        model: name for this call; adapters prefer it over their own name when it is not empty.
        contents: a read-only sequence of Content; replace it by a list of your own to change it.
        config: frozen; change it through `update_config`.
        tools: name → Tool, the local execution table. Never serialised, never sent.
    """

    __slots__ = ("config", "contents", "model", "tools")

    def __init__(
        self,
        *,
        model: str = "",
        contents: Sequence[Content] = (),
        config: GenerateContentConfig | None = None,
        tools: dict[str, Tool] | None = None,
    ) -> None:
        self.model = model
        self.contents: Sequence[Content] = contents
        self.config = config if config is not None else _DEFAULT_CONFIG
        self.tools: dict[str, Tool] = {} if tools is None else tools

    def __repr__(self) -> str:
        return f"ModelRequest(model={self.model!r}, contents={len(self.contents)}, tools={sorted(self.tools)})"

    def update_config(self, **changes: Any) -> None:
        """Put a changed copy of the config in its place."""
        self.config = self.config.replace(**changes)

    def append_instruction(self, *texts: str) -> None:
        """Add texts to the system instruction's last text part, joined by a blank line; empty ones are skipped."""
        added = "\n\n".join(text for text in texts if text)
        if not added:
            return
        present = self.config.system_instruction
        parts: list[Part] = list(present.parts) if present is not None else []
        if parts and parts[-1].text is not None:
            parts[-1] = parts[-1].replace(text=f"{parts[-1].text}\n\n{added}" if parts[-1].text else added)
        else:
            parts.append(Part(text=added))
        role = present.role if present is not None else "user"
        self.update_config(system_instruction=Content(role=role, parts=parts))

    def add_declarations(self, declarations: Sequence[FunctionDeclaration]) -> None:
        """Advertise functions: they join the one function-declaration entry of ``config.tools``."""
        if not declarations:
            return
        entries = list(self.config.tools)
        for i, entry in enumerate(entries):
            if entry.function_declarations is not None:
                entries[i] = entry.replace(function_declarations=(*entry.function_declarations, *declarations))
                break
        else:
            entries.append(ToolDeclaration(function_declarations=tuple(declarations)))
        self.update_config(tools=tuple(entries))


class Model(ABC):
    """A model. Subclass it, set ``name`` and ``capabilities``, and write `generate`.

    One instance serves concurrent calls: keep per-call state in the call (MOD-5). Raise only
    `hookwork.errors.ModelError`; all work, checks included, starts when iteration starts (MOD-7).
    """

    name: str = ""
    capabilities: ModelCapabilities = ModelCapabilities()

    @abstractmethod
    def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        """Answer one request.

        ``stream=False``: exactly one response with ``partial`` unset. ``stream=True``: any number of ``partial=True``
        responses, then exactly one whole one, equal to what the unstreamed call gives (MOD-2). The request is not
        changed (MOD-6). Closing the iterator early frees the connection (MOD-4).
        """

    def connect(self, request: ModelRequest, config: LiveRunConfig) -> AbstractAsyncContextManager[LiveConnection]:
        """A live connection (models §7): entering opens it, leaving closes it, however it is left.

        A model that offers this sets ``capabilities.live``. All work, checks included, starts on entering. The
        connection is opened with the request's system instruction, tools and generation settings and all that
        ``config`` says, whose values win (LIVE-1, LIVE-2); what the provider lacks is a `ModelError` of kind
        ``invalid_request``. Contents of the request are not sent here: see `LiveConnection.send_history`. A handle in
        ``config.session_resumption`` resumes that session; a backend that needs its transparent mode for it sets that
        by itself, any other leaves the caller's setting alone (LIVE-9).

        Raises:
            UnsupportedOperationError: the model does not support live.
            ModelError: (on entering) the connection could not be opened; ``retryable`` says whether another attempt
                may succeed. One attempt is made: who drives the connection decides about the next.
        """
        raise UnsupportedOperationError(
            f"model {self.name!r} does not support live; use a model whose capabilities say live=True, or runner.run()"
        )

    async def close(self) -> None:
        """Free what the model holds; idempotent. The runner closes models it made from names."""
