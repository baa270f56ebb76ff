"""The extension registry within one process: order, calls, broken extensions (tools-plugins §10, models §2)."""

from __future__ import annotations

import contextvars
import logging
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.errors import ConfigurationError, ExtensionError
from hookwork.plugins.discovery import extensions, register_model, use_extensions
from hookwork.plugins.markers import hookimpl
from hookwork.settings import Settings, current_settings


class Answers:
    """An extension that answers every model name with its own."""

    def __init__(self, name: str, value: Any = "") -> None:
        self.name = name
        self.value = value or name
        self.asked: list[Any] = []

    @hookimpl
    def create_model(self, name: str, settings: dict[str, Any]) -> Any:
        self.asked.append((name, settings))
        return None if self.value == "nothing" else self.value


def banded(name: str, band: str) -> Any:
    """An extension in one of the three bands that answers with its name."""
    module = ModuleType(name)

    def build_node(value: Any) -> Any:
        return name

    marker = hookimpl(tryfirst=band == "first", trylast=band == "last")
    module.build_node = marker(build_node)  # type: ignore[attr-defined]
    return name, module


def test_ext_4_first_value_wins_and_later_ones_are_not_asked() -> None:
    one, two, three = Answers("one", "nothing"), Answers("two"), Answers("three")
    with use_extensions([one, two, three]) as registry:
        assert registry.first("create_model", name="m") == "two"
    assert one.asked == two.asked == [("m", {})]
    assert three.asked == []


def test_ext_4_nobody_answers() -> None:
    with use_extensions([Answers("one", "nothing")]) as registry:
        assert registry.first("create_model", name="m") is None
        assert registry.first("build_node", value=3) is None


def test_ext_4_raise_propagates_with_a_note_and_nobody_else_is_asked() -> None:
    class Raises:
        @hookimpl
        def create_model(self, name: str) -> Any:
            raise KeyError(name)

    later = Answers("later")
    with use_extensions([("faulty", Raises()), later]) as registry, pytest.raises(KeyError) as caught:
        registry.first("create_model", name="m")
    assert caught.value.__notes__ == ["raised by extension 'faulty' in 'create_model'"]
    assert later.asked == []


def test_ext_4_settings_is_the_extensions_own_table() -> None:
    seen: list[Settings] = []

    class Wrapper(Answers):
        @hookimpl
        def create_model(self, name: str, settings: dict[str, Any]) -> Any:
            seen.append(current_settings())
            return super().create_model(name, settings)

    one, two = Wrapper("one", "nothing"), Wrapper("two")
    settings = Settings(tables={"one": {"key": 1}, "other": {"x": 2}})
    with use_extensions([one, two]) as registry:
        registry.first("create_model", name="m", settings=settings)
    assert one.asked == [("m", {"key": 1})]
    assert two.asked == [("m", {})]
    assert seen == [settings, settings]
    assert current_settings().tables == {}


def test_ext_5_only_restricts_to_one_extension() -> None:
    with use_extensions([Answers("one"), Answers("two")]) as registry:
        assert registry.first("create_model", only="two", name="m") == "two"
        assert registry.first("create_model", only="three", name="m") is None


def test_all_gives_every_value_in_order() -> None:
    class Telemetry:
        def __init__(self, value: Any) -> None:
            self.value = value

        @hookimpl
        def configure_telemetry(self) -> Any:
            return self.value

    with use_extensions([("a", Telemetry(1)), ("b", Telemetry(None)), ("c", Telemetry(0))]) as registry:
        assert registry.all("configure_telemetry", settings={}) == [1, 0]
        assert registry.provider_names("configure_telemetry") == ("a", "b", "c")


@given(st.lists(st.sampled_from(["first", "normal", "last"]), max_size=8))
def test_ext_2_order_is_tryfirst_normal_trylast_each_in_list_order(bands: list[str]) -> None:
    pairs = [banded(f"e{i}", band) for i, band in enumerate(bands)]
    expected = [f"e{i}" for wanted in ("first", "normal", "last") for i, band in enumerate(bands) if band == wanted]
    with use_extensions(pairs) as registry:
        assert list(registry.provider_names("build_node")) == expected
        assert registry.first("build_node", value=0) == (expected[0] if expected else None)
        assert registry.all("build_node", value=0) == expected


def test_a_module_of_marked_functions_is_an_extension() -> None:
    module = ModuleType("hookwork_sample.extension")
    module.create_model = hookimpl(lambda name: f"model {name}")  # type: ignore[attr-defined]
    with use_extensions([module]) as registry:
        assert registry.first("create_model", name="x", settings={}) == "model x"
        assert registry.loaded[0].name == "sample"
        assert registry.loaded[0].hooks == ("create_model",)


async def _async_model(self: Any, name: str) -> Any:
    return name


def _with(method_name: str, function: Any, **options: Any) -> Any:
    return type("Ext", (), {method_name: hookimpl(**options)(function)})()


BROKEN = [
    ("async", _with("create_model", _async_model), "'create_model' is async; provider hooks are plain functions"),
    ("unknown", _with("create_modle", lambda self, name: 1), "is no provider hook (did you mean 'create_model'?)"),
    ("lifecycle", _with("before_tool", lambda self, ctx: 1), "is a lifecycle hook; put it on a plugin"),
    ("parameter", _with("create_model", lambda self, nam: 1), "has no parameter 'nam'; it offers: name, settings"),
    ("defaulted", _with("create_model", lambda self, name, extra=1: 1), "has no parameter 'extra'"),
    ("both", _with("create_model", lambda self: 1, tryfirst=True, trylast=True), "is both tryfirst and trylast"),
]


