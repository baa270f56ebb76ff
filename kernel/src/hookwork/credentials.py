"""Credentials of outgoing requests, and the pause in which a person consents (crosscutting AUTH-1 …, AUTH-30 …).

A *provider* decides which `Credential` a request gets; a credential writes itself on headers. One that first needs
somebody's consent raises `ConsentRequiredError`: the tool call that asked for it pauses, a client sends the person to
the page and answers, and the call runs again. What the client sent is then in the run's ephemeral scope
(`consent_answer`), nowhere else: secrets are taken out of a message before it is stored.
"""

from __future__ import annotations

import hmac
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from hookwork.errors import ConsentRequiredError, InvalidResumeResponse, NothingToResume
from hookwork.records.frozen import thaw

if TYPE_CHECKING:
    from hookwork.context import ReadonlyContext
    from hookwork.ephemeral import EphemeralScope
    from hookwork.records.content import Content, FunctionCall, Part
    from hookwork.records.history import Call
    from hookwork.records.session import Session

logger = logging.getLogger("hookwork.runner")

#: The function name of a request for consent, and the wire key of an event's actions that names what it is for.
REQUEST_CREDENTIAL = "adk_request_credential"
REQUESTED = "requestedAuthConfigs"

_ANSWERS = "hookwork.credentials"
_CREDENTIALS = ("exchangedAuthCredential", "rawAuthCredential")
#: What of a credential may be shown and stored (AUTH-31, AUTH-33); everything else is a secret, or may hold one.
_PUBLIC = frozenset({"authType", "clientId", "authUri", "redirectUri", "nonce", "state", "audience", "scheme"})
_NESTED = ("oauth2", "http", "serviceAccount")


class Credential(ABC):
    """Knows how to write itself on the headers of a request. Its repr holds no secret."""

    @abstractmethod
    async def apply(self, headers: MutableMapping[str, str]) -> None:
        """Write on a mapping that ignores the case of names; an equal name is replaced. May raise CredentialError."""


@runtime_checkable
class CredentialProvider(Protocol):
    """Decides which credential a request gets; a plain function of the context, async or not, is one too (AUTH-3)."""

    async def credential(self, ctx: ReadonlyContext) -> Credential:
        """The credential for the request that is made for ``ctx``; may do I/O.

        Raises:
            ConsentRequiredError: a person has to consent first. AuthError: there is none.
        """


def consent_answer(ctx: ReadonlyContext, key: str) -> dict[str, Any] | None:
    """What a client answered to a request for consent in this run: a credential in wire form, None when nothing came.

    ``key`` is that of the `ConsentRequiredError`.
    """
    found: Mapping[str, Any] = ctx.ephemeral.get(_ANSWERS) or {}
    return found.get(key)


def has_consent_answers(ctx: ReadonlyContext) -> bool:
    """Whether this run was begun by an answer to a request for consent."""
    return bool(ctx.ephemeral.get(_ANSWERS))


def take_answers(session: Session, message: Content, scope: EphemeralScope) -> Content:
    """A message without the secrets of its answers to requests for consent; these go to the ephemeral scope (AUTH-34).

    An answer that is somebody else's (`read_answer`) is left out with a warning.

    Raises:
        InvalidResumeResponse: an answer holds no credential. NothingToResume: no answer and nothing else is left.
    """
    index = session.history()
    answers: dict[str, Any] = {}
    parts: list[Part] = []
    foreign: list[str] = []
    for part in message.parts:
        response = part.function_response
        call = index.newest_call(response.id or "") if response is not None else None
        if response is None or call is None or call.kind != "credential":
            parts.append(part)
            continue
        if not call.is_open:  # it comes too late and is judged so; what it holds is kept out of sight all the same
            parts.append(part.replace(function_response=response.replace(response={})))
            continue
        read = read_answer(call, response.response)
        if read is None:
            logger.warning("an answer to %s was left out: its state is not the one that was issued", call.id)
            foreign.append(call.id)
            continue
        key, answers[key], stored = read
        parts.append(part.replace(function_response=response.replace(response=stored)))
    if foreign and not parts:
        raise NothingToResume(
            f"the answers to {', '.join(foreign)} are not of the requests that were made (another state); nothing was "
            "stored",
            unknown=foreign,
        )
    if answers:
        scope[_ANSWERS] = {**(scope.get(_ANSWERS) or {}), **answers}
    return message.replace(parts=parts)


