"""A ModelRequest as what the SDK is called with (models GEM-2 … GEM-8, GEM-12, CAP-4)."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from hookwork import __version__
from hookwork.errors import ModelError
from hookwork.model import ModelRequest
from hookwork.records.codec import dump_json
from hookwork.records.content import Content, user_content
from hookwork.records.frozen import thaw
from hookwork.records.request import GenerateContentConfig
from hookwork_gemini.conversion import parsed, to_genai, warn_once
from hookwork_gemini.declarations import response_schema_json, tools_json
from hookwork_gemini.fitting import for_gemini_api, for_vertexai
from hookwork_modelkit import InexpressibleSchema, refusal

#: The API answers a user turn only (GEM-6).
GO_ON = "Please go on with the request that is still open. If nothing is left to do, say so and sum up what was done."
#: The API needs at least one content (GEM-7).
FOLLOW_INSTRUCTION = "Please act on your system instruction."

IDENTITY = f"hookwork/{__version__} gl-python/{platform.python_version()}"
_IDENTITY_HEADERS = ("x-goog-api-client", "user-agent")


class Prepared(NamedTuple):
    """Arguments of one SDK call."""

    model: str
    contents: list[Any]
    config: Any


class Door:
    """Turns the requests of one model on one backend into SDK calls; holds no state of a call."""

    __slots__ = ("name", "provider", "vertexai")

    def __init__(self, name: str, provider: str, *, vertexai: bool) -> None:
        self.name = name
        self.provider = provider
        self.vertexai = vertexai

    def prepare(self, request: ModelRequest) -> Prepared:
        """The arguments for the SDK. The request is only read (MOD-6).

        Raises:
            ModelError: of kind ``invalid_request``: the settings hold what the SDK or this backend does not know.
        """
        model = request.model or self.name
        try:
            contents = self.contents(request.contents)
        except ValueError as error:
            raise self.wrong(model, error, "contents") from error
        return Prepared(model, contents, self.config(model, request.config))

    # --- contents -----------------------------------------------------------------------------------------------------

    def contents(self, contents: Sequence[Content]) -> list[Any]:
        """The SDK's contents, ending with a user turn."""
        whole = list(contents)
        if not whole:
            whole.append(user_content(FOLLOW_INSTRUCTION))
        elif whole[-1].role != "user":
            whole.append(user_content(GO_ON))
        return [self.content(content) for content in whole]

    def content(self, content: Content) -> Any:
        """One content for this backend."""
        fit = for_vertexai if self.vertexai else for_gemini_api
        fitted = [fit(part) for part in content.parts]
        if any(new is not old for new, old in zip(fitted, content.parts, strict=True)):
            content = content.replace(parts=fitted)
        return to_genai(content)

    # --- config -------------------------------------------------------------------------------------------------------

    def config(self, model: str, config: GenerateContentConfig) -> Any:
        """The SDK's config: the request's, with our name on it, tools declared only, no retries of the SDK's own."""
        from google.genai import types

        tools, instruction, schema, labels = (
            config.tools,
            config.system_instruction,
            config.response_schema,
            config.labels,
        )
        if labels and not self.vertexai:
            warn_once("labels", "left labels out of a request: the Gemini API does not take them")
            labels = None
        rest = config.replace(tools=(), system_instruction=None, response_schema=None, http_options=None, labels=labels)
        try:
            result = parsed(types.GenerateContentConfig, dump_json(rest), refused=self.refusing(model, "config"))
            result.http_options = self.http_options(model, config.http_options)
            if instruction is not None:
                result.system_instruction = self.content(instruction)
            if schema is not None:
                result.response_schema = self.parsed(types.Schema, model, response_schema_json(schema))
            if tools:
                result.tools = [self.parsed(types.Tool, model, tool) for tool in tools_json(tools)]
        except InexpressibleSchema as error:
            raise refusal(self.provider, model, f"the response schema cannot be sent: {error}") from error
        except ValueError as error:
            raise self.wrong(model, error) from error
        result.automatic_function_calling = types.AutomaticFunctionCallingConfig(disable=True)  # MOD-10
        return result

    def parsed(self, kind: Any, model: str, data: Mapping[str, Any]) -> Any:
        """An SDK object of settings in JSON form."""
        return parsed(kind, msgspec.json.encode(thaw(dict(data))), refused=self.refusing(model, kind.__name__))

    def refusing(self, model: str, what: str) -> Any:
        """What to do with a key that the SDK does not know: refuse it by name."""

        def refuse(name: str) -> None:
            raise refusal(
                self.provider,
                model,
                f"{what} has a key {name!r} that the installed google-genai does not know; leave it out or upgrade",
            )

        return refuse

    def http_options(self, model: str, given: Mapping[str, Any] | None) -> Any:
        """The SDK's options of one call: the caller's, our name in place of theirs, no retries."""
        from google.genai import types

        options = parsed(types.HttpOptions, _json(given or {}), refused=self.refusing(model, "http_options"))
        kept = {name: value for name, value in (options.headers or {}).items() if name.lower() not in _IDENTITY_HEADERS}
        options.headers = {**kept, **dict.fromkeys(_IDENTITY_HEADERS, IDENTITY)}
        options.retry_options = types.HttpRetryOptions(attempts=1)  # one policy, ours (ERR-2)
        return options

    def wrong(self, model: str, error: ValueError, what: str = "settings") -> ModelError:
        """A value of a wrong form: the place is told, the value never."""
        from pydantic import ValidationError

        if not isinstance(error, ValidationError):
            return refusal(self.provider, model, f"the {what} cannot be sent; see the cause")
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        named = sorted({".".join(str(step) for step in fault["loc"]) for fault in faults})
        return refusal(self.provider, model, f"the {what} have a wrong form at {', '.join(named[:5])}")


def _json(value: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(thaw(dict(value)))
