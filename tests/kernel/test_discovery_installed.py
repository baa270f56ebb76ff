"""Discovery of installed distributions, in fresh processes (tools-plugins EXT-1 … EXT-3)."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hookwork.plugins.entry_points import GROUPS, by_name, installed_version, normalised, read_entry_points

EXTENSION = """
    from hookwork.plugins.markers import hookimpl

    @hookimpl
    def build_node(value):
        return __name__ if value == "who" else None
"""

REPORT = """
    import json, sys
    from hookwork.plugins.discovery import extensions
    registry = extensions()
    fake = lambda records: [r for r in records if not r.distribution.startswith("hookwork-")]
    print(json.dumps({
        "loaded": [[r.name, r.distribution, r.version, list(r.hooks)] for r in fake(registry.loaded)],
        "broken": [[r.name, r.distribution, r.version, r.error] for r in fake(registry.broken)],
        "skipped": [r.name for r in fake(registry.skipped)],
        "who": registry.all("build_node", value="who"),
        "imported": sorted(m for m in sys.modules if m.startswith("fake_")),
    }))
"""


def report(site: Any, **environ: str) -> tuple[Any, str]:
    done = site.python(REPORT, **environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


ROOT = Path(__file__).parents[2]


def entry_modules() -> list[tuple[str, Path]]:
    """(module, file) of everything that the distributions of this repository name under ``hookwork``."""
    found = []
    for project in sorted([*ROOT.glob("extensions/*/pyproject.toml"), *ROOT.glob("contrib/*/pyproject.toml")]):
        groups = tomllib.loads(project.read_text(encoding="utf-8"))["project"].get("entry-points", {})
        for target in groups.get("hookwork", {}).values():
            module = target.partition(":")[0]
            at = project.parent / "src" / Path(*module.split("."))
            found.append((module, at / "__init__.py" if at.is_dir() else at.with_suffix(".py")))
    return found


@pytest.mark.parametrize(("module", "file"), entry_modules(), ids=[name for name, _ in entry_modules()])
def test_ext_1_an_extensions_module_imports_only_the_kit_and_the_standard_library(module: str, file: Path) -> None:
    package = module.partition(".")[0]
    allowed = {"hookwork", package, *sys.stdlib_module_names}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or package]
        assert {name.partition(".")[0] for name in names} <= allowed, ast.unparse(node)


def test_ext_1_there_are_three_groups_and_plugins_are_never_active_by_themselves(fake_site: Any) -> None:
    assert set(GROUPS) == {"hookwork", "hookwork.plugins", "hookwork.agents"}
    plugin = "from hookwork import Plugin\nclass Loud(Plugin):\n    def before_run(self):\n        print('loud')\n"
    fake_site.install("loud", {"hookwork.plugins": {"loud": "fake_loud:Loud"}}, {"fake_loud": plugin})
    done = fake_site.python(
        """
        import sys
        from hookwork import Agent, Event, Runner, text_content
        async def body(ctx):
            yield Event(content=text_content("hi"))
        agent = Agent(name="a", body=body)
        for plugins in ([], ["loud"]):
            runner = Runner(agent, plugins=plugins)
            print("fake_loud" in sys.modules, [name for name, _ in runner.hooks.plugins])
            list(runner.run_sync(user_id="u", message="x"))
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:3] == ["False []", "True ['Loud']", "loud"]


def test_ext_2_order_is_by_normalised_distribution_then_entry_point(fake_site: Any) -> None:
    modules = {f"fake_{name}": EXTENSION for name in ("z", "y", "x")}
    fake_site.install("Zeta.One", {"hookwork": {"alpha": "fake_z"}}, {"fake_z": modules["fake_z"]}, version="3")
    fake_site.install("beta", {"hookwork": {"y": "fake_y", "x": "fake_x"}}, modules, version="2.1")
    found, stderr = report(fake_site)
    assert found["loaded"] == [
        ["x", "beta", "2.1", ["build_node"]],
        ["y", "beta", "2.1", ["build_node"]],
        ["alpha", "zeta-one", "3", ["build_node"]],
    ]
    assert found["who"] == ["fake_x", "fake_y", "fake_z"]
    assert stderr == ""


