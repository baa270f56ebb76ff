"""Agents and Apps by name (core LDR-1, tools-plugins EXT-2)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.kernel.running import talking

from hookwork import Agent, AgentLoader, App
from hookwork.errors import ConfigurationError


def agent(name: str) -> Agent:
    return Agent(name=name, body=talking("x"))


def test_ldr_1_a_single_agent_is_known_by_its_name_and_by_the_empty_one() -> None:
    only = agent("only")
    loader = AgentLoader(only)
    assert loader.list_agents() == ["only"]
    assert loader.root_agent is loader.load_agent("") is loader.load_agent("only") is only
    with pytest.raises(ConfigurationError, match=r"'onyl'.*known agents: only"):
        loader.load_agent("onyl")


def test_ldr_1_several_are_listed_root_first_then_in_the_given_order() -> None:
    root, app, last = agent("root"), App(name="zebra", root=agent("inner")), agent("ant")
    loader = AgentLoader(root, app, last)
    assert loader.list_agents() == ["root", "zebra", "ant"]
    assert loader.load_agent("") is root
    assert loader.load_agent("zebra") is app  # an App goes by its own name …
    with pytest.raises(ConfigurationError, match="known agents: root, zebra, ant"):
        loader.load_agent("inner")  # … and its root's is none here


def test_ldr_1_a_name_that_comes_twice_is_refused_when_the_loader_is_built() -> None:
    with pytest.raises(ConfigurationError, match="'twin'"):
        AgentLoader(agent("root"), agent("twin"), App(name="twin", root=agent("other")))


@pytest.mark.parametrize("entry", [None, "name", object()])
def test_ldr_1_what_is_no_agent_is_refused(entry: Any) -> None:
    with pytest.raises(ConfigurationError, match="agents and Apps"):
        AgentLoader(agent("root"), entry)


def test_ldr_1_ext_2_entry_points_feed_a_loader_and_are_imported_when_named(fake_site: Any) -> None:
    module = "from hookwork import Agent\nasync def body(ctx):\n    yield\n"
    fake_site.install("zoo", {"hookwork.agents": {"cat": "cat:it", "ant": "ant:it", "broken": "broken:it"}})
    for name in ("cat", "ant"):
        (fake_site.site / f"{name}.py").write_text(f"{module}it = Agent(name='{name}', body=body)\n")
    (fake_site.site / "broken.py").write_text("raise LookupError('never imported')\n")
    result = fake_site.python(
        """
        import json, sys
        from hookwork import AgentLoader
        from hookwork.errors import ConfigurationError
        known = ("ant", "broken", "cat")
        def mine(names):
            return [name for name in names if name in known]
        loader, cats = AgentLoader.installed(), AgentLoader.installed("cat")
        before = mine(sys.modules)
        root = cats.root_agent.name
        try:
            AgentLoader.installed("dog")
        except ConfigurationError as error:
            refused = "cat" in str(error)
        print(json.dumps([
            mine(loader.list_agents()), mine(cats.list_agents()), before, root, mine(sys.modules), refused,
            cats.root_agent is cats.load_agent("cat"),
        ]))
        """
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == [
        ["ant", "broken", "cat"], ["cat", "ant", "broken"], [], "cat", ["cat"], True, True,
    ]  # fmt: skip
