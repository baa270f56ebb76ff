"""The examples of the README run, against the local service, and print what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.gemini.service import Reply, Service, chunk

from hookwork_gemini import GeminiModel
from hookwork_gemini.options import _Table

TEXT = (Path(__file__).parents[2] / "extensions" / "gemini" / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def printed(code: str, service: Service) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{code}\nimport asyncio\nasyncio.run(main())\n"],
        env={**os.environ, "GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": service.url},
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_first_answer(service: Service) -> None:
    assert printed(EXAMPLES[0], service) == re.findall(r"print\(.*\)  # (.*)", EXAMPLES[0]) == ["Hello."]
    assert len([line for line in EXAMPLES[0].splitlines() if line.strip()]) == 5


def test_the_model_alone(service: Service) -> None:
    service.always = Reply(chunk({"text": "Hel"}), chunk({"text": "lo."}, finish="STOP"))
    assert printed(EXAMPLES[1], service) == ["True Hel", "True lo.", "None Hello."]
    assert service.received[-1].body["generationConfig"]["thinkingConfig"] == {"includeThoughts": True}
    assert len(EXAMPLES) == 3  # the third only makes a model; all run in tests/acceptance


def test_every_option_is_described() -> None:
    for name in _Table.__struct_fields__:
        assert f"`{name}`" in TEXT
    for vertex in (False, True):
        for tool in GeminiModel("gemini-3-pro", vertexai=vertex).capabilities.builtin_tools:
            assert f"`{tool}`" in TEXT
