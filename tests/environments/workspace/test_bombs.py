"""What a workspace's processes may take, tried by harmless probes first: a bomb only goes off where its limit held."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from environments.workspace.conftest import SMALL
from quintain.sandboxes.cgroups import ControlGroup

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("workspace")]

LIMITS = """
import resource
for name in ("AS", "NPROC", "FSIZE", "NOFILE", "CPU", "CORE"):
    print(name, *resource.getrlimit(getattr(resource, "RLIMIT_" + name)))
import os
found = os.statvfs("/workspace")
print("DISK", found.f_blocks * found.f_frsize, found.f_files)
"""
FORKS = """
import os, time
children = []
try:
    while len(children) < 200:
        pid = os.fork()
        if pid == 0:
            time.sleep(1000)
        children.append(pid)
except OSError as error:
    print(error.errno, len(children))
"""
EATS = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        kept = bytearray(96 * 2**20)
        kept[::4096] = b"x" * len(kept[::4096])
        time.sleep(0.5)
        os._exit(0)
ended = [os.wait()[1] for _ in range(8)]
print("killed", sum(status == 9 for status in ended), "of", len(ended))
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def small(open_workshop: Callable[..., Any]) -> AsyncIterator[Any]:
    """Workspaces with narrow limits."""
    async with open_workshop(SMALL) as opened:
        yield opened


async def bounded(player: Any) -> dict[str, list[int]]:
    """The limits that hold in the sandbox; every bomb asks for them first."""
    lines = (await player.text("python", code=LIMITS)).splitlines()[:-1]
    found = {name: [int(value) for value in values] for name, *values in map(str.split, lines)}
    assert found["NPROC"] == [SMALL.pids] * 2
    assert found["AS"][0] < SMALL.memory_bytes + 2**28
    assert found["FSIZE"] == [SMALL.disk_bytes] * 2
    assert found["NOFILE"] == [SMALL.open_files] * 2
    assert found["CPU"] == [SMALL.cpu_seconds] * 2
    assert found["CORE"] == [0, 0]
    assert found["DISK"] == [SMALL.disk_bytes, 4096]
    return found


def group_of(player: Any) -> ControlGroup | None:
    """The control group of an episode, where the host offers them."""
    group: ControlGroup | None = player.environment._sandbox._group
    return group


async def test_processes_end_at_their_number_and_a_fork_bomb_at_its_time(small: Any, tmp_path: Path) -> None:
    async with small.playing({}, tmp_path) as player, small.playing({}, tmp_path / "other") as other:
        await bounded(player)
        number, started = (await player.text("python", code=FORKS)).split()[:2]
        assert (int(number), int(started) < SMALL.pids) == (11, True)
        assert await player.others() == 0
        bomb = player.error("bash", command=":(){ :|:& };: 2>/dev/null; sleep 100", timeout_s=2)
        told, _ = await asyncio.gather(bomb, other.bash("echo 1; sleep 0.5"))  # a sibling has processes of its own
        assert "[stopped after 2 s, with everything it had started]" in told
        assert await player.others() == 0
        bomb = player.error("bash", command="bomb() { setsid bash -c bomb & bomb; }; export -f bomb; bomb", timeout_s=2)
        assert "stopped after 2 s" in await bomb
        assert await player.others() == 0


async def test_a_bomb_in_the_background_is_ended_by_the_next_stop(small: Any, tmp_path: Path) -> None:
    async with small.playing({}, tmp_path) as player:
        await bounded(player)
        await player.text("bash", command=":(){ :|:& };: 2>/dev/null; sleep 100", background=True)
        await asyncio.sleep(0.3)
        for name, arguments in (("bash", {"command": "true"}), ("search", {"pattern": "x"}), ("read", {"path": "."})):
            outcome = await player.call(name, **arguments)  # it may fail for want of processes; that is the agent's
            assert outcome.owner in (None, "agent")
        assert await player.text("stop", job=1) == "job 1: stopped"
        assert await player.others() == 0


async def test_memory_adds_up_and_is_bounded(small: Any, tmp_path: Path) -> None:
    async with small.playing({"kept.txt": "kept\n"}, tmp_path) as player:
        await bounded(player)
        assert "MemoryError" in await player.text("python", code="bytearray(2**29)")
        group = group_of(player)
        if group is None:
            pytest.skip("this host offers no control groups; what processes take together has no bound of its own")
        killed = int((await player.text("python", code=EATS)).split()[1])
        assert 0 < killed <= 8
        assert await player.bash("cat kept.txt") == "kept\n"  # the sandbox itself goes on
        assert player.environment._sandbox.alive


async def test_the_disk_has_a_size_and_can_be_cleared(small: Any, tmp_path: Path) -> None:
    async with small.playing({"kept.txt": "kept\n"}, tmp_path) as player:
        await bounded(player)
        told = await player.text("bash", command="head -c 100M /dev/zero > a; head -c 100M /dev/zero > b; ls -s")
        assert "File too large" in told or "No space left" in told
        assert "No space left" in await player.error("write", path="c.txt", content="c" * 100_000)
        assert (await player.snapshot()).stat().st_size <= SMALL.disk_bytes + 2**20  # a full disk can be kept
        await player.bash("rm a b; for i in $(seq 5000); do : > f$i || break; done 2>/dev/null; ls | wc -l")
        assert "No space left" in await player.error("write", path="d.txt", content="c")
        await player.bash("rm f*")
        await player.text("write", path="c.txt", content="c" * 100_000)
        assert await player.bash("cat kept.txt") == "kept\n"


async def test_files_that_say_they_are_larger_than_the_disk_are_left_out(small: Any, tmp_path: Path) -> None:
    async with small.playing({}, tmp_path) as player:
        await bounded(player)
        await player.bash("for i in 1 2 3; do truncate -s 30M sparse$i; done; echo a > a")
        tar = await player.snapshot()
        assert tar.stat().st_size <= SMALL.disk_bytes + 2**20
        await player.bash("rm sparse*; head -c 1M /dev/zero > z; for i in $(seq 100); do ln z hard$i; done; echo b > b")
        assert (await player.snapshot()).stat().st_size <= SMALL.disk_bytes + 2**20


async def test_a_spin_and_descriptors_are_bounded(small: Any, tmp_path: Path) -> None:
    async with small.playing({}, tmp_path) as player:
        await bounded(player)
        assert "stopped after 1 s" in await player.error("bash", command="while :; do :; done", timeout_s=1)
        code = "kept = []\ntry:\n while True: kept.append(open('/dev/null'))\nexcept OSError as e: print(e.errno)"
        assert (await player.text("python", code=code)).startswith("24\n")


async def test_nothing_is_left_of_it(small: Any, tmp_path: Path) -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    async with small.playing({}, tmp_path) as player:
        await bounded(player)
        await player.text("bash", command="while :; do sleep 0.01; done", background=True)
        sandbox, group = player.environment._sandbox, group_of(player)
        children = Path(f"/proc/{sandbox.pid}/task/{sandbox.pid}/children").read_text().split()
        assert children
        assert group is None or all(folder.exists() for folder in group.folders)
    assert not os.path.exists(f"/proc/{sandbox.pid}")
    for pid in children:
        assert not os.path.exists(f"/proc/{pid}") or "q-" not in Path(f"/proc/{pid}/comm").read_text()
    assert group is None or not any(folder.exists() for folder in group.folders)
    assert Path("/proc/self/mountinfo").read_text() == mounts
