"""What came of a run: pass rates with intervals, rewards by task, owners of failures, reasons of ends, and times."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

from quintain.contracts.timing import NOT_STARTED, TTFI, Timing, timings
from quintain.rollout.outcome import Fate, Outcome
from quintain.rollout.plan import RolloutPlan
from quintain.rollout.statistics import clustered

INTERVAL = (
    "Wilson's score interval of 95 % with the number of tries that their clustering by task leaves, and Student's "
    "quantile for so many tasks; of one task alone it is Wilson's own"
)
"""What the intervals are."""

_Key = TypeVar("_Key", str, tuple[str, str])


class _Contract(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rate(_Contract):
    """How many of the attempts with a valid reward were solved."""

    attempts: int = Field(description="All of them, those without a valid reward included")
    scored: int = Field(description="Those with a valid reward")
    solved: int
    rate: float | None = Field(description="solved / scored; None where nothing was scored")
    low: float = Field(description="Of the report's 95 % interval")
    high: float
    effective: float = Field(description="How many independent tries the scored ones are worth, by task")
    mean_reward: float | None = Field(description="Of those with a valid reward")


class RunReport(_Contract):
    """What came of a run, as far as it has come."""

    plan: str
    items: int
    done: int
    interval: str = Field(default=INTERVAL, description="What the intervals are")
    overall: Rate
    by_task: dict[str, Rate] = Field(description="By `scenario/task`")
    by_agent: dict[str, Rate] = Field(description="By the agent's name in the plan")
    fates: dict[str, int] = Field(description="Solved, or by owner of the failure; unscored: there was no verifier")
    terminal_reasons: dict[str, int]
    causes: dict[str, int] = Field(description="Of failures that are not the agent's")
    truncated: int
    retried: int = Field(description="Attempts of which something was tried again")
    calls: int
    calls_by_agent: dict[str, int]
    tokens: int | None
    starts: dict[str, int] = Field(description="Attempts by start kind; none: no sandbox was claimed")
    ttfi: tuple[Timing, ...] = Field(description="From accepted to the first command that succeeded")
    segments: tuple[Timing, ...] = Field(description="Parts of the start")
    stages: tuple[Timing, ...]


def report(plan: RolloutPlan, outcomes: Sequence[Outcome]) -> RunReport:
    """The report of a run."""
    agents = _grouped(outcomes, lambda one: one.agent)
    tokens = [one.tokens for one in outcomes if one.tokens is not None]
    return RunReport(
        plan=plan.digest,
        items=plan.size,
        done=len(outcomes),
        overall=rate(outcomes),
        by_task={name: rate(group) for name, group in _grouped(outcomes, _task).items()},
        by_agent={name: rate(group) for name, group in agents.items()},
        fates=_counted(one.fate for one in outcomes),
        terminal_reasons=_counted(one.terminal_reason for one in outcomes),
        causes=_counted(one.cause for one in outcomes if one.cause is not None),
        truncated=sum(one.truncated for one in outcomes),
        retried=sum(one.retried > 0 for one in outcomes),
        calls=sum(one.calls for one in outcomes),
        calls_by_agent={name: sum(one.calls for one in group) for name, group in agents.items()},
        tokens=sum(tokens) if tokens else None,
        starts=_counted(one.start_kind or NOT_STARTED for one in outcomes),
        ttfi=timings((one.start_kind, {TTFI: one.ttfi_ms}) for one in outcomes if one.ttfi_ms is not None),
        segments=timings((one.start_kind, one.segments_ms) for one in outcomes),
        stages=timings((one.start_kind, one.stages_ms) for one in outcomes),
    )


def rate(outcomes: Sequence[Outcome]) -> Rate:
    """How many of some attempts were solved."""
    scored = [one for one in outcomes if one.reward_valid]
    solved = sum(one.fate is Fate.SOLVED for one in scored)
    clusters = [
        (sum(one.fate is Fate.SOLVED for one in group), len(group)) for group in _grouped(scored, _task).values()
    ]
    interval = clustered(clusters)
    rewards = [one.reward for one in scored if one.reward is not None]
    return Rate(
        attempts=len(outcomes),
        scored=len(scored),
        solved=solved,
        rate=solved / len(scored) if scored else None,
        low=interval.low,
        high=interval.high,
        effective=interval.effective,
        mean_reward=sum(rewards) / len(rewards) if rewards else None,
    )


def _task(outcome: Outcome) -> str:
    return f"{outcome.scenario}/{outcome.task_idx}"


def _grouped(outcomes: Sequence[Outcome], key: Callable[[Outcome], _Key]) -> dict[_Key, list[Outcome]]:
    groups: dict[_Key, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        groups[key(one)].append(one)
    return dict(groups)


def _counted(words: Iterable[str]) -> dict[str, int]:
    return {str(word): count for word, count in Counter(words).most_common()}
