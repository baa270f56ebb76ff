"""The tools by themselves: contexts without a runner."""

from __future__ import annotations

import pytest

from hookwork.errors import ToolError
from hookwork_testkit import make_context
from hookwork_weather.cities import CITIES, find_city
from hookwork_weather.tools import buy_report, get_weather, packing_list, set_temperature_unit


def test_the_table_has_a_dozen_cities_with_distinct_names() -> None:
    assert len({city.name for city in CITIES}) == len(CITIES) == 12


@pytest.mark.parametrize("said", ["Tokyo", "tokyo", " TOKYO ", "Tokyo, Japan", "東京", "东京"])
def test_a_city_is_found_in_every_spelling(said: str) -> None:
    assert find_city(said).name == "Tokyo"


def test_an_unknown_city_names_the_known_ones() -> None:
    with pytest.raises(ToolError) as caught:
        find_city("Atlantis")
    assert "'Atlantis'" in str(caught.value)
    assert all(city.name in str(caught.value) for city in CITIES)


def test_get_weather_answers_in_celsius_and_remembers_the_city() -> None:
    ctx = make_context()
    assert get_weather(ctx, "Tokyo") == {"city": "Tokyo", "temperature_c": 22, "sky": "clear"}
    assert dict(ctx.actions.state_delta) == {"last_city": "Tokyo"}


def test_get_weather_honours_the_users_unit() -> None:
    ctx = make_context(state={"user:temperature_unit": "F"})
    assert get_weather(ctx, "Tokyo") == {"city": "Tokyo", "temperature_f": 72, "sky": "clear"}
    assert get_weather(ctx, "Reykjavik")["temperature_f"] == 28  # -2 °C is 28.4 °F


def test_a_city_left_out_is_the_last_one() -> None:
    assert get_weather(make_context(state={"last_city": "Paris"}))["city"] == "Paris"
    with pytest.raises(ToolError, match="no city was named"):
        get_weather(make_context())


def test_set_temperature_unit_writes_the_users_state() -> None:
    ctx = make_context()
    set_temperature_unit(ctx, "fahrenheit")
    assert dict(ctx.actions.state_delta) == {"user:temperature_unit": "F"}
    set_temperature_unit(ctx, "celsius")
    assert dict(ctx.actions.state_delta) == {"user:temperature_unit": "C"}


def test_a_report_costs_what_its_description_says() -> None:
    report = buy_report(make_context(state={"user:temperature_unit": "F"}), "Cairo")
    assert report == {"text": "Cairo is sunny at 93 °F, and so it stays all week.", "price_usd": 2.5}
    assert "2.50" in buy_report.description


@pytest.mark.parametrize(
    ("city", "pack"),
    [
        ("Oslo", ["a warm coat", "boots"]),
        ("London", ["a light jacket", "an umbrella"]),
        ("Cairo", ["light clothes", "sunglasses"]),
        ("Tokyo", ["a light jacket"]),
    ],
)
def test_what_to_pack_depends_on_the_weather(city: str, pack: list[str]) -> None:
    assert packing_list(make_context(), city) == {"city": city, "pack": pack}
