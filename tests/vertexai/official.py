"""Run by an interpreter that has google-cloud-aiplatform: look at, and write to, the fake with the vendor's own client.

python official.py validate HOST     walks through every method of the fake; prints "ok"
python official.py write HOST ENGINE writes a session as another kit would, by named fields only
python official.py read HOST SESSION prints {"session": …, "events": […]} as the client's own messages read them
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime

from google.api_core.exceptions import BadRequest, InvalidArgument, NotFound
from google.auth.credentials import AnonymousCredentials
from google.cloud.aiplatform_v1beta1 import types
from google.cloud.aiplatform_v1beta1.services import (
    memory_bank_service,
    session_service,
    vertex_rag_data_service,
    vertex_rag_service,
)
from google.cloud.aiplatform_v1beta1.services.memory_bank_service.transports.rest import MemoryBankServiceRestTransport
from google.cloud.aiplatform_v1beta1.services.session_service.transports.rest import SessionServiceRestTransport
from google.cloud.aiplatform_v1beta1.services.vertex_rag_data_service.transports.rest import (
    VertexRagDataServiceRestTransport,
)
from google.cloud.aiplatform_v1beta1.services.vertex_rag_service.transports.rest import VertexRagServiceRestTransport

ENGINE = "projects/official/locations/us-central1/reasoningEngines/42"
AT = datetime(2025, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)


def transport(kind, host):
    return kind(host=host, credentials=AnonymousCredentials(), url_scheme="http")


def sessions_of(host):
    return session_service.SessionServiceClient(transport=transport(SessionServiceRestTransport, host))


def shown(message):
    return json.loads(type(message).to_json(message, including_default_value_fields=False))


def refused(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind} was not raised")


def event(text, delta=None, **fields):
    return types.SessionEvent(
        author=fields.pop("author", "agent"),
        invocation_id="inv-1",
        timestamp=AT,
        content={"role": "model", "parts": [{"text": text}, {"function_call": {"name": "f", "args": {"x": 1}}}]},
        actions={"state_delta": delta or {}, "artifact_delta": {"a.png": 2}},
        **fields,
    )


def validate_sessions(host):
    client = sessions_of(host)
    made = client.create_session(
        request={
            "parent": ENGINE,
            "session": {"user_id": "u", "session_state": {"k": 5, "app:a": 1}, "labels": {"l": "v"}, "ttl": "86400s"},
            "session_id": "s-1",
        }
    ).result(timeout=30)
    assert made.name.endswith("/sessions/s-1"), made
    assert "a" not in made.session_state, made
    name = f"{ENGINE}/sessions/s-1"
    assert client.append_event(name=name, event=event("hi", {"k": 6, "user:u": "x"})) == types.AppendEventResponse()
    got = client.get_session(name=name)
    assert dict(got.session_state) == {"k": 6, "app:a": 1, "user:u": "x"}, got
    assert (got.user_id, got.labels["l"]) == ("u", "v")
    assert got.expire_time > got.update_time > got.create_time
    for number in range(120):
        client.append_event(name=name, event=event(str(number)))
    listed = list(client.list_events(parent=name))
    assert len(listed) == 121
    assert listed[0].content.parts[1].function_call.args["x"] == 1
    assert listed[0].actions.artifact_delta["a.png"] == 2
    assert listed[0].timestamp == AT
    since = client.list_events(request={"parent": name, "filter": 'timestamp>="2025-01-01T01:00:00Z"'})
    assert list(since) == []
    newest = client.list_events(request={"parent": name, "order_by": "timestamp desc", "page_size": 1})
    assert next(iter(newest)).content.parts[0].text == "119"
    made = client.create_session(parent=ENGINE, session=types.Session(user_id='v "x"')).result(timeout=30)
    assert made.name.rpartition("/")[2].isdigit()
    found = list(client.list_sessions(request={"parent": ENGINE, "filter": 'user_id="u"'}))
    assert [session.name.rpartition("/")[2] for session in found] == ["s-1"]
    assert len(list(client.list_sessions(parent=ENGINE))) == 2
    changed = client.update_session(
        session=types.Session(name=name, display_name="shown"), update_mask={"paths": ["display_name"]}
    )
    assert changed.display_name == "shown"
    taken = {"parent": ENGINE, "session": {"user_id": "u"}, "session_id": "s-1"}
    assert "already exists" in str(refused((BadRequest, InvalidArgument), lambda: client.create_session(request=taken)))
    refused(NotFound, lambda: client.get_session(name=f"{ENGINE}/sessions/none"))
    refused((BadRequest, InvalidArgument), lambda: client.append_event(name=name, event=event("x", author="")))
    client.delete_session(name=name).result(timeout=30)
    refused(NotFound, lambda: client.list_events(parent=name))


def validate_memories(host):
    client = memory_bank_service.MemoryBankServiceClient(transport=transport(MemoryBankServiceRestTransport, host))
    scope = {"app_name": "a", "user_id": "u"}
    made = client.create_memory(
        request={"parent": ENGINE, "memory": {"fact": "likes tea", "scope": scope}, "memory_id": "m-1"}
    ).result(timeout=30)
    assert made.fact == "likes tea"
    direct = {"events": [{"content": {"role": "user", "parts": [{"text": "lives in Tokyo"}]}}]}
    asked = {"parent": ENGINE, "direct_contents_source": direct, "scope": scope}
    generated = client.generate_memories(request=asked).result(timeout=30).generated_memories
    created = types.GenerateMemoriesResponse.GeneratedMemory.Action.CREATED
    assert [one.action for one in generated] == [created], generated
    search = {"search_query": "which tea", "top_k": 2}
    found = client.retrieve_memories(
        request={"parent": ENGINE, "scope": scope, "similarity_search_params": search}
    ).retrieved_memories
    assert [one.memory.fact for one in found] == ["likes tea"]
    assert 0 < found[0].distance < 1
    other = {"parent": ENGINE, "scope": {"user_id": "u"}, "similarity_search_params": search}
    assert not client.retrieve_memories(request=other).retrieved_memories
    changed = client.update_memory(
        memory={"name": f"{ENGINE}/memories/m-1", "fact": "likes coffee"}, update_mask={"paths": ["fact"]}
    ).result(timeout=30)
    assert changed.fact == "likes coffee"
    assert len(list(client.list_memories(parent=ENGINE))) == 2
    client.delete_memory(name=f"{ENGINE}/memories/m-1").result(timeout=30)
    refused(NotFound, lambda: client.get_memory(name=f"{ENGINE}/memories/m-1"))


def validate_rag(host, corpus):
    data = vertex_rag_data_service.VertexRagDataServiceClient(
        transport=transport(VertexRagDataServiceRestTransport, host)
    )
    files = list(data.list_rag_files(parent=corpus))
    assert len(files) == 1, files
    rag = vertex_rag_service.VertexRagServiceClient(transport=transport(VertexRagServiceRestTransport, host))
    store = {"rag_resources": [{"rag_corpus": corpus, "rag_file_ids": [files[0].name.rpartition("/")[2]]}]}
    answer = rag.retrieve_contexts(
        request={
            "parent": corpus.rpartition("/ragCorpora/")[0],
            "vertex_rag_store": {**store, "vector_distance_threshold": 10},
            "query": {"text": "tea", "similarity_top_k": 3},
        }
    )
    contexts = answer.contexts.contexts
    assert [context.source_display_name for context in contexts] == [files[0].display_name], answer
    data.delete_rag_file(name=files[0].name).result(timeout=30)
    assert not list(data.list_rag_files(parent=corpus))


def main(what, host, *more):
    """Do it."""
    if what == "validate":
        validate_sessions(host)
        validate_memories(host)
        validate_rag(host, *more)
        print("ok")
    elif what == "write":
        client = sessions_of(host)
        request = {"parent": more[0], "session": {"user_id": "u1", "session_state": {"k": 1}}, "session_id": "theirs"}
        made = client.create_session(request=request).result(timeout=30)
        metadata = {"branch": "root.a", "turn_complete": True, "long_running_tool_ids": ["c1"]}
        client.append_event(name=f"{more[0]}/sessions/theirs", event=event("hi", {"k": 2}, event_metadata=metadata))
        print(made.name)
    else:
        client = sessions_of(host)
        session = shown(client.get_session(name=more[0]))
        print(json.dumps({"session": session, "events": [shown(item) for item in client.list_events(parent=more[0])]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
