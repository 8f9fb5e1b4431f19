"""One episode's life, over the toy world."""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from quintain.contracts.identity import sha256
from quintain.contracts.lifecycle import Stage
from quintain.contracts.record import EpisodeRecord
from quintain.contracts.terminal import TerminalReason
from quintain.contracts.tools import CallToolAction, Tool
from quintain.environments import ToolOutcome, ToolStatus
from quintain.episodes import Episode, EpisodeRequest
from quintain.episodes.trajectory import MAX_STEPS
from quintain.errors import LifecycleError, Owner, SandboxError, TemplateError, UnknownTaskError
from quintain.sandboxes.inprocess import InProcessProvider, InProcessSandbox

pytestmark = pytest.mark.asyncio

COUNT, CRASH = 0, 1


def request(task_idx: int | None = COUNT, **more: Any) -> EpisodeRequest:
    return EpisodeRequest(**{"scenario": "Toy Notes 1", "task_idx": task_idx, "model_digest": "m", **more})


class Script:
    """An agent that makes given calls, then gives an answer."""

    def __init__(self, *calls: CallToolAction, final_answer: str | None = None) -> None:
        self._calls = list(calls)
        self.final_answer = final_answer
        self.seen: list[ToolOutcome] = []

    async def act(self, tools: Sequence[Tool], last: ToolOutcome | None) -> CallToolAction | None:
        assert tools
        if last is not None:
            self.seen.append(last)
        return self._calls.pop(0) if self._calls else None


BUY = CallToolAction(tool_name="add_note", arguments={"text": "buy milk"})


def stages(record: EpisodeRecord) -> list[str]:
    return [stamp.stage.value for stamp in record.stages]


