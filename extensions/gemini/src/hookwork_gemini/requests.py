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
from hookwork.records.content import Content, Part, user_content
from hookwork.records.frozen import thaw
from hookwork.records.request import GenerateContentConfig
from hookwork_gemini.conversion import parsed, to_genai, warn_once
from hookwork_gemini.declarations import response_schema_json, tools_json
from hookwork_modelkit import InexpressibleSchema, refusal

#: The API answers a user turn only (GEM-6).
GO_ON = "Please go on with the request that is still open. If nothing is left to do, say so and sum up what was done."
#: The API needs at least one content (GEM-7).
FOLLOW_INSTRUCTION = "Please act on your system instruction."

IDENTITY = f"hookwork/{__version__} gl-python/{platform.python_version()}"
_IDENTITY_HEADERS = ("x-goog-api-client", "user-agent")

#: Keys of parts, beside `part_metadata`, that the SDK refuses to send to Vertex AI.
_NOT_ON_VERTEX = ("toolCall", "toolResponse", "mediaProcessing", "tool_call", "tool_response", "media_processing")


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
        return Prepared(model, self.contents(request.contents), self.config(model, request.config))

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
        fitted = [self._fitted(part) for part in content.parts]
        if any(new is not old for new, old in zip(fitted, content.parts, strict=True)):
            content = content.replace(parts=fitted)
        return to_genai(content)

    def _fitted(self, part: Part) -> Part:
        """The part without what this backend refuses (CAP-4); the part itself when there is nothing."""
        if self.vertexai:
            if part.part_metadata is not None or (part.extra and any(key in part.extra for key in _NOT_ON_VERTEX)):
                extra = {key: value for key, value in (part.extra or {}).items() if key not in _NOT_ON_VERTEX}
                return part.replace(part_metadata=None, extra=extra or None)
            return part
        blob, file = part.inline_data, part.file_data
        if blob is not None and blob.display_name is not None:
            return part.replace(inline_data=blob.replace(display_name=None))
        if file is not None and file.display_name is not None:
            return part.replace(file_data=file.replace(display_name=None))
        answer = part.function_response
        if answer is not None and answer.parts:
            return part.replace(function_response=answer.replace(parts=tuple(map(_unnamed, answer.parts))))
        return part

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

    def wrong(self, model: str, error: ValueError) -> ModelError:
        """A value of a wrong form: the place is told, the value never."""
        places = getattr(error, "errors", None)
        if isinstance(error, ModelError) or places is None:
            return refusal(self.provider, model, "the settings cannot be sent; see the cause")
        faults = error.errors(include_url=False, include_context=False, include_input=False)  # type: ignore[attr-defined]
        named = sorted({".".join(str(step) for step in fault["loc"]) for fault in faults})
        return refusal(self.provider, model, f"the settings have a wrong form at {', '.join(named[:5])}")


def _unnamed(part: Any) -> Any:
    """A part of a function response without display names."""
    if part.inline_data is not None and part.inline_data.display_name is not None:
        part = part.replace(inline_data=part.inline_data.replace(display_name=None))
    if part.file_data is not None and part.file_data.display_name is not None:
        part = part.replace(file_data=part.file_data.replace(display_name=None))
    return part


def _json(value: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(thaw(dict(value)))
