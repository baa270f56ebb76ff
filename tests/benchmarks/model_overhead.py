"""What an adapter adds to a model call: per call and per streamed chunk, beside the bare SDK and the peers, in one run.

    python tests/benchmarks/model_overhead.py [--calls 400] [--chunks 400] [--rounds 3]
    PEERS_DIR=<folder of virtual environments> python tests/benchmarks/model_overhead.py      # with the peers' columns

A server of its own process answers from bytes that are ready beforehand. Every column is a process of its own, and
rounds go over the columns in turn. A call is one unstreamed answer; a chunk is the slope between a short and a long
streamed answer, so what a stream costs once is not in it. Columns ``gemini-sdk`` and ``openai-sdk`` are the SDKs alone;
the overhead of a kit is what it takes beyond the SDK it uses. Environments of the peers: ``adk`` (google-adk, litellm),
``pydantic_ai`` (pydantic-ai-slim[openai]); a column whose environment is not there is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

#: Column → the environment under PEERS_DIR; None: this one.
COLUMNS: dict[str, str | None] = {
    "gemini-sdk": None,
    "hookwork-gemini": None,
    "adk-gemini-sdk": "adk",
    "adk-gemini": "adk",
    "openai-sdk": None,
    "hookwork-openai": None,
    "adk-litellm": "adk",
    "pydantic-ai-openai": "pydantic_ai",
}
#: What a column's overhead is taken over.
BASE = {name: "gemini-sdk" if "gemini" in name else "openai-sdk" for name in COLUMNS}
#: google-adk wants another version of google-genai than we do, so it has a base of its own.
BASE |= dict.fromkeys(("adk-gemini-sdk", "adk-gemini"), "adk-gemini-sdk")
SHORT = 10
WARM = 30

#: (ask once, read a stream of so many chunks)
Column = tuple[Callable[[], Awaitable[Any]], Callable[[int], Awaitable[int]]]


# --- the server -------------------------------------------------------------------------------------------------------


def _gemini(text: str, finish: str | None) -> bytes:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    counts = {"promptTokenCount": 5, "candidatesTokenCount": 5, "totalTokenCount": 10}
    return json.dumps({"candidates": [candidate], "usageMetadata": counts, "modelVersion": "m"}).encode()


def _chat(text: str) -> bytes:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return json.dumps({**head, "choices": [choice], "usage": usage}).encode()


def _chat_chunk(delta: dict[str, Any] | None, finish: str | None = None, usage: bool = False) -> bytes:
    head: dict[str, Any] = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    head["choices"] = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    if usage:
        head["usage"] = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
    return json.dumps(head).encode()


def _stream(kind: str, number: int) -> bytes:
    if kind == "gemini":
        chunks = [_gemini(f"word{i} ", None) for i in range(number - 1)] + [_gemini("end", "STOP")]
        return b"".join(b"data: " + chunk + b"\r\n\r\n" for chunk in chunks)
    chunks = [_chat_chunk({"role": "assistant", "content": f"word{i} "}) for i in range(number - 1)]
    chunks += [_chat_chunk({"content": "end"}), _chat_chunk({}, "stop"), _chat_chunk(None, usage=True), b"[DONE]"]
    return b"".join(b"data: " + chunk + b"\n\n" for chunk in chunks)


async def _serve() -> None:
    """HTTP/1.1 with kept connections; the number of chunks stands in the request's first text (``chunks=N``)."""
    ready: dict[tuple[str, int], bytes] = {}

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.lower().split(b"\r\n")
                length = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")), 0)
                body = await reader.readexactly(length)
                kind = "gemini" if b"generatecontent" in lines[0] else "openai"
                streamed = b"streamgeneratecontent" in lines[0] or b'"stream":true' in body.replace(b" ", b"")
                if streamed:
                    number = int(body.split(b"chunks=")[1].split(b".")[0])
                    key = (kind, number)
                    if key not in ready:
                        ready[key] = _stream(kind, number)
                    data, content = ready[key], b"text/event-stream"
                else:
                    data, content = (
                        _gemini("hello", "STOP") if kind == "gemini" else _chat("hello"),
                        b"application/json",
                    )
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (content, len(data), data)
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# --- the columns ------------------------------------------------------------------------------------------------------


def _text(number: int) -> str:
    return f"chunks={number}."


def gemini_sdk(url: str) -> Column:
    from google import genai
    from google.genai import types

    options = types.HttpOptions(base_url=url, api_version="v1beta")
    client = genai.Client(api_key="k", http_options=options)
    config = types.GenerateContentConfig(temperature=0.5)

    async def ask() -> None:
        await client.aio.models.generate_content(model="gemini-m", contents=_text(1), config=config)

    async def stream(number: int) -> int:
        count = 0
        contents = _text(number)
        async for _ in await client.aio.models.generate_content_stream(
            model="gemini-m", contents=contents, config=config
        ):
            count += 1
        return count

    return ask, stream


adk_gemini_sdk = gemini_sdk


def openai_sdk(url: str) -> Column:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)

    async def ask() -> None:
        messages: Any = [{"role": "user", "content": _text(1)}]
        await client.chat.completions.create(model="m", messages=messages, temperature=0.5)

    async def stream(number: int) -> int:
        count = 0
        messages: Any = [{"role": "user", "content": _text(number)}]
        usage: Any = {"include_usage": True}
        async for _ in await client.chat.completions.create(
            model="m", messages=messages, stream=True, stream_options=usage, temperature=0.5
        ):
            count += 1
        return count

    return ask, stream


