"""The live adapters pass the suite of live connections, over real WebSockets (models §7, §8b)."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import pytest
from tests.acceptance.live_peers import gemini_peer, openai_peer

from hookwork import LiveRunConfig
from hookwork_testkit.live import LiveStep
from hookwork_testkit.suites import LiveConnectionSuite
from hookwork_testkit.suites.live import LivePeer


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE",
                 "GOOGLE_GENAI_API_VERSION", "OPENAI_API_KEY", "OPENAI_BASE_URL"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


class TestGemini(LiveConnectionSuite):
    """google-genai's live client against a server of the published frames."""

    def peer(self, *script: LiveStep) -> AbstractAsyncContextManager[LivePeer]:
        return gemini_peer(*script)


class TestOpenAI(LiveConnectionSuite):
    """openai's Realtime client against a server of the published events; the protocol knows no resumption (RT-4)."""

    plays = LiveConnectionSuite.plays - {"handle"}

    def peer(self, *script: LiveStep) -> AbstractAsyncContextManager[LivePeer]:
        return openai_peer(*script)

    def make_config(self) -> LiveRunConfig:
        return LiveRunConfig(response_modalities=("AUDIO",), input_audio_transcription={})
