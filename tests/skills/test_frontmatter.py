"""Frontmatter: the table of tools-plugins §6, SK-01, SK-02."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork_skills import Frontmatter, InvalidFrontmatter, InvalidSkillName, build, parse

HEAD = "name: a\ndescription: d\n"


def front(extra: str = "") -> Frontmatter:
    return parse(f"---\n{HEAD}{extra}---\n")[0]


# --- the document -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "body"),
    [
        (f"---\n{HEAD}---\nText\n---\nmore", "Text\n---\nmore"),
        (f"---\n{HEAD}---\n", ""),
        (f"---\n{HEAD}---", ""),
        (f"\ufeff---\n{HEAD}---\n\n  x\r\n", "\n  x\r\n"),
        ("---\r\nname: a\r\ndescription: d\r\n---\r\nText\r\n", "Text\r\n"),
    ],
)
def test_sk_01_instructions_are_the_rest_verbatim(document: str, body: str) -> None:
    assert parse(document) == (Frontmatter(name="a", description="d"), body)
    assert parse(document.encode()) == parse(document)


@pytest.mark.parametrize(
    "document",
    [
        "",
        HEAD,
        f"--- \n{HEAD}---\n",
        f" ---\n{HEAD}---\n",
        f"\n---\n{HEAD}---\n",
        f"---\n{HEAD}--- \n",
        f"---\n{HEAD}----\n",
        f"---\n{HEAD}",
        f"---{HEAD}---\n",
        "---\n---\n",
        "---\n- a\n---\n",
        "---\nname: [\n---\n",
        f"---\n{HEAD}x: !!python/object/apply:os.system ['true']\n---\n",
        "---\n" + "[" * 5000 + "\n---\n",
        "---\n" + HEAD + "license: " + "x" * 70_000 + "\n---\n",
        b"---\nname: a\ndescription: \xff\n---\n",
    ],
    ids=lambda value: repr(value[:40]),
)
def test_sk_01_no_frontmatter_or_no_safe_yaml(document: Any) -> None:
    with pytest.raises(InvalidFrontmatter):
        parse(document)


def test_sk_01_merge_keys_cannot_multiply() -> None:
    levels = "".join(f"x{n}: &x{n} {{<<: [*x{n - 1}, *x{n - 1}]}}\n" for n in range(1, 30))
    with pytest.raises(InvalidFrontmatter):
        parse(f"---\nx0: &x0 {{a: b}}\n{levels}---\n")


# --- the keys ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "a1-b2", "0", "x" * 64])
def test_table_good_names(name: str) -> None:
    assert Frontmatter(name=name, description="d").name == name


@pytest.mark.parametrize(
    "name", ["", "A", "a_b", "-a", "a-", "a--b", "a/b", "..", "a b", "ä", "a\n", "x" * 65, "١", None, 3]
)
def test_table_bad_names(name: Any) -> None:
    with pytest.raises(InvalidSkillName):
        Frontmatter(name=name, description="d")


@pytest.mark.parametrize(
    ("extra", "word"),
    [
        ("licence: MIT\n", "did you mean 'license'"),
        ("version: 1\n", "unknown key 'version'"),
        ("compatibility: " + "x" * 501 + "\n", "501"),
        ("license: [a]\n", "license is text"),
        ("metadata: [a]\n", "metadata is a map"),
        ("metadata: {a: [b]}\n", "metadata 'a'"),
        ("metadata: {a: null}\n", "metadata 'a'"),
        ("allowed-tools: {a: b}\n", "allowed-tools"),
        ("allowed-tools: [[a]]\n", "allowed-tools"),
        ("allowed-tools: Bash(git\n", "parentheses"),
        ("allowed-tools: Bash)git(\n", "parentheses"),
    ],
)
def test_table_values_that_break_a_rule(extra: str, word: str) -> None:
    with pytest.raises(InvalidFrontmatter, match=word.replace("(", r"\(")):
        front(extra)


@pytest.mark.parametrize("document", ["---\nname: a\n---\n", "---\ndescription: d\n---\n", "---\nname:\n---\n"])
def test_table_name_and_description_are_required(document: str) -> None:
    with pytest.raises(InvalidFrontmatter):
        parse(document)


@pytest.mark.parametrize("description", ["", "  ", "x" * 1025])
def test_table_description_has_1_to_1024_characters(description: str) -> None:
    with pytest.raises(InvalidFrontmatter):
        Frontmatter(name="a", description=description)


def test_sk_01_lengths_are_in_characters() -> None:
    assert Frontmatter(name="a", description="ü" * 1024, compatibility="ü" * 500).description == "ü" * 1024


@pytest.mark.parametrize(
    ("value", "entries"),
    [
        ("Bash(git:*) Read", ("Bash(git:*)", "Read")),
        ("Bash(git add, x), Read,,  Write", ("Bash(git add, x)", "Read", "Write")),
        ("[Bash(a b), Read]", ("Bash(a b)", "Read")),
        ("null", ()),
        ("", ()),
        ("A(b(c) d)", ("A(b(c) d)",)),
    ],
)
def test_table_allowed_tools(value: str, entries: tuple[str, ...]) -> None:
    assert front(f"allowed-tools: {value}\n").allowed_tools == entries


def test_table_plain_values_of_metadata_are_the_text_that_stands_there() -> None:
    made = front("metadata:\n  version: 1.10\n  stable: yes\n  date: 2026-01-02\nlicense: null\n")
    assert made.metadata == {"version": "1.10", "stable": "yes", "date": "2026-01-02"}
    assert made.license == ""


# --- writing ----------------------------------------------------------------------------------------------------------


def test_sk_02_empty_optional_keys_are_left_out() -> None:
    assert build(Frontmatter(name="a", description="d"), "Text") == "---\nname: a\ndescription: d\n---\nText"


_WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


@given(
    name=st.from_regex(r"[a-z0-9]{1,5}(-[a-z0-9]{1,5}){0,3}", fullmatch=True),
    description=_WORDS.filter(str.strip),
    extra=st.tuples(_WORDS, _WORDS, st.dictionaries(_WORDS, _WORDS, max_size=3)),
    allowed=st.lists(_WORDS.filter(str.strip), max_size=3),
    body=st.text(st.characters(exclude_categories=["Cs"])),
)
def test_sk_02_law_what_was_built_parses_back_equal(
    name: str, description: str, extra: Any, allowed: list[str], body: str
) -> None:
    made = Frontmatter(
        name=name,
        description=description,
        license=extra[0],
        compatibility=extra[1],
        metadata=extra[2],
        allowed_tools=tuple(allowed),
    )
    assert parse(build(made, body)) == (made, body)
