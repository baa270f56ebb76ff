"""A run that saves files, its rewind, and a look from a second runner: the same for every backend that lasts."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork import Agent, Event, Part, Runner, text_content
from hookwork.errors import ArtifactNotFoundError, BackendError

WHO = {"user_id": "u", "session_id": "s"}


def remembering() -> Agent:
    """Saves every message in a file of the session and one of the user, and the second one in a new file too."""

    async def body(ctx: Any) -> Any:
        said = ctx.user_content.text
        await ctx.artifacts.save("last.txt", Part(text=said))
        await ctx.artifacts.save("user:last.txt", Part(text=said))
        if said == "two":
            await ctx.artifacts.save("new.txt", Part(text="new"))
        yield Event(content=text_content(f"heard {said}"))

    return Agent(name="echo", body=body)


async def check_runs(url: str) -> None:
    """ART-13, core REW-4: what a run saved is on its event; a rewind puts files back, and all of it lasts."""
    where = {"app_name": "echo", **WHO}
    async with Runner(remembering(), sessions="memory:", artifacts=url) as runner:
        ids = []
        for text in ("one", "two"):
            run = runner.run(message=text, **WHO)
            await run.wait()
            ids.append(run.invocation_id)
        session = await runner.sessions.get_session(**where)
        (said,) = (event for event in session.events if event.text == "heard two")
        assert dict(said.actions.artifact_delta) == {"last.txt": 2, "user:last.txt": 2, "new.txt": 1}
        assert ids[1] is not None
        session = await runner.rewind(before_invocation_id=ids[1], **WHO)
        assert dict(session.events[-1].actions.artifact_delta) == {"last.txt": 3, "new.txt": 2}
        closed = runner.artifacts
        assert closed is not None
    with pytest.raises(BackendError):
        await closed.list_artifacts(**where)
    async with Runner(remembering(), sessions="memory:", artifacts=url) as again:
        files = again.artifacts
        assert files is not None
        assert await files.list_artifacts(**where) == ["last.txt", "user:last.txt"]
        assert await files.load_artifact(**where, filename="last.txt") == Part(text="one")
        assert await files.load_artifact(**where, filename="user:last.txt") == Part(text="two")
        with pytest.raises(ArtifactNotFoundError):
            await files.load_artifact(**where, filename="new.txt")
        assert await files.load_artifact(**where, filename="new.txt", version=1) == Part(text="new")
