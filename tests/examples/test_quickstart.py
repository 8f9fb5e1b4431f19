"""The quick start against a real server, with the real openenv client."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from served import ROOT, environment, peer, served

QUICKSTART = ROOT / "examples/quickstart.py"


@pytest.fixture(scope="module")
def url(runtime_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(runtime_cache.parent, tmp_path_factory.mktemp("quickstart") / "server.log") as address:
        yield address


def test_it_plays_one_episode_to_the_full_reward(url: str, runtime_cache: Path) -> None:
    variables = environment(runtime_cache.parent, AWM_BASE_URL=url)
    done = subprocess.run([peer(), QUICKSTART], env=variables, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "task: Add 2 units of the 'Tarnlight 850 Sleeping Bag' to my cart."
    assert lines[1] == "31 tools, the first is get_profile"
    assert '"line_total": 498.0' in done.stdout
    assert lines[-2:] == ["verdict: complete 1.0", "done: True"]


def test_an_example_stays_short() -> None:
    code = [line for line in QUICKSTART.read_text().splitlines() if line.strip() and not line.startswith('"""')]
    assert len(code) <= 25, f"{len(code)} lines of code"
