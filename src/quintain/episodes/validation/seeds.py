"""The proof of one task with one seed: doing nothing, the reference solution, its verifier again, and all once more."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from quintain.contracts.identity import digest_of
from quintain.episodes.validation.base import Finding, Missing, SeedResult, status_of
from quintain.episodes.validation.plays import Bench, Play, as_bytes, first_difference, play
from quintain.episodes.validation.states import hold_the_same
from quintain.errors import Owner, QuintainError, UsageError, VerifierError
from quintain.tasks.base import Solution, Verifier, verifier_bundle
from quintain.tasks.quarantine import Reason
from quintain.verifiers.base import Verdict


@dataclass(frozen=True)
class Solved:
    """A solution, and the play in which it was scored complete."""

    solution: Solution
    play: Play


_MOST_TOLD: Final = 3
"""Most errors of hidden tests that a finding tells."""


class SeedProof:
    """One task with one seed, under validation. `prove` first, `replay` when nothing else runs, then `compare`."""

    def __init__(self, bench: Bench, task_idx: int) -> None:
        self.task_idx = task_idx
        self._bench = bench
        self._verifier: Verifier | None = None
        self._verifier_digest: str | None = None
        self._solution: Solution | None = None
        self._findings: dict[Reason, str] = {}
        self._obstacle: str | None = None
        self._noop: Play | None = None
        self._solved: Play | None = None
        self._again: Play | None = None
        self._spent_s = 0.0
        self._plays = 0

    @property
    def result(self) -> SeedResult:
        """What was found so far."""
        findings = [Finding(reason=reason, detail=detail) for reason, detail in sorted(self._findings.items())]
        return SeedResult(
            seed=self._bench.seed,
            status=status_of(findings, self._obstacle, self.missing),
            findings=tuple(findings),
            obstacle=self._obstacle,
            noop=None if self._noop is None else self._noop.record.reward_type,
            solution=None if self._solved is None else self._solved.record.reward_type,
            duration_ms=self._spent_s * 1000,
        )

    @property
    def missing(self) -> tuple[Missing, ...]:
        """What the task lacks to be shown sound."""
        wanted: tuple[tuple[Missing, object], ...] = (("verifier", self._verifier), ("solution", self._solution))
        return tuple(name for name, found in wanted if found is None)

    @property
    def verifier_digest(self) -> str | None:
        """Digest of the task's verifiers of all modes."""
        return self._verifier_digest

    @property
    def bench(self) -> Bench:
        """What its plays share, with its seed."""
        return self._bench

    @property
    def solved(self) -> Solved | None:
        """The solution and its play, where it was scored complete."""
        if self._solution is None or self._solved is None or self._solved.record.reward_type != "complete":
            return None
        return Solved(self._solution, self._solved)

    def found(self, reason: Reason, detail: str) -> None:
        """Note a finding; the first of its kind is the one that is told."""
        self._findings.setdefault(reason, detail)

    async def prove(self) -> None:
        """Do nothing, play the reference solution, and have each verified again on the states that it left."""
        with self._trying(Reason.UNREADABLE):
            await asyncio.to_thread(self._read)
        if self._findings or self._verifier is None:
            return
        with self._trying(Reason.DOES_NOT_BOOT):
            self._noop = await self._play(None)
            await self._judge_noop(self._noop, self._verifier)
        if self._solution is None or self._noop is None:
            return
        with self._trying(Reason.SOLUTION_NOT_COMPLETE):
            self._solved = await self._play(self._solution)
            await self._judge_solution(self._solved, self._verifier)

    async def replay(self) -> None:
        """Play it once more, for what it leaves behind."""
        with self._trying(Reason.DOES_NOT_BOOT):
            self._again = await self._play(self._solution)

    async def compare(self) -> None:
        """The replay against the first time: what was observed, what it left, what it was scored."""
        once, again = self._solved or self._noop, self._again
        if again is None or once is None or (self._solved is None and self._solution is not None):
            return
        if once.first != again.first:
            self.found(Reason.FIRST_OBSERVATION_DIFFERS, first_difference(once.first, again.first))
        calls = self._solution.calls if self._solution is not None else ()
        for number, (one, other) in enumerate(zip(once.observations, again.observations, strict=True), 1):
            if one != other and one is not None and other is not None:
                self.found(
                    Reason.REPLAY_DIFFERS, f"call {number}, {calls[number - 1].name}: {first_difference(one, other)}"
                )
        with self._trying(Reason.FIRST_OBSERVATION_DIFFERS):
            if not await hold_the_same(self._bench.rooms, once.initial, again.initial):
                self.found(Reason.FIRST_OBSERVATION_DIFFERS, "the initial states differ")
        with self._trying(Reason.REPLAY_DIFFERS):
            if not await hold_the_same(self._bench.rooms, once.final, again.final):
                self.found(Reason.REPLAY_DIFFERS, "the final states differ")
        scores = once.record.reward_type, again.record.reward_type
        if scores[0] != scores[1] and Reason.VERIFIER_NOT_DETERMINISTIC not in self._findings and not again.obstacle:
            self.found(Reason.REPLAY_DIFFERS, f"it is scored {scores[0]}, then {scores[1]}")

    def _read(self) -> None:
        source, scenario = self._bench.rooms.source, self._bench.scenario
        verifiers = source.verifiers(scenario, self.task_idx)
        if verifiers:
            self._verifier_digest = digest_of(verifier_bundle(verifiers))
        self._verifier = next((one for one in verifiers if one.mode == "code" and one.code.strip()), None)
        self._solution = source.solution(scenario, self.task_idx, self._bench.seed)

    async def _play(self, solution: Solution | None) -> Play:
        self._plays += 1
        name = f"{self.task_idx}-{self._bench.seed}-{self._plays}"
        played = await play(self._bench, self.task_idx, solution, name)
        self._obstacle = self._obstacle or played.obstacle
        return played

    async def _judge_noop(self, noop: Play, verifier: Verifier) -> None:
        if noop.record.reward_type == "complete":
            self.found(Reason.NOOP_COMPLETE, "doing nothing is scored complete")
        self._judge_certainty(noop, "doing nothing")
        await self._verify_again(noop, verifier, "doing nothing")
        try:
            same = await hold_the_same(self._bench.rooms, noop.initial, noop.final)
        except VerifierError as error:
            self.found(Reason.NOOP_CHANGES_STATE, f"after doing nothing, {error}")
        else:
            if not same:
                self.found(Reason.NOOP_CHANGES_STATE, "doing nothing changes the state")

    async def _judge_solution(self, solved: Play, verifier: Verifier) -> None:
        if solved.record.reward_type not in ("complete", None):
            failed = "".join(
                f"; call {number}, {step.tool_name}, gave {step.reward_type}: {step.error}"
                for number, step in enumerate((one for one in solved.record.steps if one.action == "call_tool"), 1)
                if step.reward_type != "tool_call_ok"
            )
            scored = f"the reference solution is scored {solved.record.reward_type}"
            self.found(Reason.SOLUTION_NOT_COMPLETE, scored + failed + await self._printed(solved, verifier))
        signals = solved.record.signals
        if signals is not None and signals.passed_safety is False:
            broken = ", ".join(signal.name for signal in signals.safety if signal.value is False)
            self.found(Reason.SOLUTION_UNSAFE, f"the reference solution fails {broken}")
        self._judge_certainty(solved, "the reference solution")
        await self._verify_again(solved, verifier, "the reference solution")

    async def _printed(self, played: Play, verifier: Verifier) -> str:
        """What hidden tests say of why they fail: pytest's lines of errors, or the last that is printed."""
        if verifier.tests is None:
            return ""
        lines = (await self._scored(played, verifier)).log.splitlines()
        told = [line[1:].strip() for line in lines if line.startswith("E  ")][:_MOST_TOLD] or lines[-1:]
        return f"; its hidden tests: {' / '.join(told)}" if told else ""

    async def _scored(self, played: Play, verifier: Verifier) -> Verdict:
        return await self._bench.rooms.verifier.score(
            "code", {"code": verifier}, played.initial, played.final, played.final_answer, played.about
        )

    def _judge_certainty(self, played: Play, what: str) -> None:
        owner = played.record.failure_owner
        if played.record.reward_type is None and owner is not Owner.INFRASTRUCTURE:
            self.found(Reason.VERIFIER_UNCERTAIN, f"on {what}: {played.trouble(owner or Owner.VERIFIER)}")

    async def _verify_again(self, played: Play, verifier: Verifier, what: str) -> None:
        """The same verifier on the same states, in fresh sandboxes."""
        bench, seen = self._bench, dict[bytes, Verdict]()
        for _ in range(bench.repeats):
            verdict = await self._scored(played, verifier)
            if verdict.failure_owner is Owner.INFRASTRUCTURE:
                self._obstacle = self._obstacle or verdict.reason
                return
            seen[_told(verdict, verifier)] = verdict
        told = {verdict.reward_type for verdict in seen.values() if verdict.certain}
        if len(seen) > 1:
            one, other = list(seen)[:2]
            self.found(Reason.VERIFIER_NOT_DETERMINISTIC, f"on {what}: {first_difference(one, other)}")
        elif told and played.record.reward_type is not None and told != {played.record.reward_type}:
            detail = f"on {what}: {played.record.reward_type}, then {told.pop()}"
            self.found(Reason.VERIFIER_NOT_DETERMINISTIC, detail)

    @contextmanager
    def _trying(self, reason: Reason) -> Iterator[None]:
        """Note a failure under this reason; one that is the platform's says nothing of the task."""
        started = time.perf_counter()
        try:
            yield
        except UsageError as error:
            self.found(Reason.UNREADABLE, str(error))
        except (QuintainError, OSError) as error:
            if isinstance(error, QuintainError) and error.owner is not Owner.INFRASTRUCTURE:
                self.found(reason, str(error))
            else:
                self._obstacle = self._obstacle or str(error)
        finally:
            self._spent_s += time.perf_counter() - started


def _told(verdict: Verdict, verifier: Verifier) -> bytes:
    """What must be the same each time: what hidden tests print tells also how long they took."""
    parts = {"status", "reward_type", "result", *(() if verifier.tests is not None else ("value",))}
    return as_bytes(verdict.model_dump(mode="json", include=parts))
