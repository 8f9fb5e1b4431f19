"""Stored episodes verified again, over the toy world: new verdicts stand beside the old, which stay the reward."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quintain.artifacts import LocalArtifactStore
from quintain.contracts.record import EpisodeRecord
from quintain.contracts.reward import RewardContract, RewardMap
from quintain.episodes import Episode, EpisodeRequest, Rooms
from quintain.episodes.recorded import Recorded
from quintain.episodes.reverify import Outcome, Reverified, Reverifier
from quintain.tasks.base import Verifier
from toy import COUNTS_NOTES, ToySource

SAYS = "def verify_task_completion(a, b, c=None):\n    return {{'result': {0!r}, 'answer': c}}\n"
CRASHES = "def verify_task_completion(a, b, c=None):\n    raise ValueError('broken')\n"
COUNTS_ALL = COUNTS_NOTES.replace("WHERE text = 'buy milk'", "")


class OtherVerifiers(ToySource):
    """The toy scenarios, with one verifier for all tasks."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self._code = code

    def verifiers(self, name: str, task_idx: int) -> tuple[Verifier, ...]:
        return (Verifier(scenario="toy_notes_1", task_idx=task_idx, mode="code", code=self._code),)


@pytest.fixture
def states(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path / "kept")


async def played(rooms: Rooms, *notes: str, after: str | None = None, **request: Any) -> EpisodeRecord:
    asked = {"scenario": "toy_notes_1", "task_idx": 0, "model_digest": "m", **request}
    episode = Episode(rooms, EpisodeRequest.model_validate(asked))
    await episode.start()
    for note in notes:
        await episode.call("add_note", {"text": note})
    await episode.verify("code", "42")
    if after is not None:
        await episode.call("add_note", {"text": after})
    return await episode.finish()


async def again(rooms: Rooms, record: EpisodeRecord, states: LocalArtifactStore, code: str) -> Reverified:
    verifier = Reverifier(replace(rooms, source=OtherVerifiers(code)))
    return await verifier.reverify(Recorded("it", record, (states,)))


async def test_a_new_verdict_stands_beside_the_old_one(
    open_world: Callable[..., Any], states: LocalArtifactStore
) -> None:
    async with open_world() as world:
        rooms = replace(world.rooms, states=states)
        record = await played(rooms, "buy milk")
        assert record.episode_id is not None
        new = await again(rooms, record, states, SAYS.format("others"))
        assert (new.outcome, new.old, new.new, new.new_word) == (Outcome.SCORED, "complete", "incomplete", "others")
        assert new.new_digest != new.old_digest
        assert new.reward == 1.0, "the first certain verdict remains the reward"
        paid = await world.ledger.episode_score(record.episode_id, "m", record.attempt)
        assert paid.key.verifier_digest == record.verifier_digest
        last = world.ledger.submitted[-1]
        assert (last.key.verifier_digest, last.key.tried, last.reward) == (new.new_digest, paid.key.tried, 0.1)
        assert last.run.startswith("reverify:")
        assert last.value == {"result": "others", "answer": "42"}, "it is given the answer that was scored"


async def test_the_same_verifier_again_does_nothing_and_says_so(
    open_world: Callable[..., Any], states: LocalArtifactStore
) -> None:
    async with open_world() as world:
        rooms = replace(world.rooms, states=states)
        record = await played(rooms, "buy milk")
        for code in (COUNTS_NOTES, SAYS.format("others"), SAYS.format("others")):
            before = len(world.ledger.submitted)
            new = await again(rooms, record, states, code)
            if new.outcome is Outcome.SCORED:
                continue
            assert (new.outcome, len(world.ledger.submitted)) == (Outcome.UNCHANGED, before)
            assert "already" in str(new.why)
        assert new.outcome is Outcome.UNCHANGED
        assert (new.old, new.new) == ("complete", "incomplete")


async def test_what_was_scored_is_verified_and_not_what_came_after(
    open_world: Callable[..., Any], states: LocalArtifactStore
) -> None:
    async with open_world() as world:
        rooms = replace(world.rooms, states=states)
        record = await played(rooms, after="buy milk")
        assert record.reward_type == "incomplete"
        new = await again(rooms, record, states, COUNTS_ALL)
        assert (new.outcome, new.new) == (Outcome.SCORED, "incomplete")


async def test_an_uncertain_verdict_is_logged_and_a_mended_verifier_pays(
    open_world: Callable[..., Any], states: LocalArtifactStore
) -> None:
    async with open_world() as world:
        rooms = replace(world.rooms, states=states, source=OtherVerifiers(CRASHES))
        record = await played(rooms, "buy milk")
        assert (record.reward, record.failure_owner) == (None, "verifier")
        broken = await again(world.rooms, record, states, CRASHES + "# still\n")
        assert (broken.outcome, broken.new, broken.reward) == (Outcome.UNCERTAIN, None, None)
        assert "broken" in str(broken.why)
        mended = await again(world.rooms, record, states, COUNTS_NOTES)
        assert (mended.outcome, mended.old, mended.new) == (Outcome.SCORED, None, "complete")
        assert mended.reward == 1.0, "it is the attempt's first certain verdict"


async def test_without_the_reward_contract_there_is_a_verdict_and_no_reward(
    open_world: Callable[..., Any], states: LocalArtifactStore
) -> None:
    own = RewardContract(name="own", version="1", rewards=RewardMap(complete=2.0), unsafe=-1.0)
    async with open_world() as world:
        rooms = replace(world.rooms, states=states)
        record = await played(rooms, "buy milk", contract=own)
        new = await again(rooms, record, states, SAYS.format("others"))
        assert (new.outcome, new.reward) == (Outcome.SCORED, 2.0)
        assert (world.ledger.submitted[-1].certain, world.ledger.submitted[-1].reward) == (True, None)


async def test_what_cannot_be_verified_again_is_said_with_the_reason(
    open_world: Callable[..., Any], states: LocalArtifactStore, tmp_path: Path
) -> None:
    async with open_world() as world:
        rooms = replace(world.rooms, states=states)
        record = await played(rooms, "buy milk")
        verified = record.steps[-1]
        redacted = verified.model_copy(update={"arguments": {"final_answer": "[redacted:api_key]"}})
        cases = [
            ({"states": None}, "not kept"),
            ({"failure_owner": "infrastructure"}, "no verdict on it counts"),
            ({"episode_id": None}, "before it had an identity"),
            ({"task_idx": None}, "no verifier"),
            ({"task_payload_digest": "sha256:" + "0" * 64}, "another scenario or task"),
            ({"scenario": "nowhere"}, "nowhere"),
            ({"steps": (*record.steps[:-1], redacted)}, "redacted"),
        ]
        before = len(world.ledger.submitted)
        for change, said in cases:
            skipped = await again(rooms, record.model_copy(update=change), states, SAYS.format("others"))
            assert (skipped.outcome, said in str(skipped.why)) == (Outcome.SKIPPED, True), skipped
        nowhere = await again(rooms, record, LocalArtifactStore(tmp_path / "empty"), SAYS.format("others"))
        assert (nowhere.outcome, "no blob" in str(nowhere.why)) == (Outcome.SKIPPED, True)
        assert len(world.ledger.submitted) == before
