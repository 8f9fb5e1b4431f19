"""Hundreds of episodes leave a server as it was; thousands are in `tests/soak`."""

from pathlib import Path

import pytest

from e2e.endurance import endure
from e2e.serving import COMMAND, serving

pytestmark = pytest.mark.xdist_group("e2e-endurance")


def test_holdings_stay_flat_over_three_hundred_episodes(tmp_path: Path) -> None:
    with serving(tmp_path, command=COMMAND) as server:
        before, after, problems = endure(server, 60, 300, settle_s=0.5)
        assert problems == []
        assert after.grown(before) == []
        assert server.complaints == []
