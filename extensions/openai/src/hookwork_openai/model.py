"""The model: one name, one service, either API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Any

from hookwork.live import LiveConnection, LiveRunConfig
from hookwork.model import Model, ModelCapabilities, ModelRequest
from hookwork.records.metadata import ModelResponse
from hookwork_modelkit.calls import guarded
from hookwork_modelkit.retrying import RetryPolicy, with_retries
from hookwork_openai.call import Call, is_reasoning_model
from hookwork_openai.config import Transport, transport
from hookwork_openai.errors import sdk_error
from hookwork_openai.options import Options, is_openai_host

if TYPE_CHECKING:
    from hookwork_modelkit.chains import Chains
    from hookwork_modelkit.clients import ModelClients
    from hookwork_openai.sdk import Client, JsonStream

_CHAT = "/chat/completions"

Responses = AsyncGenerator[ModelResponse, None]


class OpenAIModel(Model):
    """A model of OpenAI, or of a server that speaks its API.

    Args:
        name: the model's name at the service; a deployment's name on Azure.
        options: see `hookwork_openai.options.Options` and the README.

    Raises:
        ModelError: (code ``model_name_required``) the name is empty.
        ConfigurationError: an unknown option, or a value of a wrong kind.
    """

    def __init__(self, name: str, **options: Any) -> None:
        self.options = Options(**options)
        if not isinstance(name, str) or not name.strip():
            raise Call(model="", provider=self._provider()).refused("model_name_required", "a model needs a name")
        self.name = name
        self._address = self.options.address()
        self._official = is_openai_host(self._address)
        self.capabilities = self._capabilities()
        self._retry = RetryPolicy.of(self.options.retry)
        self._warned: set[str] = set()
        self._clients: ModelClients[Client] | None = None
        self._chains: Chains | None = None
        if self.options.chain:
            from hookwork_modelkit.chains import Chains

            self._chains = Chains()
        #: the server refused ``stream_options`` once (models CHAT-4).
        self._without_stream_options = False
        #: the server refused its own thoughts once (models CHAT-1).
        self._without_thoughts = False

    @classmethod
    def from_settings(cls, name: str, settings: Mapping[str, Any]) -> OpenAIModel:
        """A model as ``[tool.hookwork.openai]`` describes it.

        Raises:
            ConfigurationError: an unknown key or a value of a wrong kind.
        """
        from hookwork_openai.options import options_from

        known = options_from(settings)
        return cls(name, **{field: getattr(known, field) for field in known.__slots__})

    async def generate(self, request: ModelRequest, *, stream: bool = False) -> Responses:
        """Answer one request; see `hookwork.model.Model.generate`.

        Raises:
            ModelError: the request cannot be made, or the call failed.
        """
        call = self._call(request)
        calls = with_retries(
            lambda: guarded(
                self._answer(call, request, stream),
                call.provider,
                call.model,
                lambda error, started: sdk_error(call, error, started),
            ),
            self._retry,
        )
        async with aclosing(calls) as responses:
            async for response in responses:
                yield response

    def connect(self, request: ModelRequest, config: LiveRunConfig) -> AbstractAsyncContextManager[LiveConnection]:
        """A Realtime session; see `hookwork.model.Model.connect` (models §8b)."""
        from hookwork_openai.realtime.connecting import connected

        return connected(lambda: self._call(request, live=True), request, config, self._client)

    async def check(self) -> None:
        """See whether there is a key where one is needed, without a call; `hookwork doctor` asks this.

        Raises:
            ModelError: of kind ``auth``, with what to do.
        """
        self._client(self._call(ModelRequest()))

    async def close(self) -> None:
        """Let go of the SDK's clients; the last model of a configuration closes them. Idempotent."""
        if self._clients is not None:
            await self._clients.close()

    # --- one call -----------------------------------------------------------------------------------------------------

    def _provider(self) -> str:
        return self.options.provider or ("azure.ai.openai" if self.options.azure_endpoint else "openai")

    def _capabilities(self) -> ModelCapabilities:
        """What can be asked of this model. A compatible server mostly takes a schema or tools, not both at once."""
        options = self.options
        schema = True if options.output_schema is None else options.output_schema
        both = self._official if options.output_schema_with_tools is None else options.output_schema_with_tools
        return ModelCapabilities(
            provider=self._provider(),
            live=True,
            output_schema=schema,
            output_schema_with_tools=schema and both,
            pairs_calls_by_id=True,
            file_uris=True,
            media=("image/", "application/pdf", "text/"),
            reasoning=is_reasoning_model(self.name),
        )

    def _call(self, request: ModelRequest, *, live: bool = False) -> Call:
        official, api = self._official, self.options.api
        return Call(
            model=request.model or self.name,
            provider=self._provider(),
            official=official,
            chat=not live and (api == "chat" or (api == "auto" and not official)),
            options=self.options,
            warned=self._warned,
        )

    def _client(self, call: Call) -> Client:
        from hookwork_modelkit.clients import ModelClients
        from hookwork_openai.sdk import POOL, client_key, make_client

        if self._clients is None:
            self._clients = ModelClients(POOL)
        return self._clients.get(client_key(self.options, self._address), lambda: make_client(call, self._address))

    def _answer(self, call: Call, request: ModelRequest, stream: bool) -> Responses:
        if call.chat:
            return self._chat(call, request, stream)
        return self._responses(call, request, stream)

    async def _responses(self, call: Call, request: ModelRequest, stream: bool) -> Responses:
        from hookwork_openai.responses.request import request_body

        body, how = request_body(call, request), transport(call, request.config)
        chains = self._chains
        if chains is None:
            responses = self._asked(call, body, how, stream)
        else:
            responses = self._chained(chains, call, request, body, how, stream)
        async with aclosing(responses):
            async for response in responses:
                yield response

    async def _chained(
        self, chains: Chains, call: Call, request: ModelRequest, body: dict[str, Any], how: Transport, stream: bool
    ) -> Responses:
        """The responses to a request, behind the one it goes on from where that is known, else to all of it."""
        from openai import APIStatusError

        from hookwork_openai.responses.chains import PREVIOUS, is_forgotten, may_chain, noted, remember, shortened

        chainable = may_chain(how.extra_body)
        shorter = shortened(chains, body) if chainable else None
        previous: str = shorter["previous_response_id"] if shorter is not None else ""
        if shorter is not None:
            started = False
            try:
                async with aclosing(self._asked(call, shorter, how, stream)) as responses:
                    async for response in responses:
                        started = True
                        if not response.partial:
                            response = noted(response, previous)
                            remember(chains, call, request.contents, response)
                        yield response
                return
            except APIStatusError as error:
                if started or not is_forgotten(error):
                    raise
            chains.forget(previous)
            call.warn(PREVIOUS, "the service has lost a response that was to be gone on from; all is sent instead")
        async with aclosing(self._asked(call, body, how, stream)) as responses:
            async for response in responses:
                if chainable and not response.partial:
                    remember(chains, call, request.contents, response)
                yield response

    async def _asked(self, call: Call, body: dict[str, Any], how: Transport, stream: bool) -> Responses:
        from hookwork_openai import sdk
        from hookwork_openai.responses.output import whole_response
        from hookwork_openai.responses.stream import ResponseStream

        async with self._client(call) as client:
            if not stream:
                yield whole_response(call, await sdk.post(client, "/responses", body, how))
                return
            source = await sdk.open_stream(client, "/responses", body, how)
            if (answer := await sdk.answered_whole(source)) is not None:
                yield whole_response(call, answer)
                return
            folded = ResponseStream(call)
            async with aclosing(sdk.events(source)) as events:
                async for event in events:
                    shown = folded.take(event)
                    if shown is not None:
                        yield shown
                    if folded.over:
                        await sdk.drain(source)
                        break
            yield folded.finish()

    async def _chat(self, call: Call, request: ModelRequest, stream: bool) -> Responses:
        from hookwork_openai.chat.reply import whole_response
        from hookwork_openai.chat.request import request_body
        from hookwork_openai.chat.stream import ChatStream

        body, how = request_body(call, request), transport(call, request.config)
        if self._chains is not None:
            call.warn("chain", "Chat Completions keep no responses to go on from; chain=True does nothing")
        declared = frozenset(item.name for item in request.config.function_declarations() if item.name)
        from hookwork_openai import sdk

        async with self._client(call) as client:
            if not stream:
                answer = await self._with_thoughts(body, lambda sent: sdk.post(client, _CHAT, sent, how))
                yield whole_response(call, answer, declared=declared)
                return
            source = await self._with_thoughts(body, lambda sent: self._open_chat(client, sent, how))
            if (answer := await sdk.answered_whole(source)) is not None:
                yield whole_response(call, answer, declared=declared)
                return
            folded = ChatStream(call, declared)
            async with aclosing(sdk.events(source, lambda: bool(folded.finish_reason))) as events:
                async for chunk in events:
                    for shown in folded.take(chunk):
                        yield shown
            yield folded.finish(done=source.done)

    async def _with_thoughts(self, body: dict[str, Any], send: Callable[[dict[str, Any]], Awaitable[Any]]) -> Any:
        """Send; a server that refuses thoughts of its own by name is asked without them, from then on too."""
        from openai import BadRequestError, UnprocessableEntityError

        from hookwork_openai.chat.messages import THOUGHT_FIELDS, without_thoughts

        plain = without_thoughts(body)
        if self._without_thoughts or plain is body:
            return await send(plain)
        try:
            return await send(body)
        except (BadRequestError, UnprocessableEntityError) as error:
            if not any(field in f"{error.message} {error.body}" for field in THOUGHT_FIELDS):
                raise
        self._without_thoughts = True
        return await send(plain)

    async def _open_chat(self, client: Client, body: dict[str, Any], how: Transport) -> JsonStream:
        """Open the stream, asking for usage; a server that refuses that by name is asked without (models CHAT-4)."""
        from openai import BadRequestError, UnprocessableEntityError

        from hookwork_openai import sdk

        if self._without_stream_options:
            return await sdk.open_stream(client, _CHAT, body, how)
        try:
            return await sdk.open_stream(client, _CHAT, {**body, "stream_options": {"include_usage": True}}, how)
        except (BadRequestError, UnprocessableEntityError) as error:
            if "stream_options" not in f"{error.message} {error.body}":
                raise
        self._without_stream_options = True
        return await sdk.open_stream(client, _CHAT, body, how)
