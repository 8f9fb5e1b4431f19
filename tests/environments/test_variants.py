"""Databases whose initial state a task varies, over the toy kind."""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from quintain.environments import DatabaseEnvironment, DatabaseTemplates, templates
from quintain.errors import Owner, TemplateError
from quintain.sandboxes.base import Sandbox
from quintain.sandboxes.inprocess import InProcessProvider

pytestmark = pytest.mark.asyncio

SALT = {"sql": ["INSERT INTO notes (text) VALUES ('buy salt')", "DELETE FROM notes WHERE text = 'water plants'"]}


class Counting(InProcessProvider):
    """Counts the instances that were claimed."""

    claimed = 0

    async def claim(self, *args: Any, **options: Any) -> Sandbox:
        self.claimed += 1
        return await super().claim(*args, **options)


async def made(world: Any, start: dict[str, Any] | None, seed: int = 7) -> DatabaseEnvironment:
    source = world.source
    prepared = await world.templates.prepare(
        source.payload_digest("toy_notes_1"), lambda: source.payload("toy_notes_1")
    )
    environment = DatabaseEnvironment(world.templates, prepared, scratch=world.scratch)
    await environment.reset(seed, start)
    return environment


async def notes(environment: DatabaseEnvironment) -> list[str]:
    outcome = await environment.call("list_notes", {}, 5.0)
    return [text for _, text in json.loads(outcome.text or "[]")]


async def test_an_episode_begins_on_what_its_task_says(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        varied, plain = await made(world, SALT), await made(world, None)
        assert await notes(varied) == ["buy salt"]
        assert await notes(plain) == ["water plants"]
        [file] = varied.initial
        with closing(sqlite3.connect(f"file:{file.path}?mode=ro", uri=True)) as db:
            assert db.execute("SELECT text FROM notes").fetchall() == [("buy salt",)]
        for environment in (varied, plain):
            await environment.close()


async def test_many_episodes_build_one_variant_once(open_world: Callable[..., Any], tmp_path: Path) -> None:
    async with open_world() as world:
        provider = Counting(tmp_path / "counted")
        world.templates = DatabaseTemplates(provider, world.toy_class, world.store)
        episodes = await asyncio.gather(*(made(world, SALT, seed) for seed in range(6)))
        assert provider.claimed == 6 + 1
        assert len({environment.initial[0].path for environment in episodes}) == 1
        other = await made(world, {"sql": ["DELETE FROM notes"]})
        assert provider.claimed == 6 + 1 + 2
        assert await notes(other) == []
        for environment in (*episodes, other):
            await environment.close()
        await provider.close()


async def test_the_least_used_variants_are_let_go_and_built_again_the_same(
    open_world: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "_KEPT_VARIANTS", 1)
    async with open_world() as world:
        first = await made(world, SALT)
        second = await made(world, {"sql": ["DELETE FROM notes"]})
        assert len(world.templates._variants) == 1
        again = await made(world, SALT)
        assert await notes(again) == await notes(first) == ["buy salt"]
        assert again.initial[0].path == first.initial[0].path
        for environment in (first, second, again):
            await environment.close()


async def test_it_goes_on_from_its_variant_after_hibernating_and_after_a_death(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        environment = await made(world, SALT)
        await environment.call("add_note", {"text": "mine"}, 5.0)
        assert (await environment.hibernate()).done
        assert await notes(environment) == ["buy salt", "mine"]
        await environment.call("die", {"after_write": "last"}, 5.0)
        assert await notes(environment) == ["buy salt", "mine", "last"]
        await environment.close()


@pytest.mark.parametrize(
    ("start", "told"),
    [
        ({"sql": ["DELETE FROM notes", "DELETE FROM absent"]}, "DELETE FROM absent: .*no such table: absent"),
        ({"sql": []}, r"start\.sql: list should have at least 1 item"),
        ({"sql": "DELETE FROM notes"}, r"start\.sql: input should be a valid list"),
        ({"sql": [7]}, r"start\.sql\.0: input should be a valid string"),
        ({"files": {}}, r"start\.sql: field required"),
        ({"sql": ["DELETE FROM notes"], "more": 1}, r"start\.more"),
    ],
)
async def test_a_start_that_cannot_be_made_is_the_environments_failure(
    open_world: Callable[..., Any], start: dict[str, Any], told: str
) -> None:
    async with open_world() as world:
        with pytest.raises(TemplateError, match=told) as caught:
            await made(world, start)
        assert caught.value.owner is Owner.ENVIRONMENT
        plain = await made(world, None)
        assert await notes(plain) == ["water plants"]
        await plain.close()
