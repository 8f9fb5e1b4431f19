"""A ledger that is kept in memory: for tests, and for commands whose scores nobody keeps."""

from quintain.errors import UsageError
from quintain.records.base import MAX_ATTEMPT, AttemptKey, Committed, ScoreKey, Submission


class MemoryLedger:
    """The rules of `Ledger`, of which nothing outlives this object."""

    def __init__(self) -> None:
        self.submitted: list[Submission] = []
        """Everything that was submitted, in order."""
        self._scores: dict[ScoreKey, Submission] = {}
        self._rewards: dict[AttemptKey, Submission] = {}
        self._largest: dict[tuple[str, str], int] = {}

    async def submit(self, submission: Submission) -> Committed:
        """See `ScoreLedger.submit`."""
        key, tried = submission.key, submission.key.tried
        self._use(tried)
        self.submitted.append(submission)
        first = submission.certain and key not in self._scores
        if first:
            self._scores[key] = submission
            self._rewards.setdefault(tried, submission)
        return Committed(entry=self._scores.get(key), first=first, episode_score=self._rewards.get(tried))

    async def score(self, key: ScoreKey) -> Submission | None:
        """See `ScoreLedger.score`."""
        return self._scores.get(key)

    async def episode_score(self, episode_id: str, model_digest: str, attempt: int) -> Submission | None:
        """See `ScoreLedger.episode_score`."""
        return self._rewards.get(AttemptKey(episode_id=episode_id, model_digest=model_digest, attempt=attempt))

    async def next_attempt(self, episode_id: str, model_digest: str) -> int:
        """See `ScoreLedger.next_attempt`."""
        number = self._largest.get((episode_id, model_digest), -1) + 1
        if number > MAX_ATTEMPT:
            raise UsageError(f"attempt {number - 1} of model {model_digest[:80]!r} is the last there is; name it")
        self._largest[episode_id, model_digest] = number
        return number

    async def claim_attempt(self, episode_id: str, model_digest: str, attempt: int) -> None:
        """See `ScoreLedger.claim_attempt`."""
        self._use(AttemptKey(episode_id=episode_id, model_digest=model_digest, attempt=attempt))

    def _use(self, tried: AttemptKey) -> None:
        which = (tried.episode_id, tried.model_digest)
        self._largest[which] = max(self._largest.get(which, -1), tried.attempt)
