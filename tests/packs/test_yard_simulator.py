"""The yard's simulators: solutions are complete, and nothing less is."""

from pathlib import Path

import pytest

from packs import yard_play
from quintain.artifacts import LocalArtifactStore
from quintain.environments.inprocess import ReadyMachine
from quintain.environments.simulator import KIND, check, simulator_kind

SCENARIOS = ["access_desk", "phone_billing", "rail_changes"]


async def ready(scenario: str, root: Path) -> ReadyMachine:
    return await yard_play.prepared(simulator_kind(LocalArtifactStore(root / "artifacts"), root), scenario)


def test_these_are_all_and_nothing_is_wrong_with_them() -> None:
    source = yard_play.yard()
    assert [one.name for one in source.scenarios() if one.kind == KIND] == SCENARIOS
    assert sum(len(source.scenario(name).tasks) for name in SCENARIOS) >= 12
    for name in SCENARIOS:
        assert check(source.payload(name)["environment"]) == []


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_solutions_are_complete_and_nothing_less_is(scenario: str, tmp_path: Path) -> None:
    machine = await ready(scenario, tmp_path)
    for idx in range(len(yard_play.yard().scenario(scenario).tasks)):
        for seed in yard_play.SEEDS:
            await yard_play.check_solution(machine, scenario, idx, seed, tmp_path)


async def err(scenario: str, numbers: range, root: Path) -> None:
    machine = await ready(scenario, root)
    for idx in range(len(yard_play.yard().scenario(scenario).tasks)):
        await yard_play.check_noise(machine, scenario, idx, numbers, root)


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_those_who_err_are_complete_only_if_all_is_right(scenario: str, tmp_path: Path) -> None:
    await err(scenario, range(15), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_many_who_err_are_complete_only_if_all_is_right(scenario: str, tmp_path: Path) -> None:
    await err(scenario, range(15, 50), tmp_path)
