"""Kept audio of live sessions: when, under which name, with which event (models LIVE-16, core LIVE-10)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.llm.live_talks import Talk, shown

from hookwork import Blob, Event, FileData, LiveRunConfig, Part, Plugin
from hookwork.platform import use_clock
from hookwork_testkit import Hear
from hookwork_testkit.live import audio, interrupted, turn_complete

KEEPING = LiveRunConfig(save_live_blob=True)
#: 2026-01-01T00:00:00Z in milliseconds.
START = 1767225600000


@pytest.fixture(autouse=True)
def _time() -> Iterator[None]:
    with use_clock(lambda: datetime(2026, 1, 1, tzinfo=UTC)):
        yield


def sound(data: bytes, mime_type: str | None = "audio/pcm;rate=16000") -> Blob:
    return Blob(data=data, mime_type=mime_type)


async def kept(talk: Talk) -> dict[str, Blob | None]:
    """File name → what is in it."""
    artifacts = talk.runner.artifacts
    assert artifacts is not None
    scope: dict[str, Any] = {"app_name": talk.runner.app_name, "user_id": "u", "session_id": "s"}
    return {
        name: (await artifacts.load_artifact(**scope, filename=name)).inline_data
        for name in await artifacts.list_artifacts(**scope)
    }


async def files(talk: Talk) -> list[tuple[str, str | None, FileData]]:
    """(author, role, file) of the stored events that say where audio lies."""
    return [
        (event.author, event.content.role, part.file_data)
        for event in await talk.stored()
        if event.content is not None
        for part in event.content.parts
        if part.file_data is not None
    ]


async def test_live_16_both_sides_are_kept_when_the_turn_is_complete() -> None:
    talk = await Talk([Hear(0, 2), audio(b"AA"), audio(b"BB"), turn_complete()], config=KEEPING).hold(
        sound(b"11"), sound(b"22")
    )
    user, model = (f"adk_live_audio_storage_{side}_audio_{START}.pcm" for side in ("input", "output"))
    assert await kept(talk) == {
        user: Blob(data=b"1122", mime_type="audio/pcm;rate=16000"),
        model: Blob(data=b"AABB", mime_type="audio/pcm;rate=24000"),
    }
    folder = f"artifact://{talk.runner.app_name}/u/s/_adk_live"
    assert await files(talk) == [
        ("user", "user", FileData(file_uri=f"{folder}/{user}#1", mime_type="audio/pcm;rate=16000")),
        ("voice", "model", FileData(file_uri=f"{folder}/{model}#1", mime_type="audio/pcm;rate=24000")),
    ]


async def test_live_16_the_events_carry_the_time_of_the_first_piece_and_the_version() -> None:
    talk = await Talk([Hear(0, 1), turn_complete()], config=KEEPING).hold(sound(b"11"))
    event = next(event for event in await talk.stored() if event.actions.artifact_delta)
    assert event.timestamp == START / 1000
    assert event.actions.artifact_delta == {f"adk_live_audio_storage_input_audio_{START}.pcm": 1}
    assert shown([event]) == shown(event for event in talk.events if event.actions.artifact_delta) == ["user: file"]


async def test_live_16_an_interruption_keeps_the_models_side_only() -> None:
    talk = await Talk([Hear(0, 1), audio(b"AA"), interrupted(), Hear(1)], config=KEEPING, close=False).hold_until(
        "interrupted", sound(b"11")
    )
    assert [name.split("_")[4] for name in await kept(talk)] == ["output"]
    await talk.finish("bye")
    assert sorted(name.split("_")[4] for name in await kept(talk)) == ["input", "output"]


async def test_live_16_what_is_still_cached_when_the_session_closes_is_kept() -> None:
    talk = await Talk([Hear(0, 1), audio(b"AA")], config=KEEPING).hold(sound(b"11"))
    assert {blob.data for blob in (await kept(talk)).values() if blob is not None} == {b"11", b"AA"}


async def test_live_16_what_is_cached_when_the_line_is_lost_for_good_is_kept() -> None:
    from hookwork.errors import LiveConnectionClosed
    from hookwork_testkit import Cut

    talk = Talk([Hear(0, 1), audio(b"AA"), Cut(1007)], config=KEEPING, close=False)
    with pytest.raises(LiveConnectionClosed):
        await talk.hold(sound(b"11"))
    assert {blob.data for blob in (await kept(talk)).values() if blob is not None} == {b"11", b"AA"}
    assert len(await files(talk)) == 2


@pytest.mark.parametrize(
    ("mime_type", "ending", "stored"),
    [
        (None, "pcm", "audio/pcm"),
        ("audio/pcm", "pcm", "audio/pcm"),
        ("audio/mp3", "mp3", "audio/mp3"),
        ("audio/mpeg", "mp3", "audio/mpeg"),
        ("Audio/MP3; rate=1", "mp3", "Audio/MP3; rate=1"),
        ("audio/opus", "pcm", "audio/opus"),
    ],
)
async def test_live_16_the_type_is_that_of_the_first_piece(mime_type: str | None, ending: str, stored: str) -> None:
    talk = await Talk([Hear(0, 2), turn_complete()], config=KEEPING).hold(
        sound(b"1", mime_type), sound(b"2", "audio/wav")
    )
    assert await kept(talk) == {
        f"adk_live_audio_storage_input_audio_{START}.{ending}": Blob(data=b"12", mime_type=stored)
    }


async def test_live_16_images_are_not_kept() -> None:
    """LIVE-5: a blob without a type that begins like a PNG is one."""
    unnamed = sound(b"\x89PNG\r\n\x1a\n...", None)
    talk = await Talk([Hear(0, 2), turn_complete()], config=KEEPING).hold(sound(b"png", "image/png"), unnamed)
    assert await kept(talk) == {}


async def test_live_16_nothing_is_kept_or_cached_without_the_setting() -> None:
    talk = await Talk([Hear(0, 1), audio(b"AA"), turn_complete()]).hold(sound(b"11"))
    assert await kept(talk) == {}
    assert await files(talk) == []


async def test_live_16_kept_audio_is_not_part_of_any_later_prompt() -> None:
    talk = await Talk([Hear(1, 1), audio(b"AA"), "yes", turn_complete()], config=KEEPING).hold(sound(b"11"), "hi")
    talk.model.add("typed")
    async for _ in talk.runner.run(user_id="u", session_id="s", message="and now?"):
        pass
    assert [part for content in talk.model.prompts[-1] for part in content.parts] == [
        Part(text="hi"),
        Part(text="yes"),
        Part(text="and now?"),
    ]


@pytest.mark.parametrize("way", ["stop", "leave", "drop", "cancel", "supersede"])
async def test_live_16_what_is_cached_is_kept_however_the_session_is_left(way: str) -> None:
    """LIVE-16: audio still cached when the session ends is flushed; HND-5: without hooks, and not yielded."""
    seen: list[Event] = []

    class Watch(Plugin):
        name = "watch"

        def on_event(self, event: Event) -> None:
            seen.append(event)

    options = {"session_policy": "supersede"}
    config = KEEPING.replace(custom_metadata={"tenant": "t"})
    talk = Talk([Hear(0, 1), audio(b"AA"), Hear(1)], config=config, close=False, plugins=[Watch()], options=options)
    await LEAVING[way](talk)
    outcome = talk.run.outcome
    assert outcome is not None
    assert outcome.kind == "closed"
    assert {blob.data for blob in (await kept(talk)).values() if blob is not None} == {b"11", b"AA"}
    assert [(author, role) for author, role, _ in await files(talk)] == [("user", "user"), ("voice", "model")]
    late = [event for event in await talk.stored() if event.actions.artifact_delta]
    assert [event.custom_metadata for event in late] == [{"tenant": "t"}] * 2
    assert [dict(event.actions.artifact_delta) for event in late] == [{name: 1} for name in sorted(await kept(talk))]
    assert not any(event.actions.artifact_delta for event in seen + talk.events)


async def _heard_both_sides(talk: Talk) -> None:
    await talk.hold_until("sound", sound(b"11"))


async def _stop(talk: Talk) -> None:
    await _heard_both_sides(talk)
    await talk.run.stop()


async def _leave(talk: Talk) -> None:
    async with talk.run:
        await _heard_both_sides(talk)


async def _drop(talk: Talk) -> None:
    await _heard_both_sides(talk)
    await talk.run._events.aclose()  # what the finaliser of a dropped handle does


async def _cancel(talk: Talk) -> None:
    waits = asyncio.Event()

    async def hold() -> None:
        await _heard_both_sides(talk)
        waits.set()
        await anext(talk.run)

    holding = asyncio.create_task(hold())
    await waits.wait()
    await asyncio.sleep(0)
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding


async def _supersede(talk: Talk) -> None:
    await _heard_both_sides(talk)
    talk.model.add("typed")
    assert await talk.runner.ask(user_id="u", session_id="s", message="and now?") == "typed"


LEAVING: dict[str, Any] = {"stop": _stop, "leave": _leave, "drop": _drop, "cancel": _cancel, "supersede": _supersede}


class SlowSaves:
    """Lets the saves of a talk's artifact service wait until somebody lets them go."""

    def __init__(self, talk: Talk) -> None:
        self.saving = asyncio.Event()
        self.go_on = asyncio.Event()
        service: Any = talk.runner.artifacts
        self._save = service.save_artifact
        service.save_artifact = self._wait

    async def _wait(self, **given: Any) -> Any:
        self.saving.set()
        await self.go_on.wait()
        return await self._save(**given)


