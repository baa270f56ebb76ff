"""Pin the closure of all dependencies in pyproject.toml: names and versions only, no hosts.

Run it in the root after a deliberate upgrade:

    uv lock --upgrade && python .ci/refresh_constraints.py

It reads uv.lock (which is not committed) and rewrites ``constraint-dependencies`` under ``[tool.uv]``.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def pinned(lock: dict[str, object]) -> list[str]:
    """``name==version`` of every package of the lock that does not live in this workspace.

    Where newer Pythons could have a newer version, the oldest is pinned: one closure for all of them.
    """
    packages = lock["package"]
    assert isinstance(packages, list)
    versions: dict[str, str] = {}
    for package in packages:
        if "version" not in package or {"editable", "virtual", "directory"} & set(package["source"]):
            continue
        name, version = package["name"], package["version"]
        versions[name] = min(version, versions.get(name, version), key=_order)
    return sorted(f"{name}=={version}" for name, version in versions.items())


def _order(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def main() -> int:
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    block = "constraint-dependencies = [\n" + "".join(f'    "{pin}",\n' for pin in pinned(lock)) + "]\n"
    path = ROOT / "pyproject.toml"
    text = path.read_text()
    pattern = re.compile(r"constraint-dependencies = \[\n(?:    .*\n)*\]\n")
    if not pattern.search(text):
        print("pyproject.toml has no constraint-dependencies under [tool.uv]", file=sys.stderr)
        return 1
    path.write_text(pattern.sub(lambda _: block, text, count=1))
    print(f"pinned {len(pinned(lock))} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
