"""What a call site does with artifacts beyond saving and loading (services ART-13, BEY-7, BEY-17)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork import Agent, Event, InvocationContext, Plugin, Runner, text_content
from hookwork.effects import EffectCall, WriteResult
from hookwork.errors import ArtifactNotFoundError, ArtifactReferenceError, UnsupportedOperationError
from hookwork.records.content import Blob, FileData, Part
from hookwork.settings import Settings
from hookwork_inmemory import InMemoryArtifactService
from hookwork_testkit import make_context

PICTURE = Part(inline_data=Blob(data=b"1", mime_type="image/png"))


async def test_bey_7_a_reference_is_made_saved_and_resolved() -> None:
    ctx = make_context("tool", artifacts=InMemoryArtifactService())
    version = await ctx.artifacts.save("pic.png", PICTURE)
    part = ctx.artifacts.reference("pic.png", version, mime_type="image/png")
    assert part.file_data is not None
    assert part.file_data.mime_type == "image/png"
    assert await ctx.artifacts.resolve(part) == PICTURE
    await ctx.artifacts.save("copy.png", part)
    assert await ctx.artifacts.load("copy.png") == PICTURE
    assert [info.mime_type for info in await ctx.artifacts.describe_all("copy.png")] == ["image/png"]
    for other in (Part(text="t"), PICTURE, Part(file_data=FileData(file_uri="gs://b/o"))):
        assert await ctx.artifacts.resolve(other) is other


async def test_bey_7_resolving_reaches_nobody_elses_file() -> None:
    service = InMemoryArtifactService()
    theirs = make_context("tool", artifacts=service, user_id="bob", session_id="s-2")
    await theirs.artifacts.save("secret", PICTURE)
    await theirs.artifacts.save("user:secret", PICTURE)
    mine = make_context("tool", artifacts=service)
    for name in ("secret", "user:secret"):
        with pytest.raises(ArtifactReferenceError):
            await mine.artifacts.resolve(theirs.artifacts.reference(name, 1))
    with pytest.raises(ArtifactNotFoundError):
        await mine.artifacts.resolve(mine.artifacts.reference("absent", 1))
    with pytest.raises(UnsupportedOperationError, match="no URLs"):
        await mine.artifacts.url("absent")


async def test_bey_17_identical_content_keeps_its_version_and_stands_in_the_delta() -> None:
    ctx = make_context("tool", artifacts=InMemoryArtifactService())
    assert await ctx.artifacts.save("a.png", PICTURE) == 1
    assert await ctx.artifacts.save("a.png", PICTURE, reuse_identical=True) == 1
    assert await ctx.artifacts.save("a.png", PICTURE) == 2
    assert ctx.actions.artifact_delta == {"a.png": 2}


async def test_eff_9_the_wish_is_told_to_who_carries_the_write_out_and_kept_elsewhere() -> None:
    """EFF-10: a second runner that carries the described write out heeds it too."""
    service = InMemoryArtifactService()

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        for _ in range(2):
            await ctx.artifacts.save("a.png", PICTURE, reuse_identical=True)
        await ctx.artifacts.save("b.png", PICTURE)
        yield Event(content=text_content("done"))

    class Elsewhere(Plugin):
        name = "elsewhere"
        told: list[Any]

        async def perform_write(self, call: EffectCall) -> WriteResult:
            if call.op != "save_artifact":
                return await call.default()
            self.told.append(call.payload.get("reuseIdentical"))
            result = await worker.carry_out(call.to_json())
            return WriteResult(payload=result["payload"])

    agent = Agent(name="root", body=body)
    worker = Runner(agent, artifacts=service, sessions="memory:", settings=Settings())
    plugin = Elsewhere()
    plugin.told = []
    runner = Runner(agent, artifacts=service, sessions="memory:", plugins=[plugin], settings=Settings())
    await runner.run(user_id="u", session_id="s", message="hi").wait()
    where = {"app_name": "root", "user_id": "u", "session_id": "s"}
    assert await service.list_versions(**where, filename="a.png") == [1]
    assert await service.list_versions(**where, filename="b.png") == [1]
    assert plugin.told == [True, True, None]
