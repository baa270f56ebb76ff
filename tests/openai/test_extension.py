"""Names, settings, capabilities and start-up (models REG-1…8, CAP-5, OAI Construction)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.openai.asking import KEY, open_clients, whole
from tests.openai.server import Json, Service
from tests.openai.wire import completion, message, response

from hookwork import ModelRequest, Runner, Settings, use_extensions
from hookwork.errors import ConfigurationError, ModelError, UnknownModelError
from hookwork.resolve import resolve_model
from hookwork_llm import LlmAgent
from hookwork_openai import OpenAIModel, extension
from hookwork_openai.options import is_openai_host


def made(name: str, **table: Any) -> OpenAIModel:
    found = resolve_model(name, Settings(tables={"openai": table}))
    assert isinstance(found, OpenAIModel)
    return found


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt-5.2", "gpt-4.1-mini", "o3", "o4-mini", "chatgpt-4o-latest"])
def test_reg_1a_names_that_are_openais(name: str) -> None:
    assert made(name).name == name


@pytest.mark.parametrize("name", ["my-gpt-5", "olive", "o", "opus", "o3x", "GPT-5", "gemini-3-flash", "llama3", ""])
def test_reg_1a_other_names_belong_to_somebody_else(name: str) -> None:
    assert extension.create_model(name, {}, False) is None


def test_sdk_14_an_inline_flag_after_the_start_is_no_pattern() -> None:
    """Who wants other spellings registers ``(?i)^…``; ours are case-sensitive (models REG-2)."""
    with pytest.raises(re.error):
        re.compile("^(?i)gpt-")
    assert re.compile("(?i)^gpt-").search("GPT-5")
    assert extension._NAMES.flags & re.IGNORECASE == 0


def test_reg_1_with_the_prefix_every_name_is_taken() -> None:
    assert made("openai/qwen3:8b").name == "qwen3:8b"
    assert made("openai/meta-llama/llama-4").name == "meta-llama/llama-4"
    with use_extensions([("openai", extension)]), pytest.raises(UnknownModelError):
        resolve_model("qwen3:8b")


def test_reg_5_each_resolution_makes_a_model() -> None:
    assert made("gpt-5.2") is not made("gpt-5.2")


def test_reg_8_making_a_model_needs_neither_key_nor_sdk() -> None:
    program = """
import sys
from hookwork_openai import extension
assert not any(name.split(".")[0] in ("openai", "httpx2", "pydantic", "hookwork_modelkit") for name in sys.modules)
model = extension.create_model("gpt-5.2", {}, False)
assert not any(name.split(".")[0] in ("openai", "httpx2", "pydantic", "tenacity") for name in sys.modules)
print(model.name)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("gpt-5.2\n", "")


def test_dist_1_the_entry_module_imports_the_kernel_alone() -> None:
    """DIST-1: an installed extension costs a start-up nothing that can be felt."""
    program = (
        "import sys, hookwork.plugins.markers; before = set(sys.modules); import hookwork_openai.extension; "
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('hookwork_openai')))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


# --- settings --------------------------------------------------------------------------------------------------------


async def test_settings_reach_the_wire(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-mine")
    service.answers(Json(response(message("a"))))
    table = {"api": "responses", "base_url": service.base_url, "api_key_variable": "MY_KEY", "reasoning": "high"}
    model = made("gpt-5.2", **table, store=False, retry=3, headers={"X-A": "1"})
    assert (await whole(model)).text == "a"
    sent = service.sent[0]
    assert (sent.headers["authorization"], sent.headers["x-a"]) == ("Bearer sk-mine", "1")
    assert (sent.body["reasoning"], sent.body["store"]) == ({"effort": "high"}, False)
    await model.close()


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"bse_url": "x"}, "'bse_url'.*did you mean 'base_url'"),
        ({"http_client": 1}, "'http_client'"),
        ({"api_key": "a", "api_key_variable": "B"}, "exclude each other"),
        ({"api_key_variable": "HOOKWORK_NO_SUCH_VARIABLE"}, "'HOOKWORK_NO_SUCH_VARIABLE' is not set"),
        ({"api_key": 7}, "'api_key' is text"),
        ({"api": "grpc"}, "'api'"),
        ({"retry": "often"}, "retry"),
    ],
)
def test_a_wrong_table_is_named_before_anything_runs(table: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        made("gpt-5.2", **table)


async def test_a_runner_takes_a_model_by_name_and_closes_it(service: Service) -> None:
    service.answers(Json(completion("Hello.")))
    before = open_clients()
    settings = Settings(tables={"openai": {"base_url": service.base_url}})
    async with Runner(LlmAgent(name="a", model="openai/local-model"), settings=settings) as runner:
        assert await runner.ask(user_id="u", message="hi") == "Hello."
        assert open_clients() == before + 1
    assert open_clients() == before
    assert service.body["model"] == "local-model"


# --- which service, which API ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "official"),
    [
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://res.openai.azure.com/openai/v1", True),
        ("https://res.services.ai.azure.com/openai/v1", True),
        ("http://localhost:8080/v1", False),
        ("https://openrouter.ai/api/v1", False),
        ("https://api.openai.com.evil.example/v1", False),
    ],
)
def test_hosts_that_speak_the_whole_api(address: str, official: bool) -> None:
    assert is_openai_host(address) == official


