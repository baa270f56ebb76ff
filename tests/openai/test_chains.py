"""``previous_response_id``: only what is new is sent, where the service has the rest (models Beyond, OAI-25)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.openai.asking import KEY, ask, asked, model_on, said, whole
from tests.openai.server import Json, Reply, Sent, Service, Sse
from tests.openai.wire import function_call, incomplete, message, response, stream

from hookwork import Content, FunctionPlugin, ModelRequest, Runner, Settings, user_content
from hookwork.errors import ConfigurationError, ModelError
from hookwork_llm import LlmAgent, tool
from hookwork_openai import OpenAIModel
from hookwork_openai.responses.chains import PREVIOUS

STREAMS = pytest.mark.parametrize("streamed", [False, True])


class Keeping:
    """A service that keeps its responses, as OpenAI's does: each request is answered with the number of its items."""

    def __init__(self) -> None:
        self.kept: dict[str, list[Any]] = {}
        self.script: list[Callable[[], tuple[Any, ...]]] = []

    def __call__(self, sent: Sent) -> Reply:
        previous = sent.body.get("previous_response_id")
        if previous is not None and previous not in self.kept:
            error = {
                "message": f"Previous response with id '{previous}' not found.",
                "type": "invalid_request_error",
                "param": "previous_response_id",
                "code": "previous_response_not_found",
            }
            return Json({"error": error}, status=400)
        heard = [*self.kept.get(previous or "", ()), *sent.body["input"]]
        number = len(self.kept) + 1
        output = self.script.pop(0)() if self.script else (message(f"heard {len(heard)}"),)
        self.kept[f"resp_{number}"] = [*heard, *output]
        if sent.body.get("stream"):
            return Sse(stream(*output, id=f"resp_{number}"))
        return Json(response(*output, id=f"resp_{number}"))


@pytest.fixture
def keeping(service: Service) -> Keeping:
    kept = Keeping()
    service.respond = kept
    return kept


def sent_of(service: Service) -> list[tuple[str | None, int]]:
    """(previous response, number of items) of each request."""
    return [(sent.body.get("previous_response_id"), len(sent.body["input"])) for sent in service.sent]


@STREAMS
async def test_a_conversation_sends_only_what_is_new(service: Service, keeping: Keeping, streamed: bool) -> None:
    model = model_on(service, chain=True)
    contents: list[Content] = []
    for turn in range(3):
        contents.append(user_content(f"question {turn}"))
        answer = await whole(model, ModelRequest(contents=list(contents)), stream=streamed)
        assert answer.content is not None
        contents.append(answer.content)
    await model.close()
    assert sent_of(service) == [(None, 1), ("resp_1", 1), ("resp_2", 1)]
    assert answer.text == "heard 5", "the service knows all five items"
    assert answer.custom_metadata is not None
    assert answer.custom_metadata[PREVIOUS] == "resp_2"
    assert answer.custom_metadata["openai_response_id"] == "resp_3"


async def test_without_the_option_everything_is_sent(service: Service, keeping: Keeping) -> None:
    model = model_on(service)
    first = await whole(model, asked("a"))
    assert first.content is not None
    await whole(model, asked("a", first.content, "b"))
    await model.close()
    assert sent_of(service) == [(None, 1), (None, 3)]


@STREAMS
async def test_turns_with_tools_of_a_session_are_chained(service: Service, keeping: Keeping, streamed: bool) -> None:
    @tool
    def look(at: str) -> dict[str, Any]:
        """Look."""
        return {"seen": at}

    keeping.script = [lambda: (function_call("look", '{"at": "a"}'),), lambda: (message("It is a."),)]
    agent = LlmAgent(name="seeker", model=model_on(service, chain=True), instruction="Look.", tools=[look])
    async with Runner.in_memory(agent, settings=Settings(tables={})) as runner:
        await runner.ask("What is there?", session_id="s")
        await runner.ask("And now?", session_id="s")
    assert sent_of(service) == [(None, 1), ("resp_1", 1), ("resp_2", 1)]
    assert [sent.body["input"][0]["type"] for sent in service.sent] == ["message", "function_call_output", "message"]
    assert all(sent.body["instructions"] for sent in service.sent), "instructions are not inherited"
    assert all(sent.body["tools"] for sent in service.sent)


async def test_a_changed_history_goes_out_in_full(service: Service, keeping: Keeping) -> None:
    model = model_on(service, chain=True)
    first = await whole(model, asked("a"))
    assert first.content is not None
    for changed in (
        asked("A", first.content, "b"),  # the question was edited
        asked("a", said("something else"), "b"),  # the answer was
        asked("summary of what was said", "b"),  # compacted
    ):
        await whole(model, changed)
    await model.close()
    assert [previous for previous, _ in sent_of(service)] == [None] * 4


