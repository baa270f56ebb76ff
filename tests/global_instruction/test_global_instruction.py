"""The global instruction (tools-plugins SP-43; templates by core INS-1 and INS-3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork import Content, ModelRequest, Part, Runner, text_content
from hookwork.errors import ConfigurationError, PluginError
from hookwork.records.content import FileData
from hookwork.resolve import resolve_plugins
from hookwork.settings import Settings
from hookwork_global_instruction import GlobalInstruction
from hookwork_global_instruction.template import render
from hookwork_llm import LlmAgent
from hookwork_llm.instructions import render_template
from hookwork_testkit import ScriptedModel, call, make_context

RunnerFactory = Callable[..., Runner]
STATE: dict[str, Any] = {"city": "Oslo", "user:lang": "nb", "none": None, "n": 3, "loop": "{city}"}


async def test_sp_43_every_agent_gets_it_in_front_of_its_own(runner_factory: RunnerFactory) -> None:
    model = ScriptedModel([call("transfer_to_agent", agent_name="helper"), "Hello."])
    helper = LlmAgent(name="helper", model=model, instruction="Help.")
    root = LlmAgent(name="root", model=model, instruction="Lead.", sub_agents=[helper])
    async with runner_factory(root, plugins=[GlobalInstruction("Be kind to {name}.")]) as runner:
        await runner.ask("Hi", state_delta={"name": "Ann"})
    assert [request.instruction.split("\n\n")[:2] for request in model.requests] == [
        ["Be kind to Ann.", "Lead."],
        ["Be kind to Ann.", "Help."],
    ]


@pytest.mark.parametrize(
    ("present", "parts"),
    [
        (None, ["G"]),
        (Content(role="user"), ["G"]),
        (text_content("own", role="user"), ["G\n\nown"]),
        (text_content("", role="user"), ["G"]),
        (Content(role="user", parts=[Part(text="own"), Part(text="more")]), ["G\n\nown", "more"]),
        (Content(role="user", parts=[Part(file_data=FileData(file_uri="u"))]), ["G", None]),
    ],
    ids=["none", "empty", "text", "empty text", "two", "file"],
)
async def test_sp_43_pieces_are_joined_by_a_blank_line(present: Content | None, parts: list[str | None]) -> None:
    request = ModelRequest()
    request.update_config(system_instruction=present)
    await GlobalInstruction("G").before_model(make_context("callback"), request)
    made = request.config.system_instruction
    assert made is not None
    assert (made.role, [part.text for part in made.parts]) == ("user", parts)


async def test_sp_43_a_function_gives_the_text_as_it_is() -> None:
    async def provide(ctx: Any) -> str:
        return f"{ctx.user_id} {{city}}"

    for provider in (provide, lambda ctx: f"{ctx.user_id} {{city}}"):
        request = ModelRequest()
        await GlobalInstruction(provider).before_model(make_context("callback"), request)
        assert request.config.system_instruction == text_content("test_user {city}", role="user")


async def test_sp_43_an_empty_text_changes_nothing() -> None:
    request = ModelRequest()
    await GlobalInstruction(lambda ctx: "").before_model(make_context("callback"), request)
    assert request.config.system_instruction is None


async def test_templating_can_be_switched_off() -> None:
    request = ModelRequest()
    await GlobalInstruction("{absent}", templating=False).before_model(make_context("callback"), request)
    assert request.config.system_instruction == text_content("{absent}", role="user")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{city} {n} {user:lang} {none}.", "Oslo 3 nb ."),
        ("{missing?}{user:missing?}", ""),
        ("{{city}} \\{city}", "{city} {city}"),
        ("${city} { city } {{{city}}} {0}", "${city} { city } {{{city}}} {0}"),
        ('{"city": {city}}', '{"city": Oslo}'),
        ("{loop}", "{city}"),
    ],
)
def test_ins_1_placeholders(template: str, text: str) -> None:
    assert render(template, STATE) == text


PIECES = ["{", "}", "\\", "$", "city", "user:lang", "gone", "?", " ", "x:y", "{city}", "{gone?}"]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_ins_1_agents_and_this_plugin_read_templates_alike(template: str) -> None:
    def lookup(name: str, optional: bool) -> str:
        value = STATE.get(name, "" if optional else None)
        if value is None:
            raise ConfigurationError(name)
        return str(value)

    try:
        expected = render_template(template, lookup)
    except ConfigurationError:
        with pytest.raises(ConfigurationError):
            render(template, STATE)
    else:
        assert render(template, STATE) == expected


def test_ins_3_an_absent_value_is_named_with_both_remedies() -> None:
    with pytest.raises(ConfigurationError, match=r"'nowhere'.*\{nowhere\?\}.*\{\{nowhere\}\}"):
        render("{nowhere}", STATE)


def test_wrong_options_are_named() -> None:
    with pytest.raises(ConfigurationError, match="a text or a function"):
        GlobalInstruction(7)  # type: ignore[arg-type]
    with pytest.raises(PluginError, match="instruction"):
        resolve_plugins(["global_instruction"], Settings())


def test_ext_8_options_come_from_its_table() -> None:
    table = {"instruction": "Be brief.", "templating": False}
    [plugin] = resolve_plugins(["global_instruction"], Settings(tables={"global_instruction": table}))
    assert isinstance(plugin, GlobalInstruction)
