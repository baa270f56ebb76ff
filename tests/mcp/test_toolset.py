"""The MCP toolset over all transports (tools-plugins §5), with the suite every toolset passes."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.mcp.fake import FakeServer
from tests.mcp.server import PNG, SCRIPT, make_server

from hookwork import Content, FunctionResponse, ModelRequest, Part, Runner
from hookwork.errors import BackendError, ConfigurationError, ToolArgumentError, ToolError
from hookwork.tool import Toolset
from hookwork_llm import LlmAgent
from hookwork_mcp import (
    InProcess,
    McpConnectionError,
    McpToolset,
    Sse,
    Stdio,
    StreamableHttp,
    accept_defaults,
    sample_with,
)
from hookwork_testkit import ScriptedModel, call, make_context
from hookwork_testkit.suites import ToolsetSuite

NAMES = ["add", "ask", "count", "die", "fail", "forever", "greet", "muse", "picture", "pid", "sound"]


def stdio() -> Stdio:
    return Stdio(sys.executable, [SCRIPT])


@asynccontextmanager
async def opened(transport: Any, **options: Any) -> AsyncIterator[tuple[McpToolset, dict[str, Any]]]:
    """A toolset and its tools by name."""
    toolset = McpToolset(transport, **options)
    try:
        yield toolset, {tool.name: tool for tool in await toolset.tools(make_context("readonly"))}
    finally:
        await toolset.close()
        assert toolset.live_sessions == 0


class TestSuite(ToolsetSuite):
    """TL-02 … TL-13 on a server in this process."""

    def make_toolset(self) -> Toolset:
        return McpToolset(make_server())

    @asynccontextmanager
    async def toolset(self) -> AsyncIterator[Toolset]:
        """Connected already: a session's owner stays until the toolset is closed (MCP-11)."""
        async with super().toolset() as toolset:
            await toolset.tools(self.make_context())
            yield toolset

    def make_failing_toolset(self) -> Toolset:
        return McpToolset(endpoint="http://127.0.0.1:9/mcp")


@pytest.fixture(params=["process", "stdio", "http", "sse", "legacy"])
def transport(request: pytest.FixtureRequest) -> tuple[Any, dict[str, Any]]:
    kind = request.param
    if kind == "process":
        return make_server(), {}
    if kind == "stdio":
        return stdio(), {}
    if kind == "sse":
        return Sse(request.getfixturevalue("sse_url")), {}
    url = request.getfixturevalue("http_url")
    return StreamableHttp(url), {"protocol": "legacy"} if kind == "legacy" else {}


async def test_mcp_05_results_over_every_transport(transport: tuple[Any, dict[str, Any]]) -> None:
    """The table of §5: structured content, text, no text, an error of the tool."""
    ctx = make_context("tool")
    async with opened(transport[0], **transport[1]) as (_, tools):
        assert list(tools) == NAMES
        assert await tools["add"].run(ctx, {"a": 1, "b": 2}) == {"output": {"result": 3}}
        assert await tools["greet"].run(ctx, {"name": "Ann"}) == {"output": "Hello, Ann"}
        image = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
        assert await tools["picture"].run(ctx, {}) == {"output": [{"type": "text", "text": "here:"}, image]}
        audio = {"type": "audio", "mimeType": "audio/wav", "data": base64.b64encode(b"RIFF").decode()}
        assert await tools["sound"].run(ctx, {}) == {"output": [audio]}
        with pytest.raises(ToolError, match=r"^Tool execution failed\. Details: Error executing tool fail: no paper$"):
            await tools["fail"].run(ctx, {"reason": "no paper"})


async def test_mcp_05_declaration_and_hints() -> None:
    async with opened(make_server()) as (_, tools):
        declaration = tools["add"].declaration()
        assert declaration.description == "Add two numbers."
        assert declaration.parameters_json_schema["required"] == ["a", "b"]
        assert declaration.response_json_schema["properties"]["result"]["type"] == "integer"
        assert not any(tool.is_long_running for tool in tools.values())
        assert [name for name, tool in tools.items() if tool.idempotent] == ["pid"]


