"""Test cases that implementations share: a folder with what to say, recordings and the session (CONF-11, CONF-12)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any, NamedTuple

from hookwork import Content, Event, RunConfig, Runner, user_content
from hookwork.errors import ConfigurationError, ValidationError
from hookwork.records.codec import dump, load
from hookwork.records.frozen import thaw
from hookwork_record_replay.adk.files import read_yaml, write_yaml
from hookwork_record_replay.adk.places import RECORD_KEY, REPLAY_KEY

Json = dict[str, Any]
#: Makes the runner of a case's agent.
MakeRunner = Callable[[], Runner]

#: Whose sessions the cases are.
USER = "conformance_user"
#: Streaming mode → name of the file with the session that came out.
SESSIONS = {"none": "generated-session.yaml", "sse": "generated-session-sse.yaml"}

_SPEC_KEYS = {"description", "agent", "initial_state", "user_messages"}
_MESSAGE_KEYS = {"text", "content", "state_delta"}
#: What differs from run to run, or from one implementation to another (CONF-12).
_OF_EVENTS = {"id", "timestamp", "invocation_id", "long_running_tool_ids", "node_info"}
_OF_ACTIONS = {"requested_auth_configs", "requested_tool_confirmations"}
_OF_STATE = {RECORD_KEY, REPLAY_KEY}


class Message(NamedTuple):
    """What the user says, and what is written to state with it."""

    content: Content
    state_delta: Json


class Spec(NamedTuple):
    """A test case: what ``spec.yaml`` says."""

    description: str
    agent: str
    initial_state: Json
    messages: tuple[Message, ...]


def read_spec(folder: Path) -> Spec:
    """The test case of a folder.

    Raises:
        ConfigurationError: no ``spec.yaml``, or one that cannot be read.
        ValidationError: an unknown key, a message with neither or both of ``text`` and ``content``, a wrong form.
    """
    tree = read_yaml(folder / "spec.yaml")
    if not isinstance(tree, dict):
        raise ValidationError(f"{folder / 'spec.yaml'} is no table", path="")
    _check_keys(tree, _SPEC_KEYS, "")
    messages = tree.get("user_messages") or []
    if not isinstance(messages, list):
        raise ValidationError("user_messages is a list", path="user_messages")
    return Spec(
        description=str(tree.get("description") or ""),
        agent=str(tree.get("agent") or ""),
        initial_state=dict(tree.get("initial_state") or {}),
        messages=tuple(_message(entry, f"user_messages[{n}]") for n, entry in enumerate(messages)),
    )


def _message(entry: Any, path: str) -> Message:
    if not isinstance(entry, dict):
        raise ValidationError(f"{path} is a table", path=path)
    _check_keys(entry, _MESSAGE_KEYS, path)
    text, content = entry.get("text"), entry.get("content")
    if (text is None) == (content is None):
        raise ValidationError(f"{path} has one of text and content", path=path)
    said = user_content(str(text)) if content is None else load(Content, {"role": "user", **content})
    return Message(said, dict(entry.get("state_delta") or {}))


def _check_keys(table: Mapping[str, Any], known: set[str], path: str) -> None:
    for key in table:
        if key not in known:
            where = f"{path}.{key}".lstrip(".")
            raise ValidationError(f"unknown key {where!r}; known keys: {', '.join(sorted(known))}", path=where)


async def record_case(folder: Path, make_runner: MakeRunner, *, mode: str = "none") -> None:
    """Run a test case for real, and write its recordings and its session.

    Args:
        folder: of the case; it lies below the base directory of the runner's `AdkRecorder`.
        make_runner: a runner of the case's agent with that plugin.
        mode: of streaming, ``none`` or ``sse``.

    Raises:
        ConfigurationError, ValidationError: the case cannot be read; and what its runs raise.
    """
    session = await _played(folder, make_runner, RECORD_KEY, mode)
    write_yaml(folder / SESSIONS[mode], session)


async def replay_case(folder: Path, make_runner: MakeRunner, *, mode: str = "none") -> str:
    """Play a recorded test case back; how its session differs from the recorded one, empty when it does not.

    Args:
        make_runner: a runner of the case's agent with an `AdkReplayer` below whose base directory the case lies.

    Raises:
        ReplayMismatchError: a call was made that was not recorded; else as `record_case`.
    """
    recorded = read_yaml(folder / SESSIONS[mode])
    made = await _played(folder, make_runner, REPLAY_KEY, mode)
    one, other = (json.dumps(comparable_session(value), indent=1, sort_keys=True, default=repr).splitlines()
                  for value in (recorded, made))  # fmt: skip
    return "\n".join(unified_diff(one, other, "recorded", "replayed", n=2, lineterm=""))


async def _played(folder: Path, make_runner: MakeRunner, key: str, mode: str) -> Json:
    spec, place = read_spec(folder), _place(folder, mode)
    async with make_runner() as runner:
        app = runner.app_name
        session = await runner.sessions.create_session(app_name=app, user_id=USER, state=spec.initial_state)
        for index, message in enumerate(spec.messages):
            stored = await runner.sessions.get_session(app_name=app, user_id=USER, session_id=session.id)
            run = runner.run(
                user_id=USER,
                session_id=session.id,
                message=_addressed(message.content, stored.events),
                state_delta={**message.state_delta, key: {**place, "user_message_index": index}},
                config=RunConfig(streaming_mode=mode),
            )
            await run.wait()
        stored = await runner.sessions.get_session(app_name=app, user_id=USER, session_id=session.id)
        return {
            "id": stored.id,
            "app_name": app,
            "user_id": USER,
            "state": thaw(dict(stored.state)),
            "events": [dump(event, keys="snake") for event in stored.events],
        }


def _place(folder: Path, mode: str) -> Json:
    return {"dir": str(folder.resolve()), "streaming_mode": mode}


def _addressed(content: Content, events: Sequence[Event]) -> Content:
    """A message whose function responses without an id answer the oldest open call of their name."""
    parts = list(content.parts)
    if all(part.function_response is None or part.function_response.id for part in parts):
        return content
    answered = {
        part.function_response.id
        for event in events
        if event.author == "user" and event.content is not None
        for part in event.content.parts
        if part.function_response is not None
    }
    calls = [call for event in events if event.content is not None for call in event.content.function_calls]
    for n, part in enumerate(parts):
        response = part.function_response
        if response is None or response.id:
            continue
        found = next((call.id for call in calls if call.name == response.name and call.id not in answered), None)
        if found is None:
            raise ConfigurationError(f"the case answers {response.name!r}, and no call of that name is open")
        answered.add(found)
        parts[n] = part.replace(function_response=response.replace(id=found))
    return content.replace(parts=parts)


def comparable_session(session: Any) -> Json:
    """A session as it is compared: without ids, times, signatures and the keys that drive recorder and replayer."""
    if not isinstance(session, Mapping):
        return {}
    return {
        "app_name": session.get("app_name"),
        "user_id": session.get("user_id"),
        "state": _without(session.get("state"), _OF_STATE),
        "events": [_event(event) for event in session.get("events") or ()],
    }


def _event(event: Mapping[str, Any]) -> Json:
    found = {key: value for key, value in event.items() if key not in _OF_EVENTS}
    actions = _without(found.pop("actions", None), _OF_ACTIONS)
    if "state_delta" in actions:
        actions["state_delta"] = _without(actions["state_delta"], _OF_STATE)
    found["actions"] = {key: value for key, value in actions.items() if value not in ({}, [], None)}
    content = found.get("content")
    if isinstance(content, Mapping):
        found["content"] = {**content, "parts": [_part(part) for part in content.get("parts") or ()]}
    return found


def _part(part: Mapping[str, Any]) -> Json:
    found = {key: value for key, value in part.items() if key != "thought_signature"}
    for key in ("function_call", "function_response"):
        if isinstance(found.get(key), Mapping):
            found[key] = _without(found[key], {"id"})
    return found


def _without(value: Any, keys: set[str]) -> Json:
    return {key: item for key, item in value.items() if key not in keys} if isinstance(value, Mapping) else {}
