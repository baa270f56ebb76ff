"""SkillToolset and its tools (tools-plugins SK-09 … SK-11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hookwork import Runner
from hookwork.errors import ConfigurationError
from hookwork.plugins.discovery import extensions
from hookwork.records.content import Blob
from hookwork.settings import NO_SETTINGS
from hookwork.tool import Toolset
from hookwork_llm import LlmAgent
from hookwork_skills import FolderSource, Frontmatter, SkillToolset
from hookwork_skills.toolset import DEFAULT_INSTRUCTION, skills_xml
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call
from hookwork_testkit.suites import ToolsetSuite

XML = (
    "<available_skills>\n"
    "<skill><name>alpha</name><description>Does things.</description></skill>\n"
    "<skill><name>beta</name><description>Bakes &amp; brews.</description></skill>\n"
    "</available_skills>"
)


async def played(skills: Path, *script: Any, **options: Any) -> Any:
    """A run of an agent with the skills: (its model, the responses of its tools)."""
    model: Any = ScriptedModel(list(script))
    agent = LlmAgent(name="a", model=model, tools=[SkillToolset(FolderSource(skills), **options)])
    async with Runner(agent, settings=NO_SETTINGS) as runner:
        events = [event async for event in runner.run(user_id="u", message="hi")]
    for prompt in model.prompts:
        assert_valid_prompt(prompt)
    return model, [response.response for event in events for response in event.function_responses]


async def test_sk_09_the_skills_are_listed_in_the_instruction(skills: Path) -> None:
    model, _ = await played(skills, "ok")
    config = model.requests[0].config
    assert config.system_instruction.text.endswith(f"{DEFAULT_INSTRUCTION}\n\n{XML}")
    declarations = {made.name: made.parameters_json_schema for made in config.function_declarations()}
    assert list(declarations) == ["list_skills", "load_skill", "load_skill_resource"]
    assert declarations["list_skills"] is None
    assert declarations["load_skill"]["required"] == ["name"]
    assert declarations["load_skill_resource"]["required"] == ["skill_name", "resource_path"]


def test_sk_10_the_instruction_names_the_parameters_as_they_are() -> None:
    first, second = DEFAULT_INSTRUCTION.split("`load_skill`")[1].split("`load_skill_resource`")
    assert "`name`" in first
    assert "`skill_name`" in second
    assert "`resource_path`" in second


async def test_sk_09_an_instruction_of_ones_own(skills: Path) -> None:
    model, _ = await played(skills, "ok", instruction="Mine.")
    assert model.requests[0].config.system_instruction.text.endswith(f"Mine.\n\n{XML}")


async def test_sk_09_without_skills_nothing_is_added(tmp_path: Path) -> None:
    model, _ = await played(tmp_path, "ok")
    assert "skill" not in model.requests[0].config.system_instruction.text


@pytest.mark.parametrize("source", [None, "skills", Path("skills")])
def test_sk_09_no_source_is_an_error(source: Any) -> None:
    with pytest.raises(ConfigurationError, match="skill source"):
        SkillToolset(source)


def test_sk_09_the_list_is_escaped() -> None:
    text = skills_xml([Frontmatter(name="a", description='</description>"<b>')])
    assert text.splitlines()[1] == (
        "<skill><name>a</name><description>&lt;/description&gt;&quot;&lt;b&gt;</description></skill>"
    )


async def test_sk_table_list_and_load(skills: Path, write_skill: Any) -> None:
    write_skill(
        "beta", text="---\nname: beta\ndescription: d\nallowed-tools: Read Bash(git:*)\nmetadata: {v: 1}\n---\nBody\n"
    )
    _, responses = await played(skills, [call("list_skills", "1"), call("load_skill", "2", name="beta")], "ok")
    assert responses[0] == {"skills": XML.replace("Bakes &amp; brews.", "d")}
    assert responses[1] == {
        "skill_name": "beta",
        "instructions": "Body\n",
        "frontmatter": {
            "name": "beta",
            "description": "d",
            "metadata": {"v": "1"},
            "allowed-tools": ["Read", "Bash(git:*)"],
        },
    }


async def test_sk_table_a_resource_as_text(skills: Path) -> None:
    asked = call("load_skill_resource", "1", skill_name="alpha", resource_path="references/./guide.md")
    model, responses = await played(skills, asked, "ok")
    assert responses == [{"skill_name": "alpha", "path": "references/guide.md", "content": "# Guide ü"}]
    assert len(model.prompts[1]) == 3


async def test_sk_11_media_is_shown_after_the_response(skills: Path) -> None:
    asked = call("load_skill_resource", "1", skill_name="alpha", resource_path="assets/logo.png")
    model, responses = await played(skills, asked, call("list_skills", "2"), "ok")
    assert responses[0] == {"skill_name": "alpha", "path": "assets/logo.png", "mime_type": "image/png"}
    shown = model.prompts[1][3]
    assert shown.parts[1].inline_data == Blob(mime_type="image/png", data=b"\x89PNG\r\n\x1a\n\x00")
    assert len(model.prompts[2]) == 5, "it is shown once and never stored"


@pytest.mark.parametrize(
    ("tool", "args", "error"),
    [
        ("load_skill", {}, "/name"),
        ("load_skill", {"name": ""}, "/name"),
        ("load_skill", {"name": "gamma"}, "no skill 'gamma'"),
        ("load_skill", {"name": "../alpha"}, "no skill name"),
        ("load_skill_resource", {"skill_name": "alpha"}, "/resource_path"),
        ("load_skill_resource", {"skill_name": " ", "resource_path": "x"}, "/skill_name"),
        ("load_skill_resource", {"skill_name": "alpha", "resource_path": "../x"}, "not inside"),
        ("load_skill_resource", {"skill_name": "alpha", "resource_path": "assets/x"}, "no file 'assets/x'"),
        ("load_skill_resource", {"skill_name": "alpha", "resource_path": "assets/blob.bin"}, "neither UTF-8"),
    ],
)
async def test_sk_table_errors_go_to_the_model(skills: Path, tool: str, args: Any, error: str) -> None:
    _, responses = await played(skills, call(tool, "1", **args), "ok")
    assert list(responses[0]) == ["error"]
    assert error in responses[0]["error"]
    assert str(skills) not in responses[0]["error"]


async def test_sk_table_more_than_10_mib_is_an_error(skills: Path) -> None:
    (skills / "alpha" / "assets" / "big.txt").write_bytes(b"x" * (10 * 1024 * 1024 + 1))
    asked = call("load_skill_resource", "1", skill_name="alpha", resource_path="assets/big.txt")
    _, responses = await played(skills, asked, "ok")
    assert "more than 10485760 bytes" in responses[0]["error"]


# --- settings ---------------------------------------------------------------------------------------------------------


def made(**settings: Any) -> Toolset:
    found: Toolset = extensions().first("create_toolset", kind="skills", settings=settings)
    return found


async def test_ext_the_toolset_kind_skills(skills: Path) -> None:
    toolset = made(folder=str(skills), name="mine", strict=True)
    assert isinstance(toolset, SkillToolset)
    assert toolset.name == "mine"
    assert len(await toolset.source.list_frontmatters()) == 2
    assert isinstance(made(package="somewhere:data/skills"), SkillToolset)


@pytest.mark.parametrize(
    "settings",
    [{}, {"folder": "a", "package": "b"}, {"folder": 3}, {"path": "a"}, {"folder": "a", "strict": "yes"}],
)
def test_ext_settings_that_do_not_fit_are_named(settings: Any) -> None:
    with pytest.raises(ConfigurationError, match="toolset 'skills'"):
        made(**settings)


class TestConformance(ToolsetSuite):
    @pytest.fixture(autouse=True)
    def _folder(self, skills: Path) -> None:
        self.folder = skills

    def make_toolset(self) -> Toolset:
        return SkillToolset(FolderSource(self.folder))