async def test_a_rewound_conversation_goes_on_from_where_it_was_cut(service: Service, keeping: Keeping) -> None:
    model = model_on(service, chain=True)
    first = await whole(model, asked("a"))
    assert first.content is not None
    second = await whole(model, asked("a", first.content, "b"))
    assert second.content is not None
    await whole(model, asked("a", first.content, "c"))  # the second turn was taken back
    await model.close()
    assert sent_of(service) == [(None, 1), ("resp_1", 1), ("resp_1", 1)]


async def test_a_compacted_session_does_not_chain(service: Service, keeping: Keeping) -> None:
    def forget(request: ModelRequest) -> None:
        request.contents = list(request.contents[-1:])

    agent = LlmAgent(name="short", model=model_on(service, chain=True))
    plugin = FunctionPlugin("forget", before_model=forget)
    async with Runner.in_memory(agent, settings=Settings(tables={}), plugins=[plugin]) as runner:
        for text in ("one", "two", "three"):
            await runner.ask(text, session_id="s")
    assert sent_of(service) == [(None, 1)] * 3


@STREAMS
async def test_a_response_that_the_service_lost_is_sent_in_full_once(
    service: Service, keeping: Keeping, streamed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    model = model_on(service, chain=True)
    first = await whole(model, asked("a"))
    assert first.content is not None
    keeping.kept.clear()
    responses = await ask(model, asked("a", first.content, "b"), stream=streamed)
    assert responses[-1].text == "heard 3"
    assert sent_of(service) == [(None, 1), ("resp_1", 1), (None, 3)]
    assert len([record for record in caplog.records if "has lost a response" in record.message]) == 1
    assert responses[-1].content is not None
    await whole(model, asked("a", first.content, "b", responses[-1].content, "c"))
    await model.close()
    assert sent_of(service)[-1] == ("resp_1", 1), "the full request began a chain of its own"


async def test_another_refusal_is_an_error_and_nothing_is_sent_again(service: Service) -> None:
    model = model_on(service, chain=True)
    service.answers(
        Json(response(message("ok"))),
        Json({"error": {"message": "no", "code": "context_length_exceeded"}}, status=400),
    )
    first = await whole(model, asked("a"))
    assert first.content is not None
    with pytest.raises(ModelError, match="400"):
        await whole(model, asked("a", first.content, "b"))
    await model.close()
    assert len(service.sent) == 2


async def test_an_answer_that_was_cut_off_is_not_gone_on_from(service: Service) -> None:
    cut = incomplete("max_output_tokens", message("half"))["response"]
    service.answers(Json(cut), Json(response(message("ok"))))
    model = model_on(service, chain=True)
    first = await whole(model, asked("a"))
    assert first.content is not None
    await whole(model, asked("a", first.content, "go on"))
    await model.close()
    assert sent_of(service) == [(None, 1), (None, 3)]


async def test_another_model_or_a_conversation_of_the_callers_own_is_not_chained(
    service: Service, keeping: Keeping
) -> None:
    model = model_on(service, chain=True)
    first = await whole(model, asked("a"))
    assert first.content is not None
    request = asked("a", first.content, "b")
    request.model = "gpt-5.2-mini"
    await whole(model, request)
    own = asked("a", first.content, "b", http_options={"extra_body": {"conversation": "conv_1"}})
    await whole(model, own)
    await model.close()
    assert sent_of(service) == [(None, 1), (None, 3), (None, 3)]


async def test_many_conversations_at_once_keep_to_their_own(service: Service, keeping: Keeping) -> None:
    agent = LlmAgent(name="many", model=model_on(service, chain=True))
    async with Runner.in_memory(agent, settings=Settings(tables={})) as runner:
        for turn in range(3):
            for n in range(20):
                await runner.ask(f"{n}: {turn}", session_id=f"s{n}")
    for kept in keeping.kept.values():
        questions = [json.dumps(item) for item in kept if item.get("role") == "user"]
        assert len({question.split(":")[3] for question in questions}) == 1, questions
    assert [length for _, length in sent_of(service)] == [1] * 60


@pytest.mark.parametrize("options", [{"store": False}, {"api": "chat"}])
def test_a_chain_needs_responses_that_are_kept(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="'chain'"):
        OpenAIModel("gpt-5.2", api_key=KEY, chain=True, **options)


async def test_a_server_of_chat_completions_warns_once(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    said_so = {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}
    service.answers(Json(said_so), Json(said_so))
    model = model_on(service, api="auto", chain=True)
    await whole(model)
    await whole(model)
    await model.close()
    assert [record.message for record in caplog.records if "chain" in record.message] != []
    assert len([record for record in caplog.records if "chain" in record.message]) == 1
