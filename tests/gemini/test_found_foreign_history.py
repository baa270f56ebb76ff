"""A conversation that another model began, as a fallback or a router hands it on (models GEM-14, CASE-FLOW-7)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.gemini.making import sent
from tests.gemini.service import Service

from hookwork import Content, ModelRequest, Part, user_content
from hookwork.records.content import FunctionCall, FunctionResponse

#: The text Google documents for calls that Gemini did not make.
SENTINEL = "skip_thought_signature_validator"
FOREIGN = Part(
    text="hm", thought=True, part_metadata={"openai": {"reasoning": {"id": "rs_1", "encrypted_content": "ENC"}}}
)


def history(*signatures: bytes | None) -> ModelRequest:
    calls = [
        Part(function_call=FunctionCall(id=f"c{index}", name="look", args={}), thought_signature=signature)
        for index, signature in enumerate(signatures)
    ]
    answers = [
        Part(function_response=FunctionResponse(id=f"c{index}", name="look", response={"a": 1}))
        for index in range(len(signatures))
    ]
    return ModelRequest(
        contents=[user_content("go"), Content(role="model", parts=[FOREIGN, *calls]), user_content(answers)]
    )


def signatures_in(body: dict[str, Any]) -> list[str | None]:
    return [part.get("thoughtSignature") for part in body["contents"][1]["parts"] if "functionCall" in part]


@pytest.mark.parametrize("vertex", [False, True])
@pytest.mark.parametrize("name", ["gemini-3-flash", "gemini-3.1-pro-preview", "gemini-flash-latest"])
async def test_a_step_without_a_signature_gets_the_documented_one(service: Service, name: str, vertex: bool) -> None:
    body = await sent(service, history(None, None), vertex=vertex, name=name)
    assert signatures_in(body) == [SENTINEL, None]


async def test_signatures_of_gemini_stay_where_they_are(service: Service) -> None:
    assert signatures_in(await sent(service, history(b"sig1", None), name="gemini-3-flash")) == ["c2lnMQ==", None]


async def test_models_that_do_not_insist_get_none(service: Service) -> None:
    assert signatures_in(await sent(service, history(None), name="gemini-2.5-flash")) == [None]


@pytest.mark.parametrize("vertex", [False, True])
async def test_notes_of_another_adapter_stay_here(service: Service, vertex: bool) -> None:
    body = await sent(service, history(None), vertex=vertex)
    assert "ENC" not in str(body)
    assert body["contents"][1]["parts"][0] == {"text": "hm", "thought": True}


async def test_part_metadata_of_a_person_is_sent(service: Service) -> None:
    """Every field that the kernel knows maps one to one (models GEM-14)."""
    noted = Part(text="q", part_metadata={"source": "a.md"})
    body = await sent(service, ModelRequest(contents=[user_content([noted])]))
    assert body["contents"][0]["parts"] == [{"text": "q", "partMetadata": {"source": "a.md"}}]
