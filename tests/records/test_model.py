"""The ledger against a model of it in a few lines: the first certain verdict wins, numbers are never given twice."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from quintain.records import Committed, Ledger, ScoreKey, Submission
from records.making import certain, digest, key, uncertain

Try = tuple[str, str, int]

KEYS = st.builds(
    key, st.integers(0, 3), episode=st.integers(1, 2), model=st.sampled_from("ab"), verifier=st.integers(1, 2)
)
WORDS = st.sampled_from(["complete", "incomplete"])
SUBMISSIONS = st.one_of(
    st.builds(certain, KEYS, WORDS, value=st.integers(), run=st.text("xyz", min_size=1)),
    st.builds(uncertain, KEYS, reason=st.text("xyz")),
)


class Machine(RuleBasedStateMachine):
    """Two ledgers on one file, as two processes have them; each may be closed and opened again at any time."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.ledgers = [self.open(), self.open()]
        self.scores: dict[ScoreKey, Submission] = {}
        self.rewards: dict[Try, Submission] = {}
        self.log: list[Submission] = []
        self.given: dict[tuple[str, str], set[int]] = {}

    def open(self) -> Ledger:
        return self.runner.run(Ledger.open(Path(self.folder.name) / "ledger.db"))

    def expected(self, submission: Submission) -> Committed:
        where = submission.key
        tried = (where.episode_id, where.model_digest, where.attempt)
        self.log.append(submission)
        self.given.setdefault(tried[:2], set()).add(where.attempt)
        first = submission.certain and where not in self.scores
        if submission.certain:
            self.scores.setdefault(where, submission)
            self.rewards.setdefault(tried, submission)
        return Committed(entry=self.scores.get(where), first=first, episode_score=self.rewards.get(tried))

    @rule(which=st.integers(0, 1), submissions=st.lists(SUBMISSIONS, min_size=1, max_size=8))
    def submit(self, which: int, submissions: list[Submission]) -> None:
        async def together() -> list[Committed]:
            return await asyncio.gather(*map(self.ledgers[which].submit, submissions))

        assert self.runner.run(together()) == [self.expected(submission) for submission in submissions]

    @rule(which=st.integers(0, 1), episode=st.integers(1, 2), model=st.sampled_from("ab"), count=st.integers(1, 3))
    def allocate(self, which: int, episode: int, model: str, count: int) -> None:
        async def together() -> list[int]:
            ledger = self.ledgers[which]
            return await asyncio.gather(*(ledger.next_attempt(digest(episode), model) for _ in range(count)))

        used = self.given.setdefault((digest(episode), model), set())
        start = max(used, default=-1) + 1
        assert self.runner.run(together()) == list(range(start, start + count))
        used.update(range(start, start + count))

    @rule(which=st.integers(0, 1), episode=st.integers(1, 2), model=st.sampled_from("ab"), attempt=st.integers(0, 12))
    def claim(self, which: int, episode: int, model: str, attempt: int) -> None:
        self.runner.run(self.ledgers[which].claim_attempt(digest(episode), model, attempt))
        self.given.setdefault((digest(episode), model), set()).add(attempt)

    @rule(which=st.integers(0, 1))
    def restart(self, which: int) -> None:
        self.runner.run(self.ledgers[which].close())
        self.ledgers[which] = self.open()

    @rule(which=st.integers(0, 1), where=KEYS)
    def read(self, which: int, where: ScoreKey) -> None:
        ledger = self.ledgers[which]
        tried = (where.episode_id, where.model_digest, where.attempt)
        assert self.runner.run(ledger.score(where)) == self.scores.get(where)
        assert self.runner.run(ledger.episode_score(*tried)) == self.rewards.get(tried)
        assert self.runner.run(ledger.submissions(where)) == tuple(one for one in self.log if one.key == where)

    @invariant()
    def every_score_is_the_models(self) -> None:
        async def listed(*, rewards: bool) -> list[Submission]:
            return [entry async for entry in self.ledgers[0].scores(rewards=rewards)]

        assert self.runner.run(listed(rewards=False)) == list(self.scores.values())
        assert self.runner.run(listed(rewards=True)) == list(self.rewards.values())

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            for ledger in self.ledgers:
                self.runner.run(ledger.close())
            self.runner.close()
            self.folder.cleanup()


Machine.TestCase.settings = settings(max_examples=40, stateful_step_count=20)
TestLedger = Machine.TestCase
