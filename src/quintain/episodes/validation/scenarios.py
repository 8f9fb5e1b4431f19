"""The proof of whole scenarios, a few at a time; what they leave behind is measured with nothing else running."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from quintain.environments.base import Prepared
from quintain.environments.database import ReadyDatabase
from quintain.episodes.base import Rooms
from quintain.episodes.validation.base import Finding, ScenarioResult, status_of, worst
from quintain.episodes.validation.leftovers import SETTLE_S, Meter
from quintain.episodes.validation.lint import bounds_warnings, document_findings
from quintain.episodes.validation.plays import READ_TIMEOUT_S, Bench
from quintain.episodes.validation.starts import same_starts
from quintain.episodes.validation.tasks import TaskProof, Thoroughness
from quintain.errors import Owner, QuintainError, UsageError
from quintain.sandboxes.base import KeepsStandbys
from quintain.sandboxes.scratch import folder
from quintain.tasks.quarantine import Reason


@dataclass(frozen=True)
class Extent:
    """How much is validated, and how thoroughly."""

    tasks: frozenset[int] | None = None
    """Which tasks of each scenario; None for all."""
    repeats: int = 3
    """How often each verifier is run anew on the same states."""
    seed: int = 0
    """The first seed that tasks are played with."""
    seeds: int = 1
    """With how many seeds each task is played, from that one on."""
    random: int = 0
    """How many attempts that are not its solution each task must withstand, over all seeds."""
    at_once: int = 2
    """How many scenarios are proved at a time."""
    settle_s: float = SETTLE_S
    """How long what episodes leave has to go."""
    read_timeout_s: float = READ_TIMEOUT_S


async def validate(rooms: Rooms, scenarios: Sequence[str], extent: Extent) -> AsyncIterator[ScenarioResult]:
    """Validate scenarios; results come in the order given. Nothing else may use the rooms meanwhile.

    Raises:
        UnknownTaskError: the source does not hold one of them.
    """
    for begin in range(0, len(scenarios), extent.at_once):
        with ExitStack() as kept:
            proofs = []
            for name in scenarios[begin : begin + extent.at_once]:
                shelf = kept.enter_context(folder(rooms.scratch, "quintain_validate_"))
                proofs.append(ScenarioProof(rooms, name, extent, shelf))
            async with asyncio.TaskGroup() as together:
                for proof in proofs:
                    together.create_task(proof.prove())
            for proof in proofs:
                await proof.replay()
                yield proof.result


class ScenarioProof:
    """One scenario under validation. `prove` first, then `replay` when nothing else runs."""

    def __init__(self, rooms: Rooms, name: str, extent: Extent, shelf: Path) -> None:
        self.name = rooms.source.scenario(name).name
        self._rooms = rooms
        self._extent = extent
        self._folder = shelf
        self._prepared: Prepared | None = None
        self._data_problems = 0
        self._findings: list[Finding] = []
        self._warnings: list[str] = []
        self._obstacle: str | None = None
        self._tasks: list[TaskProof] = []
        self._spent_s = 0.0

    @property
    def result(self) -> ScenarioResult:
        """What was found so far."""
        prepared, tasks = self._prepared, tuple(task.result for task in self._tasks)
        result = ScenarioResult(
            scenario=self.name,
            status=worst([status_of(self._findings, self._obstacle), *(task.status for task in tasks)]),
            boots=prepared is not None,
            findings=tuple(self._findings),
            warnings=tuple(self._warnings),
            obstacle=self._obstacle,
            data_problems=self._data_problems,
            tasks=tasks,
            duration_ms=self._spent_s * 1000,
        )
        if prepared is None:
            return result
        booted = {"tools": len(prepared.tools), "warm": prepared.warm, "boot_ms": sum(prepared.build_ms.values())}
        if isinstance(prepared, ReadyDatabase):
            loaded = prepared.prepared.report
            booted |= {
                "failed_statements": len(loaded.failed),
                "foreign_key_violations": loaded.foreign_key_violations,
            }
        return result.model_copy(update=booted)

    async def prove(self) -> None:
        """Boot it, start it several times, prove each task."""
        started = time.perf_counter()
        try:
            await self._boot()
            if self._prepared is not None:
                self._findings += await same_starts(self._bench())
        except (QuintainError, OSError) as error:
            self._note(error)
        if self._prepared is not None:
            wanted, extent = self._extent.tasks, self._extent
            count = len(self._rooms.source.scenario(self.name).tasks)
            thorough = Thoroughness(range(extent.seed, extent.seed + extent.seeds), extent.random)
            self._tasks = [
                TaskProof(self._bench(), index, thorough) for index in range(count) if wanted is None or index in wanted
            ]
        for task in self._tasks:
            await task.prove()
        self._spent_s += time.perf_counter() - started

    async def replay(self) -> None:
        """Play every task once more: for what it leaves behind, and to compare it with the first time."""
        started = time.perf_counter()
        provider = self._rooms.provider
        if isinstance(provider, KeepsStandbys):
            await provider.stand_down()  # they come and go behind episodes, and are none of theirs
        meter = Meter(self._rooms.scratch, self._folder, self._rooms.disposal.drain, self._extent.settle_s)
        if self._tasks and (left := await meter.left_by(self._replay_all)):
            await self._blame(meter, left)
        for task in self._tasks:
            await task.compare()
        self._spent_s += time.perf_counter() - started

    async def _boot(self) -> None:
        source = self._rooms.source
        report = await asyncio.to_thread(source.report, self.name)
        self._data_problems = len(report.problems)
        fatal, self._warnings = await asyncio.to_thread(document_findings, source, self.name)
        if fatal:
            self._findings += [Finding(reason=Reason.DOES_NOT_BOOT, detail=one) for one in fatal]
            return
        digest = await asyncio.to_thread(source.payload_digest, self.name)
        kind = self._rooms.kind(source.scenario(self.name).kind)
        self._prepared = await kind.prepare(digest, lambda: source.payload(self.name))
        self._warnings += await asyncio.to_thread(bounds_warnings, source, self.name, self._prepared.tools)

    def _bench(self) -> Bench:
        assert self._prepared is not None
        extent = self._extent
        return Bench(
            self._rooms,
            self.name,
            self._prepared,
            self._folder,
            model=f"validation:{uuid4()}",
            seed=extent.seed,
            repeats=extent.repeats,
            read_timeout_s=extent.read_timeout_s,
        )

    async def _replay_all(self) -> None:
        for task in self._tasks:
            await task.replay()

    async def _blame(self, meter: Meter, left: str) -> None:
        """Find the tasks that leave something, one by one; if it is none of them alone, it is the scenario."""
        guilty = False
        for task in self._tasks:
            if own := await meter.left_by(task.replay):
                task.found(Reason.LEFT_BEHIND, own)
                guilty = True
        if not guilty:
            self._findings.append(Finding(reason=Reason.LEFT_BEHIND, detail=left))

    def _note(self, error: QuintainError | OSError) -> None:
        if isinstance(error, UsageError):
            self._findings.append(Finding(reason=Reason.UNREADABLE, detail=str(error)))
        elif isinstance(error, QuintainError) and error.owner is not Owner.INFRASTRUCTURE:
            told = str(error).partition("\nTraceback ")[0]
            self._findings.append(Finding(reason=Reason.DOES_NOT_BOOT, detail=told))
        else:
            self._obstacle = str(error)
