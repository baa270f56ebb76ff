"""Made-up distributions, installed as an installer leaves them, and processes that see them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

_COMMAND = "import sys; from hookwork.cli import main; sys.exit(main())"


class FakeSite:
    """A folder like site-packages, and an empty working directory beside it."""

    def __init__(self, root: Path) -> None:
        self.site = root / "site"
        self.cwd = root / "cwd"
        self.site.mkdir()
        self.cwd.mkdir()

    def install(
        self,
        name: str,
        groups: Mapping[str, Mapping[str, str]],
        modules: Mapping[str, str] | None = None,
        *,
        version: str = "1.0",
        site: Path | None = None,
    ) -> None:
        """A ``*.dist-info`` folder with metadata and entry points, and modules (dotted name → source)."""
        site = site or self.site
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = [
            line
            for group, entries in groups.items()
            for line in (f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()))
        ]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        for module, source in (modules or {}).items():
            (site / f"{module}.py").write_text(dedent(source))

    def python(self, code: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run code in a fresh interpreter that has these distributions and no ``HOOKWORK_*`` variable but the given."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("HOOKWORK_")}
        return subprocess.run(
            [sys.executable, "-c", dedent(code), *arguments],
            cwd=self.cwd,
            env={**clean, "PYTHONPATH": str(self.site), **environ},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    def hookwork(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run the `hookwork` command."""
        return self.python(_COMMAND, *arguments, **environ)


@pytest.fixture
def fake_site(tmp_path: Path) -> FakeSite:
    return FakeSite(tmp_path)
