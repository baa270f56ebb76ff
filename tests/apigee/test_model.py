"""Names, addresses and delegation of models behind an Apigee proxy (models APG-1 … APG-7)."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from tests.gemini.service import Service as GeminiService
from tests.openai.server import Json
from tests.openai.server import Service as OpenAIService

from hookwork.errors import ConfigurationError, ModelError
from hookwork.live import LiveRunConfig
from hookwork.model import Model, ModelRequest
from hookwork.plugins.discovery import use_extensions
from hookwork.records.content import user_content
from hookwork.records.metadata import ModelResponse
from hookwork.resolve import resolve_model
from hookwork.runner import Runner
from hookwork.settings import Settings
from hookwork_apigee import ApigeeModel, extension
from hookwork_apigee.names import route_of
from hookwork_gemini import GeminiModel
from hookwork_llm import LlmAgent
from hookwork_openai import OpenAIModel
from hookwork_testkit.suites import ModelSuite

PROXY = "https://proxy.example"
VERTEX = {"project": "p1", "location": "europe-west4"}


async def collect(model: Model, request: ModelRequest, *, stream: bool = False) -> list[ModelResponse]:
    try:
        async with aclosing(model.generate(request, stream=stream)) as responses:  # type: ignore[type-var]
            return [response async for response in responses]
    finally:
        await model.close()


def asking(model: str = "") -> ModelRequest:
    return ModelRequest(model=model, contents=[user_content("hi")])


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "route"),
    [
        ("apigee/gemini-2.5-flash", ("", "", "gemini-2.5-flash")),
        ("apigee/v1/gemini-2.5-flash", ("", "v1", "gemini-2.5-flash")),
        ("apigee/vertex_ai/gemini-2.5-flash", ("vertex_ai", "", "gemini-2.5-flash")),
        ("apigee/gemini/v1/gemini-2.5-flash", ("gemini", "v1", "gemini-2.5-flash")),
        ("apigee/vertex_ai/v1beta/gemini-2.5-flash", ("vertex_ai", "v1beta", "gemini-2.5-flash")),
        ("apigee/openai/v1/gpt-5.2", ("openai", "v1", "gpt-5.2")),
        ("apigee/openai/gpt-5.2", ("openai", "", "gpt-5.2")),
        ("apigee/vision-model", ("", "", "vision-model")),
    ],
)
def test_apg_1_apg_7_names(name: str, route: tuple[str, str, str]) -> None:
    assert route_of(name) == route


@pytest.mark.parametrize(
    "name",
    [
        "apigee/",
        "apigee/unknown/model",
        "apigee/unknown/v1/model",
        "apigee/gemini/beta/model",
        "apigee/gemini/v1/models/model",
        "apigee//model",
        "apigee/gemini/v1/",
        "gemini-2.5-flash",
    ],
)
def test_apg_1_anything_else_is_refused_at_construction(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"apigee/\[provider/\]\[version/\]model"):
        ApigeeModel(name, proxy_url=PROXY)


@pytest.mark.parametrize(
    ("variables", "vertex"),
    [
        ({}, False),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "true"}, True),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "TRUE"}, True),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "1"}, True),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "yes"}, False),
        ({"GOOGLE_GENAI_USE_ENTERPRISE": "true"}, True),
        ({"GOOGLE_GENAI_USE_ENTERPRISE": "false", "GOOGLE_GENAI_USE_VERTEXAI": "true"}, False),
    ],
)
def test_apg_2_the_environment_decides_where_the_name_does_not(
    variables: dict[str, str], vertex: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = ApigeeModel("apigee/gemini-2.5-flash", proxy_url=PROXY, **VERTEX)
    assert found.capabilities.provider == ("gcp.vertex_ai" if vertex else "gcp.gemini")
    said = ApigeeModel("apigee/gemini/v1/gemini-2.5-flash", proxy_url=PROXY, **VERTEX)
    assert said.capabilities.provider == "gcp.gemini"


def test_apg_3_the_proxy_is_an_argument_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="APIGEE_PROXY_URL"):
        ApigeeModel("apigee/gemini-2.5-flash")
    monkeypatch.setenv("APIGEE_PROXY_URL", PROXY)
    assert ApigeeModel("apigee/gemini-2.5-flash").name == "apigee/gemini-2.5-flash"


@pytest.mark.parametrize(
    ("variables", "missing"),
    [
        ({}, "GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION"),
        ({"GOOGLE_CLOUD_PROJECT": "p"}, "needs GOOGLE_CLOUD_LOCATION"),
        ({"GOOGLE_CLOUD_LOCATION": "l"}, "needs GOOGLE_CLOUD_PROJECT"),
    ],
)
def test_apg_4_vertex_names_what_it_lacks(
    variables: dict[str, str], missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=missing):
        ApigeeModel("apigee/vertex_ai/gemini-2.5-flash", proxy_url=PROXY)


# --- on the wire ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "path", "query"),
    [
        (False, "/v1/models/gemini-m:generateContent", ""),
        (True, "/v1/models/gemini-m:streamGenerateContent", "alt=sse"),
    ],
)
async def test_apg_6_the_path_behind_the_proxy(gemini: GeminiService, stream: bool, path: str, query: str) -> None:
    model = ApigeeModel("apigee/gemini/v1/gemini-m", proxy_url=gemini.url, headers={"x-proxy": "let-me-in"})
    *_, last = await collect(model, asking(), stream=stream)
    assert last.content is not None
    assert last.content.text == "Hello."
    (received,) = gemini.received
    assert (received.path, received.query) == (path, query)
    assert received.headers["x-proxy"] == ["let-me-in"]


async def test_apg_5_t_12_the_proxy_is_asked_for_the_model_not_for_our_name(gemini: GeminiService) -> None:
    model = ApigeeModel("apigee/gemini/v1/gemini-m", proxy_url=gemini.url)
    agent = LlmAgent(name="root", model=model)
    async with Runner(agent, sessions="memory:") as runner:
        assert await runner.ask("hi") == "Hello."
    await model.close()
    assert gemini.received[0].path == "/v1/models/gemini-m:generateContent"


async def test_apg_5_mod_6_the_request_keeps_its_name(gemini: GeminiService) -> None:
    request = asking("apigee/gemini/v1/gemini-m")
    await collect(ApigeeModel("apigee/gemini/v1/gemini-m", proxy_url=gemini.url), request)
    assert request.model == "apigee/gemini/v1/gemini-m"
    await collect(ApigeeModel("apigee/gemini/v1/gemini-m", proxy_url=gemini.url), asking("gemini-other"))
    assert gemini.received[1].path == "/v1/models/gemini-other:generateContent"


async def test_apg_4_vertex_behind_the_proxy(gemini: GeminiService) -> None:
    from google.oauth2.credentials import Credentials

    model = ApigeeModel(
        "apigee/vertex_ai/v1beta1/gemini-m", proxy_url=gemini.url, credentials=Credentials(token="token-77"), **VERTEX
    )
    await collect(model, asking())
    (received,) = gemini.received
    assert received.path == (
        "/v1beta1/projects/p1/locations/europe-west4/publishers/google/models/gemini-m:generateContent"
    )
    assert received.headers["authorization"] == ["Bearer token-77"]


@pytest.mark.parametrize("key", [None, "key-1"])
async def test_apg_7_openai_behind_the_proxy_with_and_without_a_key(openai: OpenAIService, key: str | None) -> None:
    proxy = openai.base_url.removesuffix("/v1")
    openai.answers(Json(_chat("Hello.")))
    model = ApigeeModel("apigee/openai/v1/gpt-5.2", proxy_url=proxy, api_key=key)
    (answer,) = await collect(model, asking("apigee/openai/v1/gpt-5.2"))
    assert answer.content is not None
    assert answer.content.text == "Hello."
    (sent,) = openai.sent
    assert sent.path == "/chat/completions"
    assert sent.body["model"] == "gpt-5.2"
    assert sent.headers.get("authorization") == (None if key is None else "Bearer key-1")


def _chat(text: str) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "gpt-5.2", "choices": [choice]}


# --- delegation -------------------------------------------------------------------------------------------------------


async def test_apg_5_capabilities_and_live_are_the_delegates(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    @asynccontextmanager
    async def connect(self: GeminiModel, request: ModelRequest, config: LiveRunConfig) -> Any:
        asked.append(request.model)
        yield "line"

    monkeypatch.setattr(GeminiModel, "connect", connect)
    model = ApigeeModel("apigee/gemini/gemini-3-flash", proxy_url=PROXY)
    assert model.capabilities == GeminiModel("gemini-3-flash", api_key="k", vertexai=False).capabilities
    async with model.connect(asking("apigee/gemini/gemini-3-flash"), LiveRunConfig()) as line:
        assert line == "line"
    assert asked == ["gemini-3-flash"]
    openai = ApigeeModel("apigee/openai/gpt-5.2", proxy_url=PROXY)
    assert openai.capabilities == OpenAIModel("gpt-5.2", base_url=PROXY).capabilities


class TestApigeeModel(ModelSuite):
    @pytest.fixture(autouse=True)
    def _service(self, gemini: GeminiService) -> None:
        self.service = gemini

    def make_model(self) -> Model:
        return ApigeeModel("apigee/gemini/v1/gemini-m", proxy_url=self.service.url)


# --- by name ----------------------------------------------------------------------------------------------------------


def test_reg_1_by_name_and_settings() -> None:
    settings = Settings(tables={"apigee": {"proxy_url": PROXY, "headers": {"x-a": "b"}, "retry": 3}})
    with use_extensions([("apigee", extension)]):
        model = resolve_model("apigee/gemini/v1/gemini-m", settings)
    assert isinstance(model, ApigeeModel)
    assert model.name == "apigee/gemini/v1/gemini-m"
    assert extension.create_model("gemini-2.5-flash", {}, False) is None


@pytest.mark.parametrize(
    ("settings", "text"),
    [({"proxy": "x"}, "did you mean 'proxy_url'?"), ({"timeout": "soon"}, "[tool.hookwork.apigee]")],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        extension.create_model("apigee/gemini-m", settings, False)
    assert text in str(caught.value)


@pytest.mark.parametrize("provider", ["gemini", "openai"])
async def test_the_strictness_switch_is_handed_on(
    gemini: GeminiService, openai: OpenAIService, provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    """models Beyond: ``unsupported="error" | "warn"`` on every adapter."""
    service: Any = gemini if provider == "gemini" else openai
    proxy = service.url if provider == "gemini" else service.base_url
    request = asking()
    request.update_config(**({"extra": {"futureSetting": 1}} if provider == "gemini" else {"top_k": 3}))
    with pytest.raises(ModelError) as caught:
        await collect(ApigeeModel(f"apigee/{provider}/m", proxy_url=proxy, api_key="k"), request)
    assert caught.value.kind == "invalid_request"
    if provider == "openai":
        service.answers(Json({"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}))
    model = ApigeeModel(f"apigee/{provider}/m", proxy_url=proxy, api_key="k", unsupported="warn")
    assert (await collect(model, request))[-1].text
    assert len([record for record in caplog.records if "left out" in record.message]) == 1
