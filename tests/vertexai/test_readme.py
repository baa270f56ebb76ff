"""The example of the README runs, against the fake, and prints what its comments say; the options are all there."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.vertexai.credentials import key_file
from tests.vertexai.fake import FakeVertex

from hookwork_vertexai import VertexAiMemoryBankService, VertexAiRagMemoryService, VertexAiSessionService
from hookwork_vertexai.opening import MEMORY_BANK, RAG, SESSIONS

README = (Path(__file__).parents[2] / "extensions" / "vertexai" / "README.md").read_text(encoding="utf-8")


def test_example(fake: FakeVertex, tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    expected = re.findall(r"print\(.*\)  # (.*)", code)
    settings = f'[tool.hookwork.vertexai]\nbase_url = "{fake.url}"\nwait_for_completion = true\n'
    file = tmp_path / "pyproject.toml"
    file.write_text(settings, encoding="utf-8")
    given = {"GOOGLE_APPLICATION_CREDENTIALS": str(key_file(tmp_path, fake)), "HOOKWORK_CONFIG": str(file)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{code}\nimport asyncio\nasyncio.run(main())\n"],
        env={**os.environ, **given},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert len(expected) == 2
    assert done.stdout.splitlines() == expected
    assert fake.requests[0].path == "/token"


def test_url_2_every_option_is_described_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| .*? \| (.*?) \|", README, re.MULTILINE))
    assert set(rows) == {*SESSIONS, *MEMORY_BANK, *RAG}
    for made in (VertexAiSessionService, VertexAiMemoryBankService, VertexAiRagMemoryService):
        for name, parameter in inspect.signature(made.__init__).parameters.items():
            if name in rows and parameter.default is not None:
                default = parameter.default
                shown = ",".join(default) if isinstance(default, tuple) else str(default)
                assert rows[name] == shown, name
