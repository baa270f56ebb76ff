"""Every Python example in a README runs: the blocks of one file in order, as one module, in an empty folder.

A block that cannot run everywhere is marked in its opening line: three backticks, ``python no-run``. What an example
leaves out may stand in an HTML comment before it. Test functions in a README are run by pytest.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def readmes() -> list[Path]:
    places = ("README.md", "kernel/README.md", "extensions/*/README.md", "contrib/*/README.md")
    return sorted(path for place in places for path in ROOT.glob(place))


def module_of(readme: Path) -> str:
    """The blocks as one module whose line numbers are those of the README."""
    text = readme.read_text()
    lines = [""] * (text.count("\n") + 1)
    for match in BLOCK.finditer(text):
        first = text.count("\n", 0, match.start(1))
        block = match[1].splitlines()
        lines[first : first + len(block)] = block
    return "\n".join(lines) + "\n"


EXAMPLES = [path for path in readmes() if BLOCK.search(path.read_text())]


def test_the_readmes_of_this_checkout_are_found() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in readmes()}
    assert {"README.md", "kernel/README.md", "extensions/testkit/README.md"} <= names


@pytest.mark.parametrize("readme", EXAMPLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_examples_of_a_readme_run(
    readme: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = module_of(readme)
    code = compile(source, str(readme), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    namespace: dict[str, object] = {"__name__": "readme"}
    if code.co_flags & inspect.CO_COROUTINE:

        async def run() -> None:
            await eval(code, namespace)

        asyncio.run(run())
    else:
        exec(code, namespace)
    if any(name.startswith(("test_", "Test")) for name in namespace):
        # Asked for only now: at its end the fixture forgets every module that was imported since its beginning.
        pytester: pytest.Pytester = request.getfixturevalue("pytester")
        pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function")
        pytester.makepyfile(test_readme=source)
        outcomes = pytester.runpytest_subprocess("-p", "no:cacheprovider").parseoutcomes()
        assert set(outcomes) == {"passed"}
