"""Two agents, and the app that the entry point ``weather`` names."""

from __future__ import annotations

from hookwork import App
from hookwork_llm import LlmAgent
from hookwork_weather.tools import buy_report, get_weather, packing_list, set_temperature_unit

travel_advisor = LlmAgent(
    name="travel_advisor",
    description="Says what to pack and wear on a trip.",
    model="offline",
    instruction="Help with trips: say what to pack for them.",
    tools=[packing_list],
)

weather_agent = LlmAgent(
    name="weather_agent",
    description="Tells the weather of a city and sells weather reports.",
    model="offline",
    instruction=(
        "Answer questions about the weather from your tools. Give temperatures as the tools do, in the unit the user "
        "chose, if any: {user:temperature_unit?}"
    ),
    tools=[get_weather, set_temperature_unit, buy_report],
    # The model hands a conversation about trips over to this agent; there it stays until it is about weather again.
    sub_agents=[travel_advisor],
)

app = App("weather", weather_agent)
