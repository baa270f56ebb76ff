"""What a request goes on from: known beginnings, and nothing else (models Beyond: response chaining)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hookwork_modelkit.chains import Chains, Known

ITEMS = st.lists(st.fixed_dictionaries({"text": st.text(max_size=3)}), min_size=1, max_size=6)


def items(*texts: str) -> list[dict[str, Any]]:
    return [{"text": text} for text in texts]


def test_a_request_goes_on_from_the_newest_answer_that_it_begins_with() -> None:
    chains = Chains()
    chains.remember("m", items("a", "A"), "r1")
    chains.remember("m", items("a", "A", "b", "B"), "r2")
    assert chains.find("m", items("a", "A", "b", "B", "c")) == Known("r2", 4)
    assert chains.find("m", items("a", "A", "x")) == Known("r1", 2)
    assert chains.find("m", items("a", "A")) is None, "nothing would be left to send"
    assert chains.find("other", items("a", "A", "x")) is None


def test_a_forgotten_answer_is_not_gone_on_from() -> None:
    chains = Chains()
    chains.remember("m", items("a", "A"), "r1")
    chains.remember("m", items("a", "A", "b", "B"), "r2")
    chains.forget("r2")
    assert chains.find("m", items("a", "A", "b", "B", "c")) == Known("r1", 2)


@given(known=ITEMS, asked=ITEMS)
def test_what_is_found_is_a_true_beginning(known: list[dict[str, Any]], asked: list[dict[str, Any]]) -> None:
    chains = Chains()
    chains.remember("m", known, "r")
    begins = len(asked) > len(known) and asked[: len(known)] == known
    assert chains.find("m", asked) == (Known("r", len(known)) if begins else None)


def test_the_table_is_bounded() -> None:
    chains = Chains()
    for number in range(2500):
        chains.remember("m", items(str(number)), f"r{number}")
    found = [chains.find("m", items(str(number), "x")) is not None for number in range(2500)]
    assert sum(found) == 2000
    assert not any(found[:500]), "the least recently used go first"
