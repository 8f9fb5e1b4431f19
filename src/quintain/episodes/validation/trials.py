"""A task against attempts that are not its solution: none may be scored complete, unless it ends as that does."""

import time
from typing import Final

from quintain.contracts.terminal import TerminalReason
from quintain.episodes.base import Agent
from quintain.episodes.validation.base import Finding, TrialsResult
from quintain.episodes.validation.plays import Tried, actions_of, attempt, obstacle_of, trouble_of
from quintain.episodes.validation.seeds import SeedProof, Solved
from quintain.episodes.validation.spoiling import MAX_STEPS, call_name, idle_at, listed, spoilt
from quintain.episodes.validation.states import facts_agree, hold_the_same, said
from quintain.errors import Owner, QuintainError
from quintain.tasks.quarantine import Reason

_TURNS: Final = 8
"""How often as many attempts are made as are wanted, until so many do not end as the solution does."""


class Trials:
    """What became of one task's attempts."""

    def __init__(self) -> None:
        self.obstacle: str | None = None
        self.spent_s = 0.0
        self._tried = 0
        self._alike = 0
        self._complete: list[str] = []
        self._uncertain: list[str] = []
        self._needless: dict[str, None] = {}
        self._plays = 0
        self._changes: dict[int, bool] = {}

    @property
    def result(self) -> TrialsResult:
        """How many there were, and how many were complete."""
        return TrialsResult(tried=self._tried, alike=self._alike, complete=len(self._complete))

    @property
    def findings(self) -> list[Finding]:
        """What is wrong with the task."""
        told = ((Reason.RANDOM_COMPLETE, self._complete), (Reason.VERIFIER_UNCERTAIN, self._uncertain))
        return [
            Finding(reason=reason, detail=f"{seen[0]}{f' (and {len(seen) - 1} more)' if seen[1:] else ''}")
            for reason, seen in told
            if seen
        ]

    @property
    def notes(self) -> list[str]:
        """Calls of the solution without which it is complete too."""
        return list(self._needless)

    async def try_all(self, proof: SeedProof, numbers: range, step: int) -> None:
        """Play attempts with the seed of a proof, whose solution must have been scored complete.

        An attempt that ends as the solution does is replaced by one with a number that is so many steps on.
        """
        began = time.perf_counter()
        before, made = self._alike, 0
        try:
            for number in (number + step * turn for turn in range(_TURNS) for number in numbers):
                if made - (self._alike - before) >= len(numbers):
                    break
                await self._try(proof, number)
                made += 1
        except (QuintainError, OSError) as error:
            self.obstacle = self.obstacle or str(error)
        finally:
            self.spent_s += time.perf_counter() - began

    async def _try(self, proof: SeedProof, number: int) -> None:
        known = proof.solved
        if known is None:
            return
        key = f"{proof.bench.scenario}/{proof.task_idx}/{proof.bench.seed}"
        calls, answer = actions_of(known.solution), known.solution.final_answer
        trial = spoilt(calls, answer, number, key)
        tried = await self._played(proof, trial.agent)
        if tried is None:
            return
        self._tried += 1
        if tried.record.reward_type != "complete":
            return
        if await self._ends_alike(proof, known, tried) or (
            # what comes after a call that is left out comes sooner: that may be the only difference
            trial.dropped is not None and await self._needless_at(proof, known, trial.dropped)
        ):
            self._alike += 1
            if trial.dropped is not None:
                self._needless.setdefault(f"{call_name(calls, trial.dropped)} is not needed")
            return
        self._complete.append(
            f"seed {proof.bench.seed}, {trial.told}: scored complete, and it does not end as the solution does; it did "
            f"{listed(tried.calls)}, and answered {tried.final_answer!r}"
        )

    async def _played(self, proof: SeedProof, agent: Agent) -> Tried | None:
        """An attempt that was scored with certainty; else why not is noted."""
        self._plays += 1
        name = f"{proof.task_idx}-{proof.bench.seed}-trial-{self._plays}"
        most = MAX_STEPS if proof.solved is None else MAX_STEPS + len(proof.solved.solution.calls)
        tried = await attempt(proof.bench, proof.task_idx, agent, name, most)
        record = tried.record
        if record.reward_type is not None and record.terminal_reason is not TerminalReason.SANDBOX_LOST:
            return tried
        if obstacle := obstacle_of(record):
            self.obstacle = self.obstacle or obstacle
        elif record.failure_owner is not None:
            trouble = trouble_of(record, record.failure_owner or Owner.VERIFIER)
            self._uncertain.append(f"on what did {listed(tried.calls)}: {trouble}")
        return None

    async def _needless_at(self, proof: SeedProof, known: Solved, at: int) -> bool:
        idle = await self._played(proof, idle_at(actions_of(known.solution), known.solution.final_answer, at))
        return idle is not None and idle.record.reward_type == "complete" and await self._ends_alike(proof, known, idle)

    async def _ends_alike(self, proof: SeedProof, known: Solved, tried: Tried) -> bool:
        """Whether it leaves and answers what the solution does.

        What it answers, or says to a counterpart, is left aside where the solution changes the state: then its task
        may ask for no answer.
        """
        rooms = proof.bench.rooms
        if not await facts_agree(rooms, known.play.final, tried.final):
            return False
        same_words = said(known.play.final) == said(tried.final)
        if same_words and (tried.final_answer or "") == (known.play.final_answer or ""):
            return True
        if proof.bench.seed not in self._changes:
            same = await hold_the_same(rooms, known.play.initial, known.play.final)
            same = same or await facts_agree(rooms, known.play.initial, known.play.final)
            self._changes[proof.bench.seed] = not same
        return self._changes[proof.bench.seed]
