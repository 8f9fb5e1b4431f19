"""Legal and illegal transitions, and their stamps."""

from collections.abc import Iterator

import pytest

from quintain.contracts.lifecycle import ENDS, TRANSITIONS, Lifecycle, Stage
from quintain.contracts.timing import ttfi_ms
from quintain.errors import LifecycleError

WAY = [
    Stage.RESOLVING,
    Stage.ARTIFACT_READY,
    Stage.QUEUED,
    Stage.ADMITTED,
    Stage.ALLOCATED,
    Stage.INJECTED,
    Stage.FIRST_COMMAND_OK,
    Stage.RUNNING,
]


def ticking(step: float) -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += step


def test_a_whole_life_is_stamped_in_order() -> None:
    wall, monotonic = ticking(10.0), ticking(0.5)
    life = Lifecycle(lambda: next(wall), lambda: next(monotonic))
    assert ttfi_ms(life.stamps) is None
    life.enter(*WAY, Stage.VERIFYING, Stage.RUNNING, Stage.VERIFYING, Stage.COMPLETED, Stage.CLEANING, Stage.DELETED)
    assert [stamp.stage for stamp in life.stamps][:3] == [Stage.ACCEPTED, Stage.RESOLVING, Stage.ARTIFACT_READY]
    assert [stamp.wall for stamp in life.stamps] == [10.0 * n for n in range(len(life.stamps))]
    assert ttfi_ms(life.stamps) == 3500.0
    assert life.ended


@pytest.mark.parametrize("end", sorted(ENDS - {Stage.COMPLETED}))
@pytest.mark.parametrize("reached", range(len(WAY) + 1))
def test_every_stage_before_the_end_may_break_off(reached: int, end: Stage) -> None:
    life = Lifecycle()
    life.enter(*WAY[:reached], end, Stage.CLEANING, Stage.DELETED)
    assert life.stage is Stage.DELETED


def test_an_illegal_transition_is_refused_as_a_whole_and_told(caplog: pytest.LogCaptureFixture) -> None:
    refused: list[tuple[Stage, Stage]] = []
    life = Lifecycle(refused=lambda now, wanted: refused.append((now, wanted)))
    with pytest.raises(LifecycleError):
        life.enter(Stage.RESOLVING, Stage.ARTIFACT_READY, Stage.RUNNING)
    assert [stamp.stage for stamp in life.stamps] == [Stage.ACCEPTED]
    assert refused == [(Stage.ARTIFACT_READY, Stage.RUNNING)]
    assert any("artifact_ready cannot enter running" in line for line in caplog.messages)


def test_every_pair_not_listed_is_refused() -> None:
    for before, allowed in TRANSITIONS.items():
        for after in set(Stage) - allowed:
            life = Lifecycle()
            life._stamp(before)
            with pytest.raises(LifecycleError, match=f"{before} cannot enter {after}"):
                life.enter(after)
    assert TRANSITIONS.keys() == set(Stage)
