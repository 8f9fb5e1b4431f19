"""A pack as a `TaskSource`: environments of any kind, with tasks whose text, start and solution a seed varies."""

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, Self

from quintain.contracts.expressions import filled
from quintain.contracts.identity import digest_of
from quintain.errors import DatasetError, DescriptorError, UnknownTaskError
from quintain.tasks.base import (
    JsonObject,
    Problem,
    Provenance,
    Scenario,
    ScenarioReport,
    Solution,
    TaskPolicy,
    TaskRef,
    ToolCall,
    Verifier,
    VerifierMode,
    normalised,
)
from quintain.tasks.packs.documents import PackProblem
from quintain.tasks.packs.drawing import draw_all
from quintain.tasks.packs.files import PackFiles
from quintain.tasks.packs.models import PackFile
from quintain.tasks.packs.reading import ENVIRONMENT, PackEnvironment, read_pack

LAYOUT: Final = "quintain-pack/1"
_MAX_TOLD: Final = 50
_KEPT: Final = 64
"""Tasks kept as seeds have them: attempts at one task with one seed come close together."""

ALL_TESTS_PASS: Final = """def verify_tests(tests):
    print(tests.pop("output"))
    return {"result": "complete" if tests["complete"] else "others", "tests": tests}
"""
"""The verifier of a task that has hidden tests and names no function."""


