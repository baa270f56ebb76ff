"""The client the conformance suite drives: an `McpToolset` that lists and calls every tool of the suite's server.

Called with the server's URL; the scenario is in ``MCP_CONFORMANCE_SCENARIO``, its data in ``MCP_CONFORMANCE_CONTEXT``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from hookwork.errors import HookworkError
from hookwork_mcp import McpToolset, StreamableHttp, accept_defaults
from hookwork_testkit import make_context

REDIRECT = "http://localhost:3000/callback"


class Storage:
    """Tokens and client registration, kept while the process lives."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self.tokens: OAuthToken | None = None
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Browser:
    """Plays the user: opens the authorization page, which redirects at once."""

    def __init__(self) -> None:
        self.result: AuthorizationCodeResult | None = None

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient() as client:
            response = await client.get(url, follow_redirects=False)
        query = parse_qs(urlsplit(response.headers["location"]).query)
        first = {key: values[0] for key, values in query.items()}
        self.result = AuthorizationCodeResult(code=first["code"], state=first.get("state"), iss=first.get("iss"))

    async def wait(self) -> AuthorizationCodeResult:
        assert self.result is not None
        return self.result


def auth_for(scenario: str, url: str, context: dict[str, Any]) -> httpx2.Auth:
    """The SDK's OAuth provider that a scenario is about."""
    if scenario == "auth/client-credentials-basic":
        return ClientCredentialsOAuthProvider(
            server_url=url,
            storage=Storage(),
            client_id=context["client_id"],
            client_secret=context["client_secret"],
            token_endpoint_auth_method="client_secret_basic",
        )
    if scenario == "auth/client-credentials-jwt":
        signed = SignedJWTParameters(
            issuer=context["client_id"],
            subject=context["client_id"],
            signing_algorithm=context.get("signing_algorithm", "ES256"),
            signing_key=context["private_key_pem"],
        )
        return PrivateKeyJWTOAuthProvider(
            server_url=url,
            storage=Storage(),
            client_id=context["client_id"],
            assertion_provider=signed.create_assertion_provider(),
        )
    registered = None
    if "client_id" in context:
        registered = OAuthClientInformationFull(
            client_id=context["client_id"],
            client_secret=context.get("client_secret"),
            redirect_uris=[AnyUrl(REDIRECT)],
            token_endpoint_auth_method="client_secret_basic" if context.get("client_secret") else "none",
        )
    browser = Browser()
    metadata = OAuthClientMetadata(
        client_name="hookwork",
        redirect_uris=[AnyUrl(REDIRECT)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    return OAuthClientProvider(
        server_url=url,
        client_metadata=metadata,
        storage=Storage(registered),
        redirect_handler=browser.open,
        callback_handler=browser.wait,
        client_metadata_url="https://conformance-test.local/client-metadata.json",
    )


def sample(schema: Any) -> Any:
    """A value that fits a schema well enough to be sent."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "object":
        fields = schema.get("properties") or {}
        return {name: sample(field) for name, field in fields.items() if name in (schema.get("required") or fields)}
    values = {"string": "test", "integer": 5, "number": 5, "boolean": True, "array": []}
    return values.get(str(kind), "test")


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments without nulls: a parameter that is not given is left out, as its schema asks."""
    return {name: value for name, value in arguments.items() if value is not None}


async def main(url: str) -> int:
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    auth = auth_for(scenario, url, context) if scenario.startswith("auth/") else None
    async with httpx2.AsyncClient(auth=auth, timeout=httpx2.Timeout(30, read=300)) as client:
        toolset = McpToolset(StreamableHttp(url, http_client=client), elicitation=accept_defaults, call_timeout=20)
        try:
            tools = await toolset.tools(make_context("readonly"))
            if scenario == "json-schema-2020-12-preservation":
                schema = next(tool.input_schema for tool in tools if tool.name == "json_schema_2020_12_tool")  # type: ignore[attr-defined]
                context["toolCalls"] = [{"name": "json_schema_echo", "arguments": {"schema": schema}}]
            wanted = context.get("toolCalls")
            calls = (
                [(call["name"], _given(call.get("arguments") or {})) for call in wanted]
                if wanted
                else [(tool.mcp_name, sample(tool.input_schema)) for tool in tools]  # type: ignore[attr-defined]
            )
            by_name: Any = {tool.mcp_name: tool for tool in tools}  # type: ignore[attr-defined]
            for name, arguments in calls:
                if name in by_name:
                    try:
                        await by_name[name].run(make_context("tool"), arguments)
                    except HookworkError as error:
                        print(f"{name}: {error}", file=sys.stderr)
        finally:
            await toolset.close()
    return 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    try:
        sys.exit(asyncio.run(main(sys.argv[-1])))
    except HookworkError as failed:
        print(failed, file=sys.stderr)
        sys.exit(1)
