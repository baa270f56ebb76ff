"""The example of the README runs, against an emulator, and prints what its comments say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.gcs.servers import make_bucket

README = Path(__file__).parents[2] / "extensions" / "gcs" / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_example(gcs: str) -> None:
    (code,) = EXAMPLES
    make_bucket(gcs, "my-bucket")
    expected = re.findall(r"print\(.*\)  # (.*)", code)
    program = f"{code}\nimport asyncio\nasyncio.run(main())\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, "STORAGE_EMULATOR_HOST": gcs},
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    assert len(expected) == 2
    assert done.stdout.splitlines() == expected
