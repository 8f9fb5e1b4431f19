"""One attempt: its ends, its failures with their evidence, and what of it is tried again."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gated import GatedProvider
from quintain.contracts.terminal import TerminalReason
from quintain.contracts.turns import Ending, EndReason, TokenTrace, TurnRecord, Usage
from quintain.errors import Delivery, EndpointRefused, EndpointUnavailable, Owner, SandboxError
from quintain.rollout import AttemptLimits, RunEvent
from rollout.cast import BUY, COUNT, CRASH, Cast, Played, Script, plan, tool
from toy import ToyWorld

pytestmark = pytest.mark.asyncio
World = Callable[..., Any]


async def played_once(world: Any, agent: Script, **more: Any) -> Played:
    played = Played(world, plan(attempts=1, **more), Cast(lambda _: agent))
    await played.rollout.run()
    return played


async def test_a_limit_of_steps_truncates_and_the_state_is_scored(open_world: World) -> None:
    async with open_world() as world:
        agent = Script([tool("list_notes")] * 9)
        played = await played_once(world, agent, limits=AttemptLimits(max_steps=3))
        record = played.record
        assert (record.terminal_reason, record.truncated) == ("max_steps", True)
        assert (record.reward, record.reward_valid, record.failure_owner) == (0.1, True, None)
        assert sum(step.action == "call_tool" for step in record.steps) == 3


async def test_exactly_as_many_steps_as_allowed_is_no_truncation(open_world: World) -> None:
    async with open_world() as world:
        played = await played_once(world, Script([BUY] * 3), limits=AttemptLimits(max_steps=3))
        assert (played.record.terminal_reason, played.record.truncated) == ("done", False)


@pytest.mark.parametrize(
    ("ending", "reason", "truncated"),
    [
        (EndReason.FINISHED, "done", False),
        (EndReason.REFUSED, "refused", False),
        (EndReason.EARLY_STOP, "early_stop", False),
        (EndReason.MALFORMED_CALLS, "malformed_calls", False),
        (EndReason.MAX_TURNS, "max_turns", True),
        (EndReason.MAX_TOTAL_TOKENS, "max_tokens", True),
        (EndReason.MAX_TURN_TOKENS, "max_tokens", True),
        (EndReason.CONTEXT_OVERFLOW, "context", True),
        (EndReason.DEADLINE, "wall_time", True),
    ],
)
async def test_how_an_agent_ended_is_told(open_world: World, ending: EndReason, reason: str, truncated: bool) -> None:
    async with open_world() as world:
        played = await played_once(world, Script(ending=Ending(reason=ending)))
        assert (played.record.terminal_reason, played.record.truncated) == (reason, truncated)
        assert (played.record.reward, played.record.reward_valid) == (1.0, True)


async def test_wall_time_truncates_an_agent_that_thinks_too_long(open_world: World) -> None:
    async with open_world() as world:
        agent = Script([BUY, lambda: asyncio.sleep(60)])
        played = await played_once(world, agent, limits=AttemptLimits(wall_s=0.2))
        assert (played.record.terminal_reason, played.record.truncated) == ("wall_time", True)
        assert played.record.reward == 1.0


async def test_wall_time_stands_still_while_an_agent_is_held_up(open_world: World) -> None:
    async with open_world() as world:
        cast = Cast()

        async def held() -> Any:
            with cast.walls[0].held():
                await asyncio.sleep(0.5)
            return BUY

        cast.make = lambda _: Script([held])
        played = Played(world, plan(attempts=1, limits=AttemptLimits(wall_s=0.3)), cast)
        await played.rollout.run()
        assert played.record.terminal_reason == "done"


async def test_an_agents_own_timeout_is_not_the_limits(open_world: World) -> None:
    async with open_world() as world:
        played = await played_once(world, Script([BUY, TimeoutError("its own")]))
        assert played.record.terminal_reason == "agent_failed"


async def test_turns_are_in_the_record(open_world: World) -> None:
    turn = TurnRecord(
        index=1,
        messages=({"role": "user", "content": "go"},),
        prompt_messages=1,
        reply={"role": "assistant", "content": "yes"},
        usage=Usage(prompt_tokens=3, completion_tokens=2),
        tokens=TokenTrace(token_ids=(5, 7), tokens=("y", "es"), logprobs=(-0.5, -0.25)),
        started=1.0,
        latency_ms=2.0,
    )
    async with open_world() as world:
        played = await played_once(world, Script(turns=(turn,)))
        (kept,) = played.record.turns or ()
        assert TurnRecord.model_validate(kept.model_dump(exclude={"omitted"})) == turn
        assert kept.omitted is None
        assert played.rollout.outcomes.popitem()[1].tokens == 2


async def test_an_endpoint_that_fails_after_a_call_ends_the_attempt_without_a_reward(open_world: World) -> None:
    async with open_world() as world:
        error = EndpointUnavailable("it broke off", delivery=Delivery.POSSIBLY_DELIVERED)
        played = await played_once(world, Script([BUY, error]))
        record = played.record
        assert (record.terminal_reason, record.failure_owner) == ("endpoint_failed", Owner.INFRASTRUCTURE)
        assert (record.reward, record.reward_valid, record.truncated) == (None, False, False)
        assert [stamp.stage.value for stamp in record.stages][-3:] == ["failed", "cleaning", "deleted"]
        assert record.failure is not None
        assert (record.failure.cause, record.failure.component) == ("EndpointUnavailable", "endpoint")
        assert (record.failure.stage, record.failure.delivery) == ("running", Delivery.POSSIBLY_DELIVERED)
        assert record.retried is None
        assert len(played.cast.given) == 1


async def test_an_endpoint_that_fails_before_any_call_is_a_new_beginning(open_world: World) -> None:
    async with open_world() as world:
        agents = [Script([EndpointUnavailable("not yet")]), Script()]
        played = Played(world, plan(attempts=1), Cast(lambda _: agents.pop(0)))
        await played.rollout.run()
        record = played.record
        assert (record.reward, record.failure) == (1.0, None)
        assert [(one.cause, one.owner) for one in record.retried or ()] == [
            ("EndpointUnavailable", Owner.INFRASTRUCTURE)
        ]
        assert len(played.told(RunEvent.RETRIED)) == 1


async def test_what_is_refused_for_good_is_not_tried_again(open_world: World) -> None:
    async with open_world() as world:
        played = await played_once(world, Script([EndpointRefused("no such model")]))
        assert len(played.cast.given) == 1
        assert played.record.failure is not None
        assert played.record.failure.cause == "EndpointRefused"


async def test_a_broken_verifier_is_asked_once(open_world: World) -> None:
    async with open_world() as world:
        played = Played(world, plan(CRASH, attempts=1))
        await played.rollout.run()
        record = played.record
        assert [step.action for step in record.steps].count("verify") == 1
        assert record.failure is not None
        assert (record.failure.owner, record.failure.stage) == (Owner.VERIFIER, "verifying")
        assert "broken verifier" in record.failure.message


class Outage(GatedProvider):
    """Refuses claims of verifiers for a while."""

    refusals = 0

    async def claim(self, template: Any, *args: Any, **kwargs: Any) -> Any:
        if self.refusals and self.live:  # an episode's instance is there, so this is its verifier
            self.refusals -= 1
            raise SandboxError("no room for another process")
        return await super().claim(template, *args, **kwargs)


@pytest.mark.parametrize(("refusals", "reward", "retried"), [(2, 1.0, 2), (50, None, 2)])
async def test_a_verdict_that_the_infrastructure_spoilt_is_asked_for_again(
    tmp_path: Path, refusals: int, reward: float | None, retried: int
) -> None:
    provider = Outage(tmp_path / "instances")
    world = ToyWorld(tmp_path, provider)
    provider.refusals = refusals
    played = Played(world, plan(attempts=1))
    await played.rollout.run()
    record = played.record
    assert record.reward == reward
    assert [one.cause for one in record.retried or ()] == ["uncertain verdict: infrastructure"] * retried
    assert record.failure_owner is (None if reward else Owner.INFRASTRUCTURE)
    assert len(played.cast.given) == 1
    await provider.close()


async def test_a_start_that_fails_for_a_while_is_a_new_beginning(tmp_path: Path) -> None:
    provider = GatedProvider(tmp_path / "instances")
    world = ToyWorld(tmp_path, provider)
    provider.no_room = True
    played = Played(world, plan(attempts=1))

    def told(event: RunEvent, **fields: Any) -> None:
        provider.no_room = provider.no_room and event is not RunEvent.RETRIED
        played.tell(event, **fields)

    object.__setattr__(played.rollout, "tell", told)
    await played.rollout.run()
    record = played.record
    assert (record.reward, record.failure_owner) == (1.0, None)
    assert [(one.cause, one.stage) for one in record.retried or ()] == [("SandboxError", "admitted")]
    await provider.close()


async def test_a_scenario_that_does_not_load_is_the_environments_and_final(open_world: World) -> None:
    async with open_world() as world:
        made = plan(COUNT, attempts=1)
        task = made.tasks[0].model_copy(update={"scenario": "broken_3"})
        played = Played(world, made.model_copy(update={"tasks": (task,)}))
        await played.rollout.run()
        record = played.record
        assert (record.terminal_reason, record.failure_owner) == ("start_failed", Owner.ENVIRONMENT)
        assert record.retried is None
        assert record.failure is not None
        assert record.failure.cause == "TemplateError"


async def test_losing_the_sandbox_ends_the_attempt_at_once(open_world: World) -> None:
    async with open_world() as world:

        async def lose() -> Any:
            for sandbox in list(world.provider._sandboxes):
                await sandbox.destroy()
            return BUY

        agent = Script([BUY, lose, BUY, BUY])
        played = await played_once(world, agent)
        record = played.record
        assert (record.terminal_reason, record.failure_owner) == (TerminalReason.SANDBOX_LOST, Owner.INFRASTRUCTURE)
        assert len(agent.seen) == 2
        assert [step.action for step in record.steps].count("verify") == 0
