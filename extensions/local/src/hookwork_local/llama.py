"""llama.cpp in this process, one engine per weight file and options (models LOC-1)."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from hookwork.errors import ModelError
from hookwork_local.options import Options
from hookwork_modelkit.engines import Emit, Engine
from hookwork_modelkit.errors import refusal

logger = logging.getLogger("hookwork.local")

PROVIDER = "local"

#: Gives llama.cpp's `Server` for a file; a seam for tests of what a broken engine does.
Load = Callable[[str, Options], Any]


def engine_for(path: str) -> Any:
    """The module of the engine. Raises ModelError: none is installed, or there is no such file."""
    name = f"local/{path}"
    try:
        import xllamacpp  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise refusal(
            PROVIDER, name, f"the engine is not here ({error}); pip install 'hookwork-local[engine]'", code="no_engine"
        ) from error
    if not os.path.isfile(path):
        raise refusal(
            PROVIDER, name, "there is no such file; nothing is downloaded: put the .gguf file there", code="no_weights"
        )
    return xllamacpp


def load(path: str, options: Options) -> Any:
    """Load a file. Raises ModelError: no engine is installed, no such file, or one the engine cannot read."""
    xllamacpp = engine_for(path)
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = options.context
    params.n_parallel = 1
    params.n_gpu_layers = options.gpu_layers
    # Two threads on two busy cores wait for each other, spinning: 5 to 70 s for a call of one second (parts ECO-LLM-2).
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.warmup = False
    params.verbosity = -1
    if options.chat_template is not None:
        params.chat_template = options.chat_template
    # The engine opens a port on the loopback interface as well; with a key that nobody knows it answers nobody.
    params.api_keys = [secrets.token_urlsafe(32)]
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise refusal(
            PROVIDER, f"local/{path}",
            "the engine cannot read this file: it is no GGUF file, or of an unknown architecture", code="bad_weights",
        ) from error  # fmt: skip


class LlamaEngine:
    """The weights of one file, loaded at the first call, shared by all models of that file in the process."""

    def __init__(self, path: str, options: Options, load: Load = load) -> None:
        self._path = path
        self._options = options
        self._load = load
        self._engine: Engine[dict[str, Any]] = Engine("llama-engine", provider=PROVIDER, model=f"local/{path}")
        self._server: Any = None

    async def complete(self, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Chunks of a chat completion in the wire form of OpenAI's streams; the last one has the usage.

        Closing early stops the engine before its next token.

        Raises:
            ModelError: the weights could not be loaded, or the engine refuses the request.
        """

        def work(emit: Emit[dict[str, Any]]) -> None:
            if self._server is None:
                self._server = self._load(self._path, self._options)
            try:
                self._server.handle_chat_completions(
                    {**body, "stream": True, "stream_options": {"include_usage": True}}, lambda chunk: not emit(chunk)
                )
            except (ValueError, RuntimeError) as error:
                raise self._refused(str(error)) from error

        async with aclosing(self._engine.stream(work)) as chunks:
            async for chunk in chunks:
                if "error" in chunk:
                    error = chunk["error"]
                    raise self._refused(str(error.get("message", "")), str(error.get("type", "")))
                yield chunk

    def _refused(self, said: str, code: str = "") -> ModelError:
        first = said.splitlines()[0][:200] if said else "no reason was given"  # what follows may quote the prompt
        return refusal(PROVIDER, f"local/{self._path}", f"the engine refused the request: {first}", code=code)

    def close(self) -> None:
        """Give the weights up, after a call that still runs."""
        self._engine.close()
        self._server = None


class _Shared:
    __slots__ = ("engine", "users")

    def __init__(self, engine: LlamaEngine) -> None:
        self.engine = engine
        self.users = 0


#: Weights are hundreds of megabytes: two runners of one process share them.
_engines: dict[tuple[int, str, Options], _Shared] = {}
_lock = threading.Lock()


def _key(path: str, options: Options) -> tuple[int, str, Options]:
    return os.getpid(), os.path.realpath(path), options  # a forked process has none of the engines' threads


def acquire(path: str, options: Options) -> LlamaEngine:
    """The engine of a file; one more user counts. Nothing is loaded yet."""
    key = _key(path, options)
    with _lock:
        shared = _engines.setdefault(key, _Shared(LlamaEngine(path, options)))
        shared.users += 1
        return shared.engine


def release(path: str, options: Options) -> None:
    """One user less; the last one frees the weights."""
    key = _key(path, options)
    with _lock:
        shared = _engines.get(key)
        if shared is None:
            return  # it was taken in the process that this one was forked from
        shared.users -= 1
        if shared.users == 0:
            del _engines[key]
            shared.engine.close()
