"""The weather of a dozen cities: made up, and the same every day, so that the example answers the same everywhere."""

from __future__ import annotations

from typing import NamedTuple

from hookwork.errors import ToolError


class City(NamedTuple):
    """A city's weather. ``celsius``: its temperature in °C. ``also``: other spellings."""

    name: str
    celsius: int
    sky: str
    also: tuple[str, ...] = ()


CITIES = (
    City("Cairo", 34, "sunny"),
    City("Hangzhou", 26, "cloudy", ("杭州",)),
    City("London", 14, "rainy"),
    City("Nairobi", 23, "partly cloudy"),
    City("New York", 18, "windy", ("NYC",)),
    City("Oslo", 3, "snowy"),
    City("Paris", 17, "overcast"),
    City("Reykjavik", -2, "snowy", ("Reykjavík",)),
    City("São Paulo", 21, "rainy", ("Sao Paulo",)),
    City("Singapore", 31, "stormy"),
    City("Sydney", 24, "sunny"),
    City("Tokyo", 22, "clear", ("東京", "东京")),
)
_BY_NAME = {name.casefold(): city for city in CITIES for name in (city.name, *city.also)}


def find_city(name: str) -> City:
    """The city of that name, in any case; ``Tokyo, Japan`` is Tokyo.

    Raises:
        ToolError: the city is not in the table. The model reads this text, so it names the cities that are.
    """
    city = _BY_NAME.get(name.partition(",")[0].strip().casefold())
    if city is None:
        known = ", ".join(city.name for city in CITIES)
        raise ToolError(f"the weather of {name!r} is not known; known cities: {known}")
    return city
