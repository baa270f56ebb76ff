"""What the agents can do: plain functions, whose signature and docstring are what the model sees."""

from __future__ import annotations

from typing import Any, Literal

from hookwork import ToolContext
from hookwork.errors import ToolError
from hookwork_llm import tool
from hookwork_weather.cities import City, find_city

#: State key of the unit, "C" or "F". The prefix ``user:`` makes it the user's: all sessions of that user share it.
UNIT = "user:temperature_unit"
#: State key of the city talked about last. Without a prefix a key belongs to one session.
LAST_CITY = "last_city"
#: Price of one report, in US dollars.
REPORT_PRICE_USD = 2.5


def get_weather(ctx: ToolContext, city: str | None = None) -> dict[str, Any]:
    """Current weather of a city: its temperature, and sun, rain or snow.

    Args:
        city: the city's name; without it, the city talked about last
    """
    found, unit = _remembered(ctx, city), _unit(ctx)
    return {"city": found.name, f"temperature_{unit.lower()}": _degrees(found, unit), "sky": found.sky}


def set_temperature_unit(ctx: ToolContext, unit: Literal["celsius", "fahrenheit"]) -> dict[str, Any]:
    """Sets the temperature unit of all later answers to this user."""
    ctx.state[UNIT] = "F" if unit == "fahrenheit" else "C"
    return {"message": f"From now on temperatures are in {unit.capitalize()}."}


# The city is required here: a person approves the very arguments that are shown, so they must say what is bought.
@tool(require_confirmation=True)
def buy_report(ctx: ToolContext, city: str) -> dict[str, Any]:
    """Buys the full weather report of a city. It costs 2.50 US dollars.

    Args:
        city: the city's name
    """
    found, unit = _remembered(ctx, city), _unit(ctx)
    report = f"{found.name} is {found.sky} at {_degrees(found, unit)} °{unit}, and so it stays all week."
    return {"text": report, "price_usd": REPORT_PRICE_USD}


def packing_list(ctx: ToolContext, city: str | None = None) -> dict[str, Any]:
    """What to pack and wear on a trip to a city.

    Args:
        city: the city's name; without it, the city talked about last
    """
    found = _remembered(ctx, city)
    return {"city": found.name, "pack": clothes_for(found)}


def clothes_for(city: City) -> list[str]:
    """What to wear in a city's weather."""
    clothes = "a warm coat" if city.celsius < 10 else "a light jacket" if city.celsius < 24 else "light clothes"
    extra = {"rainy": "an umbrella", "stormy": "an umbrella", "snowy": "boots", "sunny": "sunglasses"}.get(city.sky)
    return [clothes, extra] if extra else [clothes]


def _remembered(ctx: ToolContext, name: str | None) -> City:
    """The city named, else the one this session talked about last; remembered from now on."""
    name = name or ctx.state.get(LAST_CITY)
    if name is None:
        raise ToolError("no city was named yet; ask which city is meant")
    found = find_city(name)
    ctx.state[LAST_CITY] = found.name
    return found


def _unit(ctx: ToolContext) -> Literal["C", "F"]:
    return "F" if ctx.state.get(UNIT) == "F" else "C"


def _degrees(city: City, unit: Literal["C", "F"]) -> int:
    return round(city.celsius * 9 / 5 + 32) if unit == "F" else city.celsius
