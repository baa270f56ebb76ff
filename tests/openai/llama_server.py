"""llama.cpp's own HTTP server, as a program: prints its address, ends when its standard input does."""

from __future__ import annotations

import sys

import xllamacpp  # type: ignore[import-untyped,import-not-found,unused-ignore]


def main(weights: str) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.n_ctx = 2048
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # parts ECO-LLM-2: more of them spin
    params.warmup = False
    params.verbosity = -1
    server = xllamacpp.Server(params)
    print("listening on", server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