def test_mcp_01_neither_transport_nor_endpoint() -> None:
    with pytest.raises(ValueError, match="needs a transport or an endpoint"):
        McpToolset()
    assert McpToolset(InProcess(make_server()), endpoint="http://ignored/mcp").endpoint.place.startswith("server")


@pytest.mark.parametrize("options", [{"header_provider": lambda ctx: {}}, {"auth": lambda ctx: None}])
def test_mcp_02_headers_need_http(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="need an HTTP server"):
        McpToolset(stdio(), **options)


async def test_mcp_03_several_toolsets_and_the_client_identity() -> None:
    seen: list[Any] = []

    def initialize(params: dict[str, Any]) -> dict[str, Any]:
        seen.append(params["clientInfo"]["name"])
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "f", "version": "1"},
        }

    async with FakeServer(initialize=initialize) as fake, opened(fake.url) as (toolset, tools):
        assert toolset.name == "mcp_tool_set"
        assert list(tools) == ["echo"]
    assert seen == ["hookwork"]


async def test_mcp_04_nothing_happens_at_construction_and_one_connect_for_many() -> None:
    async with FakeServer() as fake:
        toolset = McpToolset(endpoint=fake.url)
        assert fake.seen == []
        assert toolset.live_sessions == 0
        await asyncio.gather(*(toolset.tools(make_context("readonly")) for _ in range(8)))
        assert fake.methods().count("initialize") == 1
        assert fake.methods().count("tools/list") == 8
        await toolset.close()
        assert fake.live == set()


async def test_mcp_04_a_refused_connection_names_no_secret(unused_tcp_port: int) -> None:
    toolset = McpToolset(endpoint=f"http://user:secret@127.0.0.1:{unused_tcp_port}/mcp?key=hidden", name="far")
    with pytest.raises(McpConnectionError) as caught:
        await toolset.tools(make_context("readonly"))
    text = str(caught.value)
    assert f"toolset 'far': cannot connect to http://127.0.0.1:{unused_tcp_port}/mcp" in text
    assert "secret" not in text
    assert "hidden" not in text
    assert toolset.live_sessions == 0


async def test_mcp_05_pages_order_reserved_names_prefix_and_filter(caplog: pytest.LogCaptureFixture) -> None:
    def page(params: dict[str, Any]) -> dict[str, Any]:
        start = int(params.get("cursor") or 0)
        names = ["zeta", "transfer_to_agent", "alpha", "mid", "alpha"][start : start + 2]
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
        return {"tools": tools, **({"nextCursor": str(start + 2)} if start < 4 else {})}

    async with FakeServer(tools_list=page) as fake:
        async with opened(fake.url) as (toolset, tools):
            assert list(tools) == ["alpha", "mid", "zeta"]
            await toolset.tools(make_context("readonly"))
        warned = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
        assert [("reserved" in text, "twice" in text) for text in warned] == [(True, False), (False, True)]
        async with opened(fake.url, prefix="far_") as (_, tools):
            assert list(tools) == ["far_alpha", "far_mid", "far_transfer_to_agent", "far_zeta"]
            assert tools["far_mid"].mcp_name == "mid"
        async with opened(fake.url, prefix="p_", tool_filter=["mid"]) as (_, tools):
            assert list(tools) == ["p_mid"]

        async def starts_with_a(ctx: Any, tool: Any) -> bool:
            return bool(ctx.user_id) and tool.name.startswith("a")

        async with opened(fake.url, tool_filter=starts_with_a) as (_, tools):
            assert list(tools) == ["alpha"]
    with pytest.raises(ConfigurationError, match="not a text"):
        McpToolset(endpoint="http://x/mcp", tool_filter="mid")


