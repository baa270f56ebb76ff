"""For those who write suites: see that a suite catches backends that are broken on purpose, outside pytest."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def suite_tests(suite: type) -> list[str]:
    """The names of a suite's test methods, sorted."""
    return sorted(name for name in dir(suite) if name.startswith("test_"))


async def failures(suite: Any, names: Iterable[str] | None = None) -> dict[str, Exception]:
    """Run test methods of a suite object, each on a service of its own; name → error of those that fail.

    Skips (which pytest raises as a `BaseException` of its own) count as passed. ``names``: which methods; default all.
    """
    failed: dict[str, Exception] = {}
    for name in suite_tests(type(suite)) if names is None else names:
        method = getattr(suite, name)
        wanted = "service" in inspect.signature(method).parameters
        service = await suite.make_service() if wanted else None
        try:
            await (method(service) if wanted else method())
        except Exception as error:  # noqa: BLE001 - a broken backend may fail in any way; the caller looks at them all
            failed[name] = error
        except BaseException as outcome:
            if type(outcome).__name__ == "Failed":  # pytest.fail(), and pytest.raises() that saw no error
                failed[name] = AssertionError(str(outcome))
            elif type(outcome).__name__ != "Skipped":
                raise
        finally:
            if service is not None:
                await service.close()
    return failed


class BrokenBackends:
    """A register of broken backends, each with the lines of ``suite`` that it fails; property tests are left out.

    ``without``: classes of which the suite is made whose lines are left out too, for another register has them.
    """

    def __init__(self, suite: type, without: Iterable[type] = ()) -> None:
        self.suite = suite
        left_out = {*getattr(suite, "property_tests", ()), *(name for part in without for name in vars(part))}
        self.lines = [name for name in suite_tests(suite) if name not in left_out]
        self.kinds: dict[str, tuple[type, tuple[str, ...]]] = {}

    def breaks(self, *tags: str) -> Callable[[type[T]], type[T]]:
        """Register a backend class. A tag is the name of a test that must fail, or the start of such names."""

        def register(kind: type[T]) -> type[T]:
            self.kinds[kind.__name__] = kind, tags
            return kind

        return register

    def expected(self, tags: Iterable[str]) -> set[str]:
        """The tests that tags stand for.

        Raises:
            LookupError: a tag stands for none.
        """
        chosen: set[str] = set()
        for tag in tags:
            names = {tag} if tag in self.lines else {name for name in self.lines if name.startswith(f"{tag}_")}
            if not names:
                raise LookupError(f"{self.suite.__name__} has no test {tag!r}")
            chosen |= names
        return chosen

    def uncaught(self, names: Iterable[str]) -> list[str]:
        """Those of ``names`` that no registered backend fails."""
        caught = {name for _, tags in self.kinds.values() for name in self.expected(tags)}
        return sorted(set(names) & set(self.lines) - caught)

    async def assert_caught(self, name: str, make_suite: Callable[[type], Any]) -> None:
        """Assert that a registered backend fails its lines and no others; ``make_suite(kind)`` gives a suite object."""
        kind, tags = self.kinds[name]
        failed = await failures(make_suite(kind), self.lines)
        assert set(failed) == self.expected(tags), f"{name} failed {failed}"
