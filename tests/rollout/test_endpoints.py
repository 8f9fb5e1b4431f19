"""Models behind a real socket: what they say is in the record, and an endpoint that has enough is asked for less."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from quintain.agents import ErrorRates, Retries
from quintain.agents.endpoint import ChatSettings
from quintain.agents.fake_endpoint import FakeEndpoint
from quintain.agents.fake_replies import Fails, Says, Solution, Solver
from quintain.contracts.turns import EndReason
from quintain.errors import Owner, UnknownTaskError, UsageError
from quintain.records.recorder import MemoryRecorder
from quintain.rollout import AttemptLimits, PlanCasting, Rollout, RolloutPlan, RunEvent
from quintain.rollout.casting import check
from quintain.rollout.plan import ModelSpec, NoisySpec, ReferenceSpec
from rollout.cast import plan
from toy import VERIFIERS

pytestmark = pytest.mark.asyncio

TASK = f"Do what verifier {next(iter(VERIFIERS))} looks for."
KNOWS = Solver({TASK: Solution(calls=(("list_notes", {}), ("add_note", {"text": "buy milk"})))})


def of_model(url: str, kind: str = "chat", attempts: int = 1, limits: AttemptLimits | None = None, **more: Any) -> Any:
    retries = Retries(attempts=more.pop("tries", 8), first_wait_s=0.0)
    settings = ChatSettings(base_url=url, model="fake", logprobs=True, token_ids=True)
    spec = ModelSpec.model_validate({"kind": kind, "endpoint": settings, "retries": retries, **more})
    return plan(attempts=attempts, agents=(spec,), limits=limits or AttemptLimits(), concurrency=8)


async def rolled(world: Any, made: RolloutPlan) -> tuple[list[Any], list[tuple[str, dict[str, Any]]]]:
    events: list[tuple[str, dict[str, Any]]] = []
    sink = MemoryRecorder()

    def tell(event: RunEvent, **fields: Any) -> None:
        events.append((event.value, fields))

    def limited(endpoint: str, limit: int) -> None:
        tell(RunEvent.CONCURRENCY, endpoint=endpoint, limit=limit)

    async with PlanCasting.open(made, world.source, limited) as casting:
        await Rollout(made, world.rooms, casting, sink, tell).run()
        assert all(limit.under_way == 0 for limit in casting.limits.values())
    return [sealed.record() for sealed in sink.sealed], events


@pytest.mark.parametrize("kind", ["chat", "text"])
async def test_a_model_plays_and_its_tokens_are_recorded(open_world: Callable[..., Any], kind: str) -> None:
    async with open_world() as world, FakeEndpoint(KNOWS) as fake:
        (record,), _ = await rolled(world, of_model(fake.url, kind))
        assert (record.reward, record.terminal_reason, record.truncated) == (1.0, "done", False)
        assert len(record.turns) == (3 if kind == "chat" else 4)
        for turn in record.turns:
            assert turn.tokens.token_ids
            assert len(turn.tokens.token_ids) == len(turn.tokens.logprobs) == turn.usage.completion_tokens
        assert record.model_digest == record.model_digest.strip()
        assert fake.url not in record.model_digest


async def test_an_endpoint_that_has_enough_is_sent_less_and_everyone_finishes(open_world: Callable[..., Any]) -> None:
    def slow(body: Any) -> Any:
        return KNOWS(body).model_copy(update={"delay_s": 0.02})

    async with open_world() as world, FakeEndpoint(slow, at_once=2) as fake:
        records, events = await rolled(world, of_model(fake.url, attempts=8, max_at_once=8, tries=50))
        assert [record.reward for record in records] == [1.0] * 8
        limits = [fields["limit"] for name, fields in events if name == RunEvent.CONCURRENCY]
        assert min(limits) <= 2
        assert max(limits) <= 8
        assert any(turn.retried for record in records for turn in record.turns)


async def test_without_refusals_the_limit_stays_at_its_bound(open_world: Callable[..., Any]) -> None:
    async with open_world() as world, FakeEndpoint(KNOWS) as fake:
        _, events = await rolled(world, of_model(fake.url, attempts=4, max_at_once=2))
        assert fake.most_under_way <= 2
        assert [name for name, _ in events if name == RunEvent.CONCURRENCY] == []


async def test_refused_for_good_is_infrastructure_and_each_exchange_is_told(open_world: Callable[..., Any]) -> None:
    async with open_world() as world, FakeEndpoint(lambda _: Fails(status=429)) as fake:
        made = of_model(fake.url, tries=2)
        made = made.model_copy(update={"retries": made.retries.model_copy(update={"starts": 1})})
        (record,), _ = await rolled(world, made)
        assert (record.failure_owner, record.terminal_reason) == (Owner.INFRASTRUCTURE, "endpoint_failed")
        assert (record.failure.cause, record.failure.component) == ("RateLimited", "endpoint")
        assert [one.cause for one in record.retried] == ["RateLimited"]
        assert record.turns[-1].error.status == 429
        assert len(fake.asked) == 4  # two beginnings with two requests each


@pytest.mark.parametrize(
    ("limits", "more", "reply", "reason"),
    [
        (AttemptLimits(max_steps=1), {}, None, "max_steps"),
        (AttemptLimits(max_tokens=1), {}, Says(text="a b c d e f", finish_reason="length"), "max_tokens"),
        (AttemptLimits(), {"max_turns": 1}, None, "max_turns"),
        (AttemptLimits(), {}, Fails(status=400, code="context_length_exceeded"), "context"),
        (AttemptLimits(wall_s=0.2), {}, Says(text="late", delay_s=30), "wall_time"),
    ],
)
async def test_every_limit_truncates(
    open_world: Callable[..., Any], limits: AttemptLimits, more: dict[str, Any], reply: Any, reason: str
) -> None:
    async with open_world() as world, FakeEndpoint(KNOWS if reply is None else lambda _: reply) as fake:
        (record,), _ = await rolled(world, of_model(fake.url, limits=limits, **more))
        assert (record.terminal_reason, record.truncated) == (reason, True)
        assert (record.failure_owner, record.reward_valid) == (None, True)


async def test_what_an_agent_ended_by_itself_is_no_truncation(open_world: Callable[..., Any]) -> None:
    async with open_world() as world, FakeEndpoint(lambda _: Says(text="I give up.")) as fake:
        (record,), _ = await rolled(world, of_model(fake.url))
        assert (record.terminal_reason, record.truncated, record.reward) == ("done", False, 0.1)
        assert EndReason.FINISHED.value == "finished"


async def test_waiting_for_an_endpoints_turn_does_not_use_up_the_wall_time(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:

        def slow(body: Any) -> Any:
            return KNOWS(body).model_copy(update={"delay_s": 0.1})

        async with FakeEndpoint(slow) as fake:
            made = of_model(fake.url, attempts=5, max_at_once=1, limits=AttemptLimits(wall_s=1.0))
            records, _ = await rolled(world, made)
            # one after another: fifteen answers of 0.1 s, of which each attempt has three
            assert [record.terminal_reason for record in records] == ["done"] * 5


async def test_cancelling_while_a_model_thinks_leaves_nothing(open_world: Callable[..., Any]) -> None:
    async with open_world() as world, FakeEndpoint(lambda _: Says(text="late", delay_s=30)) as fake:
        running = asyncio.create_task(rolled(world, of_model(fake.url, attempts=3)))
        for _ in range(500):
            if fake.under_way == 3:
                break
            await asyncio.sleep(0.01)
        assert fake.under_way == 3
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert world.provider.live == 0


async def test_a_plan_is_checked_before_anything_begins(
    open_world: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_world() as world:
        for spec in (ReferenceSpec(), NoisySpec(rates=ErrorRates(loop=0.5))):
            with pytest.raises(UnknownTaskError, match="no reference solution"):
                check(plan(agents=(spec,)), world.source)
        with pytest.raises(UnknownTaskError):
            check(plan(99), world.source)
        one = plan(agents=({"kind": "random"},)).tasks[0]
        twice = plan(agents=({"kind": "random"},)).model_copy(
            update={"tasks": (one, one.model_copy(update={"scenario": "Toy Notes 1"}))}
        )
        with pytest.raises(UsageError, match="spelt otherwise"):
            check(twice, world.source)
        monkeypatch.delenv("NO_SUCH_KEY", raising=False)
        with pytest.raises(UsageError, match="NO_SUCH_KEY"):
            check(of_model("http://127.0.0.1:1/v1", api_key_env="NO_SUCH_KEY"), world.source)