def _hookwork(model: Any) -> Column:
    from hookwork import GenerateContentConfig, ModelRequest, user_content

    config = GenerateContentConfig(temperature=0.5)

    async def ask() -> None:
        async for _ in model.generate(ModelRequest(contents=[user_content(_text(1))], config=config)):
            pass

    async def stream(number: int) -> int:
        count = 0
        request = ModelRequest(contents=[user_content(_text(number))], config=config)
        async for _ in model.generate(request, stream=True):
            count += 1
        return count

    return ask, stream


def hookwork_gemini(url: str) -> Column:
    from hookwork_gemini import GeminiModel

    return _hookwork(GeminiModel("gemini-m", api_key="k", base_url=url, api_version="v1beta", vertexai=False))


def hookwork_openai(url: str) -> Column:
    from hookwork_openai import OpenAIModel

    return _hookwork(OpenAIModel("m", api_key="k", base_url=f"{url}/v1"))


def _adk(model: Any) -> Column:
    from google.adk.models.llm_request import LlmRequest
    from google.genai import types

    def request(number: int) -> Any:
        content = types.Content(role="user", parts=[types.Part(text=_text(number))])
        return LlmRequest(model=model.model, contents=[content], config=types.GenerateContentConfig(temperature=0.5))

    async def ask() -> None:
        async for _ in model.generate_content_async(request(1)):
            pass

    async def stream(number: int) -> int:
        count = 0
        async for _ in model.generate_content_async(request(number), stream=True):
            count += 1
        return count

    return ask, stream


def adk_gemini(url: str) -> Column:
    os.environ.update(GOOGLE_GEMINI_BASE_URL=url, GOOGLE_API_KEY="k")
    from google.adk.models.google_llm import Gemini

    return _adk(Gemini(model="gemini-m"))


def adk_litellm(url: str) -> Column:
    from google.adk.models.lite_llm import LiteLlm

    return _adk(LiteLlm(model="openai/m", api_base=f"{url}/v1", api_key="k"))


def pydantic_ai_openai(url: str) -> Column:
    from pydantic_ai.messages import ModelRequest
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="k"))
    settings: Any = {"temperature": 0.5}
    parameters = ModelRequestParameters()

    async def ask() -> None:
        await model.request([ModelRequest.user_text_prompt(_text(1))], settings, parameters)

    async def stream(number: int) -> int:
        count = 0
        async with model.request_stream([ModelRequest.user_text_prompt(_text(number))], settings, parameters) as events:
            async for _ in events:
                count += 1
        return count

    return ask, stream


async def _measure(column: Column, calls: int, chunks: int) -> dict[str, float]:
    ask, stream = column
    clock = time.process_time_ns  # other work on the machine does not count
    for _ in range(WARM):
        await ask()
        assert await stream(SHORT) >= SHORT

    async def median(work: Callable[[], Awaitable[Any]], number: int) -> float:
        taken = []
        for _ in range(number):
            begun = clock()
            await work()
            taken.append(clock() - begun)
        return statistics.median(taken) / 1e3

    call = await median(ask, calls)
    short = await median(lambda: stream(SHORT), max(20, calls // 10))
    long = await median(lambda: stream(SHORT + chunks), max(10, calls // 20))
    return {"call": call, "chunk": (long - short) / chunks}


# --- the run ----------------------------------------------------------------------------------------------------------


def _python(column: str) -> str | None:
    environment = COLUMNS[column]
    if environment is None:
        return sys.executable
    folder = os.environ.get("PEERS_DIR")
    path = Path(folder, environment, "bin", "python") if folder else None
    return str(path) if path is not None and path.exists() else None


def _run(arguments: argparse.Namespace) -> int:
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
    found: dict[str, list[dict[str, float]]] = {}
    try:
        for _ in range(arguments.rounds):
            for column in COLUMNS:
                python = _python(column)
                if python is None:
                    continue
                command = [python, __file__, "--column", column, "--url", url]
                command += ["--calls", str(arguments.calls), "--chunks", str(arguments.chunks)]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    print(f"{column}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
                    continue
                found.setdefault(column, []).append(json.loads(done.stdout.splitlines()[-1]))
    finally:
        server.kill()
        server.wait()
    _print(found)
    return 0


def _print(found: dict[str, list[dict[str, float]]]) -> None:
    middle = {
        column: {what: statistics.median(one[what] for one in rounds) for what in ("call", "chunk")}
        for column, rounds in found.items()
    }
    print(f"{'column':<20}{'CPU µs a call':>14}{'over SDK':>10}{'CPU µs a chunk':>16}{'over SDK':>10}")
    for column, values in middle.items():
        base = middle.get(BASE[column], values)
        print(
            f"{column:<20}{values['call']:>14.0f}{values['call'] - base['call']:>10.0f}"
            f"{values['chunk']:>16.1f}{values['chunk'] - base['chunk']:>10.1f}"
        )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--chunks", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--column", choices=COLUMNS)
    parser.add_argument("--url")
    parser.add_argument("--serve", action="store_true")
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(_serve())
        return 0
    if arguments.column is None:
        return _run(arguments)

    async def measured() -> dict[str, float]:
        made: Column = globals()[arguments.column.replace("-", "_")](arguments.url)
        return await _measure(made, arguments.calls, arguments.chunks)

    print(json.dumps(asyncio.run(measured())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
