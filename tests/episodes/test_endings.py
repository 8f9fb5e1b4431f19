"""However an episode ends: its stages are all in its record, and whoever waits for its end is told once."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from quintain.contracts.lifecycle import TRANSITIONS, Lifecycle, Stage
from quintain.contracts.record import EpisodeRecord
from quintain.contracts.terminal import CALLED_OFF, CUT_OFF, TerminalReason
from quintain.episodes import Episode, EpisodeRequest
from quintain.errors import LifecycleError, Owner, QuintainError

pytestmark = pytest.mark.asyncio

CRASH = 1


def request(task_idx: int = 0, scenario: str = "toy_notes_1") -> EpisodeRequest:
    return EpisodeRequest(scenario=scenario, task_idx=task_idx, model_digest="m")


def legal(record: EpisodeRecord) -> bool:
    stages = [stamp.stage for stamp in record.stages]
    return stages[0] is Stage.ACCEPTED and all(
        after in TRANSITIONS[before] for before, after in itertools.pairwise(stages)
    )


def stages(record: EpisodeRecord) -> list[str]:
    return [stamp.stage.value for stamp in record.stages]


class Ends:
    """Every ending that was told, as its record is at that moment."""

    def __init__(self) -> None:
        self.records: list[EpisodeRecord] = []

    def __call__(self, episode: Episode) -> None:
        self.records.append(episode.record())


async def test_an_uncertain_verdict_leaves_a_completed_episode_without_a_reward(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        ends = Ends()
        episode = Episode(world.rooms, request(CRASH), ended=ends)
        await episode.start()
        await episode.verify("code")
        record = await episode.finish()
        assert ends.records == [record]
        assert stages(record)[-5:] == ["verifying", "running", "completed", "cleaning", "deleted"]
        assert (record.failure_owner, record.reward, record.reward_valid) == (Owner.VERIFIER, None, False)


@pytest.mark.parametrize("reason", sorted(TerminalReason))
async def test_every_reason_to_end_has_its_stage(open_world: Callable[..., Any], reason: TerminalReason) -> None:
    async with open_world() as world:
        ends = Ends()
        episode = Episode(world.rooms, request(), ended=ends)
        await episode.start()
        owner = Owner.INFRASTRUCTURE if reason in CUT_OFF or reason not in CALLED_OFF else None
        await episode.abort(reason, owner)
        await episode.abort(TerminalReason.CANCELLED)
        with pytest.raises(LifecycleError):
            await episode.finish()
        (record,) = ends.records
        assert legal(record)
        end = "cancelled" if reason in CALLED_OFF else "failed"
        assert stages(record)[-4:] == ["running", end, "cleaning", "deleted"]
        assert (record.terminal_reason, record.failure_owner) == (reason, owner)


async def test_a_start_that_fails_is_told_too(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        for asked in (request(scenario="broken_3"), request(99)):
            ends = Ends()
            episode = Episode(world.rooms, asked, ended=ends)
            with pytest.raises(QuintainError) as raised:
                await episode.start()
            assert episode.error is raised.value
            (record,) = ends.records
            assert legal(record)
            assert stages(record)[-3:] == ["failed", "cleaning", "deleted"]


async def test_an_end_is_told_although_nobody_waits_for_it_any_more(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        told = asyncio.Event()
        ends = Ends()

        def ended(episode: Episode) -> None:
            ends(episode)
            told.set()

        episode = Episode(world.rooms, request(), ended=ended)
        await episode.start()
        ending = asyncio.create_task(episode.abort(TerminalReason.CLOSED))
        while not episode.lifecycle.ended:  # noqa: ASYNC110
            await asyncio.sleep(0)
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
        async with asyncio.timeout(20):
            await told.wait()
        (record,) = ends.records
        assert stages(record)[-3:] == ["cancelled", "cleaning", "deleted"]
        assert world.provider.live == 0


async def test_an_illegal_transition_is_refused_whoever_drives(open_world: Callable[..., Any]) -> None:
    refused: list[tuple[Stage, Stage]] = []
    async with open_world() as world:
        episode = Episode(
            world.rooms, request(), lifecycle=Lifecycle(refused=lambda now, wanted: refused.append((now, wanted)))
        )
        await episode.start()
        with pytest.raises(LifecycleError, match="running cannot enter resolving"):
            await episode.start()
        assert refused == [(Stage.RUNNING, Stage.RESOLVING)]
        record = await episode.finish()
        assert stages(record)[-3:] == ["completed", "cleaning", "deleted"]  # it went on as it was
