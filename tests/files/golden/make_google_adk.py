"""Write ``google_adk.json``: what google-adk's file artifact service leaves on disk.

Run it in an environment of its own with ``google-adk==2.13.0``; the tests only read what it wrote. Paths are keys, so
that no checkout needs a file system that can hold them. Times and the root's path are made the same on every machine.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from pathlib import Path

from google.adk.artifacts import FileArtifactService
from google.genai import types

HERE = Path(__file__).parent
#: Created at (epoch seconds) in every record.
TIME = 1767225600.25


async def write(root: Path) -> None:
    """Save files of all kinds under one user."""
    service = FileArtifactService(root)
    png = types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\x89PNG"))
    plain = types.Part(inline_data=types.Blob(mime_type="text/plain", data=b"bytes"))

    async def save(name: str, *parts: types.Part, session: str | None = "s 1", **more: object) -> None:
        for part in parts:
            await service.save_artifact(
                app_name="shop", user_id="ann|1", session_id=session, filename=name, artifact=part, **more
            )

    await save("pic.png", png, types.Part(inline_data=types.Blob(mime_type="image/png", data=b"second")))
    await save("a#b?c.txt", types.Part(text="Zeile\nÄ"))
    await save("bytes.txt", plain, custom_metadata={"source": "camera", "pages": 2})
    await save(" padded ", png)
    await save("x/y.txt", types.Part(text="nested"))
    await save("user:profil bild.png", png)
    await save("without prefix.txt", types.Part(text="users"), session=None)


def main() -> None:
    """Write the tree to ``google_adk.json``."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        asyncio.run(write(root))
        files = {}
        for path in sorted(root.rglob("*")):
            if path.is_file():
                text = path.read_bytes().decode("latin-1")
                text = text.replace(root.resolve().as_uri(), "file:///moved")
                text = re.sub(r'"createTime":[0-9.]+', f'"createTime":{TIME}', text)
                files[path.relative_to(root).as_posix()] = text
    (HERE / "google_adk.json").write_text(json.dumps(files, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
