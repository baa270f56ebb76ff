"""Runs a finished test run again, from its events alone, and compares (workflow WB-26)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.invocation import Invocation
from hookwork.view import View
from hookwork_workflow.advance import Progress
from hookwork_workflow.validation import inner_graph

if TYPE_CHECKING:
    from hookwork.records.session import Session
    from hookwork.runner import Runner
    from hookwork_workflow.graph import Graph


def check_replay(runner: Runner, session: Session, invocation_id: str, graph: Graph, path: str, input: Any) -> None:
    """What a graph has done comes out of its stored events: the same activations, on the same branches.

    Graphs inside it are looked at as well.

    Raises:
        AssertionError: something would run again, or comes out otherwise; the text names the place.
    """
    asked = Invocation(
        app_name=session.app_name,
        user_id=session.user_id,
        session=session,
        invocation_id=invocation_id,
        setup=runner.setup,
        known=True,
    )
    _check(View(asked, invocation_id, path), graph, input)


def _check(view: View, graph: Graph, input: Any) -> None:
    record = view.record
    limit = len(record.children) + 1 if record is not None else 1
    progress = Progress(graph, view.path, record.branch if record is not None else "", limit, view)
    again = progress.replay(progress.begin(input))
    if again:
        raise AssertionError(f"replay: {again[0].path} would run again")
    if (lost := progress.lost()) is not None:
        raise AssertionError(f"replay: nothing leads to {lost}, which has run")
    for path, activity in progress.created.items():
        place = view.child(path.rpartition("/")[2])
        known = place.record
        if known is not None and known.own and known.branch != activity.branch:
            raise AssertionError(f"replay: {path} ran on branch {known.branch!r}, now it is {activity.branch!r}")
        inner = inner_graph(activity.node)
        if inner is not None and getattr(activity.node, "wrapped", None) is None and known is not None:
            _check(place, inner, activity.input)
