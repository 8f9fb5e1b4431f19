"""Pools: what a task may be used for, and which moves between them are allowed.

A task is in one pool. Once it has been trained on it measures nothing any more, so nothing leads out of `train`.
"""

import re
from enum import StrEnum
from typing import Annotated, Final

from pydantic import StringConstraints

from quintain.errors import PoolError
from quintain.tasks.base import normalised


class Pool(StrEnum):
    """What a task is for; `PURPOSES` says what each means."""

    TRAIN = "train"
    DEV = "dev"
    REGRESSION = "regression"
    BLIND = "blind"


PURPOSES: Final[dict[Pool, str]] = {
    Pool.TRAIN: "Trained on.",
    Pool.DEV: "Looked at while developing; never trained on.",
    Pool.REGRESSION: "Must go on passing; frozen, so that results of different days compare.",
    Pool.BLIND: "Opened at stated milestones only, and each time counted.",
}
"""What each pool is for."""

_TWO_DECISIONS: Final = (
    "move it to dev first: giving it up here and giving it up for every evaluation are two decisions"
)
_TRAINED: Final = "it has been trained on, so it measures nothing any more"

REFUSED: Final[dict[tuple[Pool, Pool], str]] = {
    (Pool.TRAIN, Pool.DEV): _TRAINED,
    (Pool.TRAIN, Pool.REGRESSION): _TRAINED,
    (Pool.TRAIN, Pool.BLIND): _TRAINED,
    (Pool.DEV, Pool.BLIND): "it has been looked at, so it is not blind",
    (Pool.REGRESSION, Pool.TRAIN): _TWO_DECISIONS,
    (Pool.REGRESSION, Pool.BLIND): "every gate has run it, so it is not blind",
    (Pool.BLIND, Pool.TRAIN): _TWO_DECISIONS,
}
"""Moves that are never made, and why."""

ALLOWED: Final[dict[tuple[Pool, Pool], str]] = {
    (Pool.DEV, Pool.TRAIN): "It is retired from evaluation for good.",
    (Pool.DEV, Pool.REGRESSION): "A revision of the regression pool once that is frozen.",
    (Pool.REGRESSION, Pool.DEV): "A revision of the regression pool once that is frozen.",
    (Pool.BLIND, Pool.DEV): "It is seen from then on: counts as an opening, so it needs a milestone.",
    (Pool.BLIND, Pool.REGRESSION): "Counts as an opening; a revision of the regression pool once that is frozen.",
}
"""Moves that are made, and what follows from them."""

TaskId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+/(0|[1-9][0-9]{0,8})$")]
"""A task: the scenario's normalised name, a slash, and the task's index in it."""

_WRITTEN = re.compile(r"(.+)/(0|[1-9][0-9]{0,8})", re.DOTALL)


def task_id(scenario: str, task_idx: int) -> str:
    """The id of a task, the scenario's name in any spelling."""
    return f"{normalised(scenario)}/{task_idx}"


def read_task(written: str) -> tuple[str, int | None]:
    """The scenario (normalised) and index that people wrote: `Vet Clinic 1/3`; without an index the whole scenario.

    Raises:
        PoolError: it names nothing.
    """
    found = _WRITTEN.fullmatch(written.strip())
    scenario, index = (found[1], int(found[2])) if found else (written, None)
    if not normalised(scenario) or (found is None and "/" in written):
        raise PoolError(f"{written[:200]!r} names no task; write SCENARIO/INDEX, or SCENARIO for all of its tasks")
    return normalised(scenario), index


def refuse_move(task: str, source: Pool, target: Pool) -> None:
    """Refuse a move that is never made.

    Raises:
        PoolError: it is one; the message says why.
    """
    if source is target:
        raise PoolError(f"{task} is in {target} already; leave it out")
    if (source, target) in REFUSED:
        raise PoolError(f"{task} cannot move from {source} to {target}: {REFUSED[source, target]}")


def moves_table() -> str:
    """Every move between two pools as a Markdown table."""
    rows = ["| From | To | | |", "|---|---|---|---|"]
    for source in Pool:
        for target in Pool:
            if source is not target:
                refusal = REFUSED.get((source, target))
                told = ALLOWED[source, target] if refusal is None else f"{refusal[:1].upper()}{refusal[1:]}."
                rows.append(f"| {source} | {target} | {'allowed' if refusal is None else 'refused'} | {told} |")
    return "\n".join(rows)
