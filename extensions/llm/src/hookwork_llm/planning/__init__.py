"""Planners: what makes a model plan before it acts, and sorts its answer into plan and answer."""

from __future__ import annotations

from hookwork_llm.planning.contract import Planner
from hookwork_llm.planning.plan_react import PlanReActPlanner

__all__ = ["PlanReActPlanner", "Planner"]
