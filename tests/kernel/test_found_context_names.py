"""A name that a context does not have is told with the one that was meant (house rule: errors say what to do)."""

from __future__ import annotations

import pytest

from hookwork_testkit import make_context


@pytest.mark.parametrize(("name", "meant"), [("save_artifact", "artifacts.save"), ("load_artifact", "artifacts.load")])
def test_names_of_google_adk_lead_to_ours(name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=meant):
        getattr(make_context(), name)


def test_python_is_told_what_it_needs_to_name_the_nearest() -> None:
    """https://docs.python.org/3/library/exceptions.html#AttributeError: ``name`` and ``obj``."""
    context = make_context()
    with pytest.raises(AttributeError) as caught:
        _ = context.search_memry
    assert (caught.value.name, caught.value.obj) == ("search_memry", context)


def test_a_name_that_is_like_nothing_is_just_missing() -> None:
    context = make_context()
    assert not hasattr(context, "zzzzqq")
    assert getattr(context, "zzzzqq", 7) == 7
