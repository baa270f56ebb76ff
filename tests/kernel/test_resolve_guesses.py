"""What is said of a model's name that nobody takes: models REG-7, REG-9."""

from __future__ import annotations

import pytest

from hookwork.errors import UnknownModelError
from hookwork.plugins.discovery import use_extensions
from hookwork.plugins.markers import hookimpl
from hookwork.resolve import resolve_model


@pytest.mark.parametrize(
    ("name", "meant"),
    [("gemni-2.5-flash", "gemini-2.5-flash"), ("Gemini-3-flash", "gemini-3-flash"), ("ofline", "offline"),
     ("gtp-5.2", "gpt-5.2"), ("falback:a,b", "fallback:a,b")],
)  # fmt: skip
def test_reg_9_a_name_whose_beginning_is_misspelt_is_guessed(name: str, meant: str) -> None:
    with use_extensions([]), pytest.raises(UnknownModelError, match=rf"did you mean '{meant}'"):
        resolve_model(name)


def test_reg_7_the_form_of_the_peers_is_answered_with_ours() -> None:
    class Acme:
        @hookimpl
        def create_model(self, name: str) -> None:
            return None

    with use_extensions([("acme", Acme())]), pytest.raises(UnknownModelError, match="the form is acme/fast-1"):
        resolve_model("acme:fast-1")