async def test_live_16_a_second_cancellation_does_not_cut_the_keeping_short_and_is_not_lost() -> None:
    talk = Talk([Hear(0, 1), audio(b"AA"), Hear(1)], config=KEEPING, close=False)
    slow = SlowSaves(talk)
    before = asyncio.all_tasks()
    stopping = asyncio.create_task(_stop(talk))
    await slow.saving.wait()
    stopping.cancel()
    await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.sleep(0)
    slow.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert len(await files(talk)) == 2
    assert asyncio.all_tasks() == before


async def test_live_16_keeping_the_rest_has_a_bound(caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookwork_llm.live.recorder.REST_TIMEOUT", 0.01)
    talk = Talk([Hear(0, 1), audio(b"AA"), Hear(1)], config=KEEPING, close=False)
    slow = SlowSaves(talk)
    before = asyncio.all_tasks()
    await _stop(talk)
    assert "could not be kept within 0.01 s" in caplog.text
    assert asyncio.all_tasks() == before
    slow.go_on.set()
    assert await files(talk) == []


async def test_live_16_a_save_that_failed_once_is_tried_again_at_the_end(caplog: Any) -> None:
    talk = Talk([Hear(0, 1), audio(b"AA"), turn_complete(), Hear(1)], config=KEEPING, close=False)
    inner, tries = talk.runner.artifacts, 0
    assert inner is not None
    save = inner.save_artifact

    async def fails_once(**given: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OSError("disk full")
        return await save(**given)

    inner.save_artifact = fails_once  # type: ignore[method-assign]
    with pytest.raises(OSError, match="disk full"):
        await talk.hold(sound(b"11"))
    assert {blob.data for blob in (await kept(talk)).values() if blob is not None} == {b"11", b"AA"}
    assert len(await files(talk)) == 2


async def test_live_16_an_event_that_a_hook_refused_is_not_stored_behind_its_back() -> None:
    class Strict(Plugin):
        name = "strict"

        def on_event(self, event: Event) -> None:
            if event.actions.artifact_delta:
                raise ValueError("no files")

    talk = Talk([Hear(0, 1), turn_complete(), Hear(1)], config=KEEPING, close=False, plugins=[Strict()])
    with pytest.raises(ValueError, match="no files"):
        await talk.hold(sound(b"11"))
    assert await files(talk) == []


async def test_live_16_leaving_between_the_two_files_keeps_both() -> None:
    talk = Talk([Hear(0, 1), audio(b"AA"), turn_complete(), Hear(1)], config=KEEPING, close=False)
    async with talk.run:
        await talk.hold_until("file", sound(b"11"))
    assert [author for author, _, _ in await files(talk)] == ["user", "voice"]


async def test_eff_2_the_two_sides_are_saved_as_effects_of_their_own() -> None:
    keys: list[str] = []

    class Engine(Plugin):
        name = "engine"

        async def perform_write(self, call: Any) -> Any:
            if call.data["op"] == "save_artifact":
                keys.append(call.key)
            return await call.default()

    await Talk([Hear(0, 1), audio(b"AA"), turn_complete()], config=KEEPING, plugins=[Engine()]).hold(sound(b"11"))
    assert len(keys) == len(set(keys)) == 2


@pytest.mark.parametrize("way", ["stop", "leave", "cancel"])
@pytest.mark.parametrize("seen", range(1, 9))
async def test_live_16_law_wherever_a_session_is_left_nothing_that_was_heard_or_said_is_lost(
    seen: int, way: str
) -> None:
    """Every byte that reached the model, and every one that reached the consumer, is in a file, once and in order."""
    talk = Talk(
        [Hear(0, 1), audio(b"A"), audio(b"B"), turn_complete(), Hear(0, 1), audio(b"C"), interrupted(), audio(b"D"),
         Hear(1)],
        config=KEEPING,
        close=False,
    )  # fmt: skip
    await talk.run.send(sound(b"1"))
    await talk.run.send(sound(b"2"))
    left = asyncio.Event()

    async def hold() -> None:
        async with talk.run:
            async for event in talk.run:
                talk.events.append(event)
                if len(talk.events) == seen:
                    left.set()
                    if way == "leave":
                        return
                    await asyncio.get_running_loop().create_future()

    holding = asyncio.create_task(hold())
    await left.wait()
    if way == "cancel":
        holding.cancel()
    elif way == "stop":
        await talk.run.stop()
        holding.cancel()
    await asyncio.wait([holding])
    stored = [event for event in await talk.stored() if event.actions.artifact_delta]
    sides = {"user": b"", "model": b""}
    contents = await kept(talk)
    for event in stored:
        [(name, version)] = event.actions.artifact_delta.items()
        assert version == 1 or name in contents
        artifacts = talk.runner.artifacts
        assert artifacts is not None
        scope: dict[str, Any] = {"app_name": talk.runner.app_name, "user_id": "u", "session_id": "s"}
        part = await artifacts.load_artifact(**scope, filename=name, version=version)
        assert part.inline_data is not None
        assert event.content is not None
        sides[event.content.role or ""] += part.inline_data.data or b""
    heard = b"".join(blob.data or b"" for blob in talk.line.realtime if isinstance(blob, Blob))
    shown_bytes = b"".join(
        part.inline_data.data or b""
        for event in talk.events
        for part in (event.content.parts if event.content else ())
        if part.inline_data is not None
    )
    assert sides["user"].startswith(heard)
    assert b"12".startswith(sides["user"])
    assert sides["model"].startswith(shown_bytes)
    assert b"ABCD".startswith(sides["model"])
