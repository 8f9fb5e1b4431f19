"""The platform half of the database environment, over the toy kind."""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quintain.environments import MAX_RESULT_BYTES, DatabaseEnvironment, DatabaseTemplates, ToolOutcome, ToolStatus
from quintain.errors import ArtifactCorrupt, Owner, SandboxError, SandboxLost, TemplateError
from quintain.sandboxes.base import Template
from quintain.sandboxes.inprocess import InProcessProvider

pytestmark = pytest.mark.asyncio


async def prepared(world: Any, scenario: str = "toy_notes_1") -> Any:
    source = world.source
    return await world.templates.prepare(source.payload_digest(scenario), lambda: source.payload(scenario))


async def started(world: Any, seed: int = 7, **options: Any) -> DatabaseEnvironment:
    environment = DatabaseEnvironment(world.templates, await prepared(world), scratch=world.scratch, **options)
    await environment.reset(seed)
    return environment


async def call(environment: DatabaseEnvironment, tool: str, timeout_s: float = 5.0, **arguments: Any) -> ToolOutcome:
    return await environment.call(tool, arguments, timeout_s)


async def test_the_initial_state_is_built_once_and_kept_by_digest(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        first = await prepared(world)
        again = await prepared(world)
        assert (first.start_kind, again.start_kind) == ("cold", "template_fork")
        assert again.template is first.template
        [(name, digest)] = first.initial
        assert name == "toy_notes_1.db"
        assert world.store.get(digest).startswith(b"SQLite format 3")
        assert [tool.name for tool in first.tools][:2] == ["list_notes", "add_note"]


async def test_many_cold_resets_at_once_build_one_template(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        all_prepared = await asyncio.gather(*(prepared(world) for _ in range(8)))
        assert len({id(item.template) for item in all_prepared}) == 1
        assert sorted(item.start_kind for item in all_prepared) == ["cold"] + ["template_fork"] * 7


async def test_a_template_the_provider_let_go_is_built_from_the_same_initial_state(
    open_world: Callable[..., Any],
) -> None:
    async with open_world() as world:
        first = await prepared(world)
        world.provider._templates.clear()
        again = await prepared(world)
        assert again.start_kind == "cached_cold"
        assert again.initial == first.initial
        assert again.template.state["toy_notes_1.db"] == world.store.get(first.initial[0][1])


async def test_a_payload_that_does_not_load_is_the_environments_failure(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        with pytest.raises(TemplateError, match="cannot be loaded") as caught:
            await prepared(world, "broken_3")
        assert caught.value.owner is Owner.ENVIRONMENT


@pytest.mark.parametrize(
    "description",
    [
        {},
        {"tools": "none"},
        {"tools": [{"description": "nameless"}]},
        {"tools": [{"name": "x", "input_schema": [1]}]},
        {"tools": [{"name": "x"}] * 1001},
        {"tools": [{"name": "x", "description": "y" * (11 * 2**20)}]},
        {"tools": [{"name": "x", "input_schema": {"default": float("nan")}}]},
        {"tools": [{"name": "x", "input_schema": {"default": "\ud83d"}}]},
        {"tools": [{"name": "x", "input_schema": {"a": json.loads("[" * 100 + "]" * 100)}}]},
        {"tools": [], "report": []},
        {"tools": [], "report": {"failed": 7}},
        {"tools": [], "report": {"failed": [], "foreign_key_violations": "many"}},
        {"tools": [], "report": {"failed": [], "foreign_key_violations": None}},
    ],
)
async def test_a_description_of_the_wrong_shape_is_refused(
    open_world: Callable[..., Any], description: dict[str, Any]
) -> None:
    class Lying(InProcessProvider):
        async def template(self, *args: Any, **kwargs: Any) -> Template:
            return replace(await super().template(*args, **kwargs), description=description)

    async with open_world() as world:
        lying = Lying(world.scratch.parent / "lying")
        templates = DatabaseTemplates(lying, world.toy_class, world.store)
        with pytest.raises(TemplateError, match="describes itself"):
            await templates.prepare("sha256:" + "0" * 64, lambda: world.source.payload("toy_notes_1"))
        await lying.close()


async def test_a_damaged_initial_state_is_never_claimed_from(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        ready = await prepared(world)
        path = world.store.path(ready.initial[0][1])
        path.chmod(0o600)
        path.write_bytes(b"damaged")
        with pytest.raises(ArtifactCorrupt):
            await DatabaseEnvironment(world.templates, ready).reset(1)


async def test_episodes_do_not_see_each_others_rows(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        one, two = await started(world), await started(world)
        assert (await call(one, "add_note", text="mine")).status is ToolStatus.OK
        assert "mine" in str((await call(one, "list_notes")).text)
        assert "mine" not in str((await call(two, "list_notes")).text)
        await one.close()
        await two.close()
        assert world.provider.live == 0


async def test_seed_and_call_index_reach_the_kind(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        one, two = await started(world, seed=3), await started(world, seed=3)
        seen = [json.loads(str((await call(environment, "tick")).text)) for environment in (one, one, two)]
        assert [answer["index"] for answer in seen] == [1, 2, 1]
        assert seen[0] == seen[2]
        assert seen[0]["seed"] == 3
        await one.close()
        await two.close()


@pytest.mark.parametrize(
    ("tool", "arguments", "status", "owner", "http_status"),
    [
        ("no_such_tool", {}, ToolStatus.TOOL_NOT_FOUND, Owner.AGENT, None),
        ("add_note", {}, ToolStatus.INVALID_ARGS, Owner.AGENT, 422),
        ("add_note", {"text": float("nan")}, ToolStatus.INVALID_ARGS, Owner.AGENT, None),
        ("add_note", {"text": ["deep", [float("inf")]]}, ToolStatus.INVALID_ARGS, Owner.AGENT, None),
        ("add_note", {"text": "half \ud83d"}, ToolStatus.INVALID_ARGS, Owner.AGENT, None),
        ("get_note", {"note_id": 99}, ToolStatus.TOOL_ERROR, Owner.AGENT, 404),
        ("boom", {}, ToolStatus.SERVER_ERROR, Owner.ENVIRONMENT, 500),
        ("malformed", {}, ToolStatus.SERVER_ERROR, Owner.ENVIRONMENT, None),
    ],
)
async def test_failures_are_told_apart_by_cause(
    open_world: Callable[..., Any],
    tool: str,
    arguments: dict[str, Any],
    status: ToolStatus,
    owner: Owner,
    http_status: int | None,
) -> None:
    async with open_world() as world:
        environment = await started(world)
        outcome = await environment.call(tool, arguments, 5.0)
        assert (outcome.status, outcome.owner, outcome.http_status) == (status, owner, http_status)
        assert outcome.error
        assert outcome.text is None
        assert (await call(environment, "list_notes")).status is ToolStatus.OK
        await environment.close()


async def test_arguments_nested_too_deeply_are_refused(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        environment = await started(world)
        nested: Any = "bottom"
        for _ in range(500):
            nested = {"deeper": nested}
        outcome = await call(environment, "echo", value=nested)
        assert outcome.status is ToolStatus.INVALID_ARGS
        assert "nested" in str(outcome.error)
        await environment.close()


async def test_what_a_call_prints_is_its_log(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        environment = await started(world)
        assert (await call(environment, "shout")).log == "printed by the tool\n"
        await environment.close()


async def test_a_result_at_the_limit_passes_and_over_it_is_a_tool_error(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        environment = await started(world)
        exact = await call(environment, "large", size=MAX_RESULT_BYTES)
        assert exact.status is ToolStatus.OK
        assert len(str(exact.text)) == MAX_RESULT_BYTES
        over = await call(environment, "large", size=MAX_RESULT_BYTES + 1)
        assert over.status is ToolStatus.TOOL_ERROR
        assert "over 10 MiB" in str(over.error)
        far_over = await call(environment, "large", size=20 * 2**20)
        assert far_over.status is ToolStatus.TOOL_ERROR
        after = await call(environment, "list_notes")
        assert after.status is ToolStatus.OK
        assert "last committed" in str(after.warning)
        await environment.close()


async def test_after_a_timeout_the_next_call_runs_on_the_last_commit_and_says_so(
    open_world: Callable[..., Any],
) -> None:
    async with open_world() as world:
        environment = await started(world)
        await call(environment, "add_note", text="committed")
        slow = await call(environment, "slow", timeout_s=0.2, seconds=3)
        assert (slow.status, slow.owner) == (ToolStatus.TIMEOUT, Owner.ENVIRONMENT)
        assert 200 <= slow.duration_ms < 2000
        after = await call(environment, "list_notes")
        assert "committed" in str(after.text)
        assert "after a timeout" in str(after.warning)
        assert (await call(environment, "list_notes")).warning is None
        await environment.close()
        assert world.provider.live == 0


async def test_a_process_that_is_gone_is_a_server_error_and_its_commit_stays(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        environment = await started(world)
        died = await call(environment, "die", after_write="written before the end")
        assert (died.status, died.owner) == (ToolStatus.SERVER_ERROR, Owner.ENVIRONMENT)
        after = await call(environment, "list_notes")
        assert "written before the end" in str(after.text)
        assert "without answering" in str(after.warning)
        ticks = json.loads(str((await call(environment, "tick")).text))
        assert (ticks["index"], ticks["seed"]) == (3, 7)
        await environment.close()


async def test_a_dead_environment_can_still_be_snapshotted(open_world: Callable[..., Any], tmp_path: Path) -> None:
    async with open_world() as world:
        environment = await started(world)
        await call(environment, "die", after_write="kept")
        copies = await environment.snapshot(tmp_path)
        assert [copy.name for copy in copies] == ["toy_notes_1.db"]
        with sqlite3.connect(copies[0].path) as db:
            assert ("kept",) in db.execute("SELECT text FROM notes").fetchall()
        db.close()
        await environment.close()
        with pytest.raises(SandboxLost):
            await environment.snapshot(tmp_path)


async def test_when_no_new_process_can_be_started_the_infrastructure_owns_it_and_a_later_call_may_recover(
    open_world: Callable[..., Any],
) -> None:
    class Flaky(InProcessProvider):
        refuse = False

        async def claim(self, *args: Any, **kwargs: Any) -> Any:
            if self.refuse:
                raise SandboxError("no room for another process")
            return await super().claim(*args, **kwargs)

    async with open_world() as world:
        provider = Flaky(world.scratch.parent / "flaky")
        world.templates = DatabaseTemplates(provider, world.toy_class, world.store)
        environment = await started(world)
        await call(environment, "add_note", text="before")
        await call(environment, "die")
        provider.refuse = True
        failed = await call(environment, "list_notes")
        assert (failed.status, failed.owner) == (ToolStatus.SERVER_ERROR, Owner.INFRASTRUCTURE)
        assert "no room" in str(failed.error)
        provider.refuse = False
        after = await call(environment, "list_notes")
        assert "before" in str(after.text)
        await environment.close()
        await provider.close()


async def test_an_environment_is_reset_once(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        environment = await started(world)
        with pytest.raises(SandboxError, match="make a new one"):
            await environment.reset(1)
        await environment.close()
        await environment.close()
        assert world.provider.live == 0
