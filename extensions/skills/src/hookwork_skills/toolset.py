"""SkillToolset: skills as three tools and a list of what is there (tools-plugins SK-09 … SK-11)."""

from __future__ import annotations

import html
import logging
import mimetypes
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hookwork.errors import ConfigurationError, ToolArgumentError, ToolError
from hookwork.records.content import Blob, Content, Part
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool, Toolset, pack_tool
from hookwork_skills.errors import SkillError
from hookwork_skills.frontmatter import Frontmatter
from hookwork_skills.paths import resource_path
from hookwork_skills.source import SkillSource, read_resource

if TYPE_CHECKING:
    from hookwork.context import ReadonlyContext, ToolContext
    from hookwork.model import ModelRequest

logger = logging.getLogger("hookwork.skills")

LOAD_RESOURCE = "load_skill_resource"

DEFAULT_INSTRUCTION = (
    "You have skills: folders of instructions and files for special tasks. The ones there are stand below, each with "
    "what it is for. When a task fits one of them, first call `load_skill` with its `name` and follow its "
    "instructions. Files that these name, in references/, assets/ or scripts/, you read with `load_skill_resource`, "
    "giving `skill_name` and `resource_path`, e.g. references/guide.md. `list_skills` lists the skills again."
)
#: Kinds of files that go to the model as media when they are no text.
_MEDIA = ("image/", "audio/", "video/", "application/pdf")


class SkillToolset(Toolset):
    """Tells the model which skills there are and lets it load their instructions and files.

    Args:
        source: where the skills come from.
        name: the toolset's name.
        instruction: instead of the default text before the list of skills.

    The list is read at each model call; `preload_frontmatters` and `preload_all` keep it in memory. ``allowed-tools``
    is shown and not enforced, and nothing is run: ``scripts/`` are files to read.

    Raises:
        ConfigurationError: no source.
    """

    def __init__(self, source: SkillSource, name: str = "SkillToolset", instruction: str | None = None) -> None:
        if not isinstance(source, SkillSource):
            raise ConfigurationError(
                f"a SkillToolset needs a skill source, e.g. FolderSource('skills'), not {source!r}"
            )
        self.source = source
        self.name = name
        self.instruction = DEFAULT_INSTRUCTION if instruction is None else instruction
        self._tools: tuple[Tool, ...] = (ListSkills(source), LoadSkill(source), LoadSkillResource(source))

    async def tools(self, ctx: ReadonlyContext) -> list[Tool]:
        return list(self._tools)

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        """The instruction and the list of skills; nothing when there are none."""
        skills = await self.source.list_frontmatters()
        if skills:
            request.append_instruction(self.instruction, skills_xml(skills))


def skills_xml(skills: Iterable[Frontmatter]) -> str:
    """Names and descriptions as the model sees them."""
    items = [
        f"<skill><name>{html.escape(skill.name)}</name>"
        f"<description>{html.escape(skill.description)}</description></skill>"
        for skill in skills
    ]
    return "\n".join(["<available_skills>", *items, "</available_skills>"])


class _SkillTool(Tool):
    """What the three tools share: a source, and text parameters that are all required."""

    idempotent = True
    parameters: Mapping[str, str] = {}

    def __init__(self, source: SkillSource) -> None:
        self.source = source

    def declaration(self) -> FunctionDeclaration:
        if not self.parameters:
            return FunctionDeclaration(name=self.name, description=self.description)
        properties = {name: {"type": "string", "description": text} for name, text in self.parameters.items()}
        schema = {"type": "object", "properties": properties, "required": list(self.parameters)}
        return FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

    def texts(self, args: Mapping[str, Any]) -> list[str]:
        """The arguments in order. Raises ToolArgumentError: one is missing, empty or no text."""
        for name in self.parameters:
            if args.get(name) is None:
                raise ToolArgumentError(f"{self.name}: /{name}: Field required")
            if not isinstance(args[name], str) or not args[name].strip():
                raise ToolArgumentError(f"{self.name}: /{name}: Input should be text that is not blank")
        return [args[name] for name in self.parameters]


class ListSkills(_SkillTool):
    name = "list_skills"
    description = "Lists the skills there are, with what each is for."

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        return {"skills": skills_xml(await self.source.list_frontmatters())}


class LoadSkill(_SkillTool):
    name = "load_skill"
    description = "Loads the instructions of a skill."
    parameters = {"name": "Name of the skill."}  # noqa: RUF012 - never changed

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        (name,) = self.texts(args)
        try:
            frontmatter = await self.source.load_frontmatter(name)
            instructions = await self.source.load_instructions(name)
        except SkillError as error:
            raise ToolError(str(error)) from error
        return {"skill_name": name, "instructions": instructions, "frontmatter": frontmatter.to_dict()}


class LoadSkillResource(_SkillTool):
    """Text comes back as text. Other files the model sees as media in the next request, after the response."""

    name = LOAD_RESOURCE
    description = "Loads a file of a skill, from its references/, assets/ or scripts/."
    parameters = {  # noqa: RUF012 - never changed
        "skill_name": "Name of the skill.",
        "resource_path": "Path of the file in the skill, e.g. references/guide.md.",
    }

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        name, path = self.texts(args)
        try:
            normal = resource_path(path)
            content = await read_resource(self.source, name, normal)
        except SkillError as error:
            raise ToolError(str(error)) from error
        result = {"skill_name": name, "path": normal}
        try:
            return {**result, "content": content.decode("utf-8")}
        except UnicodeDecodeError:
            return {**result, "mime_type": _media_type(normal)}

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        pack_tool(request, self)
        shown = [await self._shown(name, path, kind) for name, path, kind in _media_of(request.contents)]
        if shown:
            request.contents = [*request.contents, *shown]

    async def _shown(self, name: str, path: str, kind: str) -> Content:
        text = f"The file {path!r} of skill {name!r} is:"
        try:
            data = await read_resource(self.source, name, path)
        except SkillError as error:  # it was there a moment ago; the model is told, the turn goes on
            logger.warning("a file of a skill could not be loaded: %s", error)
            return Content(role="user", parts=[Part(text=f"{text} not to be had any more: {error}")])
        return Content(role="user", parts=[Part(text=text), Part(inline_data=Blob(mime_type=kind, data=data))])


def _media_type(path: str) -> str:
    """The kind of a file that is no text. Raises ToolError: one that no model takes."""
    kind = mimetypes.guess_type(path, strict=False)[0] or "application/octet-stream"
    if not kind.startswith(_MEDIA):
        raise ToolError(f"{path!r} is neither UTF-8 text nor an image, sound, video or PDF, but {kind}")
    return kind


def _media_of(contents: Sequence[Content]) -> list[tuple[str, str, str]]:
    """Skill, path and kind of the media that our responses in the last content stand for."""
    found = []
    for response in contents[-1].function_responses if contents else ():
        payload = response.response or {}
        values = tuple(payload.get(key) for key in ("skill_name", "path", "mime_type"))
        if response.name == LOAD_RESOURCE and all(isinstance(value, str) for value in values):
            found.append(values)
    return found  # type: ignore[return-value]
