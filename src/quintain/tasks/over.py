"""A task source over another: shows all of it, and is where those begin that show less."""

from collections.abc import Sequence

from quintain.tasks.base import (
    JsonObject,
    Problem,
    Provenance,
    Scenario,
    ScenarioReport,
    Solution,
    TaskPolicy,
    TaskRef,
    TaskSource,
    Verifier,
    VerifierMode,
)


class SourceOver:
    """A `TaskSource` that asks another. Safe to share between threads where the other is.

    What may be asked is up to `_admit`. The dataset's identity and provenance stay those of the other: what is shown of
    a dataset is no part of it.
    """

    def __init__(self, source: TaskSource) -> None:
        self._source = source

    def _admit(self, name: str, task_idx: int | None) -> None:
        """Raise for a scenario or a task that is not shown. Called before anything is asked about it."""

    @property
    def beneath(self) -> TaskSource:
        """The source that is asked."""
        return self._source

    @property
    def dataset_digest(self) -> str:
        """Digest of `manifest`: of the whole dataset."""
        return self._source.dataset_digest

    @property
    def manifest(self) -> JsonObject:
        """The whole dataset's manifest."""
        return self._source.manifest

    @property
    def provenance(self) -> Provenance:
        """Where the data came from."""
        return self._source.provenance

    @property
    def problems(self) -> Sequence[Problem]:
        """Everything wrong with the dataset."""
        return self._source.problems

    def dataset_of(self, name: str) -> str:
        """Digest of the dataset that a scenario is of."""
        self._admit(name, None)
        return self._source.dataset_of(name)

    def scenarios(self) -> Sequence[Scenario]:
        """All scenarios in the dataset's order."""
        return self._source.scenarios()

    def scenario(self, name: str) -> Scenario:
        """One scenario."""
        self._admit(name, None)
        return self._source.scenario(name)

    def task(self, name: str, task_idx: int | None = None, seed: int = 0) -> TaskRef:
        """A task by index, or the scenario open-ended."""
        self._admit(name, task_idx)
        return self._source.task(name, task_idx, seed)

    def template(self, name: str, task_idx: int) -> JsonObject | None:
        """What a task is for every seed, where a seed varies it."""
        self._admit(name, task_idx)
        return self._source.template(name, task_idx)

    def payload(self, name: str) -> JsonObject:
        """What the scenario's environment is built from."""
        self._admit(name, None)
        return self._source.payload(name)

    def payload_digest(self, name: str) -> str:
        """Digest of the payload's canonical JSON."""
        self._admit(name, None)
        return self._source.payload_digest(name)

    def verifier(self, name: str, task_idx: int, mode: VerifierMode) -> Verifier | None:
        """A task's verifier in one mode, or None where it has none."""
        self._admit(name, task_idx)
        return self._source.verifier(name, task_idx, mode)

    def verifiers(self, name: str, task_idx: int) -> tuple[Verifier, ...]:
        """A task's verifiers, of all modes it has."""
        self._admit(name, task_idx)
        return self._source.verifiers(name, task_idx)

    def solution(self, name: str, task_idx: int, seed: int = 0) -> Solution | None:
        """A task's reference solution for a seed, or None where the dataset ships none."""
        self._admit(name, task_idx)
        return self._source.solution(name, task_idx, seed)

    def policy(self, name: str, task_idx: int) -> TaskPolicy | None:
        """A task's safety bounds, or None where the dataset declares none."""
        self._admit(name, task_idx)
        return self._source.policy(name, task_idx)

    def report(self, name: str) -> ScenarioReport:
        """What the dataset holds for a scenario and what is wrong with it."""
        self._admit(name, None)
        return self._source.report(name)