async def test_mcp_05_paging_in_circles_ends() -> None:
    async with FakeServer(tools_list={"tools": [], "nextCursor": "again"}) as fake:
        toolset = McpToolset(endpoint=fake.url)
        with pytest.raises(BackendError, match="cursor 'again' twice"):
            await toolset.tools(make_context("readonly"))
        await toolset.close()


async def test_mcp_05_a_list_is_kept_for_cache_ttl(fixed_time: Any) -> None:
    async with FakeServer() as fake, opened(fake.url, cache_ttl=60) as (toolset, _):
        await toolset.tools(make_context("readonly"))
        assert fake.methods().count("tools/list") == 1
        fixed_time.advance(61)
        await toolset.tools(make_context("readonly"))
        assert fake.methods().count("tools/list") == 2


@pytest.mark.parametrize("require", [True, lambda name, args: name == "add" and args["a"] > 0])
async def test_mcp_08_confirmation(require: Any, runner_factory: Callable[..., Runner]) -> None:
    model = ScriptedModel([call("add", a=1, b=2), "Done."])
    toolset = McpToolset(make_server(), require_confirmation=require)
    async with runner_factory(LlmAgent(name="a", model=model, tools=[toolset])) as runner:
        async with runner.run(user_id="u", session_id="s", message="go") as run:
            outcome = await run.wait()
        assert outcome.kind == "paused"
        asked = outcome.open_calls[0]
        answer = FunctionResponse(id=asked.id, name="adk_request_confirmation", response={"confirmed": True})
        message = Content(role="user", parts=[Part(function_response=answer)])
        async with runner.run(user_id="u", session_id="s", message=message) as run:
            events: list[Any] = [event async for event in run]
        results = [r.response for event in events for r in event.content.function_responses]
        assert results == [{"output": {"result": 3}}]
        assert run.outcome is not None
        assert run.outcome.kind == "completed"


async def test_mcp_09_trace_context_travels_in_meta() -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    metas: list[Any] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        metas.append(params.get("_meta", {}))
        return {"content": []}

    tracer = TracerProvider().get_tracer("test")
    async with FakeServer(tools_call=answer) as fake, opened(fake.url) as (_, tools):
        with tracer.start_as_current_span("outer") as span:
            await tools["echo"].run(make_context("tool"), {})
        wanted = trace.format_trace_id(span.get_span_context().trace_id)
    assert wanted in metas[0]["traceparent"]


async def test_progress_is_forwarded_with_the_call_s_context(transport: tuple[Any, dict[str, Any]]) -> None:
    told: list[Any] = []
    ctx = make_context("tool")
    async with opened(transport[0], on_progress=lambda *args: told.append(args), **transport[1]) as (_, tools):
        assert await tools["count"].run(ctx, {"steps": 3}) == {"output": {"result": "done"}}
    assert told == [(ctx, "count", float(i), 3.0, f"step {i}") for i in (1, 2, 3)]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_elicitation_fills_the_form_s_defaults(protocol: str) -> None:
    questions: list[Any] = []

    async def answer(question: Any) -> dict[str, Any]:
        questions.append(question)
        return {"name": "Grace"}

    ctx = make_context("tool")
    for handler, wanted in (
        (answer, "accept: Grace, 36"),
        (accept_defaults, "accept: Ada, 36"),
        (lambda q: None, "decline"),
    ):
        async with opened(make_server(), elicitation=handler, protocol=protocol) as (_, tools):
            assert await tools["ask"].run(ctx, {}) == {"output": {"result": wanted}}
    assert questions[0].message == "Who are you?"
    assert questions[0].defaults == {"name": "Ada", "age": 36}
    assert questions[0].ctx is ctx