def auth_config(key: str, auth_uri: str, nonce: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The AuthConfig that a client is shown: no secret is in it (AUTH-31, AUTH-33)."""
    config = without_secrets(given or {})
    config["credentialKey"] = key
    shown = dict(config.get("exchangedAuthCredential") or {"authType": "oauth2"})
    oauth2 = dict(shown.get("oauth2") or {})
    shown["oauth2"] = oauth2 | {"authUri": auth_uri, "nonce": nonce, "state": oauth2.get("state", nonce)}
    config["exchangedAuthCredential"] = shown
    return config


def consent_request(required: ConsentRequiredError, request_id: str, call_id: str) -> FunctionCall:
    """The call that asks a client to let somebody consent (AUTH-30). ``call_id``: the call that waits for it."""
    from hookwork.records.content import FunctionCall

    config = auth_config(required.key, required.auth_uri, required.nonce, required.config)
    args = {"functionCallId": call_id, "authConfig": config}
    return FunctionCall(id=request_id, name=REQUEST_CREDENTIAL, args=args)


def required_consent(shown: Mapping[str, Any]) -> ConsentRequiredError:
    """The error that an AuthConfig made by `auth_config` was made of, in the process that runs the agent (EFF-7)."""
    credential: Mapping[str, Any] = shown.get("exchangedAuthCredential") or {}
    oauth2: Mapping[str, Any] = credential.get("oauth2") or {}
    uri, nonce = str(oauth2.get("authUri", "")), str(oauth2.get("nonce", ""))
    return ConsentRequiredError(uri, nonce, str(shown.get("credentialKey", "")), shown)


def without_secrets(config: Mapping[str, Any]) -> dict[str, Any]:
    """An AuthConfig with nothing of its credentials but what may be shown."""
    shown = {key: thaw(value) for key, value in config.items() if key not in _CREDENTIALS}
    return shown | {key: _public(config[key]) for key in _CREDENTIALS if isinstance(config.get(key), Mapping)}


def _public(credential: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in credential.items() if key in _PUBLIC and isinstance(value, str)}
    nested = {key: _public(credential[key]) for key in _NESTED if isinstance(credential.get(key), Mapping)}
    return kept | nested


def read_answer(call: Call, response: Any) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
    """An answer to a request for consent: (key, credential for the run, what of it may be stored) (AUTH-32).

    Taken are a filled AuthConfig, a bare credential, and the text of an API key (``{"response": text}``). None: its
    ``state`` is not the one that was issued, so it is somebody else's and counts as no answer.

    Raises:
        InvalidResumeResponse: it holds no credential.
    """
    asked = call.args.get("authConfig")
    asked = asked if isinstance(asked, Mapping) else {}
    key = str(asked.get("credentialKey") or "")
    credential = _credential_in(call, response)
    issued = _oauth2(asked.get("exchangedAuthCredential")).get("state")
    came = _oauth2(credential).get("state")
    if issued and came is not None and not hmac.compare_digest(str(issued).encode(), str(came).encode()):
        return None
    stored = {"credentialKey": key, "exchangedAuthCredential": _public(credential)}
    return key, credential, stored


def _credential_in(call: Call, response: Any) -> dict[str, Any]:
    if isinstance(response, Mapping):
        for name in _CREDENTIALS:
            if isinstance(response.get(name), Mapping):
                return dict(thaw(response[name]))
        if isinstance(response.get("authType"), str):
            return dict(thaw(response))
        text = response.get("response") if len(response) == 1 else None
        if isinstance(text, str) and text:
            return {"authType": "apiKey", "apiKey": text}
    raise InvalidResumeResponse(
        f"the answer to {call.id!r} holds no credential; send the AuthConfig of the request with its "
        "exchangedAuthCredential filled in. Nothing was stored."
    )


def _oauth2(credential: Any) -> Mapping[str, Any]:
    found = credential.get("oauth2") if isinstance(credential, Mapping) else None
    return found if isinstance(found, Mapping) else {}
