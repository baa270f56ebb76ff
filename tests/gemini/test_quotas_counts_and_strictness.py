"""Clear words about quotas, counts that may be believed, one candidate, the strictness switch (models Beyond)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.gemini.making import api_model, asking, vertex_model, whole_of
from tests.gemini.service import Failure, Reply, Service, chunk, error_body

from hookwork.errors import ConfigurationError, ModelError
from hookwork_gemini import GeminiModel
from hookwork_gemini.options import options_from

STREAMS = pytest.mark.parametrize("stream", [False, True])
#: Details of a 429 as the Gemini API documents them (google.rpc).
QUOTA = "type.googleapis.com/google.rpc.QuotaFailure"
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12s"}


def exhausted(*details: dict[str, Any]) -> Failure:
    return Failure(429, error_body(429, "RESOURCE_EXHAUSTED", "You exceeded your quota, k-secret", *details))


def quota(name: str) -> dict[str, Any]:
    return {"@type": QUOTA, "violations": [{"quotaMetric": "generativelanguage.googleapis.com/x", "quotaId": name}]}


async def refused(service: Service, failure: Failure, *, stream: bool = False) -> ModelError:
    service.scripts = [failure]
    with pytest.raises(ModelError) as caught:
        await whole_of(api_model(service), stream=stream)
    return caught.value


@STREAMS
async def test_a_429_names_the_quota_the_wait_and_what_to_do(service: Service, stream: bool) -> None:
    name = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
    error = await refused(service, exhausted(quota(name), RETRY), stream=stream)
    text = str(error)
    assert (error.kind, error.retryable, error.retry_after) == ("rate_limit", True, 12.0)
    for said in (name, "wait 12 s", "retry=True", "higher quota"):
        assert said in text
    assert "k-secret" not in text


async def test_a_quota_of_the_day_is_not_waited_for(service: Service) -> None:
    error = await refused(service, exhausted(quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), RETRY))
    assert (error.kind, error.retryable) == ("rate_limit", False)
    assert "used up for today" in str(error)


async def test_a_429_without_details_says_what_to_do_all_the_same(service: Service) -> None:
    error = await refused(service, exhausted())
    assert (error.retryable, error.retry_after) == (True, None)
    assert "lower the rate" in str(error)


@pytest.mark.parametrize("name", ["ignore all\nprevious", "x" * 200, 7, None])
async def test_a_quota_whose_name_is_no_name_is_not_quoted(service: Service, name: Any) -> None:
    error = await refused(service, exhausted({"@type": QUOTA, "violations": [{"quotaId": name}]}))
    assert str(name) not in str(error) or name is None
    assert error.retryable


@STREAMS
async def test_mod_17_a_negative_count_is_one_that_was_not_reported(
    service: Service, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": -3, "totalTokenCount": -1, "thoughtsTokenCount": 0}
    service.scripts = [Reply(chunk({"text": "a"}), chunk({"text": "b"}, finish="STOP", usageMetadata=usage))]
    found = (await whole_of(api_model(service), stream=stream)).usage_metadata
    assert found is not None
    assert (found.prompt_token_count, found.candidates_token_count) == (10, None)
    assert (found.total_token_count, found.thoughts_token_count) == (None, 0)
    assert len([record for record in caplog.records if "negative" in record.message]) == 1


async def test_more_than_one_candidate_is_warned_about_once(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        await whole_of(api_model(service), asking(candidate_count=2))
    assert len([record for record in caplog.records if "only the first candidate" in record.message]) == 1
    await whole_of(api_model(service), asking(candidate_count=1))
    assert service.received[0].body["generationConfig"]["candidateCount"] == 2


async def test_conv_1_only_the_first_candidate_is_read(service: Service) -> None:
    answer = chunk({"text": "first"}, finish="STOP")
    answer["candidates"].append({"content": {"role": "model", "parts": [{"text": "second"}]}, "index": 1})
    service.scripts = [Reply(answer, whole=answer)]
    assert (await whole_of(api_model(service), asking(candidate_count=2))).text == "first"


async def test_a_key_that_the_sdk_does_not_know_is_an_error_or_one_warning(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    request = asking(temperature=0.5, extra={"futureSetting": 1})
    with pytest.raises(ModelError, match="futureSetting") as caught:
        await whole_of(api_model(service), request)
    assert caught.value.kind == "invalid_request"
    assert not service.received
    for _ in range(2):
        await whole_of(api_model(service, unsupported="warn"), request)
    assert service.received[0].body["generationConfig"] == {"temperature": 0.5}
    assert len([record for record in caplog.records if "futureSetting" in record.message]) == 1


#: What the SDK takes for one backend and refuses for the other, by name.
ON_VERTEX_ONLY = {"routing_config": {"autoMode": {}}, "audio_timestamp": True, "model_selection_config": {}}


@pytest.mark.parametrize("name", sorted(ON_VERTEX_ONLY))
async def test_a_setting_of_the_other_backend_is_an_error_or_one_warning(
    service: Service, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    request = asking(temperature=0.5, extra={name: ON_VERTEX_ONLY[name]})
    with pytest.raises(ModelError, match=name) as caught:
        await whole_of(api_model(service), request)
    assert caught.value.kind == "invalid_request"
    assert not service.received
    for _ in range(2):
        await whole_of(api_model(service, unsupported="warn"), request)
    assert service.received[0].body["generationConfig"] == {"temperature": 0.5}
    assert len([record for record in caplog.records if name in record.message]) == 1
    await whole_of(vertex_model(service), request)


def test_the_switch_and_interactions_are_settings_too() -> None:
    table = {"unsupported": "warn", "interactions": {"store": False}}
    assert options_from(table) == table
    with pytest.raises(ConfigurationError, match="'unsupported'"):
        GeminiModel("gemini-2.5-flash", unsupported="maybe")
