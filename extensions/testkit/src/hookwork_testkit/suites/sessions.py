"""The session suite: every line of the checklist services §8.1 that any backend has to pass."""

from __future__ import annotations

from hookwork_testkit.suites.session_appends import SessionAppends
from hookwork_testkit.suites.session_basics import SessionBasics
from hookwork_testkit.suites.session_machine import SessionLaws
from hookwork_testkit.suites.session_reads import SessionReads
from hookwork_testkit.suites.session_sharing import SessionSharing


class SessionServiceSuite(SessionBasics, SessionAppends, SessionSharing, SessionReads, SessionLaws):
    """Subclass it in a test module and say how a service is made; options: `SessionSuiteBase`."""
