"""The yard's workspaces: solutions are complete, and nothing less is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.serving import environment
from packs import yard_play

SCENARIOS = ["cargo_library", "data_desk", "harbour_history"]


def validated(root: Path, scenarios: list[str], *, seeds: int, others: int) -> None:
    """`quintain validate` finds nothing against them."""
    options = ["--seeds", str(seeds), "--random", str(others), "--repeats", "1", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "quintain.cli.main", "validate", *scenarios, "--pack", "yard", *options],
        env=environment(root, None, ["--pack"]),
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert {one["scenario"] for one in report["scenarios"]} == set(scenarios)
    assert all(task["status"] == "sound" for one in report["scenarios"] for task in one["tasks"])


def test_these_are_all_of_them() -> None:
    source = yard_play.yard()
    assert sorted(one.name for one in source.scenarios() if one.kind == "workspace") == SCENARIOS
    assert sum(len(source.scenario(name).tasks) for name in SCENARIOS) >= 12


def test_solutions_are_complete_and_nothing_less_is(tmp_path: Path) -> None:
    validated(tmp_path, ["data_desk"], seeds=1, others=0)


@pytest.mark.soak
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_those_who_err_are_complete_only_if_all_is_right(scenario: str, tmp_path: Path) -> None:
    validated(tmp_path, [scenario], seeds=5, others=50)