@pytest.mark.parametrize(("instance", "text"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_ext_3_broken_extension_is_warned_about_once_and_skipped(
    instance: Any, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with use_extensions([("bad", instance), Answers("good")]) as registry, caplog.at_level(logging.WARNING):
        assert registry.first("create_model", name="m") == "good"
        assert registry.without(["absent"]).first("create_model", name="m") == "good"
        assert [record.name for record in registry.loaded] == ["good"]
        (record,) = registry.broken
    assert (record.name, record.state) == ("bad", "broken")
    assert text in record.error
    assert len(caplog.records) == 1
    assert caplog.records[0].levelname == "WARNING"
    assert text in caplog.text


def test_ext_3_wrappers_are_refused() -> None:
    def wraps(self: Any, name: str) -> Any:
        return (yield)

    with use_extensions([("bad", _with("create_model", wraps, wrapper=True))]) as registry:
        assert "pluggy wrapper" in registry.broken[0].error


def test_ext_3_strict_makes_it_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKWORK_STRICT", "1")
    instance = BROKEN[0][1]
    with use_extensions([("bad", instance)]) as registry, pytest.raises(ExtensionError, match="HOOKWORK_STRICT") as e:
        registry.first("create_model", name="m")
    assert "'bad'" in str(e.value)


def test_a_coroutine_from_a_plain_function_is_refused() -> None:
    with (
        use_extensions([("late", _with("create_model", lambda self, name: _async_model(self, name)))]) as registry,
        pytest.raises(ExtensionError, match="provider hooks are synchronous"),
    ):
        registry.first("create_model", name="m")


def test_ext_3_disabled_extensions_are_not_asked() -> None:
    one, two = Answers("one"), Answers("two")
    with use_extensions([one, two]) as registry:
        view = registry.without(["one"])
        assert view.first("create_model", name="m") == "two"
        assert registry.first("create_model", name="m") == "one"
        assert [record.name for record in view.skipped] == ["one"]
        assert view is registry.without(("one",))
        assert view.without(["two"]).first("create_model", name="m") is None


def test_use_extensions_holds_for_its_context_only() -> None:
    outside = contextvars.copy_context()
    with use_extensions([Answers("inner")]) as registry:
        assert extensions() is registry
        assert outside.run(extensions) is not registry
        with use_extensions([]) as nested:
            assert extensions() is nested
        assert extensions() is registry
    assert extensions() is not registry
    assert extensions() is extensions()


def test_two_extensions_of_one_name_are_refused() -> None:
    with (
        pytest.raises(ConfigurationError, match="two extensions are named 'one'"),
        use_extensions([Answers("one")] * 2),
    ):
        pass


def test_unknown_hook_name_is_an_error() -> None:
    with use_extensions([]) as registry, pytest.raises(ConfigurationError, match="'create_modell' is no provider hook"):
        registry.first("create_modell", name="m")


def test_a_hook_asked_while_extensions_are_imported_makes_that_extension_broken() -> None:
    class AsksTooEarly:
        def __dir__(self) -> list[str]:
            extensions().first("build_node", value=1)
            return []

    with use_extensions([("early", AsksTooEarly()), Answers("good")]) as registry:
        assert registry.first("create_model", name="m") == "good"
        assert "while an extension module was being imported" in registry.broken[0].error


# --- registered model patterns (models REG-2 … REG-6) ----------------------------------------------------------------


def test_reg_2_patterns_are_searched_unanchored_and_case_sensitive() -> None:
    with use_extensions([]) as registry:
        register_model("gem", lambda name: SimpleNamespace(name=name))
        assert registry.patterns.find("my-gem-1")("my-gem-1").name == "my-gem-1"  # type: ignore[misc]
        assert registry.patterns.find("GEM") is None
        register_model("(?i)opal$", lambda name: name)
        assert registry.patterns.find("an-OPAL") is not None


def test_reg_3_several_matches_are_an_error_that_names_them_all() -> None:
    with use_extensions([]) as registry:
        for pattern in ("^a", "b$", "c"):
            register_model(pattern, str)
        with pytest.raises(ConfigurationError) as caught:
            registry.patterns.find("ab")
    assert "'ab'" in str(caught.value)
    assert "'^a', 'b$'" in str(caught.value)
    assert "'c'" not in str(caught.value)


@pytest.mark.parametrize("pattern", ["(", "*x"])
def test_reg_4_invalid_pattern_is_an_error_at_registration(pattern: str) -> None:
    with use_extensions([]), pytest.raises(ConfigurationError, match="no regular expression"):
        register_model(pattern, str)


def test_reg_4_repeated_pattern_is_an_error_at_registration() -> None:
    with use_extensions([]):
        register_model("^a", str)
        with pytest.raises(ConfigurationError, match="registered already"):
            register_model("^a", str)


def test_reg_2_patterns_are_shared_by_views_of_a_registry() -> None:
    with use_extensions([Answers("one")]) as registry:
        register_model("^a", str)
        assert registry.without(["one"]).patterns.find("a") is str
