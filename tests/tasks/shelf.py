"""A task source in memory whose tasks' content is a number each, so that it can be changed, swapped and shared."""

from collections.abc import Sequence
from typing import Any

from quintain.contracts.identity import digest_of
from quintain.errors import UnknownTaskError
from quintain.tasks.base import (
    Problem,
    Provenance,
    Scenario,
    ScenarioReport,
    Solution,
    TaskPolicy,
    TaskRef,
    Verifier,
    VerifierMode,
    normalised,
)


class Shelf:
    """Scenarios by name, each a list of its tasks' contents. Equal numbers are equal content, wherever they lie."""

    def __init__(self, **contents: Sequence[int]) -> None:
        self.contents = {name: list(numbers) for name, numbers in contents.items()}
        self.problems: Sequence[Problem] = ()
        self.provenance = Provenance(source="a shelf", revision="7", licence="CC0-1.0")

    @property
    def manifest(self) -> dict[str, Any]:
        return dict(self.contents)

    @property
    def dataset_digest(self) -> str:
        return digest_of(self.manifest)

    def scenarios(self) -> Sequence[Scenario]:
        return [self.scenario(name) for name in self.contents]

    def scenario(self, name: str) -> Scenario:
        if normalised(name) not in self.contents:
            raise UnknownTaskError(f"no scenario {name!r}")
        texts = tuple(f"Do {number}." for number in self.contents[normalised(name)])
        return Scenario(name=normalised(name), title=name, tasks=texts)

    def task(self, name: str, task_idx: int | None = None, seed: int = 0) -> TaskRef:
        scenario = self.scenario(name)
        if task_idx is None:
            return TaskRef(scenario=scenario.name)
        if not 0 <= task_idx < len(scenario.tasks):
            raise UnknownTaskError(f"no task {task_idx} in {scenario.name}")
        return TaskRef(scenario=scenario.name, task_idx=task_idx, text=scenario.tasks[task_idx], verifiers=("code",))

    def payload(self, name: str) -> dict[str, Any]:
        self.scenario(name)
        return {"code": "all alike"}

    def payload_digest(self, name: str) -> str:
        return digest_of(self.payload(name))

    def dataset_of(self, name: str) -> str:
        self.scenario(name)
        return self.dataset_digest

    def template(self, name: str, task_idx: int) -> dict[str, Any] | None:
        self.task(name, task_idx)
        return None

    def verifier(self, name: str, task_idx: int, mode: VerifierMode) -> Verifier | None:
        return next((one for one in self.verifiers(name, task_idx) if one.mode == mode), None)

    def verifiers(self, name: str, task_idx: int) -> tuple[Verifier, ...]:
        ref = self.task(name, task_idx)
        return (Verifier(scenario=ref.scenario, task_idx=task_idx, mode="code", code=f"# {ref.text}"),)

    def solution(self, name: str, task_idx: int, seed: int = 0) -> Solution | None:
        self.task(name, task_idx)
        return None

    def policy(self, name: str, task_idx: int) -> TaskPolicy | None:
        self.task(name, task_idx)
        return None

    def report(self, name: str) -> ScenarioReport:
        tasks = len(self.scenario(name).tasks)
        return ScenarioReport(scenario=name, tasks=tasks, verifiers={"code": tasks, "sql": 0}, solutions=0)
