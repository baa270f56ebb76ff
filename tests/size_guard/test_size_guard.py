"""Events and state stay small (services BEY-15, BEY-7)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from hookwork import (
    Agent,
    Blob,
    Content,
    Event,
    EventActions,
    FileData,
    InvocationContext,
    ModelResponse,
    Part,
    Plugin,
    Runner,
    WithMedia,
)
from hookwork.errors import ConfigurationError, ValidationError
from hookwork.resolve import resolve_plugins
from hookwork.settings import Settings
from hookwork_inmemory import InMemoryArtifactService
from hookwork_llm import LlmAgent
from hookwork_size_guard import SizeGuard, SizeLimitError
from hookwork_size_guard.kept import KeptParts
from hookwork_size_guard.moving import GONE
from hookwork_testkit import ScriptedModel, call

RunnerFactory = Callable[..., Runner]
KEY: dict[str, Any] = {"app_name": "desk", "user_id": "u", "session_id": "s"}


def file(data: bytes, mime_type: str = "image/png", name: str | None = None) -> Part:
    return Part(inline_data=Blob(data=data, mime_type=mime_type, display_name=name))


def big(size: int = 100_000, byte: bytes = b"\0") -> Part:
    return file(byte * size, name="scan.png")


class Scene:
    """An agent that answers, on a runner with the plugin."""

    def __init__(self, runner_factory: RunnerFactory, plugin: SizeGuard, model: Any = None, **options: Any) -> None:
        self.model = model or ScriptedModel(lambda _: "Seen.")
        tools = options.pop("tools", ())
        self.runner = runner_factory(
            LlmAgent(name="desk", model=self.model, tools=list(tools)), plugins=[plugin], **options
        )

    async def events(self) -> list[Event]:
        return list((await self.runner.sessions.get_session(**KEY)).events)

    async def ask(self, *parts: Part, **more: Any) -> str:
        return await self.runner.ask(list(parts), user_id="u", session_id="s", **more)


async def test_bey_15_large_files_of_a_message_become_artifacts_and_the_model_sees_them(
    runner_factory: RunnerFactory,
) -> None:
    scene = Scene(runner_factory, SizeGuard())
    small = file(b"small")
    async with scene.runner:
        await scene.ask(Part(text="Two files:"), big(), small)
        await scene.ask(Part(text="What was in the first?"))
        stored = (await scene.events())[0].content
        assert stored is not None
        reference = stored.parts[1].file_data
        assert reference is not None
        assert (reference.mime_type, reference.display_name) == ("image/png", "scan.png")
        assert (reference.file_uri or "").startswith("artifact://apps/desk/users/u/sessions/s/artifacts/inline_")
        assert stored.parts[2] == small, "small ones stay"
        for prompt in scene.model.prompts:
            assert list(prompt[0].parts) == [Part(text="Two files:"), big(), small]
        assert scene.runner.artifacts is not None
        (name,) = await scene.runner.artifacts.list_artifacts(**KEY)
        assert await scene.runner.artifacts.load_artifact(**KEY, filename=name) == big()


async def test_bey_15_bey_17_what_is_sent_twice_is_saved_once(runner_factory: RunnerFactory) -> None:
    scene = Scene(runner_factory, SizeGuard())
    async with scene.runner:
        await scene.ask(big(), big())
        await scene.ask(big(), big(byte=b"1"))
        assert scene.runner.artifacts is not None
        names = await scene.runner.artifacts.list_artifacts(**KEY)
        assert len(names) == 2
        for name in names:
            assert await scene.runner.artifacts.list_versions(**KEY, filename=name) == [1]
        uris = [part.file_data.file_uri for event in await scene.events() if event.content is not None
                for part in event.content.parts if part.file_data is not None]  # fmt: skip
        assert len(set(uris)) == 2


async def test_bey_15_media_of_a_tool_go_the_same_way(runner_factory: RunnerFactory) -> None:
    async def scan() -> WithMedia:
        """Scan a page."""
        return WithMedia({"pages": 1}, big())

    scene = Scene(runner_factory, SizeGuard(), ScriptedModel([call("scan"), "A page."]), tools=[scan])
    async with scene.runner:
        assert await scene.ask(Part(text="Scan.")) == "A page."
        (response,) = [response for event in await scene.events() for response in event.function_responses]
        (media,) = response.parts or ()
        assert media.inline_data is None
        assert media.file_data is not None
        shown = scene.model.prompts[-1][-1].parts[0].function_response
        assert shown is not None
        (seen,) = shown.parts or ()
        assert seen.inline_data is not None
        assert (seen.inline_data.data, seen.file_data) == (b"\0" * 100_000, None)
        answered = next(event for event in await scene.events() if event.function_responses)
        assert dict(answered.actions.artifact_delta) == {(media.file_data.file_uri or "").split("/")[-3]: 1}


async def test_bey_15_pictures_that_a_model_makes_are_moved_and_keep_what_stands_beside_them(
    runner_factory: RunnerFactory,
) -> None:
    picture = big().replace(thought_signature=b"sig", part_metadata={"k": 1})
    made = ModelResponse(content=Content(role="model", parts=[Part(text="Here:"), picture]))
    scene = Scene(runner_factory, SizeGuard(inline_bytes=0), ScriptedModel([made, "And again."]))
    async with scene.runner:
        await scene.ask(Part(text="Draw."))
        await scene.ask(Part(text="Again."))
        stored = (await scene.events())[1].content
        assert stored is not None
        assert (stored.parts[1].inline_data, stored.parts[1].thought_signature) == (None, b"sig")
        assert stored.parts[1].part_metadata == {"k": 1}
        assert scene.model.prompts[1][1].parts[1] == picture


async def test_bey_15_nothing_is_moved_when_told_so(runner_factory: RunnerFactory) -> None:
    scene = Scene(runner_factory, SizeGuard(inline_bytes=None), artifacts=None)
    async with scene.runner:
        await scene.ask(big())
        stored = (await scene.events())[0].content
        assert stored is not None
        assert list(stored.parts) == [big()]


async def test_bey_15_without_an_artifact_service_the_run_says_so_and_nothing_is_stored(
    runner_factory: RunnerFactory,
) -> None:
    scene = Scene(runner_factory, SizeGuard(), artifacts=None)
    async with scene.runner:
        with pytest.raises(ConfigurationError, match="no artifact service"):
            await scene.ask(big())
        assert await scene.events() == []
        await scene.ask(Part(text="Small talk needs none."))


async def test_bey_15_an_event_over_the_limit_is_refused_before_it_is_stored(runner_factory: RunnerFactory) -> None:
    """A message, and what a tool gives; the stored rest of the run stays."""

    async def dump() -> str:
        """Give too much."""
        return "x" * 5000

    model = ScriptedModel([call("dump"), "never"])
    scene = Scene(runner_factory, SizeGuard(max_event_bytes=2000), model, tools=[dump])
    async with scene.runner:
        with pytest.raises(SizeLimitError, match=r"'user' has 4.* at most 2000") as message:
            await scene.ask(Part(text="ä" * 2000))
        assert (message.value.what, message.value.limit) == ("event", 2000)
        assert message.value.size > 4000, "bytes of UTF-8, not characters"
        assert isinstance(message.value, ValidationError)
        assert await scene.events() == []
        with pytest.raises(SizeLimitError, match="max_event_bytes"):
            await scene.ask(Part(text="Dump."))
        assert [event.function_calls[0].name for event in (await scene.events()) if event.function_calls] == ["dump"]
        assert not [event for event in await scene.events() if event.function_responses]


async def test_bey_15_state_over_the_limit_is_refused_whoever_writes_it(runner_factory: RunnerFactory) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        key = ctx.user_content.text if ctx.user_content is not None else ""
        value = None if key.startswith("clear") else "x" * 600
        yield Event(actions=EventActions(state_delta={key.removeprefix("clear "): value}))

    runner = runner_factory(Agent(name="desk", body=body), plugins=[SizeGuard(max_state_bytes=1000)])

    async def write(key: str, **more: Any) -> None:
        await runner.run(user_id="u", session_id="s", message=key, **more).wait()

    async with runner:
        await write("a")
        for key in ("b", "app:b", "user:b"):
            with pytest.raises(SizeLimitError, match=f"in the key '{key}', and at most 1000") as refusal:
                await write(key)
            assert refusal.value.what == "state"
            assert set(dict((await runner.sessions.get_session(**KEY)).state)) == {"a"}
        with pytest.raises(SizeLimitError):
            await write("temp:b", state_delta={"with the message": "x" * 600})
        await write("temp:b")  # never stored, so it does not count
        await write("clear a")
        await write("b")
        assert set(dict((await runner.sessions.get_session(**KEY)).state)) >= {"b"}


async def test_bey_7_a_reference_to_what_is_gone_or_not_ones_own_shows_a_text(
    runner_factory: RunnerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    artifacts = InMemoryArtifactService()
    await artifacts.save_artifact(**{**KEY, "user_id": "bob"}, filename="user:secret", artifact=file(b"secret"))
    theirs = FileData(file_uri="artifact://apps/desk/users/bob/artifacts/user:secret/versions/1")
    elsewhere = Part(file_data=FileData(file_uri="gs://bucket/film.mp4", mime_type="video/mp4"))
    scene = Scene(runner_factory, SizeGuard(kept_bytes=0), artifacts=artifacts)
    async with scene.runner:
        await scene.ask(big(), Part(file_data=theirs), elsewhere)
        assert list(scene.model.prompts[0][0].parts) == [big(), Part(text=GONE), elsewhere]
        (name,) = await artifacts.list_artifacts(**KEY)
        await artifacts.delete_artifact(**KEY, filename=name)
        await scene.ask(Part(text="And now?"))
        assert list(scene.model.prompts[1][0].parts) == [Part(text=GONE), Part(text=GONE), elsewhere]
    assert "cannot be shown to the model" in caplog.text


async def test_bey_15_what_one_user_loaded_is_not_shown_to_another(runner_factory: RunnerFactory) -> None:
    """The process keeps moved data for the next call; a reference that somebody guesses does not reach it."""
    scene = Scene(runner_factory, SizeGuard())
    async with scene.runner:
        await scene.ask(big())
        stored = (await scene.events())[0].content
        assert stored is not None
        await scene.runner.ask([stored.parts[0]], user_id="bob", session_id="s2")
        assert list(scene.model.prompts[-1][0].parts) == [Part(text=GONE)]


async def test_bey_15_a_long_conversation_loads_its_files_once(runner_factory: RunnerFactory) -> None:
    class Counting(InMemoryArtifactService):
        loads = 0

        async def load_artifact(self, **key: Any) -> Part:
            self.loads += 1
            return await super().load_artifact(**key)

    artifacts = Counting()
    scene = Scene(runner_factory, SizeGuard(), artifacts=artifacts)
    async with scene.runner:
        await scene.ask(big())
        for _ in range(3):
            await scene.ask(Part(text="And?"))
    assert artifacts.loads == 1


def test_bey_15_the_process_keeps_so_many_bytes_and_no_more() -> None:
    kept = KeptParts(250)
    places = [("a", "u", "s", str(n)) for n in range(4)]
    for place in places[:2]:
        kept.put(place, big(100))
    assert kept.get(places[0]) == big(100)
    kept.put(places[2], big(100))
    assert [kept.get(place) is not None for place in places] == [True, False, True, False], "the least recently asked"
    kept.put(places[3], big(251))
    assert kept.get(places[3]) is None


async def test_bey_15_other_writes_and_other_plugins_are_left_alone(runner_factory: RunnerFactory) -> None:
    """EFF-1: the write goes on to the next plugin that carries writes out."""
    seen: list[str] = []

    class Recorder(Plugin):
        name = "recorder"

        async def perform_write(self, call: Any) -> Any:
            seen.append(call.op)
            return await call.default()

    model = ScriptedModel(lambda _: "Seen.")
    runner = runner_factory(LlmAgent(name="desk", model=model), plugins=[SizeGuard(), Recorder()])
    async with runner:
        await runner.ask([big()], user_id="u", session_id="s")
    assert seen == ["save_artifact", "append_event", "append_event"]


@pytest.mark.parametrize("option", ["inline_bytes", "max_event_bytes", "max_state_bytes", "kept_bytes"])
def test_ext_8_options(option: str) -> None:
    [plugin] = resolve_plugins(["size_guard"], Settings(tables={"size_guard": {option: 7}}))
    assert isinstance(plugin, SizeGuard)
    for wrong in (-1, "7", True, 1.5):
        with pytest.raises(ConfigurationError, match=option):
            SizeGuard(**{option: wrong})
