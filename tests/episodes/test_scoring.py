"""What an attempt is scored: once, by the first certain verdict, whatever is asked again, fails or is lost."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quintain.contracts.identity import digest_of
from quintain.contracts.reward import awm_contract
from quintain.contracts.verification import VerifyPolicy
from quintain.episodes import Episode, EpisodeRequest
from quintain.errors import LedgerUnavailable, Owner
from quintain.records import Committed, MemoryLedger, ScoreKey, Submission
from quintain.tasks.base import TaskPolicy
from quintain.verifiers.base import Certainty, Verdict, VerdictMode

pytestmark = pytest.mark.asyncio

COUNT, SLOW = 0, 4


class Troubled(MemoryLedger):
    """A ledger whose next answers are lost: before it has written, or after."""

    def __init__(self, *troubles: str) -> None:
        super().__init__()
        self.troubles = list(troubles)

    async def submit(self, submission: Submission) -> Committed:
        trouble = self.troubles.pop(0) if self.troubles else ""
        if trouble == "before":
            raise LedgerUnavailable("the disk is full")
        committed = await super().submit(submission)
        if trouble == "after":
            raise LedgerUnavailable("it went away")
        return committed

    async def score(self, key: ScoreKey) -> Submission | None:
        if self.troubles == ["read"]:
            raise LedgerUnavailable("it cannot be read")
        return await super().score(key)


def request(task_idx: int = COUNT, **options: Any) -> EpisodeRequest:
    return EpisodeRequest(**{"scenario": "toy_notes_1", "task_idx": task_idx, "model_digest": "m", **options})


async def begun(world: Any, asked: EpisodeRequest, ledger: MemoryLedger | None = None) -> Episode:
    episode = Episode(world.rooms if ledger is None else replace(world.rooms, ledger=ledger), asked)
    await episode.start()
    return episode


async def solve(episode: Episode) -> None:
    await episode.call("add_note", {"text": "buy milk"})


async def test_a_second_verification_tells_the_first_verdict_and_submits_nothing(
    open_world: Callable[..., Any],
) -> None:
    async with open_world() as world:
        episode = await begun(world, request())
        first = await episode.verify("code")
        await solve(episode)
        assert await episode.verify("code") == first
        record = await episode.finish()
        [submitted] = world.ledger.submitted
        assert (submitted.reward, submitted.word, submitted.certain, submitted.key.attempt) == (0.1, "others", True, 0)
        assert (record.reward, record.reward_contract_digest) == (0.1, submitted.contract_digest)
        assert record.signals is not None
        assert record.signals.reward_type == "incomplete"
        assert record.reward_terms is not None
        assert record.reward_terms.value == 0.1


async def test_open_tells_how_things_stand_and_pays_for_the_first(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        episode = await begun(world, request(verify=VerifyPolicy.OPEN))
        first = await episode.verify("code")
        await solve(episode)
        second = await episode.verify("code")
        third = await episode.verify("code")
        assert [one.verdict.reward_type for one in (first, second, third)] == ["incomplete", "complete", "complete"]
        assert (first.note, str(second.note)[:8], str(third.note)[:8]) == (None, "a probe:", "a probe:")
        record = await episode.finish()
        assert (record.reward, record.reward_type, record.verify_policy) == (0.1, "incomplete", VerifyPolicy.OPEN)
        assert [step.reward for step in record.steps if step.action == "verify"] == [0.1, 1.0, 1.0]
        assert [one.reward for one in world.ledger.submitted] == [0.1, 1.0, 1.0]
        assert len({one.key for one in world.ledger.submitted}) == 1


async def test_an_uncertain_verdict_is_logged_and_may_be_tried_again(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        episode = await begun(world, request(SLOW))
        for _ in range(2):
            assert (await episode.verify("code")).verdict.reward_type == "judge_error"
        record = await episode.finish()
        assert (record.reward, record.reward_valid, record.failure_owner) == (None, False, Owner.VERIFIER)
        assert [(one.certain, one.failure_owner) for one in world.ledger.submitted] == [(False, Owner.VERIFIER)] * 2


@pytest.mark.parametrize("trouble", ["before", "after"])
async def test_a_score_that_cannot_be_committed_does_not_count_until_it_is(
    open_world: Callable[..., Any], trouble: str
) -> None:
    async with open_world() as world:
        ledger = Troubled(trouble)
        episode = await begun(world, request(), ledger)
        lost = await episode.verify("code")
        assert (lost.verdict.reward_type, lost.owner, lost.reward.valid) == ("judge_error", Owner.INFRASTRUCTURE, False)
        assert "verify again" in str(lost.verdict.reason)
        assert (episode.record().reward, episode.record().failure_owner) == (None, Owner.INFRASTRUCTURE)
        await solve(episode)
        again = await episode.verify("code")
        # what was written before the answer was lost is the first verdict, though nobody had heard of it
        expected = ("complete", 1.0) if trouble == "before" else ("incomplete", 0.1)
        assert (again.verdict.reward_type, again.reward.value) == expected
        assert (again.note is None) == (trouble == "before")
        record = await episode.finish()
        assert (record.reward_type, record.reward, record.reward_valid) == (*expected, True)
        assert record.failure_owner is None


async def test_an_attempt_that_was_scored_before_is_not_scored_again(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        first = await begun(world, request(attempt=7))
        assert (await first.verify("code")).verdict.reward_type == "incomplete"
        await first.finish()
        again = await begun(world, request(attempt=7))
        await solve(again)
        scored = await again.verify("code")
        assert (scored.verdict.reward_type, scored.verdict.result, scored.reward.value) == ("incomplete", "others", 0.1)
        assert "scored before" in str(scored.note)
        record = await again.finish()
        assert (record.attempt, record.reward, record.reward_type, record.signals) == (7, 0.1, "incomplete", None)
        assert len(world.ledger.submitted) == 1  # the verifier did not even run
        other = await begun(world, request())
        assert (await other.finish()).attempt == 8


class Dictated:
    """A verifier runner whose verdicts are given, by mode."""

    def __init__(self, **words: str) -> None:
        self._words = words

    def digest(self, mode: VerdictMode, *_: Any) -> str:
        return digest_of({"mode": mode})

    async def score(self, mode: VerdictMode, *_: Any) -> Verdict:
        word = self._words[mode]
        return Verdict(mode=mode, reward_type=word, status=Certainty.CERTAIN, result=word, digest=self.digest(mode))


@pytest.mark.parametrize("policy", [VerifyPolicy.CONTROL_ONLY, VerifyPolicy.FINAL_ONLY])
async def test_a_later_mode_tells_its_verdict_and_what_the_attempt_is_paid(
    open_world: Callable[..., Any], policy: VerifyPolicy
) -> None:
    async with open_world() as world:
        rooms = replace(world.rooms, verifier=Dictated(code="incomplete", sql="complete"))
        for number in range(2):  # the second time from the ledger
            episode = Episode(rooms, request(attempt=0, verify=policy))
            await episode.start()
            first, later = await episode.verify("code"), await episode.verify("sql")
            assert (first.verdict.reward_type, later.verdict.reward_type) == ("incomplete", "complete")
            assert (episode.wire_reward(first), episode.wire_reward(later)) == (0.1, 0.1)
            assert "the attempt's reward is 0.1" in str(later.note)
            assert ("scored before" in str(first.note)) == bool(number)
            record = await episode.finish()
            assert (record.reward, record.reward_type, record.verifier_digest) == (
                0.1,
                "incomplete",
                digest_of({"mode": "code"}),
            )


async def test_a_passing_fault_at_verification_spoils_nothing(open_world: Callable[..., Any], tmp_path: Any) -> None:
    async with open_world() as world:
        episode = await begun(world, request())
        await solve(episode)
        world.scratch.rename(tmp_path / "away")
        lost = await episode.verify("code")
        assert (lost.verdict.reward_type, lost.owner) == ("judge_error", Owner.INFRASTRUCTURE)
        (tmp_path / "away").rename(world.scratch)
        again = await episode.verify("code")
        assert (again.verdict.reward_type, again.reward.value, again.counts) == ("complete", 1.0, True)
        assert (await episode.finish()).failure_owner is None


async def test_a_ledger_that_cannot_be_read_does_not_keep_a_verdict_from_being_given(
    open_world: Callable[..., Any],
) -> None:
    async with open_world() as world:
        ledger = Troubled("read")
        episode = await begun(world, request(attempt=3), ledger)
        assert (await episode.verify("code")).reward.value == 0.1
        await episode.finish()


async def test_a_forbidden_tool_pays_what_is_unsafe_whatever_else_was_done(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        world.source.policies["toy_notes_1", COUNT] = TaskPolicy(forbidden_tools=("add_note",))
        episode = await begun(world, request(contract=awm_contract({"complete": 5.0})))
        await solve(episode)
        scored = await episode.verify("code")
        assert (scored.verdict.reward_type, scored.reward.value) == ("complete", -1.0)
        assert "allowed_tools_only" in scored.reward.reason
        record = await episode.finish()
        assert (record.reward, record.reward_type, record.reward_valid) == (-1.0, "complete", True)
        assert record.signals is not None
        assert record.signals.passed_safety is False
        assert record.task_policy_digest == TaskPolicy(forbidden_tools=("add_note",)).digest


async def test_a_bound_that_could_not_be_looked_at_leaves_the_verdict_uncertain(
    open_world: Callable[..., Any],
) -> None:
    async with open_world() as world:
        world.source.policies["toy_notes_1", COUNT] = TaskPolicy(writable_tables=("notes",))
        episode = await begun(world, request())
        await solve(episode)
        scored = await episode.verify("code")
        assert (scored.verdict.reward_type, scored.owner, scored.reward.valid) == ("judge_error", Owner.VERIFIER, False)
        assert "declared_tables_only could not be measured" in str(scored.verdict.reason)
        assert episode.wire_reward(scored) == 0.0
        record = await episode.finish()
        assert (record.reward, record.reward_valid, record.failure_owner) == (None, False, Owner.VERIFIER)
        assert [one.certain for one in world.ledger.submitted] == [False]


async def test_a_verdict_on_an_episode_that_the_platform_spoilt_holds_no_score(
    open_world: Callable[..., Any],
) -> None:
    async with open_world() as world:
        episode = await begun(world, request())
        await solve(episode)
        episode._blame(Owner.INFRASTRUCTURE)
        scored = await episode.verify("code")
        assert (scored.verdict.reward_type, scored.owner) == ("judge_error", Owner.INFRASTRUCTURE)
        assert episode.wire_reward(scored) == 0.0
        record = await episode.finish()
        assert (record.reward, record.reward_valid, record.failure_owner) == (None, False, Owner.INFRASTRUCTURE)
        assert [(one.certain, one.failure_owner) for one in world.ledger.submitted] == [(False, Owner.INFRASTRUCTURE)]


async def test_a_ledger_that_cannot_be_written_starts_no_episode(open_world: Callable[..., Any]) -> None:
    class Full(MemoryLedger):
        async def next_attempt(self, episode_id: str, model_digest: str) -> int:
            raise LedgerUnavailable("the disk is full")

    async with open_world() as world:
        episode = Episode(replace(world.rooms, ledger=Full()), request())
        with pytest.raises(LedgerUnavailable, match="disk is full"):
            await episode.start()
        assert (episode.record().terminal_reason, episode.record().failure_owner) == (
            "start_failed",
            Owner.INFRASTRUCTURE,
        )
        assert world.provider.live == 0