async def test_mod_1_sampling_holds_the_model_to_its_contract() -> None:
    class Broken(ScriptedModel):
        async def generate(self, request: ModelRequest, *, stream: bool = False) -> Any:
            yield "text"

    with pytest.raises(ConfigurationError, match="yielded str"):
        await sample_with(Broken(name="broken"))(ModelRequest(), None)  # type: ignore[misc]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_sampling_is_answered_by_a_model(protocol: str) -> None:
    model = ScriptedModel(["So be it."])
    async with opened(make_server(), sampling=sample_with(model), protocol=protocol) as (_, tools):
        assert await tools["muse"].run(make_context("tool"), {}) == {"output": {"result": "hookwork said So be it."}}
    (request,) = model.requests
    assert [(c.role, c.text) for c in request.contents] == [("user", "Think.")]
    assert request.config.max_output_tokens == 9
    assert request.config.system_instruction is not None
    assert request.config.system_instruction.text == "Be brief."


async def test_without_handlers_the_server_is_told_that_there_are_none() -> None:
    async with opened(make_server()) as (_, tools):
        for name in ("ask", "muse"):
            with pytest.raises(ToolError, match="failed"):
                await tools[name].run(make_context("tool"), {})


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_resources_and_prompts(protocol: str) -> None:
    ctx = make_context("readonly")
    async with opened(make_server(), protocol=protocol, resource_tools=True, prefix="x_") as (toolset, tools):
        found = {resource.uri: resource for resource in await toolset.resources(ctx)}
        assert sorted(found) == ["bytes://logo", "text://note/{name}", "text://readme"]
        assert found["text://note/{name}"].template
        assert await toolset.read_resource(ctx, "text://readme") == [Part(text="read me")]
        (logo,) = await toolset.read_resource(ctx, "bytes://logo")
        assert logo.inline_data is not None
        assert (logo.inline_data.data, logo.inline_data.mime_type) == (PNG, "image/png")
        (prompt,) = await toolset.prompts(ctx)
        assert (prompt.name, prompt.arguments) == ("review", {"code": True})
        (content,) = await toolset.prompt(ctx, "review", {"code": "x = 1"})
        assert (content.role, content.text) == ("user", "Review: x = 1")
        tool_ctx = make_context("tool")
        listed = await tools["x_list_resources"].run(tool_ctx, {})
        assert {r["uri"] for r in listed["resources"]} == set(found)
        read = await tools["x_read_resource"].run(tool_ctx, {"uri": "text://readme"})
        assert read == {"output": [{"type": "resource", "uri": "text://readme", "text": "read me"}]}
        with pytest.raises(ToolArgumentError):
            await tools["x_read_resource"].run(tool_ctx, {})


async def test_media_is_shown_to_the_model_as_parts(runner_factory: Callable[..., Runner]) -> None:
    """The stored response keeps the data; the request carries function-response parts (§5)."""
    model = ScriptedModel([call("picture"), "A picture."])
    agent = LlmAgent(name="a", model=model, tools=[McpToolset(make_server())])
    async with runner_factory(agent) as runner:
        events: list[Any] = [event async for event in runner.run(user_id="u", session_id="s", message="show")]
    stored = next(r for e in events for r in e.content.function_responses)
    assert stored.response["output"][1]["data"] == base64.b64encode(PNG).decode()
    request: Any = model.requests[1]
    shown = next(r for c in request.contents for r in c.function_responses)
    assert shown.response == {"output": [{"type": "text", "text": "here:"}, {"type": "image", "mimeType": "image/png"}]}
    assert [(p.inline_data.data, p.inline_data.mime_type) for p in shown.parts] == [(PNG, "image/png")]


async def test_a_caller_s_http_client_sends_and_stays_as_it_is(http_url: str) -> None:
    """MCP-02: copied, never mutated; its headers travel."""
    import httpx2

    async with FakeServer() as fake, httpx2.AsyncClient(headers={"x-app": "1"}) as client:
        before = dict(client.headers)
        http = StreamableHttp(fake.url, http_client=client)
        async with opened(http, header_provider=lambda ctx: {"X-User": ctx.user_id}) as (_, tools):
            await tools["echo"].run(make_context("tool"), {})
        assert dict(client.headers) == before
        assert not client.is_closed
    assert {(seen.headers["x-app"], seen.headers["x-user"]) for seen in fake.seen} == {("1", "test_user")}
