"""Where an episode's time went: time to first instruction, time in each stage, and how either is spread."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict

from quintain.contracts.lifecycle import Stage, StageStamp

TTFI: Final = "ttfi"

NOT_STARTED: Final = "none"
"""The start kind of an episode that has none because it never started."""


class Timing(BaseModel):
    """Milliseconds of one part of the start, or of one stage, over episodes of one start kind."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start_kind: str
    name: str
    count: int
    p50_ms: float
    p95_ms: float


def ttfi_ms(stages: Sequence[StageStamp]) -> float | None:
    """Milliseconds from accepted to the first command that succeeded; None where none did."""
    for stamp in stages:
        if stamp.stage is Stage.FIRST_COMMAND_OK:
            return (stamp.monotonic - stages[0].monotonic) * 1e3
    return None


def stages_ms(stages: Sequence[StageStamp]) -> dict[str, float]:
    """Milliseconds in each stage but the last; of those entered twice, together."""
    spent: dict[str, float] = {}
    for stamp, after in itertools.pairwise(stages):
        spent[stamp.stage] = spent.get(stamp.stage, 0.0) + (after.monotonic - stamp.monotonic) * 1e3
    return spent


def timings(told: Iterable[tuple[str | None, Mapping[str, float]]]) -> tuple[Timing, ...]:
    """How durations are spread, by start kind and name.

    Args:
        told: for each episode its start kind, and milliseconds by name.
    """
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for start_kind, durations in told:
        for name, ms in durations.items():
            found[start_kind or NOT_STARTED, name].append(ms)
    return tuple(spread(kind, name, values) for (kind, name), values in found.items())


def spread(start_kind: str, name: str, values: Sequence[float]) -> Timing:
    """How some durations in milliseconds are spread. `values` must not be empty."""
    return Timing(
        start_kind=start_kind,
        name=name,
        count=len(values),
        p50_ms=percentile(values, 0.5),
        p95_ms=percentile(values, 0.95),
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that has at least that share of the values at or below it. `values` must not be empty."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]
