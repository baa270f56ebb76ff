"""What EventsCompaction takes, and what a runner makes of it (core CMP-1, CMP-2, CMP-13; design §5)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

import hookwork_llm
from hookwork import App, Content, Event, Runner, hookimpl, text_content, use_extensions
from hookwork.agent import Agent
from hookwork.errors import ConfigurationError, UnknownModelError
from hookwork.records.metadata import UsageMetadata
from hookwork.records.request import GenerateContentConfig
from hookwork_inmemory import extension as inmemory
from hookwork_llm import EventsCompaction, LlmAgent, LlmSummarizer, Summarizer
from hookwork_llm.compaction import Compaction
from hookwork_testkit import ScriptedModel


class Fixed:
    """A summarizer that always says the same."""

    async def summarize(self, events: Sequence[Event]) -> tuple[Content | None, UsageMetadata | None]:
        return text_content("fixed"), None


def llm(model: Any = None, **fields: Any) -> LlmAgent:
    return LlmAgent(name="root", model=ScriptedModel() if model is None else model, **fields)


def bound(runner: Runner) -> Compaction:
    compaction = runner.setup.compaction
    assert isinstance(compaction, Compaction)
    return compaction


def test_cmp_1_public_names_and_defaults() -> None:
    assert {"EventsCompaction", "LlmSummarizer", "Summarizer"} <= set(hookwork_llm.__all__)
    config = EventsCompaction(compaction_interval=3)
    assert (config.overlap_size, config.token_threshold, config.event_retention_size) == (0, 0, 0)
    assert config.summarizer is None
    assert EventsCompaction(3, 1).overlap_size == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "no strategy"),
        ({"compaction_interval": -1}, "compaction_interval is a whole number from 0, not -1"),
        ({"compaction_interval": 2, "overlap_size": -2}, "overlap_size is a whole number from 0"),
        ({"token_threshold": -1, "event_retention_size": 3}, "token_threshold is a whole number"),
        ({"token_threshold": 5, "event_retention_size": -3}, "event_retention_size is a whole number"),
        ({"compaction_interval": 1.5}, "compaction_interval is a whole number"),
        ({"compaction_interval": True}, "compaction_interval is a whole number"),
        ({"compaction_interval": "3"}, "compaction_interval is a whole number"),
        ({"overlap_size": 1}, "overlap_size belongs to the sliding window"),
        ({"overlap_size": 1, "token_threshold": 5, "event_retention_size": 2}, "overlap_size belongs to"),
        ({"token_threshold": 100}, "go together"),
        ({"event_retention_size": 100}, "go together"),
        ({"compaction_interval": 2, "event_retention_size": 1}, "go together"),
        ({"compaction_interval": 2, "summarizer": 3}, "summarizer has a method `summarize"),
    ],
)
def test_cmp_1_bad_settings_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        EventsCompaction(**arguments)


def test_cmp_1_none_is_off() -> None:
    assert Runner.in_memory(llm()).setup.compaction is None
    assert Runner.in_memory(App("a", llm(), events_compaction=None)).setup.compaction is None


def test_cmp_2_the_default_summarizer_takes_the_root_agents_model_and_part_of_its_config() -> None:
    model = ScriptedModel(name="big")
    config = GenerateContentConfig(
        temperature=0.5,
        top_p=0.9,
        top_k=7.0,
        seed=4,
        labels={"team": "x"},
        http_options={"timeout": 5},
        safety_settings=({"category": "A"},),
        max_output_tokens=10,
        response_mime_type="application/json",
        stop_sequences=("\n",),
        system_instruction=text_content("be rude"),
        thinking_config={"thinkingBudget": 0},
    )
    agent = llm(model, generate_content_config=config)
    summarizer = bound(Runner.in_memory(agent, events_compaction=EventsCompaction(2))).summarizer
    assert isinstance(summarizer, LlmSummarizer)
    assert summarizer.model is model
    assert summarizer.timeout == 60.0
    sent = summarizer.request([Event(author="user", content=text_content("hi", "user"))]).config
    assert sent.replace(system_instruction=None) == GenerateContentConfig(
        temperature=0.5,
        top_p=0.9,
        top_k=7.0,
        seed=4,
        labels={"team": "x"},
        http_options={"timeout": 5},
        safety_settings=({"category": "A"},),
    )
    assert sent.system_instruction is not None
    assert "be rude" not in sent.system_instruction.text


def test_cmp_2_the_model_that_a_runner_puts_in_place_counts() -> None:
    other = ScriptedModel(name="other")
    summarizer = bound(Runner.in_memory(llm(), model=other, events_compaction=EventsCompaction(2))).summarizer
    assert isinstance(summarizer, LlmSummarizer)
    assert summarizer.model is other


def test_cmp_2_without_a_model_there_is_no_default_summarizer() -> None:
    with pytest.raises(ConfigurationError, match="root agent 'root' has no model to summarise with"):
        Runner.in_memory(LlmAgent(name="root"), events_compaction=EventsCompaction(2))

    async def body(ctx: Any) -> Any:
        yield Event(content=text_content("x"))

    with pytest.raises(ConfigurationError, match="root 'custom' is no LLM agent"):
        Runner.in_memory(Agent(name="custom", body=body), events_compaction=EventsCompaction(2))
    given = Fixed()
    runner = Runner.in_memory(Agent(name="custom", body=body), events_compaction=EventsCompaction(2, summarizer=given))
    assert bound(runner).summarizer is given


def test_cmp_2_a_summarizer_may_name_its_model() -> None:
    compaction = EventsCompaction(2, summarizer=LlmSummarizer("offline", timeout=5, max_chars=99))
    runner = Runner.in_memory(llm(), events_compaction=compaction)
    summarizer = bound(runner).summarizer
    assert isinstance(summarizer, LlmSummarizer)
    assert summarizer.model is runner.setup.models["offline"]
    assert (summarizer.timeout, summarizer.max_chars) == (5, 99)
    with pytest.raises(UnknownModelError):
        Runner.in_memory(llm(), events_compaction=EventsCompaction(2, summarizer=LlmSummarizer("no-such-model")))


def test_one_config_serves_two_runners() -> None:
    config = EventsCompaction(2)
    first, second = (Runner.in_memory(llm(ScriptedModel(name=name)), events_compaction=config) for name in ("a", "b"))
    names = [bound(runner).summarizer.name for runner in (first, second)]  # type: ignore[attr-defined]
    assert names == ["a", "b"]
    assert config.summarizer is None


def provider(value: Any) -> ModuleType:
    module = ModuleType("summaries")

    @hookimpl
    def create_summarizer(kind: str, settings: dict[str, Any]) -> Any:
        return value if kind == "short" else None

    module.create_summarizer = create_summarizer  # type: ignore[attr-defined]
    return module


def test_design_5_a_summarizer_by_name_comes_from_an_extension() -> None:
    given = Fixed()
    config = EventsCompaction(2, summarizer="short")
    with use_extensions([provider(given), inmemory]):
        assert bound(Runner.in_memory(llm(), events_compaction=config)).summarizer is given
        with pytest.raises(ConfigurationError, match="no installed extension provides a summarizer named 'long'"):
            Runner.in_memory(llm(), events_compaction=EventsCompaction(2, summarizer="long"))


def test_design_5_what_an_extension_gives_has_to_be_a_summarizer() -> None:
    with (
        use_extensions([provider(3), inmemory]),
        pytest.raises(ConfigurationError, match="what is provided for 'short'"),
    ):
        Runner.in_memory(llm(), events_compaction=EventsCompaction(2, summarizer="short"))


def test_cmp_13_both_strategies_together_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "hookwork.compaction"):
        EventsCompaction(2)
        EventsCompaction(token_threshold=10, event_retention_size=2)
        assert caplog.records == []
        EventsCompaction(2, token_threshold=10, event_retention_size=2)
    (record,) = caplog.records
    assert "do not compose" in record.getMessage()


@pytest.mark.parametrize(
    "arguments",
    [{"model": None}, {"model": ""}, {"model": 3}, {"timeout": 0}, {"max_part_chars": -1}, {"max_chars": 0}],
)
def test_an_llm_summarizer_checks_its_arguments(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="LlmSummarizer"):
        LlmSummarizer(**{"model": "offline", **arguments})


def test_summarizer_is_a_protocol() -> None:
    assert isinstance(Fixed(), Summarizer)
    assert isinstance(LlmSummarizer("offline"), Summarizer)
    assert not isinstance(object(), Summarizer)
