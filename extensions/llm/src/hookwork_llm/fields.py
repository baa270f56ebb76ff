"""What an LlmAgent is constructed with, checked field by field; every error names the agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hookwork.catalogue import did_you_mean
from hookwork.errors import ConfigurationError, InvalidToolError, ValidationError
from hookwork.state import check_state_key
from hookwork.tool import Tool, Toolset
from hookwork_llm.request_stages import RequestStage

if TYPE_CHECKING:
    from hookwork.records.request import GenerateContentConfig
    from hookwork_llm.agent import LlmAgent

#: Callbacks of the agent around its model and its tools.
MODEL_CALLBACKS = ("before_model", "after_model", "on_model_error", "before_tool", "after_tool", "on_tool_error")

#: Fields with a text, a function to call instead, or a switch.
_TEXTS = ("instruction", "global_instruction")
_PROVIDERS = ("instruction_provider", "global_instruction_provider")
_SWITCHES = ("templating", "disallow_transfer_to_parent", "disallow_transfer_to_peers")


def listed(value: Any, where: str, name: str, what: str) -> list[Any]:
    """The items of a list field. Raises ConfigurationError for what is no list: one item alone, a text, a mapping."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        given = getattr(value, "__name__", None) or type(value).__name__
        raise ConfigurationError(f"{where}: {name} is a list of {what}, not {given}; write {name}=[…]")
    return list(value)


def as_tools(values: Any, where: str) -> tuple[tuple[Tool, ...], tuple[Toolset, ...]]:
    """The tools, and the toolsets among them, each in order.

    Functions become tools; what is a tool by its methods alone gets the rest of a Tool.
    """
    from hookwork_llm.adopted import AdoptedTool
    from hookwork_llm.functions import as_tool

    tools: list[Tool] = []
    toolsets: list[Toolset] = []
    for value in listed(values, where, "tools", "functions, tools and toolsets"):
        if isinstance(value, Toolset):
            toolsets.append(value)
            continue
        try:
            made = as_tool(value)
        except InvalidToolError as error:
            raise InvalidToolError(f"{where}: {error}") from error
        tools.append(made if isinstance(made, Tool) else AdoptedTool(made))
    return tuple(tools), tuple(toolsets)


def as_toolsets(values: Any, where: str) -> tuple[Toolset, ...]:
    """The toolsets given as such."""
    toolsets = tuple(listed(values, where, "toolsets", "toolsets"))
    for toolset in toolsets:
        if not isinstance(toolset, Toolset):
            raise ConfigurationError(
                f"{where}: {toolset!r} in toolsets is no Toolset; a tool or function goes into tools"
            )
    return toolsets


def as_stages(values: Any, where: str) -> tuple[RequestStage, ...]:
    """The changes to the request stages."""
    stages = tuple(listed(values, where, "request_stages", "RequestStage objects"))
    for stage in stages:
        if not isinstance(stage, RequestStage):
            raise ConfigurationError(
                f"{where}: {stage!r} in request_stages is no RequestStage; write RequestStage('name', function)"
            )
    return stages


def as_config(value: Any, where: str) -> GenerateContentConfig | None:
    """The generation settings; a dict, in the wire form or with the names of the fields, is read as such."""
    if value is None:
        return None
    from hookwork.records.codec import load
    from hookwork.records.request import GenerateContentConfig

    if isinstance(value, GenerateContentConfig):
        return value
    field = f"{where}: generate_content_config"
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{field} is a GenerateContentConfig or a dict, not {type(value).__name__}")
    try:
        config = load(GenerateContentConfig, dict(value))
    except ValidationError as error:
        raise ConfigurationError(f"{field}: {error}") from error
    for key in config.extra or ():
        fields = [name for name in GenerateContentConfig.__struct_fields__ if name != "extra"]
        raise ConfigurationError(
            f"{field} has the unknown key {key!r}{did_you_mean(key, fields)}; a setting of one provider alone goes "
            f"into GenerateContentConfig(extra={{{key!r}: …}}); known keys: {', '.join(fields)}"
        )
    return config


def check_fields(agent: LlmAgent) -> None:
    """Refuse fields of a wrong type that would fail, or be taken for something else, in the middle of a run."""
    where = f"agent {agent.name!r}"
    for name in _TEXTS:
        value = getattr(agent, name)
        if not isinstance(value, str):
            hint = f"; a function goes into {name}_provider" if callable(value) else ""
            raise ConfigurationError(f"{where}: {name} is a text, not {value!r}{hint}")
    for name in _PROVIDERS:
        value = getattr(agent, name)
        if value is not None and not callable(value):
            raise ConfigurationError(f"{where}: {name} is a function (ctx) that gives a text, not {value!r}")
    for name in _SWITCHES:
        value = getattr(agent, name)
        if not isinstance(value, bool):
            raise ConfigurationError(f"{where}: {name} is True or False, not {value!r}")
    if agent.output_key is not None:
        try:
            check_state_key(agent.output_key)
        except ValidationError as error:
            raise ConfigurationError(
                f"{where}: output_key {agent.output_key!r} can name no state value ({error}); leave it out or name "
                "a state key, such as 'answer'"
            ) from error
