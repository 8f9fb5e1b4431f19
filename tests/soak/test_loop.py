"""Two thousand episodes through the whole loop while each of its processes is killed at random, again and again.

`QUINTAIN_SOAK_LOOP` (episodes), `QUINTAIN_SOAK_SEED` and `QUINTAIN_SOAK_STRIKES` say otherwise.
"""

import os
from pathlib import Path

import pytest

from e2e.loop_chaos import Postgres, survive
from e2e.serving import run

EPISODES = int(os.environ.get("QUINTAIN_SOAK_LOOP", "2000"))
STRIKES = int(os.environ.get("QUINTAIN_SOAK_STRIKES", str(EPISODES // 16)))
SEED = int(os.environ.get("QUINTAIN_SOAK_SEED", "1"))


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_nothing_is_lost_doubled_or_left(tmp_path: Path, database: str) -> None:
    postgres = database == "postgresql"
    if postgres and (missing := Postgres.missing()):
        pytest.skip(missing)
    loop = survive(
        tmp_path, SEED, EPISODES, EPISODES // 2, STRIKES, longest_s=1.5, limit_s=3 * EPISODES + 600, postgres=postgres
    )
    print(loop.summary)
    assert not loop.failures, loop.summary
    assert sum(count for what, count in loop.tally.items() if what.endswith(" killed")) > STRIKES * 0.6, loop.summary
    if not postgres:  # whose server has gone by now
        told = run(["store", "verify", "--store", str(loop.store), "--ledger", loop.ledger], tmp_path)
        assert told.returncode == 0, told.stdout
