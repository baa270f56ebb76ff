"""The session suite: every line of the checklist services §8.1 that any backend has to pass."""

from __future__ import annotations

from typing import ClassVar

from hookwork_testkit.suites.session_appends import SessionAppends
from hookwork_testkit.suites.session_basics import SessionBasics
from hookwork_testkit.suites.session_batches import SessionBatches
from hookwork_testkit.suites.session_erasing import SessionErasing
from hookwork_testkit.suites.session_machine import SessionLaws
from hookwork_testkit.suites.session_merges import SessionMerges
from hookwork_testkit.suites.session_reads import SessionReads
from hookwork_testkit.suites.session_sharing import SessionSharing

#: The parts of the suite whose lines the reference has not (services, Beyond).
BEYOND = (SessionBatches, SessionErasing, SessionMerges)


class SessionServiceSuite(
    SessionBasics,
    SessionAppends,
    SessionBatches,
    SessionErasing,
    SessionMerges,
    SessionSharing,
    SessionReads,
    SessionLaws,
):
    """Subclass it in a test module and say how a service is made; options: `SessionSuiteBase`."""

    #: The property tests, which take longer than the rest together.
    property_tests: ClassVar = (
        "test_cs_45_windows_over_random_histories",
        "test_cs_47_a_random_walk_agrees_with_lists_and_dicts",
        "test_cs_48_what_is_derived_equals_what_the_events_alone_give",
        "test_bey_10_random_writes_of_both_sides_add_up",
    )
