"""Which task an episode is about: scenarios, their tasks, verifiers and reference solutions."""

from quintain.tasks.awm import AwmDataset
from quintain.tasks.base import (
    OpenSource,
    Problem,
    Provenance,
    Scenario,
    ScenarioReport,
    Solution,
    TaskPolicy,
    TaskRef,
    TaskSource,
    ToolCall,
    Verifier,
    VerifierMode,
    normalised,
    verifier_bundle,
)
from quintain.tasks.packs import PackSource
from quintain.tasks.shipped import is_pack, open_named, open_pack, shipped_packs
from quintain.tasks.united import UnitedSource, united

__all__ = [
    "AwmDataset",
    "OpenSource",
    "PackSource",
    "Problem",
    "Provenance",
    "Scenario",
    "ScenarioReport",
    "Solution",
    "TaskPolicy",
    "TaskRef",
    "TaskSource",
    "ToolCall",
    "UnitedSource",
    "Verifier",
    "VerifierMode",
    "is_pack",
    "normalised",
    "open_named",
    "open_pack",
    "shipped_packs",
    "united",
    "verifier_bundle",
]