class PackSource:
    """A pack's folder, read when it is opened. A context manager; safe to share between threads."""

    def __init__(self, folder: Path, files: PackFiles, pack: PackFile, environments: Sequence[PackEnvironment]) -> None:
        """Use `open`."""
        self._folder = folder
        self._pack = pack
        self._environments = {one.name: one for one in environments}
        self._manifest: JsonObject = {
            "layout": LAYOUT,
            "name": pack.name,
            "epoch": pack.epoch,
            "files": files.digests,
        }
        self._payload_digests: dict[str, str] = {}
        self._seeded = lru_cache(maxsize=_KEPT, typed=True)(self._as_seeded)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Read and check a pack.

        Raises:
            DatasetError: it is none; the message has a line for each thing that is wrong, with its place.
        """
        reading = read_pack(PackFiles(folder))
        if reading.problems or reading.pack is None:
            raise DatasetError(_told(folder, sorted(reading.problems, key=lambda one: (one.file, one.line or 0))))
        return cls(folder, reading.files, reading.pack, reading.environments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held open. Idempotent."""

    @property
    def folder(self) -> Path:
        """Where the pack lies."""
        return self._folder

    def document_of(self, name: str) -> str:
        """The path of a scenario's environment.yaml within the folder."""
        return f"{self._environment(name).folder}/{ENVIRONMENT}"

    @property
    def name(self) -> str:
        """The pack's name."""
        return self._pack.name

    @property
    def title(self) -> str:
        """The pack's title."""
        return self._pack.title

    @property
    def description(self) -> str:
        """What the pack says of itself."""
        return self._pack.description

    @cached_property
    def dataset_digest(self) -> str:
        """Digest of `manifest`."""
        return digest_of(self._manifest)

    def dataset_of(self, name: str) -> str:
        """Digest of the dataset that a scenario is of: this pack's."""
        self._environment(name)
        return self.dataset_digest

    @property
    def manifest(self) -> JsonObject:
        """Layout, the pack's name, epoch of the episode clock, and every file with its digest."""
        return self._manifest

    @property
    def provenance(self) -> Provenance:
        """Where the pack came from, by its own word."""
        return Provenance(source=self._pack.source or f"pack {self._pack.name}", licence=self._pack.licence)

    @property
    def problems(self) -> Sequence[Problem]:
        """None: a pack with problems does not open."""
        return ()

    def scenarios(self) -> Sequence[Scenario]:
        """All environments in the pack's order. The texts of tasks are templates: what a seed fills in is not in."""
        return tuple(map(_scenario, self._environments.values()))

    def scenario(self, name: str) -> Scenario:
        """One environment, by any spelling of its name."""
        return _scenario(self._environment(name))

    def task(self, name: str, task_idx: int | None = None, seed: int = 0) -> TaskRef:
        """A task as a seed has it, or the environment open-ended."""
        found = self._environment(name)
        if task_idx is None:
            return TaskRef(scenario=found.name, kind=found.about.kind)
        self._refuse(found, task_idx)
        return self._seeded(found.name, task_idx, seed)

    def template(self, name: str, task_idx: int) -> JsonObject:
        """What a task is for any seed: its entry in tasks.yaml but for bounds and verifier, which have digests."""
        found = self._environment(name)
        self._refuse(found, task_idx)
        return found.tasks[task_idx].model_dump(
            mode="json", exclude_unset=True, include={"name", "variables", "text", "start"}
        )

    def payload(self, name: str) -> JsonObject:
        """What the environment is built from; no seed varies it."""
        return dict(self._environment(name).payload)

    def payload_digest(self, name: str) -> str:
        """Digest of the payload's canonical JSON, taken once per environment."""
        found = self._environment(name)
        if found.name not in self._payload_digests:
            try:
                self._payload_digests[found.name] = digest_of(found.payload)
            except DescriptorError as error:
                raise DatasetError(f"{self._folder / found.folder} has no digest: {error}; correct it") from error
        return self._payload_digests[found.name]

    def verifier(self, name: str, task_idx: int, mode: VerifierMode) -> Verifier | None:
        """A task's verifier: the function it names, in mode `code`; None in any other."""
        found = self._environment(name)
        self._refuse(found, task_idx)
        if mode != "code":
            return None
        function, tests = found.tasks[task_idx].verify, found.hidden_tests(task_idx)
        code = found.verifier if function is not None else ALL_TESTS_PASS
        return Verifier(
            scenario=found.name,
            task_idx=task_idx,
            mode="code",
            code=code,
            function=function or "verify_tests",
            tests=tests,
        )

    def verifiers(self, name: str, task_idx: int) -> tuple[Verifier, ...]:
        """A task's one verifier."""
        found = self.verifier(name, task_idx, "code")
        return () if found is None else (found,)

    def solution(self, name: str, task_idx: int, seed: int = 0) -> Solution | None:
        """A task's reference solution for a seed."""
        found = self._environment(name)
        self._refuse(found, task_idx)
        template, where = found.tasks[task_idx], found.place(task_idx)
        drawn = self._drawn(found, task_idx, seed)
        calls = filled([call.model_dump() for call in template.solution], drawn, f"{where}.solution")
        return Solution(
            calls=tuple(ToolCall(name=str(call["tool"]), arguments=call["arguments"]) for call in calls),
            final_answer=_filled_text(template.answer, drawn, f"{where}.answer"),
        )

    def policy(self, name: str, task_idx: int) -> TaskPolicy | None:
        """A task's safety bounds, or None where it declares none."""
        found = self._environment(name)
        self._refuse(found, task_idx)
        return found.tasks[task_idx].policy

    def report(self, name: str) -> ScenarioReport:
        """What the pack holds for an environment."""
        found = self._environment(name)
        count = len(found.tasks)
        return ScenarioReport(scenario=found.name, tasks=count, verifiers={"code": count}, solutions=count)

    def _environment(self, name: str) -> PackEnvironment:
        found = self._environments.get(normalised(name))
        if found is None:
            near = get_close_matches(normalised(name), self._environments, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else "list the scenarios to see what there is"
            raise UnknownTaskError(
                f"no scenario {name[:200]!r} among the {len(self._environments)} of pack {self._pack.name}; {hint}"
            )
        return found

    def _refuse(self, found: PackEnvironment, task_idx: int) -> None:
        count = len(found.tasks)
        if isinstance(task_idx, bool) or not 0 <= task_idx < count:
            has = f"has tasks 0 to {count - 1}; give one of them" if count else "has no tasks; reset without one"
            raise UnknownTaskError(f"no task {task_idx} in {found.name}, which {has}")

    def _as_seeded(self, name: str, task_idx: int, seed: int) -> TaskRef:
        found = self._environments[name]
        template, where = found.tasks[task_idx], found.place(task_idx)
        drawn = self._drawn(found, task_idx, seed)
        return TaskRef(
            scenario=found.name,
            task_idx=task_idx,
            text=_filled_text(template.text, drawn, f"{where}.text"),
            verifiers=("code",),
            kind=found.about.kind,
            start=None if template.start is None else filled(template.start, drawn, f"{where}.start"),
            variables=drawn or None,
            difficulty=template.difficulty,
            tags=tuple(template.tags),
        )

    def _drawn(self, found: PackEnvironment, task_idx: int, seed: int) -> dict[str, Any]:
        task = found.tasks[task_idx]
        return draw_all(task.variables, f"{found.name}/{task.name}/{seed}", found.place(task_idx))


def _scenario(found: PackEnvironment) -> Scenario:
    return Scenario(
        name=found.name,
        title=found.about.title,
        description=found.about.description,
        tasks=tuple(task.text for task in found.tasks),
        kind=found.about.kind,
    )


def _filled_text(text: str, variables: JsonObject, where: str) -> str:
    """A text filled in; it stays a text where it is one expression and nothing else."""
    return str(filled(f"{text}\n", variables, where)).removesuffix("\n")


def _told(folder: Path, problems: Sequence[PackProblem]) -> str:
    lines = [f"{folder} is no pack that can be served:", *(f"  {one}" for one in problems[:_MAX_TOLD])]
    if len(problems) > _MAX_TOLD:
        lines.append(f"  and {len(problems) - _MAX_TOLD} problems more")
    return "\n".join(lines)
