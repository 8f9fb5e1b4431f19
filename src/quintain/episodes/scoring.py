"""What an attempt is scored: every verdict goes to the ledger, and the first certain one is the reward for good."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from quintain.contracts.record import StepRecord
from quintain.contracts.reward import Reward, RewardContract
from quintain.contracts.signals import Signals
from quintain.errors import LedgerError, Owner
from quintain.records import Committed, ScoreKey, ScoreLedger, Submission
from quintain.tasks.base import TaskPolicy
from quintain.verifiers.base import Certainty, Verdict, VerdictMode
from quintain.verifiers.signals import measure, signals_of


@dataclass(frozen=True)
class Scored:
    """A verdict, and what it came to."""

    verdict: Verdict
    reward: Reward
    """What the attempt is paid; for a probe, what the contract would have made of it."""
    owner: Owner | None = None
    """Whose failure keeps it from counting; None if it counts, or might have."""
    note: str | None = None
    """Why it is not what the verifier says of the state as it is now, or does not count."""

    @property
    def counts(self) -> bool:
        """Whether it is a verdict that may be a score, and not one that is to be tried again."""
        return self.verdict.certain and self.owner is None


class Scoring:
    """The verdicts of one attempt."""

    def __init__(self, ledger: ScoreLedger, contract: RewardContract, run: str) -> None:
        """`run` names, in the ledger, the run that submits."""
        self.last: Scored | None = None
        """What the latest verification came to."""
        self.score: Submission | None = None
        """The attempt's reward as the ledger holds it: its first certain verdict in whichever mode."""
        self.scored: Scored | None = None
        """That verdict with its signals' reward, if it was given here."""
        self.signals: Signals | None = None
        """What the latest verdict that could be the reward was made from."""
        self._ledger = ledger
        self._contract = contract
        self._run = run
        self._first: dict[VerdictMode, Scored] = {}

    def first(self, mode: VerdictMode) -> Scored | None:
        """The first certain verdict in a mode."""
        return self._first.get(mode)

    async def held(self, mode: VerdictMode, key: ScoreKey) -> Scored | None:
        """The score that an attempt of this number was given before, by another episode or another run of ours.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        entry = await self._ledger.score(key)
        if entry is None:
            return None
        reward = await self._ledger.episode_score(key.episode_id, key.model_digest, key.attempt)
        return self._keep(mode, _before(entry, reward), reward)

    async def submit(
        self,
        key: ScoreKey,
        verdict: Verdict,
        steps: Sequence[StepRecord],
        policy: TaskPolicy | None,
        failed: Owner | None,
    ) -> Scored:
        """Bring a verdict to the ledger.

        Args:
            steps: what was done so far.
            failed: whose failure has already spoilt the episode, so that no verdict on it may count.
        """
        probe = self.first(verdict.mode) is not None
        signals = signals_of(verdict, measure(steps, policy, verdict.changes))
        reward = self._contract.reward(signals)
        counted = _countable(verdict, reward, failed)
        submission = Submission.of(
            key,
            counted,
            reward=reward.value,
            contract_digest=self._contract.digest,
            submitted_at=time.time(),
            run=self._run,
        )
        try:
            committed = await self._ledger.submit(submission)
        except LedgerError as error:
            lost = _uncertain(verdict, f"the score could not be committed, verify again: {error}", error.owner)
            return self._tell(Scored(lost, self._contract.reward(signals_of(lost, ())), error.owner))
        if not counted.certain:
            invalid = self._contract.reward(signals_of(counted, ()))
            return self._tell(Scored(counted, invalid, counted.failure_owner))
        if probe:
            return self._tell(Scored(verdict, reward, note=_PROBE))
        return self._committed(submission, committed, Scored(verdict, reward), signals)

    def _committed(self, mine: Submission, committed: Committed, scored: Scored, signals: Signals) -> Scored:
        reward = committed.episode_score
        if committed.entry is not None and not committed.first:
            scored = _before(committed.entry, reward)
        elif reward == mine:
            self.scored, self.signals = scored, signals
        elif reward is not None:
            scored = replace(scored, reward=_reward_of(reward), note=_told_of(reward))
        return self._keep(scored.verdict.mode, scored, reward)

    def _keep(self, mode: VerdictMode, scored: Scored, reward: Submission | None) -> Scored:
        self._first.setdefault(mode, scored)
        if self.score is None:
            self.score = reward
        return self._tell(scored)

    def _tell(self, scored: Scored) -> Scored:
        self.last = scored
        return scored


def _before(entry: Submission, reward: Submission | None) -> Scored:
    """A verdict that the ledger held already, and what the attempt was paid."""
    note = "this attempt was scored before, and the first score stands"
    if reward is None or reward == entry:
        return Scored(_verdict_of(entry), _reward_of(entry), note=note)
    return Scored(_verdict_of(entry), _reward_of(reward), note=f"{note}; {_told_of(reward)}")


def _told_of(reward: Submission) -> str:
    return f"the attempt's reward is {reward.reward}, from its first certain verdict, in mode {reward.mode}"


_PROBE = "a probe: the reward stays what the first certain verdict made it"


def _countable(verdict: Verdict, reward: Reward, failed: Owner | None) -> Verdict:
    """The verdict as it may be submitted: an uncertain one where the episode or its signals are not to be relied on."""
    if not verdict.certain:
        return verdict
    if failed is not None:
        return _uncertain(verdict, f"the episode had failed before, by the {failed}", failed)
    if not reward.valid:
        return _uncertain(verdict, reward.reason, Owner.VERIFIER)
    return verdict


def _uncertain(verdict: Verdict, reason: str, owner: Owner) -> Verdict:
    return verdict.model_copy(
        update={
            "status": Certainty.UNCERTAIN,
            "reward_type": "judge_error",
            "reason": reason,
            "failure_owner": owner,
        }
    )


def _verdict_of(entry: Submission) -> Verdict:
    """A certain verdict as the ledger holds it."""
    omitted = entry.value_omitted
    value = entry.value if omitted is None else {"result": entry.word, "omitted": omitted.model_dump()}
    return Verdict(
        mode=entry.mode,
        reward_type=entry.reward_type,
        status=Certainty.CERTAIN,
        result=entry.word,
        value=value,
        digest=entry.key.verifier_digest,
    )


def _reward_of(entry: Submission) -> Reward:
    digest = entry.contract_digest
    assert digest is not None  # nothing else submits here
    reason = f"as it was scored first, in mode {entry.mode}, with the verdict {entry.reward_type}"
    return Reward(value=entry.reward, valid=entry.reward is not None, contract_digest=digest, reason=reason)
