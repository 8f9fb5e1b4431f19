"""Five hundred random kills under load; `QUINTAIN_SOAK_KILLS` and `QUINTAIN_SOAK_SEED` say otherwise."""

import os
import random
from pathlib import Path

import pytest

from e2e.chaos import survive
from e2e.test_crashes import HIBERNATING

KILLS = int(os.environ.get("QUINTAIN_SOAK_KILLS", "500"))
SEED = int(os.environ.get("QUINTAIN_SOAK_SEED", "1"))
WEIGHTS = {"episode": 5, "template": 3, "zygote": 2, "server": 2}


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("settings", [{}, HIBERNATING], ids=["awake", "hibernating"])
def test_kills_at_random_leave_nothing(tmp_path: Path, settings: dict[str, str]) -> None:
    kinds = random.Random(SEED).choices(list(WEIGHTS), list(WEIGHTS.values()), k=KILLS // 2)
    chaos = survive(tmp_path, SEED, kinds, clients=8, **settings)
    print(chaos.summary)
    assert not chaos.failures, chaos.summary
    assert sum(count for name, count in chaos.tally.items() if name.endswith(" killed")) > 0.9 * KILLS // 2
