"""A name that a context does not have is told with the one that was meant (house rule: errors say what to do)."""

from __future__ import annotations

import pytest

from hookwork_testkit import make_context


@pytest.mark.parametrize(
    ("name", "meant"),
    [("save_artifact", "artifacts.save"), ("load_artifact", "artifacts.load"), ("search_memry", "search_memory")],
)
def test_what_was_meant_is_named(name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=meant):
        getattr(make_context(), name)


def test_a_name_that_is_like_nothing_is_just_missing() -> None:
    context = make_context()
    assert not hasattr(context, "zzzzqq")
    assert getattr(context, "zzzzqq", 7) == 7