async def test_a_played_episode_leaves_a_complete_record_and_nothing_else(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        agent = Script(BUY, CallToolAction(tool_name="list_notes"))
        record = await Episode(world.rooms, request(seed=5, attempt=2)).play(agent)
        assert stages(record) == [
            *["accepted", "resolving", "artifact_ready", "queued", "admitted", "allocated", "injected"],
            *["first_command_ok", "running", "verifying", "running", "completed", "cleaning", "deleted"],
        ]
        assert all(a.monotonic <= b.monotonic for a, b in zip(record.stages, record.stages[1:], strict=False))
        assert (record.reward, record.reward_type, record.reward_valid) == (1.0, "complete", True)
        assert (record.terminal_reason, record.failure_owner, record.start_kind) == ("done", None, "cold")
        assert (record.scenario, record.task_idx, record.seed, record.attempt) == ("toy_notes_1", 0, 5, 2)
        assert [step.action for step in record.steps] == ["list_tools", "call_tool", "call_tool", "verify"]
        assert [step.index for step in record.steps] == [1, 2, 3, 4]
        assert record.steps[1].arguments == {"text": "buy milk"}
        assert "buy milk" in str(record.steps[2].result)
        assert agent.seen[0].status is ToolStatus.OK
        assert EpisodeRecord.model_validate_json(record.model_dump_json()) == record
        assert world.provider.live == 0


async def test_doing_nothing_is_incomplete(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        record = await Episode(world.rooms, request()).play(Script())
        assert (record.reward, record.reward_type) == (0.1, "incomplete")


async def test_ids_depend_on_the_seed_and_the_task_but_the_class_does_not(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        records = [
            await Episode(world.rooms, request(task, seed=seed)).play(Script())
            for task, seed in ((0, 0), (0, 0), (0, 1), (1, 0), (None, 0))
        ]
        assert len({record.environment_class_id for record in records}) == 1
        assert records[0].episode_id == records[1].episode_id
        assert len({record.episode_id for record in records}) == 4


async def test_attempts_are_counted_per_episode_and_model(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        given = []
        for model, seed in (("m", 0), ("m", 0), ("n", 0), ("m", 1), ("m", 0)):
            episode = Episode(world.rooms, request(seed=seed, model_digest=model))
            given.append((await episode.play(Script())).attempt)
        assert given == [0, 1, 0, 0, 2]


async def test_the_first_certain_verdict_is_the_score_and_cannot_be_raised(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        episode = Episode(world.rooms, request())
        await episode.start()
        first = await episode.verify("code")
        await episode.call("add_note", {"text": "buy milk"})
        second = await episode.verify("code")
        assert first.verdict == second.verdict
        assert first.verdict.reward_type == "incomplete"
        record = await episode.finish()
        assert (record.reward, record.reward_valid) == (0.1, True)
        assert [step.reward for step in record.steps] == [0.1, 0.0, 0.1]


async def test_an_uncertain_verdict_leaves_the_score_open_for_another_mode(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        episode = Episode(world.rooms, request())
        await episode.start()
        sql = (await episode.verify("sql")).verdict
        assert (sql.reward_type, episode.score, episode.failure_owner) == ("judge_error", None, Owner.VERIFIER)
        await episode.call("add_note", {"text": "buy milk"})
        assert (await episode.verify("code")).verdict.reward_type == "complete"
        record = await episode.finish()
        assert (record.reward, record.failure_owner) == (1.0, None)


async def test_a_broken_verifier_masks_the_episode(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        record = await Episode(world.rooms, request(CRASH)).play(Script(BUY))
        assert (record.reward, record.reward_valid, record.failure_owner) == (None, False, Owner.VERIFIER)
        assert record.steps[-1].reward == 0.0


async def test_provoking_a_500_does_not_escape_the_reward(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        record = await Episode(world.rooms, request()).play(Script(CallToolAction(tool_name="boom")))
        assert (record.reward, record.reward_type, record.failure_owner) == (0.1, "incomplete", None)
        assert record.environment_failures == 1


async def test_ending_the_process_does_not_escape_the_reward_either(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        die = CallToolAction(tool_name="die", arguments={"after_write": "buy milk"})
        record = await Episode(world.rooms, request()).play(Script(die))
        assert (record.reward, record.failure_owner) == (1.0, None)


async def test_losing_the_sandbox_masks_the_episode(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        episode = Episode(world.rooms, request())
        await episode.start()
        for sandbox in list(world.provider._sandboxes):
            await sandbox.destroy()
        outcome = await episode.call("list_notes", {})
        assert (outcome.status, outcome.owner) == (ToolStatus.SERVER_ERROR, Owner.INFRASTRUCTURE)
        verdict = (await episode.verify("code")).verdict
        assert (verdict.reward_type, verdict.failure_owner) == ("judge_error", Owner.INFRASTRUCTURE)
        record = await episode.finish()
        assert (record.reward, record.failure_owner) == (None, Owner.INFRASTRUCTURE)
        assert "failed" in stages(record)


async def test_losing_the_sandbox_after_the_score_changes_nothing(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        episode = Episode(world.rooms, request())
        await episode.start()
        await episode.verify("code")
        for sandbox in list(world.provider._sandboxes):
            await sandbox.destroy()
        assert (await episode.call("list_notes", {})).owner is Owner.INFRASTRUCTURE
        record = await episode.finish()
        assert (record.reward, record.reward_valid, record.failure_owner) == (0.1, True, None)


async def test_a_custom_task_and_an_open_ended_scenario_have_no_verifier(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        for asked in (request(None), request(None, task="Do as you like."), request(COUNT, task="Do as you like.")):
            episode = Episode(world.rooms, asked)
            await episode.start()
            assert episode.task.verifiers == {}
            assert episode.task.task == asked.task
            with pytest.raises(UnknownTaskError):
                await episode.verify("code")
            record = await episode.finish()
            assert (record.reward, record.reward_valid, record.failure_owner) == (None, False, None)


@pytest.mark.parametrize(
    ("asked", "error", "owner"),
    [
        (request(scenario="nowhere"), UnknownTaskError, Owner.INFRASTRUCTURE),
        (request(99), UnknownTaskError, Owner.INFRASTRUCTURE),
        (request(scenario="broken_3"), TemplateError, Owner.ENVIRONMENT),
    ],
)
async def test_a_start_that_fails_ends_the_episode_and_leaves_nothing(
    open_world: Callable[..., Any], asked: EpisodeRequest, error: type[Exception], owner: Owner
) -> None:
    async with open_world() as world:
        episode = Episode(world.rooms, asked)
        with pytest.raises(error):
            await episode.start()
        record = episode.record()
        assert stages(record)[-3:] == ["failed", "cleaning", "deleted"]
        assert (record.failure_owner, record.reward) == (owner, None)
        assert world.provider.live == 0
        with pytest.raises(LifecycleError):
            await episode.call("list_notes", {})


class SlowClaims(InProcessProvider):
    async def claim(self, *args: Any, **kwargs: Any) -> InProcessSandbox:
        await asyncio.sleep(5)
        return await super().claim(*args, **kwargs)


async def test_a_start_that_takes_too_long_is_timed_out(open_world: Callable[..., Any], tmp_path: Path) -> None:
    async with open_world(start_timeout_s=0.3) as world:
        world.templates.provider = SlowClaims(tmp_path / "slow")
        episode = Episode(world.rooms, request())
        with pytest.raises(SandboxError, match=r"did not start within 0\.3 s"):
            await episode.start()
        record = episode.record()
        assert Stage.TIMED_OUT in [stamp.stage for stamp in record.stages]
        assert (record.terminal_reason, record.failure_owner) == ("start_timeout", Owner.INFRASTRUCTURE)
        await world.templates.provider.close()


async def test_a_cancelled_start_and_a_cancelled_call_leave_nothing(
    open_world: Callable[..., Any], tmp_path: Path
) -> None:
    async with open_world() as world:
        fast, world.templates.provider = world.templates.provider, SlowClaims(tmp_path / "slow")
        episode = Episode(world.rooms, request())
        starting = asyncio.create_task(episode.start())
        await asyncio.sleep(0.2)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert stages(episode.record())[-3:] == ["cancelled", "cleaning", "deleted"]
        await world.templates.provider.close()

        world.templates.provider = fast
        episode = Episode(world.rooms, request(scenario="toy notes 1", seed=1))
        await episode.start()
        calling = asyncio.create_task(episode.call("slow", {"seconds": 1}))
        await asyncio.sleep(0.1)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        record = await episode.abort(TerminalReason.CONNECTION_LOST)
        assert record.terminal_reason == "connection_lost"
        assert stages(record)[-3:] == ["cancelled", "cleaning", "deleted"]
        assert (await episode.abort(TerminalReason.CLOSED)).terminal_reason == "connection_lost"
        assert world.provider.live == 0


async def test_an_agent_that_fails_ends_the_episode(open_world: Callable[..., Any]) -> None:
    class Failing(Script):
        async def act(self, *_: Any) -> CallToolAction | None:
            raise RuntimeError("the model is gone")

    async with open_world() as world:
        with pytest.raises(RuntimeError, match="the model is gone"):
            await Episode(world.rooms, request()).play(Failing())
        assert world.provider.live == 0


async def test_what_is_kept_of_an_episode(open_world: Callable[..., Any], tmp_path: Path) -> None:
    async with open_world() as world:
        keep = tmp_path / "kept"
        keep.mkdir()
        calls = [BUY, CallToolAction(tool_name="shout"), CallToolAction(tool_name="add_note", arguments={"text": None})]
        record = await Episode(world.rooms, request()).play(Script(*calls), keep=keep)
        assert sorted(path.name for path in keep.iterdir()) == [
            *["server.log", "server.py", "toy_notes_1.db", "toy_notes_1_initial.db", "trajectory.json"]
        ]

        def notes(name: str) -> list[str]:
            db = sqlite3.connect(keep / name)
            rows = [row[0] for row in db.execute("SELECT text FROM notes")]
            db.close()
            return rows

        assert notes("toy_notes_1_initial.db") == ["water plants"]
        assert notes("toy_notes_1.db") == ["water plants", "buy milk"]
        assert (keep / "server.py").read_text() == "# the toy app\n"
        log = (keep / "server.log").read_text()
        assert "call shout -> ok" in log
        assert "printed by the tool" in log
        kept = json.loads((keep / "trajectory.json").read_text())
        assert kept["steps"] == len(record.steps) == len(kept["trajectory"])
        assert kept["trajectory"][3]["reward_type"] == "invalid_args"
        assert kept["record"]["stages"][-1]["stage"] == "deleted"


async def test_a_session_that_cannot_be_kept_ends_all_the_same(open_world: Callable[..., Any], tmp_path: Path) -> None:
    async with open_world() as world:
        episode = Episode(world.rooms, request())
        await episode.start()
        with pytest.raises(OSError, match="missing"):
            await episode.finish(keep=tmp_path / "missing")
        assert episode.lifecycle.stage is Stage.DELETED
        assert world.provider.live == 0


async def test_results_over_the_record_budget_are_kept_by_digest(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        large = CallToolAction(tool_name="large", arguments={"size": 9 * 2**20})
        record = await Episode(world.rooms, request()).play(Script(large, large, BUY))
        first, second, third = record.steps[1:4]
        assert len(str(first.result)) == 9 * 2**20
        assert second.result is None
        assert second.omitted is not None
        assert second.omitted["result"].digest == sha256(b"x" * 9 * 2**20)
        assert second.omitted["result"].size_bytes == 9 * 2**20
        assert (second.arguments, third.omitted) == ({"size": 9 * 2**20}, None)
        assert third.result is not None


async def test_an_episode_has_so_many_steps_and_can_be_scored_after_them(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        episode = Episode(world.rooms, request())
        await episode.start()
        await episode.call("add_note", {"text": "buy milk"})
        for _ in range(MAX_STEPS + 5):
            episode.list_tools()
        outcome = await episode.call("add_note", {"text": "more"})
        assert (outcome.status, outcome.owner) == (ToolStatus.TOOL_ERROR, Owner.AGENT)
        assert "has had its 10000 steps" in str(outcome.error)
        assert (await episode.verify("code")).reward.value == 1.0
        record = await episode.finish()
        assert (len(record.steps), record.steps[-1].action, record.reward) == (MAX_STEPS + 1, "verify", 1.0)
