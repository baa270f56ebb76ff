"""A plugin's settings table against what its class takes: errors name table, file, key and remedy (EXT-7, EXT-8)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import pytest

from hookwork.errors import ConfigurationError, PluginError
from hookwork.plugins.options import construct

if TYPE_CHECKING:
    from decimal import Decimal


class Audit:
    def __init__(
        self,
        path: str | os.PathLike[str] = "a",
        *,
        redact: Iterable[str] = (),
        most: float | None = None,
        level: Literal["low", "high"] = "low",
        rules: Mapping[str, Any] | None = None,
        on: bool = False,
        count: int = 1,
    ) -> None:
        self.path = os.fspath(path)
        self.redact = [pattern.lower() for pattern in redact]
        self.most = 1.0 if most is None else most + 1
        self.level = {"low": 0, "high": 1}.get(level)
        if self.level is None:
            raise ValueError("no such level")
        self.rules = dict((rules or {}).items())
        self.count = count + 0


def made(target: Any, **table: Any) -> Any:
    return construct(target, table, plugin="plugin 'audit' (fake-dist)", where="hookwork.toml: table 'audit'")


PLACE = "hookwork.toml: table 'audit', options of plugin 'audit' (fake-dist): "


def fault(target: Any, **table: Any) -> str:
    with pytest.raises(PluginError) as caught:
        made(target, **table)
    text = str(caught.value)
    assert text.startswith(PLACE)
    assert "__init__" not in text
    return text.removeprefix(PLACE)


def test_an_unknown_key_is_named_with_the_nearest_and_the_known_ones() -> None:
    assert fault(Audit, paht="x") == (
        "unknown key 'paht' (did you mean 'path'?); known keys: count, level, most, on, path, redact, rules"
    )


def test_a_missing_key_is_named() -> None:
    def needs(*, url: str) -> str:
        return url

    assert fault(needs) == "the key 'url' is missing; known keys: url"
    assert made(needs, url="x") == "x"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"path": 3}, "'path' takes a text, not a whole number"),
        ({"redact": 3, "path": "x"}, "'redact' takes a list, not a whole number"),
        ({"most": "x"}, "'most' takes a number, not a text"),
        ({"level": "middle"}, "'level' takes 'low' or 'high', not a text"),
        ({"rules": ["x"]}, "'rules' takes a table, not a list"),
        ({"count": "3"}, "'count' takes a whole number, not a text"),
        ({"path": 3, "on": "yes"}, "'path' takes a text, not a whole number; 'on' takes true or false, not a text"),
    ],
)
def test_a_value_of_a_wrong_type_is_told_by_its_key(table: dict[str, Any], said: str) -> None:
    assert fault(Audit, **table).startswith(f"{said}: ")


def test_good_values_pass() -> None:
    audit = made(Audit, path="x", most=3, level="high", rules={"a": 1}, redact=["A"])
    assert (audit.path, audit.most, audit.level, audit.rules, audit.redact) == ("x", 4, 1, {"a": 1}, ["a"])


def test_a_faulty_value_that_annotations_do_not_tell_names_the_keys() -> None:
    def picky(*, ttl: float = 1) -> None:
        raise ValueError("too long")

    assert fault(picky, ttl=3) == "one of its values cannot be used (keys: ttl): too long"


def test_annotations_for_type_checkers_only_are_no_fault_of_their_own() -> None:
    def typed(*, price: Decimal | None = None) -> None:
        raise TypeError("not so")

    assert fault(typed, price="x") == "one of its values cannot be used (keys: price): not so"


def test_a_plugin_that_takes_any_key_gets_it() -> None:
    assert made(lambda **table: table, anything=1) == {"anything": 1}


def test_a_callable_without_a_signature_is_called() -> None:
    assert made(dict, a=1) == {"a": 1}
    assert isinstance(made(time.time), float)


def test_the_plugins_own_words_stay() -> None:
    def checks(*, n: int = 1) -> None:
        raise ConfigurationError("plugin 'audit': n is a number from 1")

    with pytest.raises(ConfigurationError, match=r"^plugin 'audit': n is a number from 1$"):
        made(checks, n=0)
