"""The rules of moves, and how people name tasks."""

import pytest

from quintain.errors import PoolError
from quintain.tasks.pools import ALLOWED, REFUSED, Pool, moves_table, read_task, refuse_move, task_id


def test_every_move_is_either_allowed_or_refused() -> None:
    every = {(one, other) for one in Pool for other in Pool if one is not other}
    assert ALLOWED.keys() | REFUSED.keys() == every
    assert not ALLOWED.keys() & REFUSED.keys()
    assert len(moves_table().splitlines()) == len(every) + 2


def test_nothing_leads_out_of_train_by_any_number_of_moves() -> None:
    assert all((Pool.TRAIN, other) in REFUSED for other in Pool if other is not Pool.TRAIN)
    assert all((other, Pool.BLIND) in REFUSED for other in Pool if other is not Pool.BLIND), (
        "what was seen is not blind"
    )


@pytest.mark.parametrize(("source", "target"), REFUSED)
def test_a_refusal_names_the_task_both_pools_and_the_reason(source: Pool, target: Pool) -> None:
    with pytest.raises(PoolError) as caught:
        refuse_move("vet_clinic_1/3", source, target)
    for part in ("vet_clinic_1/3", source, target, REFUSED[source, target]):
        assert part in str(caught.value)


@pytest.mark.parametrize(("source", "target"), ALLOWED)
def test_an_allowed_move_is_not_refused(source: Pool, target: Pool) -> None:
    refuse_move("vet_clinic_1/3", source, target)


@pytest.mark.parametrize("pool", Pool)
def test_a_move_to_where_the_task_is(pool: Pool) -> None:
    with pytest.raises(PoolError, match=f"in {pool} already"):
        refuse_move("vet_clinic_1/3", pool, pool)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("vet_clinic_1/3", ("vet_clinic_1", 3)),
        (" Vet Clinic 1/0 ", ("vet_clinic_1", 0)),
        ("Vet Clinic 1", ("vet_clinic_1", None)),
        ("VET-CLINIC/12", ("vet_clinic", 12)),
    ],
)
def test_tasks_as_people_write_them(written: str, read: tuple[str, int | None]) -> None:
    assert read_task(written) == read
    if read[1] is not None:
        assert read_task(task_id(*read)) == read  # type: ignore[arg-type]


@pytest.mark.parametrize("written", ["", "/", "/3", "vet/", "vet/x", "vet/-1", "vet/01", "vet/1.5", "--/3", "a/b/c"])
def test_what_names_no_task(written: str) -> None:
    with pytest.raises(PoolError, match="names no task"):
        read_task(written)
