"""What a validation finds: per task, per scenario, and as one report."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from quintain.contracts.identity import Digest
from quintain.contracts.untrusted import printable
from quintain.tasks.quarantine import Entry, Place, Reason

MAX_DETAIL: Final = 500

Missing = Literal["verifier", "solution"]


class Status(StrEnum):
    """What became of a task or a scenario, the best first; a scenario has the worst of its own and its tasks'."""

    SOUND = "sound"
    """Everything was shown."""
    UNPROVEN = "unproven"
    """Nothing is known against it, but it has no code verifier or no reference solution to show it by."""
    UNDECIDED = "undecided"
    """The platform failed, which says nothing about the task; validate it again."""
    UNSOUND = "unsound"
    """It has findings."""


def _cut(text: str) -> str:
    text = printable(" ".join(text.split()))
    return text if len(text) <= MAX_DETAIL else text[: MAX_DETAIL - 3] + "..."


class _Contract(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


Text = Annotated[str, AfterValidator(_cut)]


class Finding(_Contract):
    """One thing that is wrong with a task, by its code, and what was seen."""

    reason: Reason
    detail: Text


class SeedResult(_Contract):
    """One task with one seed. `noop` and `solution` are reward types, None where nothing certain was scored."""

    seed: int
    status: Status
    findings: tuple[Finding, ...] = ()
    obstacle: str | None = Field(default=None, description="How the platform failed, where it did")
    noop: str | None = None
    solution: str | None = None
    duration_ms: float = 0.0


class TrialsResult(_Contract):
    """Attempts that are not the reference solution: random calls, and the solution spoilt in one way or another."""

    tried: int = Field(description="How many were played and scored with certainty")
    alike: int = Field(description="Of these, complete with the final state and the answer of the solution")
    complete: int = Field(description="Of these, complete though they ended otherwise: what is wrong")


class TaskResult(_Contract):
    """One task, over all its seeds.

    `noop` and `solution` are reward types: the first that is not as it should be, else what every seed's was; None
    where there was nothing to score, or it was not certain.
    """

    task_idx: int
    status: Status
    findings: tuple[Finding, ...] = ()
    warnings: tuple[Text, ...] = Field(default=(), description="What may be wrong, and makes it no less sound")
    notes: tuple[Text, ...] = Field(default=(), description="What was seen and is not wrong")
    missing: tuple[Missing, ...] = ()
    obstacle: str | None = Field(default=None, description="How the platform failed, where it did")
    noop: str | None = None
    solution: str | None = None
    trials: TrialsResult | None = None
    seeds: tuple[SeedResult, ...] = ()
    verifier_digest: Digest | None = Field(default=None, description="Of the task's verifiers of all modes")
    duration_ms: float = 0.0


class ScenarioResult(_Contract):
    """One scenario: how it booted, what its data is known to get wrong, what was found, and its tasks."""

    scenario: str
    status: Status
    boots: bool
    findings: tuple[Finding, ...] = Field(default=(), description="Of the scenario as a whole")
    warnings: tuple[Text, ...] = Field(default=(), description="What may be wrong, and makes it no less sound")
    obstacle: str | None = None
    tools: int = 0
    warm: bool = False
    boot_ms: float = 0.0
    failed_statements: int = 0
    foreign_key_violations: int = 0
    data_problems: int = 0
    tasks: tuple[TaskResult, ...] = ()
    duration_ms: float = 0.0


class ValidationReport(_Contract):
    """A whole validation, for machines."""

    schema_version: Literal[1] = 1
    dataset_digest: Digest
    datasets: dict[str, Digest] = Field(
        default_factory=dict, description="By scenario, of those that are of another dataset than that"
    )
    versions: dict[str, str] = Field(description="Of the platform, the interpreter and SQLite; and the isolation level")
    started_at: AwareDatetime
    duration_s: float
    seed: int
    seeds: int = 1
    repeats: int
    random: int = 0
    scenarios: tuple[ScenarioResult, ...]

    @property
    def counts(self) -> Mapping[Status, int]:
        """Tasks by status; those of a scenario that did not boot have none."""
        return Counter(task.status for scenario in self.scenarios for task in scenario.tasks)

    @property
    def reasons(self) -> Mapping[Reason, int]:
        """Findings by reason."""
        found = Counter(finding.reason for one in self.scenarios for finding in one.findings)
        return found + Counter(item.reason for one in self.scenarios for task in one.tasks for item in task.findings)

    @property
    def passed(self) -> bool:
        """Whether every scenario is sound, or at least has nothing known against it."""
        return all(one.status in (Status.SOUND, Status.UNPROVEN) for one in self.scenarios)


def status_of(findings: Sequence[Finding], obstacle: str | None, missing: Sequence[Missing] = ()) -> Status:
    """The status that goes with what was found."""
    if findings:
        return Status.UNSOUND
    if obstacle is not None:
        return Status.UNDECIDED
    return Status.UNPROVEN if missing else Status.SOUND


def worst(statuses: Sequence[Status]) -> Status:
    """The worst of them; sound for none."""
    order = list(Status)
    return max(statuses, key=order.index, default=Status.SOUND)


def quarantine_entries(
    report: ValidationReport, found_at: datetime | None = None
) -> tuple[tuple[Entry, ...], frozenset[Place]]:
    """The entries that a report makes for the quarantine list, and the places that it cleared.

    What the platform failed at is neither: it says nothing about the task.
    """
    found_at = found_at or datetime.now(UTC)
    entries, cleared = [], set[Place]()
    for place, findings, decided, verifier_digest in _places(report):
        if findings:
            entries.append(
                Entry(
                    scenario=place[0],
                    task_idx=place[1],
                    reasons=tuple(finding.reason for finding in findings),
                    detail="; ".join(finding.detail for finding in findings),
                    dataset_digest=report.datasets.get(place[0], report.dataset_digest),
                    verifier_digest=verifier_digest,
                    found_at=found_at,
                )
            )
        elif decided:
            cleared.add(place)
    return tuple(entries), frozenset(cleared)


def _places(report: ValidationReport) -> Iterator[tuple[Place, Sequence[Finding], bool, str | None]]:
    for scenario in report.scenarios:
        yield (scenario.scenario, None), scenario.findings, scenario.obstacle is None, None
        for task in scenario.tasks:
            yield (scenario.scenario, task.task_idx), task.findings, task.obstacle is None, task.verifier_digest
