"""The engine over the toy world: one record for every attempt, whatever becomes of it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quintain.errors import Owner, SandboxError, SpoolFull
from quintain.records.recorder import MemoryRecorder
from quintain.rollout import Fate, Rollout, RunEvent
from rollout.cast import ANSWER, BUY, COUNT, CRASH, Cast, Played, Script, plan, until

pytestmark = pytest.mark.asyncio
World = Callable[..., Any]


async def test_every_attempt_has_one_record_and_nothing_is_left(open_world: World) -> None:
    async with open_world() as world:
        made = plan(COUNT, CRASH, ANSWER, attempts=3, concurrency=4)
        played = Played(world, made)
        outcomes = await played.rollout.run()
        assert [one.item for one in outcomes] == [item.name for item in made.items()]
        assert sorted(record.rollout_item for record in played.records) == sorted(item.name for item in made.items())
        assert {record.rollout_plan for record in played.records} == {made.digest}
        assert [one.fate for one in outcomes] == [*[Fate.SOLVED] * 3, *[Fate.VERIFIER] * 3, *[Fate.AGENT] * 3]
        assert [one.attempt for one in outcomes] == [0, 1, 2] * 3
        assert [one.group for one in outcomes[::3]] == [f"toy_notes_1/{task}@0/reference" for task in (0, 1, 3)]
        assert len(played.told(RunEvent.STARTED)) == len(played.told(RunEvent.FINISHED)) == 9
        assert played.told(RunEvent.BEGUN) == [{"plan": made.digest, "run": world.rooms.run, "items": 9, "done": 0}]
        assert world.provider.live == 0


async def test_never_more_attempts_at_a_time_than_the_plan_says(open_world: World) -> None:
    async with open_world() as world:
        running = most = 0

        async def pause() -> Any:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.02)
            running -= 1
            return BUY

        await Played(world, plan(attempts=12, concurrency=3), Cast(lambda _: Script((pause,)))).rollout.run()
        assert most == 3


async def test_one_failing_attempt_does_not_disturb_its_group(open_world: World) -> None:
    async with open_world() as world:

        def make(item: Any) -> Script:
            return Script((BUY, RuntimeError("a bug"))) if item.attempt == 1 else Script()

        played = Played(world, plan(attempts=4), Cast(make))
        outcomes = await played.rollout.run()
        assert [one.fate for one in outcomes] == [Fate.SOLVED, Fate.INFRASTRUCTURE, Fate.SOLVED, Fate.SOLVED]
        assert outcomes[1].terminal_reason == "agent_failed"
        assert (outcomes[1].reward, outcomes[1].reward_valid) == (None, False)


async def test_what_has_a_record_is_not_played_again(open_world: World) -> None:
    async with open_world() as world:
        made = plan(attempts=4)
        first = Played(world, made)
        outcomes = {one.item: one for one in await first.rollout.run()}
        kept = dict(list(outcomes.items())[:3])
        again = Played(world, made, outcomes=dict(kept))
        assert len(await again.rollout.run()) == 4
        assert [item.attempt for item, _ in again.cast.given] == [3]


async def test_a_score_without_a_record_becomes_a_record_of_infrastructure(open_world: World) -> None:
    async with open_world() as world:
        made = plan(attempts=2)
        await Played(world, made).rollout.run()
        # killed before any record was kept: the scores are there, the records are not
        again = Played(world, made, interrupted=True)
        outcomes = await again.rollout.run()
        assert again.cast.given == []
        assert [one.terminal_reason for one in outcomes] == ["record_lost"] * 2
        record = again.records[0]
        assert (record.failure_owner, record.reward, record.scenario) == (Owner.INFRASTRUCTURE, None, "toy_notes_1")
        assert record.failure is not None
        assert (record.failure.cause, record.failure.component) == ("record_lost", "platform")


async def test_an_unscored_attempt_of_a_killed_process_is_played(open_world: World) -> None:
    async with open_world() as world:
        played = Played(world, plan(), interrupted=True)
        assert [one.fate for one in await played.rollout.run()] == [Fate.SOLVED] * 2


async def test_that_an_attempt_was_begun_before_is_in_its_record(open_world: World) -> None:
    async with open_world() as world:
        made = plan(attempts=2)
        item = next(made.items()).name
        played = Played(world, made, interrupted=True, begun={item: [5.0, 6.0]})
        await played.rollout.run()
        told = {record.rollout_item: record.retried for record in played.records}
        assert [(one.cause, one.at) for one in told[item] or ()] == [("cancelled", 5.0), ("cancelled", 6.0)]
        assert [one for name, one in told.items() if name != item] == [None]


class Flaky(MemoryRecorder):
    """Refuses a record so often before it takes it."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self.refusals = refusals

    async def add(self, record: Any) -> str:
        if self.refusals:
            self.refusals -= 1
            raise SpoolFull("full")
        return await super().add(record)


