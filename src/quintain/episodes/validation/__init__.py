"""Proof, by replay, that a dataset's tasks are sound; and what is to be put into quarantine where they are not."""

from quintain.episodes.validation.base import (
    Finding,
    ScenarioResult,
    Status,
    TaskResult,
    ValidationReport,
    quarantine_entries,
)
from quintain.episodes.validation.scenarios import Extent, validate

__all__ = [
    "Extent",
    "Finding",
    "ScenarioResult",
    "Status",
    "TaskResult",
    "ValidationReport",
    "quarantine_entries",
    "validate",
]