def test_ext_3_broken_import_is_reported_once_and_the_rest_works(fake_site: Any) -> None:
    fake_site.install("bad-one", {"hookwork": {"bad": "fake_bad"}}, {"fake_bad": "import no_such_library"}, version="9")
    fake_site.install("exits", {"hookwork": {"exits": "fake_exits"}}, {"fake_exits": "raise SystemExit(3)"})
    fake_site.install("good", {"hookwork": {"good": "fake_good"}}, {"fake_good": EXTENSION})
    found, stderr = report(fake_site)
    assert found["who"] == ["fake_good"]
    assert found["broken"][0] == ["bad", "bad-one", "9", "ModuleNotFoundError: No module named 'no_such_library'"]
    assert found["broken"][1][0] == "exits"
    assert stderr.count("'bad' (bad-one 9) is broken and skipped: ModuleNotFoundError") == 1


def test_ext_3_strict_is_fatal(fake_site: Any) -> None:
    fake_site.install("bad-one", {"hookwork": {"bad": "fake_bad"}}, {"fake_bad": "import no_such_library"})
    done = fake_site.python(REPORT, HOOKWORK_STRICT="1")
    assert done.returncode == 1
    assert "ExtensionError: extension 'bad' (bad-one 1.0) is broken" in done.stderr


def test_ext_3_a_name_of_a_second_distribution_is_broken(fake_site: Any) -> None:
    fake_site.install("aaa", {"hookwork": {"same": "fake_a"}}, {"fake_a": EXTENSION})
    fake_site.install("bbb", {"hookwork": {"same": "fake_b"}}, {"fake_b": EXTENSION}, version="2")
    found, stderr = report(fake_site)
    assert found["who"] == ["fake_a"]
    assert found["broken"] == [["same", "bbb", "2", "the extension name 'same' belongs to aaa 1.0 already"]]
    assert found["imported"] == ["fake_a"]
    assert stderr.count("bbb 2") == 1


def test_ext_3_allow_list_loads_only_those_and_imports_nothing_else(fake_site: Any) -> None:
    for name in ("one", "two", "three"):
        fake_site.install(name, {"hookwork": {name: f"fake_{name}"}}, {f"fake_{name}": EXTENSION})
    found, _ = report(fake_site, HOOKWORK_EXTENSIONS="two, three")
    assert found["who"] == ["fake_three", "fake_two"]
    assert found["skipped"] == ["one"]
    assert found["imported"] == ["fake_three", "fake_two"]


def test_ext_3_a_misspelt_name_in_the_allow_list_is_warned_about(fake_site: Any) -> None:
    fake_site.install("one", {"hookwork": {"zebra": "fake_one"}}, {"fake_one": EXTENSION})
    found, stderr = report(fake_site, HOOKWORK_EXTENSIONS="zebar")
    assert found["who"] == []
    assert "HOOKWORK_EXTENSIONS: no extension is named 'zebar' (did you mean 'zebra'?)" in stderr


def test_ext_3_disabled_extensions_are_not_imported(fake_site: Any) -> None:
    for name in ("one", "two"):
        fake_site.install(name, {"hookwork": {name: f"fake_{name}"}}, {f"fake_{name}": EXTENSION})
    done = fake_site.python(
        """
        import sys
        from hookwork.plugins.discovery import extensions
        print(extensions().without(["one"]).all("build_node", value="who"), "fake_one" in sys.modules)
        """
    )
    assert done.stdout.split() == ["['fake_two']", "False"]


def test_ext_2_plugins_and_agents_are_imported_only_when_named(fake_site: Any) -> None:
    groups = {
        "hookwork.plugins": {"note": "fake_plugin:Note.Inner [extra]"},
        "hookwork.agents": {"helper": "fake_agent:app"},
    }
    fake_site.install("things", groups, {"fake_plugin": "class Note:\n    Inner = 7", "fake_agent": "app = 8"})
    done = fake_site.python(
        """
        import sys
        from hookwork.plugins.discovery import agent_entry_points, extensions, plugin_entry_points
        extensions().loaded
        print("fake_plugin" in sys.modules, "fake_agent" in sys.modules)
        print(plugin_entry_points()["note"].load(), agent_entry_points()["helper"].load())
        """
    )
    assert done.stdout.split() == ["False", "False", "7", "8"], done.stderr


