"""Live sessions: what opens them, what is sent and stored, the hooks around them (core §3.6, models §7)."""

from __future__ import annotations

from tests.llm.live_talks import Talk, shown

from hookwork import user_content
from hookwork_testkit import Hear
from hookwork_testkit.live import turn_complete


async def test_live_5_a_turn_is_partials_the_whole_text_and_its_end() -> None:
    talk = await Talk([Hear(1), "It is ", "five.", turn_complete()]).hold("What time is it?")
    assert shown(talk.events) == ["voice: ~It is ", "voice: ~five.", "voice: It is five.", "voice: turn_complete"]
    assert shown(await talk.stored()) == ["user: What time is it?", "voice: It is five.", "voice: turn_complete"]
    assert talk.line.contents == [user_content("What time is it?")]
    assert talk.run.outcome is not None
    assert talk.run.outcome.kind == "completed"
