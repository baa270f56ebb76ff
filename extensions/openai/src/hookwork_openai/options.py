"""What a user can say about the service, the account and the style of a model (models OAI-25)."""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

from hookwork.catalogue import did_you_mean
from hookwork.errors import ConfigurationError

APIS = ("auto", "responses", "chat")
STRICTNESS = ("error", "warn")
#: Levels of ``reasoning.effort`` (models SDK-12).
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
DEFAULT_BASE_URL = "https://api.openai.com/v1"

#: Options that only code can give.
_OBJECTS = frozenset({"http_client", "client_options"})
_BOOLEANS = (
    "store",
    "chain",
    "parallel_tool_calls",
    "accept_unterminated",
    "parse_text_calls",
    "output_schema",
    "output_schema_with_tools",
)
_TEXTS = (
    "base_url",
    "azure_endpoint",
    "organization",
    "project",
    "provider",
    "truncation",
    "service_tier",
    "prompt_cache_key",
    "voice",
    "transcription_model",
    "input_audio_format",
    "output_audio_format",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of one model; the README lists them.

    Raises:
        ConfigurationError: a value of a wrong kind, or two options that exclude each other.
    """

    api: str = "auto"
    api_key: str | Callable[[], Awaitable[str]] | None = field(default=None, repr=False)
    base_url: str | None = field(default=None, repr=False)  # it may hold a password
    azure_endpoint: str | None = field(default=None, repr=False)
    organization: str | None = None
    project: str | None = None
    timeout: float | None = None
    provider: str | None = None
    unsupported: str = "error"
    retry: Any = None
    store: bool | None = None
    chain: bool = False
    reasoning: Mapping[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    truncation: str | None = None
    service_tier: str | None = None
    prompt_cache_key: str | None = None
    extra_body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    accept_unterminated: bool = False
    parse_text_calls: bool = False
    output_schema: bool | None = None
    output_schema_with_tools: bool | None = None
    voice: str | None = None
    transcription_model: str | None = None
    input_audio_format: str | None = None
    output_audio_format: str | None = None
    http_client: Any = field(default=None, repr=False)
    client_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _one_of("api", self.api, APIS)
        _one_of("unsupported", self.unsupported, STRICTNESS)
        for name in _BOOLEANS:
            _is_a(name, getattr(self, name), bool, "true or false")
        for name in _TEXTS:
            _is_a(name, getattr(self, name), str, "text")
        for name in ("reasoning", "extra_body", "headers"):
            _is_a(name, getattr(self, name), Mapping, "a table")
        if self.reasoning is not None and "effort" in self.reasoning:
            _one_of("reasoning.effort", self.reasoning["effort"], EFFORTS)
        timeout = self.timeout
        if timeout is not None and not _is_seconds(timeout):
            raise ConfigurationError(f"option 'timeout' is a number of seconds above 0, not {timeout!r}")
        for header, value in (self.headers or {}).items():
            if not isinstance(value, str):
                raise ConfigurationError(f"option 'headers': {header!r} is text, not a {type(value).__name__}")
        if self.chain and (self.store is False or self.api == "chat"):
            raise ConfigurationError(
                "'chain' goes on from responses that the service keeps; it fits neither store=False nor api='chat'"
            )
        if self.base_url and self.azure_endpoint:
            raise ConfigurationError("'base_url' and 'azure_endpoint' name two services; keep one")
        for name in ("base_url", "azure_endpoint"):
            _is_address(f"option {name!r}", getattr(self, name))

    # --- where the calls go ------------------------------------------------------------------------------------------

    def address(self) -> str:
        """The base URL: the option, the Azure resource's, ``OPENAI_BASE_URL``, else OpenAI's own.

        Raises:
            ConfigurationError: the variable holds no such address.
        """
        if self.azure_endpoint:
            return f"{self.azure_endpoint.rstrip('/').removesuffix('/openai/v1')}/openai/v1"
        from_environment = os.environ.get("OPENAI_BASE_URL")
        if not self.base_url:
            _is_address("OPENAI_BASE_URL", from_environment)
        return self.base_url or from_environment or DEFAULT_BASE_URL

    def key(self) -> str | Callable[[], Awaitable[str]] | None:
        """The key: the option (empty text: none), else the variable of the service; None when there is none."""
        if self.api_key is not None:
            return self.api_key or None
        if self.azure_endpoint and os.environ.get("AZURE_OPENAI_API_KEY"):
            return os.environ["AZURE_OPENAI_API_KEY"]
        return os.environ.get("OPENAI_API_KEY") or None


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _is_address(what: str, value: str | None) -> None:
    if value and not (value.startswith(("http://", "https://")) and urlsplit(value).hostname):
        raise ConfigurationError(
            f"{what} is an address such as http://localhost:8080/v1, with http:// or https:// first"
        )


def is_openai_host(address: str) -> bool:
    """Whether an address is OpenAI's own, a regional one or an Azure resource included: one dialect, every field."""
    host = (urlsplit(address).hostname or "").lower()
    return host == "api.openai.com" or host.endswith((".api.openai.com", ".openai.azure.com", ".services.ai.azure.com"))


def options_from(settings: Mapping[str, Any]) -> Options:
    """Options as ``[tool.hookwork.openai]`` gives them.

    ``api_key_variable`` names the environment variable that holds the key, ``reasoning`` may be an effort alone, and
    ``retry`` is true, a number of attempts or a table of `hookwork_modelkit.RetryPolicy`.

    Raises:
        ConfigurationError: an unknown key, a value of a wrong kind, or a variable that is not set.
    """
    values = dict(settings)
    variable = values.pop("api_key_variable", None)
    known = [item.name for item in fields(Options) if item.name not in _OBJECTS]
    for key in values:
        if key not in known:
            raise ConfigurationError(f"[tool.hookwork.openai] has an unknown key {key!r}{did_you_mean(key, known)}")
    if variable is not None:
        if "api_key" in values:
            raise ConfigurationError("[tool.hookwork.openai]: 'api_key' and 'api_key_variable' exclude each other")
        values["api_key"] = os.environ.get(str(variable))
        if not values["api_key"]:
            raise ConfigurationError(f"[tool.hookwork.openai]: the environment variable {variable!r} is not set")
    if isinstance(values.get("reasoning"), str):
        values["reasoning"] = {"effort": values["reasoning"]}
    if "api_key" in values and not isinstance(values["api_key"], str):
        raise ConfigurationError("[tool.hookwork.openai]: 'api_key' is text")
    return Options(**values)


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigurationError(f"option {name!r} is one of {', '.join(allowed)}, not {value!r}")


def _is_a(name: str, value: Any, kind: type, wanted: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise ConfigurationError(f"option {name!r} is {wanted}, not a {type(value).__name__}")
