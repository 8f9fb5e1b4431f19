"""Idle sessions hibernate, whoever comes meanwhile is served first, and nobody can tell."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gated import GatedProvider
from quintain.contracts.terminal import TerminalReason
from quintain.contracts.tools import CallToolAction
from quintain.environments import DatabaseKind, DatabaseTemplates
from quintain.server.awm import AwmSession
from quintain.server.hibernation import AT_ONCE, Hibernator
from quintain.server.sessions import Session, SessionRegistry
from quintain.server.settings import Settings

TOY = "toy_notes_1"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Bench:
    """Sessions over a gated provider, and the hibernator that looks after them."""

    world: Any
    provider: GatedProvider
    registry: SessionRegistry
    hibernator: Hibernator
    clock: Clock

    async def begin(self) -> Session:
        session = self.registry.open()
        session.attached = True
        await session.awm.reset({"scenario": TOY, "task_idx": 0})
        session.touch()
        return session

    async def step(self, session: Session, tool: str, **arguments: Any) -> Any:
        """A step as the WebSocket makes it."""
        async with session:
            session.touch()
            answer = await session.awm.step(CallToolAction(tool_name=tool, arguments=arguments))
            session.touch()
        return answer.envelope()

    async def halfway(self, *_: Session) -> "asyncio.Task[int]":
        """A pass of the hibernator that has come to copying, and waits at the gate."""
        self.provider.copying.clear()
        self.provider.gate.clear()
        hibernating = asyncio.create_task(self.hibernator.hibernate(10.0))
        await asyncio.wait_for(self.provider.copying.wait(), 5)
        return hibernating


@pytest.fixture
def open_bench(open_world: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    @asynccontextmanager
    async def opened(after_s: float = 10.0, **options: Any) -> AsyncIterator[Bench]:
        async with open_world() as world:
            provider = GatedProvider(tmp_path / "gated")
            templates = DatabaseTemplates(provider, world.toy_class, world.store)
            kind = DatabaseKind(templates, world.episode_class, world.scratch)
            rooms = replace(world.rooms, kinds={"database": kind}, provider=provider, disposal=templates.disposal)
            clock = Clock()
            registry = SessionRegistry(
                lambda _scope: AwmSession(rooms, call_timeout_s=5.0, keep_dir=tmp_path / "kept"),
                Settings(**options),
                clock,
            )
            bench = Bench(world, provider, registry, Hibernator(registry, after_s), clock)
            yield bench
            provider.gate.set()
            await registry.close_all(TerminalReason.SERVER_SHUTDOWN)
            assert provider.live == 0
            await provider.close()

    return opened


async def test_only_the_idle_hibernate_and_the_next_step_wakes_them(open_bench: Callable[..., Any]) -> None:
    async with open_bench() as bench:
        idle, busy, empty = await bench.begin(), await bench.begin(), bench.registry.open()
        bench.clock.now = 11.0
        await bench.step(busy, "list_notes")
        assert await bench.hibernator.hibernate(10.0) == 1
        assert (idle.awm.hibernated, busy.awm.hibernated, empty.awm.live) == (True, False, False)
        assert (bench.provider.live, bench.hibernator.done) == (1, 1)
        assert await bench.hibernator.hibernate(10.0) == 0
        answer = await bench.step(idle, "add_note", text="buy milk")
        assert answer["observation"]["reward_type"] == "tool_call_ok"
        assert "warning" not in answer["observation"]
        assert idle.awm.live


async def test_a_session_at_work_is_left_alone(open_bench: Callable[..., Any]) -> None:
    async with open_bench() as bench:
        session = await bench.begin()
        working = asyncio.create_task(bench.step(session, "slow", seconds=0.3))
        await asyncio.sleep(0.1)
        bench.clock.now = 100.0
        assert await bench.hibernator.hibernate(10.0) == 0
        assert (await working)["observation"]["tool_result"] == '"awake"'


async def test_a_call_that_arrives_in_the_middle_is_served_by_the_process_there_was(
    open_bench: Callable[..., Any],
) -> None:
    async with open_bench() as bench:
        session = await bench.begin()
        await bench.step(session, "add_note", text="one")
        bench.clock.now = 11.0
        before = list(bench.provider._sandboxes)
        hibernating = await bench.halfway()
        calling = asyncio.create_task(bench.step(session, "list_notes"))
        await asyncio.sleep(0.05)
        assert not calling.done()
        bench.provider.gate.set()
        assert "one" in (await calling)["observation"]["tool_result"]
        assert await hibernating == 0
        assert list(bench.provider._sandboxes) == before
        assert (session.awm.live, session.stayed_s, bench.world.leftovers) == (True, 0.0, [])


@pytest.mark.parametrize("tool", ["verify", "done"])
async def test_verify_and_done_in_the_middle_and_afterwards(open_bench: Callable[..., Any], tool: str) -> None:
    async with open_bench() as bench:
        for meanwhile in (True, False):
            session = await bench.begin()
            await bench.step(session, "add_note", text="buy milk")
            bench.clock.now += 11.0
            hibernating = await bench.halfway()
            if meanwhile:
                asking = asyncio.create_task(bench.step(session, tool))
                await asyncio.sleep(0.05)
                bench.provider.gate.set()
                answer = await asking
            else:
                bench.provider.gate.set()
                assert await hibernating == 1
                answer = await bench.step(session, tool)
                assert session.awm.hibernated is (tool == "verify")  # it was not woken for that
            await hibernating
            expected = {"verify": ("complete", 1.0, False), "done": ("episode_done", 0.0, True)}[tool]
            assert (answer["observation"]["reward_type"], answer["reward"], answer["done"]) == expected
            await bench.registry.close(session, TerminalReason.CLOSED)
            assert bench.world.leftovers == []


async def test_done_keeps_the_files_of_a_hibernated_episode_and_says_how_often(
    open_bench: Callable[..., Any],
) -> None:
    async with open_bench() as bench:
        session = await bench.begin()
        for _ in range(3):
            await bench.step(session, "add_note", text="buy milk")
            bench.clock.now += 11.0
            assert await bench.hibernator.hibernate(10.0) == 1
        answer = await bench.step(session, "done", keep_session=True)
        kept = Path(answer["observation"]["session_dir"])
        assert (kept / "toy_notes_1.db").read_bytes().startswith(b"SQLite format 3")
        assert json.loads((kept / "trajectory.json").read_text())["record"]["hibernations"] == 3


async def test_a_client_that_goes_away_in_the_middle_or_afterwards_leaves_nothing(
    open_bench: Callable[..., Any],
) -> None:
    async with open_bench() as bench:
        for meanwhile in (True, False):
            session = await bench.begin()
            bench.clock.now += 11.0
            hibernating = await bench.halfway()
            if meanwhile:
                closing = asyncio.create_task(bench.registry.close(session, TerminalReason.CONNECTION_LOST))
                await asyncio.sleep(0.05)
                bench.provider.gate.set()
                await closing
                assert await hibernating == 0
            else:
                bench.provider.gate.set()
                assert await hibernating == 1
                await bench.registry.close(session, TerminalReason.CONNECTION_LOST)
            assert (len(bench.registry), bench.provider.live, bench.world.leftovers) == (0, 0, [])


async def test_a_reset_begins_anew_whatever_hibernates(open_bench: Callable[..., Any]) -> None:
    async with open_bench() as bench:
        session = await bench.begin()
        await bench.step(session, "add_note", text="old")
        bench.clock.now = 11.0
        await bench.hibernator.hibernate(10.0)
        await session.awm.reset({"scenario": TOY})
        assert "old" not in (await bench.step(session, "list_notes"))["observation"]["tool_result"]
        assert (bench.provider.live, bench.world.leftovers) == (1, [])


async def test_what_cannot_be_copied_stays_live_is_reported_once_and_tried_again_after_a_call(
    open_bench: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with open_bench() as bench:
        session = await bench.begin()
        bench.clock.now = 11.0
        bench.provider.full_disk = True
        assert [await bench.hibernator.hibernate(10.0) for _ in range(3)] == [0, 0, 0]
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert "No space left" in caplog.text
        assert (bench.hibernator.failed, session.awm.live) == (1, True)
        bench.provider.full_disk = False
        await bench.step(session, "list_notes")
        bench.clock.now = 22.0
        assert await bench.hibernator.hibernate(10.0) == 1


async def test_what_could_not_hibernate_is_asked_again_when_it_has_been_idle_for_twice_as_long(
    open_bench: Callable[..., Any],
) -> None:
    async with open_bench() as bench:
        session = await bench.begin()
        bench.clock.now = 11.0
        bench.provider.full_disk = True
        assert await bench.hibernator.hibernate(10.0) == 0
        bench.provider.full_disk = False
        bench.clock.now = 21.0
        assert await bench.hibernator.hibernate(10.0) == 0
        bench.clock.now = 22.0
        assert await bench.hibernator.hibernate(10.0) == 1
        assert session.awm.hibernated


async def test_what_cannot_be_woken_masks_the_episode_and_no_verdict_on_its_files_counts(
    open_bench: Callable[..., Any],
) -> None:
    async with open_bench() as bench:
        session = await bench.begin()
        bench.clock.now = 11.0
        await bench.hibernator.hibernate(10.0)
        bench.provider.no_room = True
        answer = await bench.step(session, "list_notes")
        assert answer["observation"]["reward_type"] == "server_error"
        assert answer["observation"]["metadata"] == {"failure_owner": "infrastructure", "reward_valid": False}
        verdict = (await bench.step(session, "verify"))["observation"]
        assert verdict["reward_type"] == "judge_error"
        assert "had failed before" in verdict["verify_result"]["error_message"]
        assert verdict["metadata"] == {"failure_owner": "infrastructure", "reward_valid": False}


async def test_few_hibernate_at_once_and_the_longest_idle_first(open_bench: Callable[..., Any]) -> None:
    async with open_bench() as bench:
        sessions = []
        for _ in range(3 * AT_ONCE):
            sessions.append(await bench.begin())
            bench.clock.now += 1.0
        bench.clock.now += 11.0
        hibernating = await bench.halfway()
        await asyncio.sleep(0.05)
        assert bench.provider.at_once == AT_ONCE
        for session in sessions[:AT_ONCE]:
            assert session.lock.locked()
        both = asyncio.gather(hibernating, bench.hibernator.hibernate(10.0))
        bench.provider.gate.set()
        assert sum(await both) == len(sessions)
        assert bench.provider.most_at_once == AT_ONCE


async def test_the_reaper_ends_hibernated_episodes_too(open_bench: Callable[..., Any]) -> None:
    async with open_bench(max_idle_time_s=60.0, allowed_idle_sessions=0) as bench:
        session = await bench.begin()
        bench.clock.now = 11.0
        await bench.hibernator.hibernate(10.0)
        assert await bench.registry.reap() == 0
        bench.clock.now = 61.0
        assert await bench.registry.reap() == 1
        assert bench.world.leftovers == []
        answer = await bench.step(session, "list_notes")
        assert "idle for more than 60 s" in answer["observation"]["error"]


async def test_it_can_be_turned_off(open_bench: Callable[..., Any]) -> None:
    async with open_bench(after_s=0.0) as bench:
        session = await bench.begin()
        bench.clock.now = 10_000.0
        await asyncio.wait_for(bench.hibernator.keep_hibernating(), 1)
        assert await bench.hibernator.relieve() == 0
        assert session.awm.live


async def test_a_storm_of_steps_and_hibernations_shows_nothing(open_bench: Callable[..., Any]) -> None:
    """Steps of several sessions with a hibernator that finds everyone idle, at every moment there is."""
    async with open_bench() as bench:
        sessions = [await bench.begin() for _ in range(6)]
        stop = False

        async def hibernate() -> None:
            while not stop:
                await bench.hibernator.hibernate(0.0)
                await asyncio.sleep(0)

        async def play(session: Session, number: int) -> list[str]:
            seen = []
            for turn in range(25):
                answer = await bench.step(session, "add_note", text=f"{number}-{turn}")
                assert "warning" not in answer["observation"], answer
                seen.append(answer["observation"]["tool_result"])
                await asyncio.sleep(0.003 * (turn % 4))
            seen.append((await bench.step(session, "list_notes"))["observation"]["tool_result"])
            return seen

        storm = asyncio.create_task(hibernate())
        results = await asyncio.gather(*(play(session, number) for number, session in enumerate(sessions)))
        stop = True
        await storm
        for number, seen in enumerate(results):
            assert [json.loads(text)["id"] for text in seen[:-1]] == list(range(2, 27))
            notes = [text for _, text in json.loads(seen[-1])]
            assert notes == ["water plants", *(f"{number}-{turn}" for turn in range(25))]
        assert bench.hibernator.done > 0
        assert bench.hibernator.failed == 0


def test_a_server_hibernates_by_itself_and_says_so(serving: Callable[..., Any]) -> None:
    with serving(hibernate_after_s=0.2) as live, live.client() as client:
        client.reset(scenario=TOY, task_idx=0)
        client.step("add_note", text="buy milk")
        live.wait_for(lambda: live.get("/stats").json()["quintain"]["hibernated"] == 1)
        assert live.world.provider.live == 0
        shown = live.get("/stats").json()
        assert (shown["total_sessions"], shown["quintain"]["live"]) == (1, 0)
        assert "buy milk" in client.step("list_notes")["observation"]["tool_result"]
        time.sleep(1)
        assert client.step("verify")["observation"]["reward_type"] == "complete"
        assert live.get("/stats").json()["quintain"]["hibernations"] >= 2
        assert live.log.messages == []
