"""Joins as nodes: what they are given, what they check, how many they take (workflow JOIN-2 … JOIN-4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from hookwork.errors import GraphError
from hookwork_workflow import START, InputValidationError, Join, Workflow, node


@dataclass
class City:
    name: str


async def test_join_2_the_map_is_handed_on_unchanged() -> None:
    both = Join("both")
    values = {"a": 1, "b": None}
    assert both.gather(values) == values
    assert [event.output async for event in both.run(None, both.gather(values))] == [values]


def test_join_3_a_schema_holds_for_each_predecessors_value() -> None:
    both = Join("both", input_schema=City)
    assert both.validate_input({"a": {"name": "x"}, "b": None}) == {"a": {"name": "x"}, "b": None}
    with pytest.raises(InputValidationError, match='predecessor "b": ') as caught:
        both.validate_input({"a": {"name": "x"}, "b": {"nam": "y"}})
    assert caught.value.node == "both"


@pytest.mark.parametrize(
    ("require", "arrived", "optional", "ready"),
    [
        ("all", "ab", "", False),
        ("all", "abc", "", True),
        ("all", "", "abc", False),
        ("all", "ab", "c", True),
        ("all", "c", "c", False),
        ("any", "", "", False),
        ("any", "c", "", True),
        (2, "a", "", False),
        (2, "ac", "", True),
        (3, "abc", "", True),
    ],
)
def test_join_4_how_many_it_takes(require: Any, arrived: str, optional: str, ready: bool) -> None:
    assert Join("both", require).is_ready(set(arrived), ["a", "b", "c"], set(optional)) is ready


def test_join_4_the_least_it_takes() -> None:
    names = ["a", "b", "c"]
    assert [Join("both", require).least(names) for require in ("all", "any", 2)] == [3, 1, 2]
    assert Join("both").least(names, ["c"]) == 2
    assert Join("both").least(["a"], ["a"]) == 1


async def test_join_1_a_wide_join_is_not_looked_through_at_each_arrival() -> None:
    """A fan-out over n nodes takes linear time: the join is asked once, when enough have arrived."""
    asked = []

    class Counting(Join):
        def is_ready(self, arrived: Any, predecessors: Any, optional: Any = ()) -> bool:
            asked.append(len(arrived))
            return super().is_ready(arrived, predecessors, optional)

    steps = [node(lambda x: x, name=f"n{i}", inline=True) for i in range(300)]
    trial = await Workflow("wide", START >> tuple(steps) >> Counting("all")).test(7)
    assert len(trial.output) == 300
    assert asked == [300]


@pytest.mark.parametrize("require", [0, -1, True, "most", 1.5, None])
def test_join_4_other_requirements_are_refused(require: Any) -> None:
    with pytest.raises(GraphError, match='join "both": require is'):
        Join("both", require)