async def test_a_record_that_cannot_be_kept_at_first_is_kept_later(open_world: World) -> None:
    async with open_world() as world:
        played = Played(world, plan(attempts=1), sink=Flaky(2))
        await played.rollout.run()
        assert len(played.records) == 1


async def test_a_sink_that_takes_nothing_ends_the_run(open_world: World) -> None:
    async with open_world() as world:
        played = Played(world, plan(attempts=8, concurrency=2), sink=Flaky(10**6), append_patience_s=0.05)
        with pytest.raises(SpoolFull):
            await played.rollout.run()
        assert played.rollout.outcomes == {}
        assert world.provider.live == 0


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.05, 0.1, 0.3])
async def test_cancelling_leaves_nothing_and_a_second_run_finishes(open_world: World, after_s: float) -> None:
    async with open_world() as world:
        made = plan(COUNT, ANSWER, attempts=40, concurrency=5)

        async def pause() -> Any:
            await asyncio.sleep(0.03)
            return BUY

        sink = MemoryRecorder()
        first = Played(world, made, Cast(lambda _: Script((pause, BUY))), sink=sink)
        running = asyncio.create_task(first.rollout.run())
        await asyncio.sleep(after_s)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert world.provider.live == 0
        assert world.leftovers == []
        assert len(first.records) == len(first.rollout.outcomes)
        second = Played(world, made, sink=sink, outcomes=dict(first.rollout.outcomes), interrupted=True)
        assert len(await second.rollout.run()) == 80
        assert sorted(record.rollout_item for record in second.records) == sorted(one.name for one in made.items())


async def test_the_ledger_has_one_score_for_each_attempt(open_world: World) -> None:
    async with open_world() as world:
        made = plan(attempts=3)
        outcomes = await Played(world, made).rollout.run()
        again = await Played(world, made).rollout.run()  # the same attempts, whatever is played
        assert [one.reward for one in again] == [one.reward for one in outcomes]
        for one in outcomes:
            assert one.episode_id is not None
            entry = await world.ledger.episode_score(one.episode_id, one.model_digest, one.attempt)
            assert entry is not None
            assert entry.reward == one.reward


async def test_a_repeated_attempt_returns_the_first_score(open_world: World) -> None:
    async with open_world() as world:
        made = plan(attempts=1)
        (first,) = await Played(world, made, Cast(lambda _: Script(()))).rollout.run()
        (second,) = await Played(world, made).rollout.run()
        assert (first.reward, second.reward) == (0.1, 0.1)


async def test_an_attempt_that_cannot_start_is_recorded(open_world: World) -> None:
    async with open_world() as world:

        class Refusing:
            """No place in it."""

            def __getattr__(self, name: str) -> Any:
                return getattr(world.rooms.kinds["database"], name)

            async def prepare(self, *_: Any) -> Any:
                raise SandboxError("no room")

        rooms = replace(world.rooms, kinds={"database": Refusing()})
        played = Played(world, plan(attempts=1), rooms=rooms)
        (outcome,) = await played.rollout.run()
        assert (outcome.terminal_reason, outcome.fate, outcome.retried) == ("start_failed", Fate.INFRASTRUCTURE, 2)
        assert isinstance(played.rollout, Rollout)


async def test_a_cancelled_run_does_not_wait_for_a_sink_that_takes_nothing(open_world: World) -> None:
    async with open_world() as world:
        played = Played(world, plan(attempts=1), sink=Flaky(10**6))
        running = asyncio.create_task(played.rollout.run())
        await until(lambda: played.sink.refusals < 10**6 - 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 10)
        again = Played(world, plan(attempts=1), interrupted=True)
        (outcome,) = await again.rollout.run()
        assert outcome.terminal_reason == "record_lost"


async def test_an_event_that_cannot_be_written_ends_the_run_and_repeats_no_record(open_world: World) -> None:
    async with open_world() as world:
        played = Played(world, plan(attempts=1))

        def tell(event: RunEvent, **fields: Any) -> None:
            if event is RunEvent.FINISHED:
                raise SpoolFull("no room for events")

        object.__setattr__(played.rollout, "tell", tell)
        with pytest.raises(SpoolFull):
            await played.rollout.run()
        assert len(played.records) == 1
