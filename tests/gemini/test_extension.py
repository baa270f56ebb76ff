"""Names, settings, capabilities, and what the extension costs: models REG, CAP, tools-plugins EXT, DIST-1."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.gemini.making import responses_of
from tests.gemini.service import Service

from hookwork.errors import ConfigurationError, ModelError, UnknownModelError
from hookwork.resolve import resolve_model
from hookwork.settings import Settings
from hookwork_gemini import GeminiModel
from hookwork_gemini.capabilities import capabilities_of, version_of
from hookwork_gemini.extension import create_model
from hookwork_modelkit import RetryPolicy

OURS = [
    "gemini-2.5-flash",
    "models/gemini-3-pro",
    "publishers/google/models/gemini-2.0-flash",
    "projects/p/locations/l/publishers/google/models/gemini-2.5-pro",
    "projects/p/locations/l/endpoints/12345",
]
OTHERS = [
    "my-model-gemini",
    "openrouter/google/gemini-2.5-flash",
    "Gemini-2.5",
    "gpt-5.2",
    "apigee/gemini-2.5-flash",
    "offline",
    "o3",
    "projects/p/locations/l/publishers/meta/models/llama",
    "xgemini-2",
]


@pytest.mark.parametrize("name", OURS)
def test_reg_1a_gemini_names_are_taken_by_bare_name_and_by_provider(name: str) -> None:
    for given in (name, f"gemini/{name}"):
        model = resolve_model(given, Settings())
        assert isinstance(model, GeminiModel)
        assert model.name == name


@pytest.mark.parametrize("name", OTHERS)
def test_reg_1a_other_names_are_left_to_others(name: str) -> None:
    """T-20, CAP-1: nothing is guessed from the middle of a name."""
    assert create_model(name, {}) is None


def test_reg_1_the_provider_prefix_asks_this_extension_alone() -> None:
    with pytest.raises(UnknownModelError, match="gemini"):
        resolve_model("gemini/gpt-5.2", Settings())


def test_reg_5_each_resolution_is_a_new_model() -> None:
    assert resolve_model("gemini-2.5-flash", Settings()) is not resolve_model("gemini-2.5-flash", Settings())


def test_reg_8_making_a_model_imports_no_sdk() -> None:
    """The entry module imports within budget because it imports nothing: checked by what is loaded."""
    code = (
        "import sys, hookwork_gemini.extension as e; loaded = set(sys.modules);"
        "heavy = ('google.genai', 'google.auth', 'pydantic', 'httpx', 'httpx2', 'tenacity', 'hookwork_modelkit',"
        " 'hookwork_gemini.model', 'msgspec', 'asyncio');"
        "print([n for n in heavy if n in loaded]);"
        "e.create_model('gemini-3-pro', {});"
        "print([n for n in heavy[:6] if n in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split("\n") == ["[]", "[]", ""]


SETTINGS: dict[str, Any] = {
    "api_key": "k",
    "base_url": "http://127.0.0.1:1",
    "api_version": "v1beta",
    "timeout": 2.5,
    "headers": {"x-a": "b"},
    "retry": {"attempts": 2},
}


def test_gem_1_options_come_from_the_settings_table() -> None:
    model = resolve_model("gemini-2.5-flash", Settings(tables={"gemini": SETTINGS}))
    assert isinstance(model, GeminiModel)
    assert model.retry == RetryPolicy(attempts=2)
    config = model._config
    assert (config.api_key, config.base_url, config.api_version) == ("k", "http://127.0.0.1:1", "v1beta")
    assert (config.timeout, config.headers) == (2.5, (("x-a", "b"),))
    table = {"project": "p", "location": "l"}
    assert (
        resolve_model("gemini-2.5-flash", Settings(tables={"gemini": table})).capabilities.provider == "gcp.vertex_ai"
    )


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"api_kee": "k"}, "did you mean 'api_key'"),
        ({"timeout": "soon"}, "timeout"),
        ({"headers": {"a": 1}}, "headers"),
        ({"retry": {"attemps": 1}}, "attemps"),
        ({"api_key": "k", "vertexai": False, "project": "p"}, "Vertex AI only"),
    ],
)
def test_ext_7_a_wrong_setting_is_named(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        create_model("gemini-2.5-flash", table)


def test_no_secret_is_shown() -> None:
    model = GeminiModel("gemini-2.5-flash", api_key="s3cret-key", headers={"authorization": "s3cret-key"})
    assert "s3cret" not in repr(model)


async def test_the_doctor_is_told_whether_there_is_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    model = GeminiModel("gemini-2.5-flash")
    with pytest.raises(ModelError, match="GEMINI_API_KEY") as caught:
        await model.check()
    assert caught.value.kind == "auth"
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    await model.check()
    await model.close()


# --- capabilities -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("gemini-2.5-flash", 2.5),
        ("gemini-3-pro", 3.0),
        ("models/gemini-1.5-pro", 1.5),
        ("publishers/google/models/Gemini-2.0-flash", 2.0),
        ("gemini-pro", None),
        ("gemini-flash-latest", None),
        ("projects/p/locations/l/endpoints/123", None),
    ],
)
def test_cap_2_the_version_is_the_number_in_the_name(name: str, version: float | None) -> None:
    assert version_of(name) == version


@pytest.mark.parametrize(
    ("name", "vertex", "both"),
    [
        ("gemini-2.5-flash", True, True),
        ("gemini-2.0-flash", True, True),
        ("gemini-1.5-pro", True, False),
        ("gemini-pro", True, False),
        ("gemini-2.5-flash", False, False),
        ("gemini-3-pro", False, False),
    ],
)
def test_cap_3_schema_and_tools_together_are_for_vertex_ai_from_2_on(name: str, vertex: bool, both: bool) -> None:
    capabilities = capabilities_of(name, vertexai=vertex)
    assert capabilities.output_schema
    assert capabilities.output_schema_with_tools is both


def test_cap_5_the_record_says_what_the_backends_can_do() -> None:
    api, vertex = capabilities_of("gemini-2.5-flash", vertexai=False), capabilities_of("gemini-3-pro", vertexai=True)
    assert (api.provider, vertex.provider) == ("gcp.gemini", "gcp.vertex_ai")
    assert (api.builtin_with_functions, vertex.builtin_with_functions) == (False, True)
    assert "file_search" in api.builtin_tools
    assert "file_search" not in vertex.builtin_tools
    assert {"retrieval", "enterprise_web_search"} <= vertex.builtin_tools
    assert {"google_search", "url_context", "code_execution"} <= api.builtin_tools & vertex.builtin_tools
    assert (api.live, api.tools, api.file_uris, api.reasoning, api.pairs_calls_by_id) == (True, True, True, True, False)
    assert not capabilities_of("gemini-2.0-flash", vertexai=False).reasoning


async def test_the_doctor_is_told_that_vertex_ai_has_no_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, service: Service
) -> None:
    """The SDK makes a client without them; they are missed at the first call."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "not-there.json"))
    model = GeminiModel("gemini-2.5-flash", project="p", location="l", base_url=service.url)
    with pytest.raises(ModelError, match="Application Default Credentials") as checked:
        await model.check()
    with pytest.raises(ModelError, match="Application Default Credentials") as called:
        await responses_of(model)
    assert (checked.value.kind, called.value.kind) == ("auth", "auth")
    express = GeminiModel("gemini-2.5-flash", vertexai=True, api_key="k")
    await express.check()
    await express.close()