@pytest.mark.parametrize(
    ("options", "chat"),
    [
        ({}, False),
        ({"api": "chat"}, True),
        ({"base_url": "http://localhost:1/v1"}, True),
        ({"base_url": "http://localhost:1/v1", "api": "responses"}, False),
        ({"azure_endpoint": "https://r.openai.azure.com"}, False),
    ],
)
def test_auto_is_responses_on_the_default_host_and_chat_elsewhere(options: dict[str, Any], chat: bool) -> None:
    assert OpenAIModel("gpt-5.2", api_key=KEY, **options)._call(ModelRequest()).chat == chat


async def test_key_and_base_url_come_from_the_environment(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", service.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    service.answers(Json(completion("a")), Json(completion("a")))
    model = OpenAIModel("m")
    assert (await whole(model)).text == "a"
    assert service.sent[0].headers["authorization"] == "Bearer sk-env"
    keyless = OpenAIModel("m", api_key="")
    await whole(keyless)
    assert "authorization" not in service.sent[1].headers, "an empty key is none"
    await model.close()
    await keyless.close()


@pytest.mark.parametrize("address", ["localhost:11434/v1", "http://", "ftp://h/v1", "u:secret@h"])
def test_an_address_has_its_scheme(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for options in ({"base_url": address}, {"azure_endpoint": address}):
        with pytest.raises(ConfigurationError, match=next(iter(options))) as caught:
            OpenAIModel("m", **options)
        assert "secret" not in str(caught.value)
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    with pytest.raises(ConfigurationError, match="OPENAI_BASE_URL"):
        OpenAIModel("m")
    assert OpenAIModel("m", base_url="http://h/v1").options.address() == "http://h/v1"


async def test_beyond_azure_by_its_endpoint(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """``{resource}/openai/v1/``, the deployment's name as model."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "az-key")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    for endpoint in (
        "https://r.openai.azure.com",
        "https://r.openai.azure.com/",
        "https://r.openai.azure.com/openai/v1/",
    ):
        model = OpenAIModel("my-deployment", azure_endpoint=endpoint)
        assert model.options.address() == "https://r.openai.azure.com/openai/v1"
        assert model.options.key() == "az-key"
        assert model.capabilities.provider == "azure.ai.openai"
    import httpx2

    asked: list[httpx2.Request] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, json=response(message("a")))

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(handler)) as http:
        model = OpenAIModel("my-deployment", azure_endpoint="https://r.openai.azure.com", http_client=http)
        assert (await whole(model)).text == "a"
    assert str(asked[0].url) == "https://r.openai.azure.com/openai/v1/responses"
    assert asked[0].headers["authorization"] == "Bearer az-key"


def test_cap_5_capabilities() -> None:
    official = OpenAIModel("gpt-5.2", api_key=KEY).capabilities
    assert (official.provider, official.output_schema, official.output_schema_with_tools) == ("openai", True, True)
    assert (official.pairs_calls_by_id, official.reasoning, official.file_uris) == (True, True, True)
    assert official.media == ("image/", "application/pdf", "text/")
    local = OpenAIModel("llama", base_url="http://localhost:1/v1").capabilities
    assert (local.output_schema, local.output_schema_with_tools, local.reasoning) == (True, False, False)
    told = OpenAIModel("llama", base_url="http://h/v1", output_schema_with_tools=True, provider="vllm").capabilities
    assert (told.output_schema_with_tools, told.provider) == (True, "vllm")


def test_py_typed_is_shipped() -> None:
    assert (Path(extension.__file__).parent / "py.typed").exists()


async def test_sdk_9_the_doctor_is_told_of_a_missing_key_without_a_call() -> None:
    model = OpenAIModel("gpt-5.2")
    with pytest.raises(ModelError) as caught:
        await model.check()
    assert caught.value.kind == "auth"
    assert "OPENAI_API_KEY" in str(caught.value)
    ready = OpenAIModel("gpt-5.2", api_key="sk-test")
    await ready.check()
    await ready.close()
    keyless = OpenAIModel("llama3", base_url="http://localhost:1/v1")
    await keyless.check()
    await keyless.close()
