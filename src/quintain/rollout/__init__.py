"""Agents against episodes: groups of attempts, limits, retries, back-pressure, and one record for each attempt."""

from quintain.rollout.casting import Casting, PlanCasting
from quintain.rollout.directory import RunDirectory
from quintain.rollout.engine import Rollout
from quintain.rollout.events import EventLog, RunEvent
from quintain.rollout.outcome import Fate, Outcome
from quintain.rollout.plan import AttemptLimits, PlannedTask, RetryLimits, RolloutPlan, WorkItem

__all__ = [
    "AttemptLimits",
    "Casting",
    "EventLog",
    "Fate",
    "Outcome",
    "PlanCasting",
    "PlannedTask",
    "RetryLimits",
    "Rollout",
    "RolloutPlan",
    "RunDirectory",
    "RunEvent",
    "WorkItem",
]
