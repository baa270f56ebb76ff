"""The examples of the README run, against the local service, and print what they say; its lists are complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

from tests.openai.server import Json, Service, Sse
from tests.openai.wire import chat_stream, message, response

from hookwork import Settings
from hookwork.resolve import resolve_model
from hookwork_openai import Options

TEXT = (Path(__file__).parents[2] / "extensions" / "openai" / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def printed(code: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{code}\nimport asyncio\nasyncio.run(main())\n"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_first_answer(service: Service) -> None:
    """The default host is given by its variable, so the wire is that of a compatible server."""
    service.respond = lambda sent: Json(
        response(message("Hello."))
        if sent.path == "/responses"
        else {"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]}
    )
    said = printed(EXAMPLES[0], OPENAI_API_KEY="k", OPENAI_BASE_URL=service.base_url)
    assert said == re.findall(r"print\(.*\)  # (.*)", EXAMPLES[0]) == ["Hello."]
    assert len([line for line in EXAMPLES[0].splitlines() if line.strip()]) == 5


def test_a_compatible_server(service: Service) -> None:
    service.answers(Sse(chat_stream("Hello."), named=False, done=True))
    address = "http://localhost:11434/v1"
    assert address in EXAMPLES[1]
    assert printed(EXAMPLES[1].replace(address, service.base_url)) == ["True Hel", "True lo.", "None Hello."]
    assert len(EXAMPLES) == 2


def test_the_table_of_a_project() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    table = tomllib.loads(example)["tool"]["hookwork"]["openai"]
    model = resolve_model("openai/qwen3:8b", Settings(tables={"openai": table}))
    assert (model.name, model.options.base_url) == ("qwen3:8b", "http://localhost:11434/v1")  # type: ignore[attr-defined]


def test_every_option_and_every_code_of_a_refusal_is_described() -> None:
    for option in fields(Options):
        assert f"`{option.name}`" in TEXT, option.name
    source = Path(__file__).parents[2] / "extensions" / "openai" / "src" / "hookwork_openai" / "config.py"
    codes = set(re.findall(r'"(unsupported_[a-z_]+|empty_json_schema)"', source.read_text(encoding="utf-8")))
    said_in_words = {"unsupported_modalities", "unsupported_thinking_level", "unsupported_thinking_budget"}
    assert {code for code in codes if f"`{code}`" not in TEXT} == said_in_words
