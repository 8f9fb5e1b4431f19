"""Ten thousand episodes leave a server as it was; `QUINTAIN_SOAK_EPISODES` says otherwise."""

import os
from pathlib import Path

import pytest

from e2e.endurance import endure
from e2e.serving import COMMAND, serving

EPISODES = int(os.environ.get("QUINTAIN_SOAK_EPISODES", "10000"))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_holdings_stay_flat(tmp_path: Path) -> None:
    with serving(tmp_path, command=COMMAND) as server:
        before, after, problems = endure(server, min(500, EPISODES // 4), EPISODES, settle_s=20)
        print(before, after, sep="\n")
        assert problems == []
        assert after.grown(before) == []
        assert server.complaints == []
