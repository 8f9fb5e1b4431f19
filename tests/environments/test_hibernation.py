"""A hibernated environment is its files and nothing else, and nobody can tell from its answers."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gated import GatedProvider
from quintain.environments import DatabaseEnvironment, DatabaseTemplates, ToolOutcome, ToolStatus
from quintain.errors import Owner, SandboxLost
from quintain.sandboxes.base import Template
from quintain.sandboxes.inprocess import InProcessProvider

pytestmark = pytest.mark.asyncio

TOY = "toy_notes_1"


@asynccontextmanager
async def gated(open_world: Callable[..., Any]) -> AsyncIterator[tuple[Any, GatedProvider]]:
    async with open_world() as world:
        provider = GatedProvider(world.scratch.parent / "gated")
        world.templates = DatabaseTemplates(provider, world.toy_class, world.store)
        yield world, provider
        await provider.close()


async def started(world: Any, seed: int = 7) -> DatabaseEnvironment:
    source = world.source
    prepared = await world.templates.prepare(source.payload_digest(TOY), lambda: source.payload(TOY))
    environment = DatabaseEnvironment(world.templates, prepared, scratch=world.scratch)
    await environment.reset(seed)
    return environment


async def call(environment: DatabaseEnvironment, tool: str, **arguments: Any) -> ToolOutcome:
    return await environment.call(tool, arguments, 5.0)


async def test_nothing_but_files_is_left_and_the_next_call_goes_on_silently(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        environment = await started(world)
        await call(environment, "add_note", text="before")
        assert (await environment.hibernate()).done
        assert (environment.hibernated, world.provider.live, len(world.leftovers)) == (True, 0, 1)
        [directory] = world.scratch.iterdir()
        assert directory.stat().st_mode & 0o777 == 0o700
        listed = await call(environment, "list_notes")
        assert (listed.status, listed.warning) == (ToolStatus.OK, None)
        assert "before" in str(listed.text)
        assert (environment.hibernated, world.provider.live, world.leftovers) == (False, 1, [])
        await environment.close()


async def test_seed_and_index_go_on_where_they_were(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        seen = []
        for sleeps in (False, True):
            environment = await started(world, seed=5)
            answers = []
            for _ in range(2):
                answers.append((await call(environment, "no_such_tool")).error)
                answers.append((await call(environment, "list_notes")).text)
                if sleeps:
                    assert (await environment.hibernate()).done
            answers.append(json.loads(str((await call(environment, "tick")).text)))
            seen.append(answers)
            await environment.close()
        assert seen[0] == seen[1]
        assert (seen[0][-1]["index"], seen[0][-1]["seed"]) == (5, 5)


async def test_what_needs_no_process_does_not_wake_it(open_world: Callable[..., Any], tmp_path: Path) -> None:
    async with open_world() as world:
        environment = await started(world)
        await call(environment, "add_note", text="kept")
        await environment.hibernate()
        assert (await call(environment, "no_such_tool")).status is ToolStatus.TOOL_NOT_FOUND
        assert (await environment.call("add_note", {"text": float("nan")}, 5.0)).status is ToolStatus.INVALID_ARGS
        assert [tool.name for tool in environment.tools][:1] == ["list_notes"]
        [copy] = await environment.snapshot(tmp_path)
        with sqlite3.connect(copy.path) as db:
            assert ("kept",) in db.execute("SELECT text FROM notes").fetchall()
        db.close()
        assert (environment.hibernated, world.provider.live) == (True, 0)
        await environment.close()
        assert world.leftovers == []
        with pytest.raises(SandboxLost):
            await environment.snapshot(tmp_path)


async def test_what_holds_state_in_memory_keeps_its_process(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        environment = await started(world)
        await call(environment, "tick")
        outcome = await environment.hibernate()
        assert (outcome.done, outcome.why) == (False, "it has ticked 1 times")
        assert json.loads(str((await call(environment, "tick")).text))["ticks"] == 2
        assert (world.provider.live, world.leftovers) == (1, [])
        await environment.close()


async def test_a_payload_not_shown_to_hold_nothing_keeps_its_process_until_it_is(
    open_world: Callable[..., Any],
) -> None:
    class Cold(InProcessProvider):
        warm = False

        async def template(self, *args: Any, **kwargs: Any) -> Template:
            made = await super().template(*args, **kwargs)
            return replace(made, description={**made.description, "warm": self.warm})

    async with open_world() as world:
        provider = Cold(world.scratch.parent / "cold")
        world.templates = DatabaseTemplates(provider, world.toy_class, world.store)
        environment = await started(world)
        outcome = await environment.hibernate()
        assert not outcome.done
        assert "memory" in outcome.why
        provider.warm = True
        other = await started(world)  # its template was warmed since: the payload is the same
        assert (await environment.hibernate()).done
        await environment.close()
        await other.close()
        await provider.close()


async def test_who_hibernates_after_losing_its_process_still_says_so(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        environment = await started(world)
        await call(environment, "die", after_write="last words")
        assert (await environment.hibernate()).done
        assert world.provider.live == 0
        after = await call(environment, "list_notes")
        assert "last words" in str(after.text)
        assert "without answering" in str(after.warning)
        assert (await call(environment, "list_notes")).warning is None
        await environment.hibernate()
        assert (await call(environment, "list_notes")).warning is None
        await environment.close()


async def test_a_state_that_cannot_be_copied_leaves_the_process_alone(open_world: Callable[..., Any]) -> None:
    async with gated(open_world) as (world, provider):
        environment = await started(world)
        await call(environment, "add_note", text="still here")
        provider.full_disk = True
        with pytest.raises(OSError, match="No space"):
            await environment.hibernate()
        assert (environment.hibernated, provider.live, world.leftovers) == (False, 1, [])
        listed = await call(environment, "list_notes")
        assert "still here" in str(listed.text)
        assert listed.warning is None
        await environment.close()


async def test_a_call_that_comes_meanwhile_finds_the_process_as_it_was(open_world: Callable[..., Any]) -> None:
    async with gated(open_world) as (world, provider):
        environment = await started(world)
        outcome = await environment.hibernate(lambda: True)
        assert not outcome.done
        assert (environment.hibernated, provider.live, world.leftovers) == (False, 1, [])
        await environment.close()


async def test_cancelled_in_the_middle_it_leaves_nothing_and_goes_on(open_world: Callable[..., Any]) -> None:
    async with gated(open_world) as (world, provider):
        environment = await started(world)
        provider.gate.clear()
        hibernating = asyncio.create_task(environment.hibernate())
        await provider.copying.wait()
        hibernating.cancel()
        await asyncio.sleep(0.05)
        assert not hibernating.done()  # the copy is still being made
        provider.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await hibernating
        assert (environment.hibernated, provider.live, world.leftovers) == (False, 1, [])
        assert (await call(environment, "list_notes")).warning is None
        await environment.close()


async def test_what_cannot_be_woken_is_the_infrastructures_failure_and_a_later_call_may_recover(
    open_world: Callable[..., Any],
) -> None:
    async with gated(open_world) as (world, provider):
        environment = await started(world)
        await call(environment, "add_note", text="before")
        await environment.hibernate()
        provider.no_room = True
        failed = await call(environment, "list_notes")
        assert (failed.status, failed.owner) == (ToolStatus.SERVER_ERROR, Owner.INFRASTRUCTURE)
        assert "hibernated and no new one could be started: no room" in str(failed.error)
        provider.no_room = False
        after = await call(environment, "list_notes")
        assert "before" in str(after.text)
        assert after.warning is None
        await environment.close()


async def test_files_that_are_gone_are_the_infrastructures_failure(
    open_world: Callable[..., Any], tmp_path: Path
) -> None:
    async with open_world() as world:
        environment = await started(world)
        await environment.hibernate()
        [directory] = world.scratch.iterdir()
        for path in directory.iterdir():
            path.unlink()
        assert (await call(environment, "list_notes")).owner is Owner.INFRASTRUCTURE
        with pytest.raises(SandboxLost, match="gone"):
            await environment.snapshot(tmp_path)
        await environment.close()
