"""The tasks room's contract: scenarios, their tasks, verifiers and reference solutions, and where they come from."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Protocol, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from quintain.contracts.identity import digest_of
from quintain.contracts.tools import MAX_TOOL_NAME

VerifierMode = Literal["code", "sql"]
VERIFIER_MODES: tuple[VerifierMode, ...] = ("code", "sql")
JsonObject = dict[str, Any]

DATABASE: Final = "database"
"""The kind of environment of a scenario that does not name one."""

WORKSPACE: Final = "workspace"
"""The kind of environment whose tasks may have hidden tests."""

ProblemKind = Literal[
    "unparsable_row", "unusable_row", "missing_row", "duplicate_row", "unlisted_scenario", "task_mismatch"
]


def normalised(name: str) -> str:
    """A scenario's name as ids and file names use it: `Outdoor Marketplace 1` -> `outdoor_marketplace_1`."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


class _Contract(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Scenario(_Contract):
    """One scenario: `name` is normalised, `title` is the published spelling."""

    name: str
    title: str
    description: str = ""
    tasks: tuple[str, ...] = ()
    kind: str = DATABASE


class TaskRef(_Contract):
    """Which task an episode is about. Without an index the scenario is open-ended and has no verifier."""

    scenario: str
    task_idx: int | None = None
    text: str | None = None
    verifiers: tuple[VerifierMode, ...] = ()
    kind: str = Field(default=DATABASE, description="Of the scenario's environment")
    start: JsonObject | None = Field(default=None, description="What the task and the seed vary of the initial state")
    variables: JsonObject | None = Field(default=None, description="What the seed drew; the verifier is told")
    difficulty: int | None = Field(default=None, ge=1, le=5)
    tags: tuple[str, ...] = ()


class HiddenTests(_Contract):
    """Tests of a workspace's tree that no agent sees: run on the final one, in a sandbox of their own."""

    files: dict[str, str | dict[str, str]]
    """By path: text, or `{"base64": …}`."""
    command: str = "python -m pytest -q"
    timeout_s: float = Field(default=60.0, gt=0, le=600)
    in_process: bool = Field(default=False, description="Whether tests import the tree, whose code can then fake them")


class Verifier(_Contract):
    """Untrusted verifier code of one task in one mode, with what its author said about it."""

    scenario: str
    task_idx: int
    mode: VerifierMode
    code: str
    function: str | None = Field(default=None, description="Which of the code's functions; None: the first it finds")
    tests: HiddenTests | None = Field(default=None, description="Run on the final tree, for the code to judge")
    raw_response: str = ""
    reasoning: str = ""
    success_criteria: str = ""
    failure_criteria: str = ""

    @property
    def content(self) -> JsonObject:
        """What the digest is taken of: everything that can change a verdict."""
        told: JsonObject = {"mode": self.mode, "code": self.code, "raw_response": self.raw_response}
        if self.function is not None:
            told["function"] = self.function
        return told if self.tests is None else told | {"tests": self.tests.model_dump(mode="json")}

    @property
    def digest(self) -> str:
        """Digest of `content`."""
        return digest_of(self.content)

    @property
    def function_name(self) -> str:
        """The function to call: the first `verify_...` that the code defines, unless another is named."""
        if self.function is not None:
            return self.function
        found = re.search(r"^\s*def (verify_\w*)\s*\(", self.code, re.MULTILINE)
        return found.group(1) if found else ("verify_task_completion" if self.mode == "code" else "verify_task")


def verifier_bundle(verifiers: Iterable[Verifier]) -> JsonObject:
    """The content that a descriptor's `verifierImage` names: a task's verifiers of all modes, by mode."""
    return {verifier.mode: verifier.content for verifier in verifiers}


class ToolCall(_Contract):
    """One call of a reference solution."""

    name: str
    arguments: JsonObject = Field(default_factory=dict)


class Solution(_Contract):
    """A task's reference solution: its calls in order, then the answer it gives."""

    calls: tuple[ToolCall, ...]
    final_answer: str


MAX_DECLARED: Final = 256
"""Most tables, and most tools, that a task policy may name; and the longest name of a table, in characters."""


def _as_set(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


_Table = Annotated[str, StringConstraints(min_length=1, max_length=MAX_DECLARED)]
_Tool = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TOOL_NAME)]
_AtMost = Field(max_length=MAX_DECLARED)


