"""The proof of one task with every seed asked for, and against attempts that are not its solution."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from quintain.contracts.identity import digest_of
from quintain.episodes.validation.base import Finding, SeedResult, TaskResult, status_of
from quintain.episodes.validation.plays import Bench
from quintain.episodes.validation.seeds import SeedProof
from quintain.episodes.validation.trials import Trials
from quintain.errors import QuintainError
from quintain.tasks.quarantine import Reason

_SHOWN: Final = 5


@dataclass(frozen=True)
class Thoroughness:
    """With which seeds a task is proved, and against how many other attempts, over all seeds."""

    seeds: range
    random: int = 0


class TaskProof:
    """One task under validation. `prove` first, `replay` when nothing else runs, then `compare`."""

    def __init__(self, bench: Bench, task_idx: int, extent: Thoroughness) -> None:
        self.task_idx = task_idx
        self._bench = bench
        self._extent = extent
        self._seeds = [SeedProof(replace(bench, seed=seed), task_idx) for seed in extent.seeds]
        self._trials = Trials()
        self._findings: dict[Reason, str] = {}
        self._warnings: list[str] = []

    def found(self, reason: Reason, detail: str) -> None:
        """Note a finding that is of no one seed."""
        self._findings.setdefault(reason, detail)

    async def prove(self) -> None:
        """Each seed by itself, the seeds against each other, and attempts that must not be complete."""
        for proof in self._seeds:
            await proof.prove()
        try:
            self._warnings += await asyncio.to_thread(self._varies)
        except QuintainError:
            return  # each seed has told it
        for proof, numbers in zip(self._seeds, _shares(self._extent.random, len(self._seeds)), strict=True):
            await self._trials.try_all(proof, numbers, self._extent.random)

    async def replay(self) -> None:
        """Play each seed once more, for what it leaves behind."""
        for proof in self._seeds:
            await proof.replay()

    async def compare(self) -> None:
        """The replays against the first time."""
        for proof in self._seeds:
            await proof.compare()

    @property
    def result(self) -> TaskResult:
        """What was found so far."""
        seeds = [proof.result for proof in self._seeds]
        own = [Finding(reason=reason, detail=detail) for reason, detail in sorted(self._findings.items())]
        findings = (*_united(seeds), *own, *self._trials.findings)
        first = self._seeds[0]
        obstacle = next((one.obstacle for one in seeds if one.obstacle), None) or self._trials.obstacle
        return TaskResult(
            task_idx=self.task_idx,
            status=status_of(findings, obstacle, first.missing),
            findings=findings,
            warnings=tuple(self._warnings),
            notes=tuple(self._trials.notes),
            missing=first.missing,
            obstacle=obstacle,
            noop=_telling([one.noop for one in seeds], bad="complete"),
            solution=next((one.solution for one in seeds if one.solution != "complete"), seeds[0].solution),
            trials=self._trials.result if self._extent.random else None,
            seeds=tuple(seeds),
            verifier_digest=first.verifier_digest,
            duration_ms=sum(one.duration_ms for one in seeds) + self._trials.spent_s * 1000,
        )

    def _varies(self) -> list[str]:
        """Seeds that make one task, where the task has variables."""
        source, scenario = self._bench.rooms.source, self._bench.scenario
        same: dict[str, list[int]] = {}
        for seed in self._extent.seeds:
            task = source.task(scenario, self.task_idx, seed)
            if not task.variables:
                return []
            same.setdefault(digest_of({"text": task.text, "start": task.start}), []).append(seed)
        alike = [" and ".join(map(str, seeds)) for seeds in same.values() if len(seeds) > 1]
        if not alike:
            return []
        told = "; ".join(alike[:_SHOWN])
        return [
            f"{len(self._seeds)} seeds make {len(same)} different tasks: seeds {told} have the same text and start; "
            "give its variables more values, and use them in both"
        ]


def _shares(count: int, parts: int) -> list[range]:
    """Numbers from 0, dealt to so many in turn, each a range."""
    ends = [count * part // parts for part in range(parts + 1)]
    return [range(begin, end) for begin, end in pairwise(ends)]


def _telling(scored: Sequence[str | None], bad: str) -> str | None:
    return bad if bad in scored else None if None in scored else scored[0]


def _united(seeds: Sequence[SeedResult]) -> list[Finding]:
    """The findings of all seeds: the first of each reason, with how many seeds have it."""
    found: dict[Reason, list[tuple[int, str]]] = {}
    for one in seeds:
        for finding in one.findings:
            found.setdefault(finding.reason, []).append((one.seed, finding.detail))
    if len(seeds) == 1:
        return [Finding(reason=reason, detail=told[0][1]) for reason, told in sorted(found.items())]
    return [
        Finding(reason=reason, detail=f"{len(told)} of {len(seeds)} seeds; with {told[0][0]}: {told[0][1]}")
        for reason, told in sorted(found.items())
    ]
