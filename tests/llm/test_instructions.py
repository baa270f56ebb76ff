"""Instruction templates (core §2.3, CASE-INSTR-1)."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.errors import ArtifactNotFoundError, ConfigurationError, HookworkError, UnsupportedInContext
from hookwork.records.content import Blob, Part
from hookwork_inmemory import InMemoryArtifactService
from hookwork_llm.errors import MissingStateKey
from hookwork_llm.instructions import Placeholder, Template, inject_session_state, render_template
from hookwork_testkit import make_context

CASE = 'In {city}: {{city}}, ${expr}, \\{x}, {"a": {"b": 1}}, fn({ page }) , {missing?}, {user:lang?}'


def context(state: dict[str, Any] | None = None, **options: Any) -> Any:
    return make_context("callback", agent="guide", state=state or {}, **options)


async def test_case_instr_1_braces_that_are_not_placeholders() -> None:
    rendered = await inject_session_state(context({"city": "Rome"}), CASE)
    assert rendered == 'In Rome: {city}, ${expr}, {x}, {"a": {"b": 1}}, fn({ page }) , , '


async def test_case_instr_1_a_missing_name_says_which_agent_and_how_to_escape() -> None:
    with pytest.raises(MissingStateKey) as caught:
        await inject_session_state(context(), "{missing}")
    error = caught.value
    assert isinstance(error, KeyError)
    assert isinstance(error, HookworkError)
    assert (error.key, error.agent) == ("missing", "guide")
    for piece in ("'guide'", "'missing'", "{missing?}", "{{missing}}", "templating=False"):
        assert piece in str(error)
    assert not str(error).startswith('"')
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    "text",
    [
        "{{{x}}}",
        "{{{{x}}}}",
        "{}",
        "{ x}",
        "{x }",
        "{x.y}",
        "{x:y}",
        "{app:}",
        "{1x}",
        "{x??}",
        "{{x}",
        "${x}",
        "${{x}}",
        "{{ x }}",
        "{% if x %}",
        "\\n{",
        '{"a": {"b": 1}}',
        "{artifact.}",
        "{artifact.a b}",
    ],
)
def test_ins_1_all_other_braces_stay(text: str) -> None:
    template = Template(text)
    assert template.static == text
    assert template.placeholders == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{x}}", "{x}"),
        ("{{x?}}", "{x?}"),
        ("{{user:lang}}", "{user:lang}"),
        ("{{artifact.a.txt}}", "{artifact.a.txt}"),
        ("\\{x}", "{x}"),
        ("\\{user:lang?}", "{user:lang?}"),
        ('{"k": {{x}}}', '{"k": {x}}'),
        ("a\\b", "a\\b"),
    ],
)
def test_ins_1_escapes(text: str, expected: str) -> None:
    assert Template(text).static == expected


def test_ins_1_a_placeholder_inside_other_braces() -> None:
    assert render_template('{"city": {city}}', lambda name, optional: f"<{name}>") == '{"city": <city>}'


def test_ins_1_inserted_text_is_not_expanded_again() -> None:
    values = {"a": "{b} {{b}} \\{b}", "b": "no"}
    assert render_template("{a}{b}", lambda name, optional: values[name]) == "{b} {{b}} \\{b}no"


def test_ins_1_a_template_knows_its_placeholders() -> None:
    template = Template("{a} {app:b?} {artifact.docs/c.md} {größe}")
    assert template.placeholders == (
        Placeholder("a", False),
        Placeholder("app:b", True),
        Placeholder("artifact.docs/c.md", False),
        Placeholder("größe", False),
    )
    assert template.static is None


@given(st.text(alphabet="ab{}\\$? :.", max_size=30))
def test_ins_1_text_without_braces_around_a_name_is_kept(text: str) -> None:
    rendered = render_template(text, lambda name, optional: f"{{{name}{'?' * optional}}}")
    # A lookup that gives the placeholder back leaves only the two escapes to differ.
    assert rendered.count("a") == text.count("a")
    if "{{" not in text and "\\{" not in text:
        assert rendered == text


async def test_ins_3_values_are_shown_as_text() -> None:
    ctx = context({"n": 3, "none": None, "d": {"a": [1]}, "app:x": True, "user:y": "z", "temp:t": 1.5})
    rendered = await inject_session_state(ctx, "{n}|{none}|{d}|{app:x}|{user:y}|{temp:t}|{gone?}")
    assert rendered == "3||{'a': [1]}|True|z|1.5|"


async def test_ins_3_own_outstanding_writes_are_seen() -> None:
    ctx = context({"n": 1})
    ctx.state["n"] = 2
    assert await Template("{n}").render(ctx) == "2"


async def test_ins_2_artifacts() -> None:
    service = InMemoryArtifactService()
    ctx = context({}, artifacts=service)
    await ctx.artifacts.save("notes.md", Part(text="old"))
    await ctx.artifacts.save("notes.md", Part(text="new {x}"))
    await ctx.artifacts.save("user:p.png", Part(inline_data=Blob(data=b"1", mime_type="image/png")))
    assert await inject_session_state(ctx, "{artifact.notes.md}|{artifact.user:p.png}|{artifact.gone?}") == "new {x}||"
    with pytest.raises(ArtifactNotFoundError):
        await inject_session_state(ctx, "{artifact.gone}")


async def test_ins_2_without_an_artifact_service_even_an_optional_one_raises() -> None:
    with pytest.raises(ConfigurationError, match="no artifact service"):
        await inject_session_state(context(strict=True, artifacts=None, allow=["artifacts"]), "{artifact.a?}")


async def test_ins_2_a_readonly_context_has_no_artifacts() -> None:
    ctx = make_context("readonly", agent="guide", state={"a": 1})
    assert await inject_session_state(ctx, "{a}") == "1"
    with pytest.raises(UnsupportedInContext, match="artifacts"):
        await inject_session_state(ctx, "{artifact.a?}")


async def test_static_text_needs_no_context() -> None:
    assert await Template("Be brief.").render(None) == "Be brief."  # type: ignore[arg-type]
