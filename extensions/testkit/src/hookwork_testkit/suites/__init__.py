"""Conformance suites of the service contracts (services §8): one test method a checklist line, named after its tag.

A backend is checked by a subclass of three lines, in a test module of its own distribution::

    class TestMySessions(SessionServiceSuite):
        async def make_service(self) -> SessionService:
            return MySessionService()

The tests are coroutines, run by pytest-asyncio (``asyncio_mode = "auto"``, or ``@pytest.mark.asyncio`` on the
subclass). A suite adapts on what a service says of itself (its
``capabilities``), never on a name.
"""

from __future__ import annotations

from hookwork_testkit.suites.agents import AgentSuite
from hookwork_testkit.suites.artifacts import ArtifactServiceSuite
from hookwork_testkit.suites.live import LiveConnectionSuite
from hookwork_testkit.suites.memory import MemoryServiceSuite
from hookwork_testkit.suites.models import ModelSuite
from hookwork_testkit.suites.plugins import PluginSuite
from hookwork_testkit.suites.sessions import SessionServiceSuite
from hookwork_testkit.suites.tools import ToolSuite
from hookwork_testkit.suites.toolsets import ToolsetSuite

__all__ = [
    "AgentSuite",
    "ArtifactServiceSuite",
    "LiveConnectionSuite",
    "MemoryServiceSuite",
    "ModelSuite",
    "PluginSuite",
    "SessionServiceSuite",
    "ToolSuite",
    "ToolsetSuite",
]
