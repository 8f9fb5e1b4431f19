"""The report: intervals, who is counted where, and percentiles."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.contracts.timing import percentile
from quintain.errors import Owner
from quintain.rollout.outcome import Fate
from quintain.rollout.report import rate, report
from quintain.rollout.statistics import clustered, student_95, wilson
from rollout.cast import plan
from rollout.made import made


@pytest.mark.parametrize(
    ("passed", "tried", "low", "high"),
    # Newcombe 1998, table I, method 3
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilsons_interval_is_that_of_the_literature(passed: int, tried: int, low: float, high: float) -> None:
    assert wilson(passed, tried) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(0, 500), st.integers(0, 500))
def test_an_interval_holds_its_rate_and_is_mirrored(passed: int, failed: int) -> None:
    low, high = wilson(passed, passed + failed)
    assert 0 <= low <= high <= 1
    if passed + failed:
        assert low <= passed / (passed + failed) <= high
        mirrored = wilson(failed, passed + failed)
        assert (1 - mirrored[1], 1 - mirrored[0]) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (10, 2.2281), (30, 2.0423)]
)
def test_students_quantile_is_that_of_the_tables(freedom: int, quantile: float) -> None:
    assert student_95(freedom) == pytest.approx(quantile, rel=2e-3)


@given(st.lists(st.integers(0, 20).flatmap(lambda tried: st.tuples(st.integers(0, tried), st.just(tried))), max_size=8))
def test_a_clustered_interval_holds_its_rate_and_is_never_narrower_than_wilsons(
    clusters: list[tuple[int, int]],
) -> None:
    found = clustered(clusters)
    passed, tried = sum(one for one, _ in clusters), sum(one for _, one in clusters)
    low, high = wilson(passed, tried)
    assert 0 <= found.low <= low + 1e-9
    assert high - 1e-9 <= found.high <= 1
    assert 0 <= found.effective <= tried + 1e-9
    if tried:
        assert found.low - 1e-9 <= passed / tried <= found.high + 1e-9


@pytest.mark.parametrize(
    ("clusters", "effective"),
    # the tries of a task that always ends alike are worth one; those that differ as much as independent ones, all
    [([(4, 4)] * 16 + [(0, 4)] * 16, 31), ([(4, 4)] * 33, 33), ([(2, 4)] * 33, 132), ([(3, 4)], 4), ([], 0)],
)
def test_how_many_tries_clusters_are_worth(clusters: list[tuple[int, int]], effective: float) -> None:
    assert clustered(clusters).effective == pytest.approx(effective)


@pytest.mark.parametrize(
    ("tasks", "attempts", "alike", "rate"), [(33, 16, 0.3, 0.6), (10, 8, 0.5, 0.7), (33, 4, 0.5, 0.9)]
)
def test_intervals_over_tasks_hold_the_true_rate_where_wilsons_own_do_not(
    tasks: int, attempts: int, alike: float, rate: float
) -> None:
    dice, rounds, held, naive = random.Random(7), 1000, 0, 0
    for _ in range(rounds):
        drawn = [dice.betavariate(rate * (1 / alike - 1), (1 - rate) * (1 / alike - 1)) for _ in range(tasks)]
        clusters = [(sum(dice.random() < chance for _ in range(attempts)), attempts) for chance in drawn]
        found = clustered(clusters)
        held += found.low <= rate <= found.high
        low, high = wilson(sum(passed for passed, _ in clusters), tasks * attempts)
        naive += low <= rate <= high
    assert held / rounds >= 0.9  # 0.95 is meant; skewed rates come to a little less
    assert naive / rounds < 0.88  # what independence would have promised


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 1))
def test_a_percentile_has_its_share_at_or_below_it(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9


NO = {"reward_type": "incomplete", "reward": 0.1}
NONE = {"reward_type": None, "reward": None, "reward_valid": False}


def test_what_is_not_scored_is_in_no_rate() -> None:
    outcomes = [
        made("1"),
        made("2", **NO, terminal_reason="max_steps", truncated=True),
        made("3", **NONE, failure_owner=Owner.INFRASTRUCTURE, cause="SandboxLost", retried=2),
        made("4", **NONE, failure_owner=Owner.VERIFIER, cause="uncertain verdict: verifier"),
        made("5", **NONE),
    ]
    assert [one.fate for one in outcomes] == [
        Fate.SOLVED, Fate.AGENT, Fate.INFRASTRUCTURE, Fate.VERIFIER, Fate.UNSCORED,
    ]  # fmt: skip
    told = report(plan(attempts=5), outcomes)
    assert (told.overall.attempts, told.overall.scored, told.overall.solved, told.overall.rate) == (5, 2, 1, 0.5)
    assert told.overall.mean_reward == pytest.approx(0.55)
    assert told.fates == {"solved": 1, "agent": 1, "infrastructure": 1, "verifier": 1, "unscored": 1}
    assert told.causes == {"SandboxLost": 1, "uncertain verdict: verifier": 1}
    assert (told.truncated, told.retried, told.calls, told.tokens) == (1, 1, 10, None)
    assert (told.calls_by_agent, told.starts) == ({"a": 10}, {"template_fork": 5})
    assert "clustering by task" in told.interval
    assert told.by_task["s/0"] == told.overall == told.by_agent["a"]
    assert told.ttfi[0].model_dump() == {
        "start_kind": "template_fork", "name": "ttfi", "count": 5, "p50_ms": 3.0, "p95_ms": 3.0,
    }  # fmt: skip


def test_nothing_scored_is_no_rate() -> None:
    assert rate([]).rate is None
    assert (rate([]).low, rate([]).high) == (0.0, 1.0)