def test_pgy_16_a_plugin_name_of_two_distributions_is_an_error_when_it_is_used(fake_site: Any) -> None:
    for name in ("aaa", "bbb"):
        fake_site.install(name, {"hookwork.plugins": {"twice": f"fake_{name}:x"}}, {f"fake_{name}": "x = 1"})
    done = fake_site.python(
        """
        from hookwork.plugins.discovery import plugin_entry_points
        plugin_entry_points()["twice"].load()
        """
    )
    assert "'twice' of group 'hookwork.plugins' is claimed by aaa and by bbb; uninstall all but one" in done.stderr


def test_a_distribution_nearer_the_front_of_the_path_hides_a_later_one(
    fake_site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = tmp_path / "later"
    fake_site.install("twin", {"hookwork": {"twin": "fake_new"}}, version="2")
    fake_site.install("twin", {"hookwork": {"twin": "fake_old"}}, version="1", site=later)
    monkeypatch.syspath_prepend(str(later))
    monkeypatch.syspath_prepend(str(fake_site.site))
    twins = [point for point in read_entry_points()["hookwork"] if point.distribution == "twin"]
    assert [(point.value, point.version) for point in twins] == [("fake_new", "2")]
    assert installed_version("Twin") == "2"
    assert installed_version("no-such-thing") is None


def test_distributions_in_an_archive_are_found_through_the_library(
    fake_site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "bundle.zip"
    with zipfile.ZipFile(archive, "w") as bundle:
        bundle.writestr("zipped-1.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: zipped\nVersion: 1.5\n")
        bundle.writestr("zipped-1.5.dist-info/entry_points.txt", "[hookwork.agents]\nz = fake_zip:app\n")
    monkeypatch.syspath_prepend(str(archive))
    point = by_name(read_entry_points()["hookwork.agents"])["z"]
    assert (point.distribution, point.version, point.value) == ("zipped", "1.5", "fake_zip:app")


def test_our_reader_agrees_with_the_library_about_this_environment() -> None:
    ours = {(p.group, p.name, p.value, p.distribution) for group in GROUPS for p in read_entry_points()[group]}
    theirs = {
        (point.group, point.name, point.value, normalised(point.dist.name))
        for group in GROUPS
        for point in importlib.metadata.entry_points(group=group)
        if point.dist is not None
    }
    assert ours == theirs
    assert len(ours) >= 5


def test_dist_1_import_hookwork_reads_no_metadata_and_discovery_needs_no_library(fake_site: Any) -> None:
    done = fake_site.python(
        """
        import sys
        import hookwork
        print("hookwork.plugins.entry_points" in sys.modules)
        from hookwork.plugins.discovery import extensions
        extensions().loaded
        print(any(name in sys.modules for name in ("importlib.metadata", "importlib_metadata", "click", "tomllib")))
        """
    )
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_ext_8_a_strangers_plugins_run_in_the_order_of_the_projects_list(fake_site: Any) -> None:
    plugin = """
        from hookwork import Plugin

        class Note(Plugin):
            name = "note"

            def __init__(self, *, text):
                self.text = text

            async def before_agent(self, ctx, agent):
                print(f"{self.name}: {self.text}")
    """
    fake_site.install("note-dist", {"hookwork.plugins": {"note": "fake_note:Note"}}, {"fake_note": plugin})
    (fake_site.cwd / "pyproject.toml").write_text(
        """
        [tool.hookwork]
        plugins = ["note:second", "note"]
        [tool.hookwork.note]
        text = "of the plugin"
        [tool.hookwork.second]
        text = "of the alias"
        """
    )
    done = fake_site.python(
        """
        import asyncio
        from hookwork import Agent, Event, Runner, text_content

        async def body(ctx):
            yield Event(content=text_content("hello"))

        async def main():
            async with Runner(Agent(name="greeter", body=body)) as runner:
                print(await runner.ask(user_id="u", message="hi"))

        asyncio.run(main())
        """
    )
    assert done.stdout.splitlines() == ["second: of the alias", "note: of the plugin", "hello"], done.stderr
