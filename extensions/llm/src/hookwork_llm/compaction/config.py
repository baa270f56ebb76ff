"""When and how a conversation is compacted (core CMP-1, CMP-2, CMP-13)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from attrs import define, fields

from hookwork.errors import ConfigurationError
from hookwork.model import Model
from hookwork_llm.compaction.engine import Compaction
from hookwork_llm.compaction.summarizer import LlmSummarizer, Summarizer

if TYPE_CHECKING:
    from hookwork.invocation import Setup
    from hookwork.settings import Settings

logger = logging.getLogger("hookwork.compaction")


@define(frozen=True, eq=False)
class EventsCompaction:
    """Settings of context compaction; ``App(..., events_compaction=EventsCompaction(...))`` or the Runner's argument.

    Choose one strategy:

    - *sliding window*, after a run: once ``compaction_interval`` invocations are in no summary, they are summarised,
      together with the ``overlap_size`` invocations in front of them;
    - *tail retention*, before a model request: once the prompt has ``token_threshold`` tokens, everything but the
      newest ``event_retention_size`` events and the question being answered is summarised.

    Args:
        compaction_interval: invocations per window; 0 switches the sliding window off.
        overlap_size: invocations that a window shares with the one before.
        token_threshold: prompt size in tokens; 0 switches tail retention off.
        event_retention_size: newest events that tail retention keeps as they are.
        summarizer: a `Summarizer`, the name of one that an extension provides, or None: an `LlmSummarizer` on the
            root agent's model.

    Raises:
        ConfigurationError: a number that is none or negative, a setting without the one it belongs to, no strategy.
    """

    compaction_interval: int = 0
    overlap_size: int = 0
    token_threshold: int = 0
    event_retention_size: int = 0
    summarizer: Summarizer | str | None = None

    def __attrs_post_init__(self) -> None:
        for attribute in fields(type(self))[:4]:
            value = getattr(self, attribute.name)
            if type(value) is not int or value < 0:
                raise ConfigurationError(f"events_compaction: {attribute.name} is a whole number from 0, not {value!r}")
        if self.overlap_size and not self.compaction_interval:
            raise ConfigurationError(
                "events_compaction: overlap_size belongs to the sliding window; give compaction_interval too"
            )
        if bool(self.token_threshold) != bool(self.event_retention_size):
            raise ConfigurationError(
                "events_compaction: token_threshold and event_retention_size go together; give both or neither"
            )
        if not self.compaction_interval and not self.token_threshold:
            raise ConfigurationError(
                "events_compaction: no strategy; give compaction_interval (sliding window), or token_threshold and "
                "event_retention_size (tail retention), or leave events_compaction out"
            )
        _check_summarizer(self.summarizer, "summarizer")
        if self.compaction_interval and self.token_threshold:
            logger.warning(
                "events_compaction: the two strategies do not compose: what the sliding window has summarised is out "
                "of reach for tail retention, so the prompt grows without bound; choose one of them"
            )

    def bind(self, setup: Setup, settings: Settings | None = None) -> Compaction:
        """The compaction of one runner, its summarizer resolved. The kernel calls it when the runner is built.

        Raises:
            ConfigurationError: no summarizer is given and the root is no LLM agent or has no model, or nobody
                provides the one that is named.
        """
        return Compaction(self, _resolved(self.summarizer, setup, settings))


def _check_summarizer(value: Any, what: str) -> None:
    if value is not None and not isinstance(value, str) and not callable(getattr(value, "summarize", None)):
        raise ConfigurationError(
            f"events_compaction: {what} has a method `summarize(events)`, or is the name of one; got {value!r}"
        )


def _resolved(chosen: Summarizer | str | None, setup: Setup, settings: Settings | None) -> Summarizer:
    if isinstance(chosen, str):
        chosen = _provided(chosen, settings)
    if chosen is None:
        return _default(setup)
    if isinstance(chosen, LlmSummarizer) and isinstance(chosen.model, str):
        return chosen.clone(model=setup.model(chosen.model))
    return chosen


def _provided(kind: str, settings: Settings | None) -> Summarizer:
    """What an extension gives for a name (provider hook ``create_summarizer``)."""
    from hookwork.plugins.discovery import extensions
    from hookwork.settings import current_settings

    settings = settings or current_settings()
    registry = extensions().without(settings.disabled)
    found = registry.first("create_summarizer", kind=kind, settings=settings)
    if found is None:
        providers = ", ".join(registry.provider_names("create_summarizer")) or "none"
        raise ConfigurationError(
            f"events_compaction: no installed extension provides a summarizer named {kind!r} (asked: {providers}); "
            "give a Summarizer object, or leave it out to use the root agent's model"
        )
    _check_summarizer(found, f"what is provided for {kind!r}")
    return found  # type: ignore[no-any-return]


def _default(setup: Setup) -> LlmSummarizer:
    """An LLM summarizer on the root agent's model, with what of its config suits a summary (CMP-2)."""
    from hookwork_llm.agent import LlmAgent

    root = setup.tree.root if setup.tree is not None else None
    if not isinstance(root, LlmAgent):
        raise ConfigurationError(
            f"events_compaction: the root {root.name if root is not None else None!r} is no LLM agent, so there is no "
            "model to summarise with; give summarizer=LlmSummarizer(model)"
        )
    chosen = setup.model_override or root.model or setup.default_model
    if chosen is None:
        raise ConfigurationError(
            f"events_compaction: the root agent {root.name!r} has no model to summarise with; give it one, or give "
            "summarizer=LlmSummarizer(model)"
        )
    model = chosen if isinstance(chosen, Model) else setup.model(chosen)
    return LlmSummarizer(model, config=root.generate_content_config)
