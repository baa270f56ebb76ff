"""The examples of "Certify a backend" run as the test modules that they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

README = Path(__file__).resolve().parents[2] / "extensions/testkit/README.md"
SECTION = re.compile(r"^## Certify a backend\n(.*?)^## ", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```python no-run\n(.*?)^```", re.MULTILINE | re.DOTALL)


def examples() -> list[str]:
    section = SECTION.search(README.read_text())
    assert section is not None
    return BLOCK.findall(section[1])


def test_there_is_an_example_for_each_kind_of_part() -> None:
    from hookwork_testkit import suites

    shown = {name for source in examples() for name in re.findall(r"\((\w+Suite)\)", source)}
    # A live peer is a server of a protocol: tests/acceptance/live_peers.py holds two, no example could be short.
    assert shown == {*suites.__all__} - {"ToolsetSuite", "LiveConnectionSuite"}


@pytest.mark.parametrize("number", range(len(examples())))
def test_an_example_passes_as_it_stands(pytester: pytest.Pytester, number: int) -> None:
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function")
    pytester.makepyfile(test_mine=examples()[number])
    outcomes = pytester.runpytest_subprocess("-p", "no:cacheprovider").parseoutcomes()
    assert outcomes["passed"] > 15
    assert set(outcomes) <= {"passed", "skipped"}


def test_every_suite_is_in_the_table() -> None:
    from hookwork_testkit import suites

    listed = set(re.findall(r"^\| `(\w+Suite)`", README.read_text(), re.MULTILINE))
    assert listed == {*suites.__all__}


def test_the_table_names_what_can_be_overridden() -> None:
    from hookwork_testkit import suites

    for row in re.findall(r"^\| `\w+Suite`.*$", README.read_text(), re.MULTILINE):
        suite, *names = re.findall(r"`(\w+)`", row)
        missing = [name for name in names if not hasattr(getattr(suites, suite), name)]
        assert not missing, f"{suite} has no {missing}"
