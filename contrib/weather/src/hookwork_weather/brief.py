"""A weather briefing as a graph: two things looked up at once, a text by the weather, a person before it goes out.

The entry point ``weather_brief`` names it: ``hookwork chat weather_brief``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hookwork import App, Content, text_content
from hookwork_weather.cities import CITIES, find_city
from hookwork_weather.tools import clothes_for
from hookwork_workflow import START, Join, NodeContext, RequestInput, Routed, Workflow, node, routed

#: Skies under which one is warned.
WET = frozenset({"rainy", "stormy", "snowy"})


@dataclass
class Weather:
    """A city's weather, temperature in °C."""

    city: str
    celsius: int
    sky: str


@dataclass
class Brief:
    """What is sent."""

    city: str
    text: str


@node
async def city(text: str) -> Routed[str, Literal["known", "unknown"]]:
    """The city that a text is about, in the spelling of the table."""
    for known in CITIES:
        if any(name.casefold() in text.casefold() for name in (known.name, *known.also)):
            return routed("known", known.name)
    return routed("unknown", text)


@node
async def which_city(text: str) -> RequestInput:
    """Asks. The answer is this node's output, and goes back to `city`."""
    return RequestInput(message=f"No known city in {text!r}. Which one is it? ({', '.join(c.name for c in CITIES)})")


@node
async def weather(city: str) -> Weather:
    """Looks the weather up."""
    found = find_city(city)
    return Weather(found.name, found.celsius, found.sky)


@node
async def tips(city: str) -> list[str]:
    """What to take along; looked up while `weather` is."""
    return clothes_for(find_city(city))


@node
async def template(both: dict[str, Any]) -> Routed[dict[str, Any], Literal["wet", "dry"]]:
    """Chooses the text by the weather."""
    return routed("wet" if both["weather"]["sky"] in WET else "dry", both)


@node
async def warning(both: dict[str, Any]) -> Brief:
    """The text for bad weather."""
    found = Weather(**both["weather"])
    take = " and ".join(both["tips"])
    return Brief(found.city, f"{found.city}: {found.sky}, {found.celsius} °C. Do not leave without {take}.")


@node
async def plain(both: dict[str, Any]) -> Brief:
    """The text for all other weather."""
    found = Weather(**both["weather"])
    return Brief(found.city, f"{found.city}: {found.sky}, {found.celsius} °C. Take {' and '.join(both['tips'])}.")


@node
async def approve(brief: Brief, ctx: NodeContext) -> Routed[Brief, Literal["send", "keep"]]:
    """Asks before anything goes out. Once it is answered the function runs again from its top, and goes on here."""
    answer = await ctx.request_input("approve", "Send this briefing?", payload=brief.text, schema=Literal["yes", "no"])
    return routed("send" if answer == "yes" else "keep", brief)


@node
async def send(brief: Brief, ctx: NodeContext) -> Content:
    """Sends the briefing; here that means: into the state."""
    ctx.state["sent"] = [*ctx.state.get("sent", ()), brief.text]
    return text_content(f"Sent: {brief.text}")


@node
async def keep(brief: Brief) -> Content:
    """Sends nothing."""
    return text_content(f"Nothing was sent about {brief.city}.")


flow = Workflow(
    "weather_brief",
    START >> city,
    city.on({"unknown": which_city, "known": (weather, tips)}),
    which_city >> city,
    (weather, tips) >> Join("both") >> template,
    template.on({"wet": warning, "dry": plain}) >> approve,
    approve.on({"send": send, "keep": keep}),
    description="Writes a weather briefing and sends it once a person has agreed.",
)

app = App("weather_brief", flow.as_agent())
