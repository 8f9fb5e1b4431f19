"""Five hundred rollouts while everything that scores them is killed at random: no score is lost, and none is doubled.

`QUINTAIN_SOAK_ROLLOUTS` and `QUINTAIN_SOAK_SEED` say otherwise.
"""

import os
from pathlib import Path

import pytest

from e2e.scoring import scored

ROLLOUTS = int(os.environ.get("QUINTAIN_SOAK_ROLLOUTS", "500"))
SEED = int(os.environ.get("QUINTAIN_SOAK_SEED", "1"))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_every_rollout_is_scored_once_whatever_is_killed(tmp_path: Path) -> None:
    strikes = ROLLOUTS // 4
    run = scored(tmp_path, SEED, ROLLOUTS, clients=8, limit_s=ROLLOUTS * 1.2, strikes=strikes, more=["lock for long"])
    print(run.summary)
    assert not run.log.failures, run.summary
    tally = run.log.tally
    assert sum(count for what, count in tally.items() if what.endswith(" killed")) > strikes, run.summary
    assert sum(count for what, count in tally.items() if what.startswith("uncertain: ")) > strikes / 2, run.summary
    assert tally["sessions lost or cut"] > strikes / 2, run.summary
