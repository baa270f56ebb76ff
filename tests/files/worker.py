"""A process of its own for the tests: saves versions of one file and says their numbers.

python worker.py ROOT COUNT NAME       COUNT 0: until it is killed; NAME "same": identical contents, to be saved once
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from typing import Any

from hookwork.records.content import Blob, Part
from hookwork_files import FileArtifactService

KEY: dict[str, Any] = {"app_name": "shop", "user_id": "ann", "session_id": "s1", "filename": "a.bin"}
SAME = "same"


def content(name: str, number: int) -> bytes:
    """What a process saves: large enough that a write takes a while."""
    return f"{name} {number} ".encode() * 2000


async def main(root: str, number: int, name: str) -> None:
    """Save and report."""
    service = FileArtifactService(root)
    for index in range(number) if number else count():
        data = content(name, 0 if name == SAME else index)
        part = Part(inline_data=Blob(data=data, mime_type="text/csv"))
        how: dict[str, Any] = {"reuse_identical": True} if name == SAME else {"save_id": f"{name}-{index}"}
        version = await service.save_artifact(**KEY, artifact=part, **how)
        print(version, flush=True)
    await service.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
