"""The light way of checking plain arguments is the same as pydantic's (tools-plugins FN-02, FN-12)."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookwork.errors import ToolArgumentError
from hookwork_llm.functions.binding import Signature, plain_schema, typed_arguments
from hookwork_llm.functions.callables import describe
from hookwork_llm.functions.plain import PlainArguments, plain_type

ANNOTATIONS = [str, int, float, bool, Any, str | None, int | None, float | None, bool | None]
NAMES = ["a", "b", "c"]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-1000, 1000).map(float),
    st.text(st.characters(codec="utf-8"), max_size=5),
)
values = st.one_of(scalars, st.lists(scalars, max_size=2), st.dictionaries(st.sampled_from(NAMES), scalars, max_size=2))
parameters = st.lists(st.tuples(st.sampled_from(ANNOTATIONS), st.booleans()), max_size=3)


def signature_of(shape: list[tuple[Any, bool]], extras: bool) -> Signature:
    def probe(**values: Any) -> None: ...

    made = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=annotation,
            default=inspect.Parameter.empty if required else 0,
        )
        for name, (annotation, required) in zip(NAMES, shape, strict=False)
    ]
    if extras:
        made.append(inspect.Parameter("rest", inspect.Parameter.VAR_KEYWORD))
    probe.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
    return Signature(describe(probe), "probe")


def outcome(convert: Any, args: dict[str, Any]) -> Any:
    try:
        return {name: (type(value), value) for name, value in convert(args).items()}
    except ToolArgumentError as error:
        return str(error)


@settings(max_examples=150, deadline=None)
@given(parameters, st.booleans(), st.lists(st.dictionaries(st.sampled_from([*NAMES, "z"]), values), max_size=6))
def test_fn_12_both_ways_accept_convert_and_word_alike(
    shape: list[tuple[Any, bool]], extras: bool, calls: list[dict[str, Any]]
) -> None:
    signature = signature_of(shape, extras)
    types = {name: plain_type(one.annotation) for name, one in signature.arguments.items()}
    assert all(one is not None for one in types.values())
    plain = PlainArguments("probe", types, signature.required, extras, frozenset())  # type: ignore[arg-type]
    typed, schema = typed_arguments(signature, "probe", {}, {})
    assert plain_schema(types, signature) == schema  # type: ignore[arg-type]
    for args in calls:
        assert outcome(plain.convert, args) == outcome(typed, args)


@pytest.mark.parametrize("annotation", [list, list[str], dict[str, int], int | str, bytes, Any | None, type(None)])
def test_what_is_not_plain_is_left_to_pydantic(annotation: Any) -> None:
    assert plain_type(annotation) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_has_no_nan(value: float) -> None:
    plain = PlainArguments("probe", {"a": plain_type(float)}, frozenset(), False, frozenset())  # type: ignore[dict-item]
    with pytest.raises(ToolArgumentError, match="/a: Input should be a valid number"):
        plain.convert({"a": value})
