"""The report as people see it: it fits a screen, whatever was played, and nobody's text counts as markup."""

import io
from typing import Any

import pytest
from rich.console import Console

from quintain.cli.report_view import report_view
from quintain.rollout import Outcome
from quintain.rollout.report import report
from rollout.cast import plan
from rollout.made import made

FAILED = {"reward_type": "incomplete", "reward": 0.1}
MASKED = {"reward_type": None, "reward": None, "reward_valid": False, "failure_owner": "infrastructure"}


def shown(outcomes: list[Outcome], **changes: Any) -> list[str]:
    text = io.StringIO()
    told = report(plan(attempts=max(1, len(outcomes))), outcomes).model_copy(update=changes)
    Console(file=text, width=80, color_system=None).print(report_view(told))
    return text.getvalue().splitlines()


def many(scenarios: int, tasks: int, agents: int = 1, **fields: Any) -> list[Outcome]:
    return [
        made(
            f"{scenario}/{task}/{agent}",
            **{"scenario": f"scenario_{scenario}", "task_idx": task, "agent": f"agent-{agent}", **fields},
        )
        for scenario in range(scenarios)
        for task in range(tasks)
        for agent in range(agents)
    ]


def line(lines: list[str], word: str) -> str:
    return next(one for one in lines if word in one)


def test_a_mixed_run() -> None:
    played = [
        *many(2, 3, stages_ms={"admitted": 10.0, "running": 30.0, "verifying": 60.0, "cleaning": 0.1}),
        *[
            made(f"b{n}", scenario="scenario_0", agent="other", **FAILED, start_kind="cold", ttfi_ms=90.0)
            for n in range(3)
        ],
        made("c", scenario="scenario_0", agent="other", **MASKED, cause="sandbox lost", terminal_reason="sandbox_lost"),
    ]
    lines = shown(played)
    assert lines[0].startswith("10 of 10 attempts: 6 tasks of 2 scenarios, 2 agents")
    assert "pass rate 0.667" in line(lines, "pass rate")
    assert "1 not scored" in line(lines, "pass rate")
    assert "clustered by task" in line(lines, "intervals")
    assert line(lines, "other").split()[:4] == ["other", "4", "0", "0.00"]
    assert line(lines, "scenario_0").split() == ["scenario_0", "0.33", "1.00", "1.00"]
    assert "solved 6" in line(lines, "infrastructure")
    assert "agent 3" in line(lines, "infrastructure")
    assert "environment 0" in line(lines, "infrastructure")
    assert "ended by: done 9, sandbox_lost 1" in lines
    assert "1 failed by sandbox lost" in lines
    begins = [line(lines, stage).index("█") for stage in ("admitted", "running", "verifying")]
    widths = [line(lines, stage).count("█") for stage in ("admitted", "running", "verifying")]
    assert begins == sorted(set(begins))
    assert widths == [4, 12, 24]
    assert "ttfi 90" in line(lines, "cold")


@pytest.mark.parametrize(
    "outcomes",
    [
        many(1, 1),
        many(5, 7, agents=5),
        many(300, 10, agents=2),
        many(1, 10, agents=40),
        many(1, 1, scenario="x" * 200, agent="[red]" + "y" * 40),
        many(2, 2, **MASKED, cause="y" * 60),
        [made("a", task_idx=None, start_kind=None, ttfi_ms=None, stages_ms={}, segments_ms={})],
        [made("a", stages_ms={})],
        [],
    ],
    ids=["one", "five", "scenarios", "agents", "names", "masked", "not-started", "no-stages", "nothing"],
)
def test_it_fits_a_screen(outcomes: list[Outcome]) -> None:
    lines = shown(outcomes)
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 80


def test_a_scenario_of_many_tasks_has_ten_in_a_row() -> None:
    lines = shown(many(1, 23))
    assert line(lines, "from 10").split() == ["from", "10", *["1.00"] * 10]
    assert line(lines, "from 20").split() == ["from", "20", *["1.00"] * 3]


def test_of_many_scenarios_those_with_the_least_reward_are_shown() -> None:
    lines = shown([*many(40, 2), made("bad", scenario="scenario_39", **FAILED)])
    assert "the 12 of 40 scenarios" in line(lines, "mean reward by task")
    rows = [one.split()[0] for one in lines if one.startswith("scenario_")]
    assert rows[0] == "scenario_39"
    assert len(rows) == 12


def test_what_is_left_out_is_told() -> None:
    assert "and 28 agents more" in shown(many(1, 1, agents=40))
    kinds = ("cold", "cached_cold", "warm_claim", "template_fork")
    assert "and template_fork 1" in shown([made(kind, start_kind=kind) for kind in kinds])


def test_what_others_wrote_is_shown_as_it_is() -> None:
    lines = shown([made("a", scenario="[bold]s\x1b[2J", terminal_reason="[red]x", **MASKED | {"cause": "[link]\x07"})])
    text = "\n".join(lines)
    assert "[bold]s" in text
    assert "[red]x 1" in text
    assert "[link]" in text
    assert "\x1b" not in text
    assert "\x07" not in text
