"""A ModelRequest as what the SDK is called with (models GEM-2 … GEM-8, GEM-12, CAP-4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from hookwork.errors import ModelError
from hookwork.model import ModelRequest
from hookwork.records.codec import dump_json, load
from hookwork.records.content import Content, user_content
from hookwork.records.frozen import thaw
from hookwork.records.request import GenerateContentConfig, ToolDeclaration
from hookwork_gemini.conversion import parsed, to_genai, warn_once
from hookwork_gemini.declarations import response_schema_json, tool_json
from hookwork_gemini.fitting import for_gemini_api, for_vertexai
from hookwork_gemini.foreign import insists_on_signatures, signed, unnoted
from hookwork_gemini.identity import identified
from hookwork_gemini.strictness import Strictness
from hookwork_modelkit import InexpressibleSchema, refusal

#: The API answers a user turn only (GEM-6).
GO_ON = "Please go on with the request that is still open. If nothing is left to do, say so and sum up what was done."
#: The API needs at least one content (GEM-7).
FOLLOW_INSTRUCTION = "Please act on your system instruction."

#: Settings, schemas and tools that a model keeps in the SDK's form, of each.
_KEPT = 32


class Prepared(NamedTuple):
    """Arguments of one SDK call."""

    model: str
    contents: list[Any]
    config: Any


class Door:
    """Turns the requests of one model on one backend into SDK calls; holds no state of a call."""

    __slots__ = ("_schema", "_settings", "_sign", "_strictness", "_tool", "name", "provider", "vertexai")

    def __init__(self, name: str, provider: str, *, vertexai: bool, strictness: Strictness | None = None) -> None:
        self.name = name
        self.provider = provider
        self.vertexai = vertexai
        self._sign = insists_on_signatures(name)
        self._strictness = strictness if strictness is not None else Strictness(provider, "error")
        # What an agent says of itself is the same in every call: it is read once. The SDK only reads what it is given.
        self._settings = lru_cache(_KEPT)(self._read_settings)
        self._schema = lru_cache(_KEPT)(self._read_schema)
        self._tool = lru_cache(_KEPT)(self._read_tool)

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
        content = unnoted(content)
        if self._sign:
            content = signed(content)
        fit = for_vertexai if self.vertexai else for_gemini_api
        fitted = [fit(part) for part in content.parts]
        if any(new is not old for new, old in zip(fitted, content.parts, strict=True)):
            content = content.replace(parts=fitted)
        return to_genai(content)

    # --- config -------------------------------------------------------------------------------------------------------

    def config(self, model: str, config: GenerateContentConfig) -> Any:
        """The SDK's config: the request's, tools declared only, no retries of the SDK's own."""
        tools, instruction, schema, labels = (
            config.tools,
            config.system_instruction,
            config.response_schema,
            config.labels,
        )
        if labels and not self.vertexai:
            warn_once("labels", "left labels out of a request: the Gemini API does not take them")
            labels = None
        if (config.candidate_count or 0) > 1:
            warn_once("candidates", "only the first candidate of an answer is read; the others are paid for as well")
        rest = config.replace(tools=(), system_instruction=None, response_schema=None, http_options=None, labels=labels)
        try:
            result = self._settings(model, dump_json(rest)).model_copy()
            if config.http_options is not None:
                result.http_options = self.http_options(model, config.http_options)
            if instruction is not None:
                result.system_instruction = self.content(instruction)
            if schema is not None:
                result.response_schema = self._schema(model, _json(schema))
            if tools:
                result.tools = self.tools(model, tools)
        except InexpressibleSchema as error:
            raise refusal(self.provider, model, f"the response schema cannot be sent: {error}") from error
        except ValueError as error:
            raise self.wrong(model, error) from error
        return result

    def _read_settings(self, model: str, data: bytes) -> Any:
        from google.genai import types

        result = parsed(types.GenerateContentConfig, data, refused=self.refusing(model, "config"))
        result.automatic_function_calling = types.AutomaticFunctionCallingConfig(disable=True)  # MOD-10
        return result

    def _read_schema(self, model: str, data: bytes) -> Any:
        from google.genai import types

        said = response_schema_json(msgspec.json.decode(data))
        return parsed(types.Schema, _json(said), refused=self.refusing(model, "Schema"))

    def tools(self, model: str, tools: Sequence[ToolDeclaration]) -> list[Any]:
        """The SDK's tools; a function whose schema cannot be said is left out, with one warning."""
        made = (self._tool(model, dump_json(tool)) for tool in tools)
        return [tool for tool in made if tool is not None]

    def _read_tool(self, model: str, data: bytes) -> Any:
        from google.genai import types

        said = tool_json(load(ToolDeclaration, msgspec.json.decode(data)))
        return parsed(types.Tool, _json(said), refused=self.refusing(model, "Tool")) if said else None

    def refusing(self, model: str, what: str) -> Any:
        """What to do with a key that the SDK does not know: refuse it by name, or warn and leave it out."""

        def refuse(name: str) -> None:
            problem = f"{what} has a key {name!r} that the installed google-genai does not know; upgrade it"
            self._strictness.lacking(model, f"unsupported_{name}", problem)

        return refuse

    def http_options(self, model: str, given: Mapping[str, Any] | None) -> Any:
        """The SDK's options of one call: the caller's, our name in place of theirs, no retries."""
        from google.genai import types

        options = parsed(types.HttpOptions, _json(given or {}), refused=self.refusing(model, "http_options"))
        options.headers = identified(options.headers or {})
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
