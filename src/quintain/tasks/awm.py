"""Agent World Model data as a `TaskSource`: 1,000 scenarios of ten tasks, or any folder of the same layout."""

import json
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from quintain.contracts.identity import digest_of
from quintain.errors import DatasetError, DescriptorError, UnknownTaskError
from quintain.tasks import layout
from quintain.tasks.base import (
    VERIFIER_MODES,
    JsonObject,
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
from quintain.tasks.index import DatasetIndex
from quintain.tasks.indexing import Progress

PROVENANCE = "provenance.json"
"""File beside the data that says where it came from; written by the download."""


class AwmDataset:
    """A folder of AWM data. A context manager; safe to share between threads."""

    def __init__(self, folder: Path, index: DatasetIndex, provenance: Provenance) -> None:
        """Use `open`."""
        self._folder = folder
        self._index = index
        self._provenance = provenance
        self._listing: tuple[Scenario, ...] | None = None
        self._payload_digests: dict[str, str] = {}
        self._dataset_digest = digest_of(index.manifest)

    @classmethod
    def open(cls, folder: Path, cache_dir: Path | None = None, progress: Progress | None = None) -> Self:
        """Open a folder. The first time, its files are read once and indexed; after that nothing is parsed.

        Args:
            folder: holds the published files (`gen_scenario.jsonl` and its siblings; gen_spec may be absent).
            cache_dir: where the index is kept; None builds it in memory each time, for small datasets.
            progress: told while files are read.

        Raises:
            DatasetError: not such a folder, or its index cannot be written.
        """
        return cls(folder, DatasetIndex.open(folder, cache_dir, progress), _provenance(folder))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the index. Idempotent."""
        self._index.close()

    @property
    def folder(self) -> Path:
        """Where the data lies."""
        return self._folder

    @property
    def dataset_digest(self) -> str:
        """Digest of `manifest`."""
        return self._dataset_digest

    def dataset_of(self, name: str) -> str:
        """Digest of the dataset that a scenario is of: this one."""
        self.scenario(name)
        return self._dataset_digest

    @property
    def manifest(self) -> JsonObject:
        """Layout, epoch of the episode clock, and every file with its digest."""
        return self._index.manifest

    @property
    def provenance(self) -> Provenance:
        """Where the data came from."""
        return self._provenance

    @property
    def problems(self) -> Sequence[Problem]:
        """Everything wrong with the dataset, in the order it was found."""
        return self._index.problems()

    def scenarios(self) -> Sequence[Scenario]:
        """All scenarios in the dataset's order."""
        if self._listing is None:
            self._listing = tuple(self._index.scenarios())
        return self._listing

    def scenario(self, name: str) -> Scenario:
        """One scenario, by any spelling of its name.

        Raises:
            UnknownTaskError: no such scenario; the message names close ones.
        """
        found = self._index.scenario(normalised(name))
        if found is None:
            names = self._index.names()
            near = get_close_matches(normalised(name), names, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else "list the scenarios to see what there is"
            raise UnknownTaskError(f"no scenario {name[:200]!r} among the {len(names)} of this dataset; {hint}")
        return found

    def task(self, name: str, task_idx: int | None = None, seed: int = 0) -> TaskRef:
        """A task by index, or the scenario open-ended.

        Raises:
            UnknownTaskError: no such scenario or task.
        """
        scenario = self.scenario(name)
        if task_idx is None:
            return TaskRef(scenario=scenario.name)
        count = len(scenario.tasks)
        if isinstance(task_idx, bool) or not 0 <= task_idx < count:
            has = f"has tasks 0 to {count - 1}; give one of them" if count else "has no tasks; reset without one"
            raise UnknownTaskError(f"no task {task_idx} in {scenario.name}, which {has}")
        modes = self._index.verifier_modes(scenario.name)
        return TaskRef(
            scenario=scenario.name,
            task_idx=task_idx,
            text=scenario.tasks[task_idx],
            verifiers=tuple(mode for mode in VERIFIER_MODES if task_idx in modes[mode]),
        )

    def template(self, name: str, task_idx: int) -> JsonObject | None:
        """None: no seed varies a task."""
        self.task(name, task_idx)
        return None

    def payload(self, name: str) -> JsonObject:
        """What the scenario's environment is built from: code, schema, seed rows and the clock's start.

        Raises:
            UnknownTaskError: no such scenario.
            DatasetError: a row of the scenario is missing or unreadable.
        """
        scenario = self.scenario(name).name
        return {
            "scenario": scenario,
            "database": f"{scenario}.db",
            "code": self._content(scenario, layout.ENVS, "full_code"),
            "schema": self._content(scenario, layout.DB, "db_schema"),
            "sample": self._content(scenario, layout.SAMPLE, "sample_data"),
            "epoch": layout.EPOCH,
        }

    def payload_digest(self, name: str) -> str:
        """Digest of the payload's canonical JSON, taken once per scenario."""
        key = normalised(name)
        if key not in self._payload_digests:
            payload = self.payload(name)
            try:
                self._payload_digests[key] = digest_of(payload)
            except DescriptorError as error:
                raise DatasetError(
                    f"scenario {key} in {self._folder} has no digest: {error}; correct its rows"
                ) from error
        return self._payload_digests[key]

    def verifier(self, name: str, task_idx: int, mode: VerifierMode) -> Verifier | None:
        """A task's verifier in one mode, or None where it has none.

        Raises:
            UnknownTaskError: no such scenario or task.
            DatasetError: the row is unreadable.
        """
        task = self.task(name, task_idx)
        return self._verifier(task.scenario, task_idx, mode) if mode in task.verifiers else None

    def verifiers(self, name: str, task_idx: int) -> tuple[Verifier, ...]:
        """A task's verifiers, of all modes it has."""
        task = self.task(name, task_idx)
        return tuple(self._verifier(task.scenario, task_idx, mode) for mode in task.verifiers)

    def solution(self, name: str, task_idx: int, seed: int = 0) -> Solution | None:
        """A task's reference solution, or None where the dataset ships none."""
        return self._index.solution(self.task(name, task_idx).scenario, task_idx)

    def policy(self, name: str, task_idx: int) -> TaskPolicy | None:
        """A task's safety bounds, or None where the dataset declares none.

        Raises:
            UnknownTaskError: no such scenario or task.
            DatasetError: the row is unreadable.
        """
        scenario = self.task(name, task_idx).scenario
        row = self._index.row(layout.POLICIES, scenario, task_idx)
        return None if row is None else layout.task_policy(scenario, row)

    def report(self, name: str) -> ScenarioReport:
        """What the dataset holds for a scenario and what is wrong with it."""
        scenario = self.scenario(name)
        modes = self._index.verifier_modes(scenario.name)
        return ScenarioReport(
            scenario=scenario.name,
            tasks=len(scenario.tasks),
            verifiers={mode: len(indexes) for mode, indexes in modes.items()},
            solutions=self._index.solution_count(scenario.name),
            problems=tuple(self._index.problems(scenario.name)),
        )

    def _content(self, scenario: str, file: str, key: str) -> Any:
        row = self._index.row(file, scenario)
        if row is None:
            raise DatasetError(f"{self._folder / file} has no usable row for {scenario}; the scenario cannot be built")
        return row[key]

    def _verifier(self, scenario: str, task_idx: int, mode: VerifierMode) -> Verifier:
        file = next(file for file, of in layout.VERIFIER_FILES.items() if of == mode)
        row = self._index.row(file, scenario, task_idx)
        if row is None:
            raise DatasetError(f"{self._folder / file} lost its row for {scenario} task {task_idx}; open it again")
        verification = row["verification"]
        raw = verification.get("raw_response")
        raw = raw if isinstance(raw, str) else "" if raw is None else json.dumps(raw, sort_keys=True)
        said = _said(raw)
        return Verifier(
            scenario=scenario, task_idx=task_idx, mode=mode, code=verification["code"], raw_response=raw, **said
        )


def _said(raw_response: str) -> dict[str, Any]:
    """The parts of a raw response that a judge is shown; a response that is not JSON says nothing."""
    try:
        parsed = json.loads(raw_response)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(parsed, dict):
        return {}
    return {
        key: parsed[key]
        for key in ("reasoning", "success_criteria", "failure_criteria")
        if isinstance(parsed.get(key), str)
    }


def _provenance(folder: Path) -> Provenance:
    path = folder / PROVENANCE
    if not path.is_file():
        return Provenance(source=str(folder))
    try:
        return Provenance.model_validate_json(path.read_bytes())
    except (ValidationError, OSError) as error:
        raise DatasetError(f"{path} does not say where the data came from: {error}; delete or correct it") from error