class TaskPolicy(_Contract):
    """What a task allows: its safety bounds. Breaking one fails the attempt; nothing here is shown to the agent.

    `writable_tables` of None declares nothing, and an empty tuple that nothing may be written. `forbidden_tools` may
    not be called, whatever the call comes to. Order and repetition do not matter.
    """

    writable_tables: Annotated[tuple[_Table, ...], _AtMost, AfterValidator(_as_set)] | None = None
    forbidden_tools: Annotated[tuple[_Tool, ...], _AtMost, AfterValidator(_as_set)] = ()

    @property
    def digest(self) -> str:
        """Digest of the policy."""
        return digest_of(self.model_dump(mode="json"))


class Provenance(_Contract):
    """Where a dataset came from and under which licence."""

    source: str
    revision: str | None = None
    commit: str | None = None
    licence: str = "unknown"


class Problem(_Contract):
    """One thing wrong with a dataset, and where: a file and, when it is about a row, its line (from 1)."""

    kind: ProblemKind
    file: str
    line: int | None = None
    scenario: str | None = None
    detail: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.kind}: {self.detail}"


class ScenarioReport(_Contract):
    """What a dataset holds for one scenario and what is wrong with it."""

    scenario: str
    tasks: int
    verifiers: dict[VerifierMode, int]
    solutions: int
    problems: tuple[Problem, ...] = ()

    @property
    def counts(self) -> Mapping[ProblemKind, int]:
        """Problems by kind."""
        return Counter(problem.kind for problem in self.problems)


class TaskSource(Protocol):
    """A dataset of scenarios. Names are accepted in any spelling that normalises to the scenario's.

    Methods that take a name raise `UnknownTaskError` for one the source does not hold, and for a task index out
    of range; those that read content raise `DatasetError` when the scenario's rows are missing or unreadable.
    """

    @property
    def dataset_digest(self) -> str:
        """Digest of `manifest`: the dataset as part of an episode's identity."""
        ...

    @property
    def manifest(self) -> JsonObject:
        """Layout, epoch of the episode clock, and every file with its digest."""
        ...

    @property
    def provenance(self) -> Provenance:
        """Where the data came from."""
        ...

    @property
    def problems(self) -> Sequence[Problem]:
        """Everything wrong with the dataset."""
        ...

    def dataset_of(self, name: str) -> str:
        """Digest of the dataset that a scenario is of: `dataset_digest`, unless several are served as one."""
        ...

    def scenarios(self) -> Sequence[Scenario]:
        """All scenarios in the dataset's order, without their payloads. Texts that a seed fills in are templates."""
        ...

    def scenario(self, name: str) -> Scenario:
        """One scenario."""
        ...

    def task(self, name: str, task_idx: int | None = None, seed: int = 0) -> TaskRef:
        """A task by index, or the scenario open-ended. `seed` is the episode's: it may vary text and initial state."""
        ...

    def template(self, name: str, task_idx: int) -> JsonObject | None:
        """What a task is for every seed, but for verifier and bounds; None where no seed varies it."""
        ...

    def payload(self, name: str) -> JsonObject:
        """What the scenario's environment is built from."""
        ...

    def payload_digest(self, name: str) -> str:
        """Digest of the payload's canonical JSON."""
        ...

    def verifier(self, name: str, task_idx: int, mode: VerifierMode) -> Verifier | None:
        """A task's verifier in one mode, or None where it has none."""
        ...

    def verifiers(self, name: str, task_idx: int) -> tuple[Verifier, ...]:
        """A task's verifiers, of all modes it has."""
        ...

    def solution(self, name: str, task_idx: int, seed: int = 0) -> Solution | None:
        """A task's reference solution for a seed, or None where the dataset ships none."""
        ...

    def policy(self, name: str, task_idx: int) -> TaskPolicy | None:
        """A task's safety bounds, or None where the dataset declares none."""
        ...

    def report(self, name: str) -> ScenarioReport:
        """What the dataset holds for a scenario and what is wrong with it."""
        ...


class OpenSource(TaskSource, Protocol):
    """A task source that holds files open: a context manager that closes them at the end."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def close(self) -> None:
        """Close what it holds open. Idempotent."""
        ...
