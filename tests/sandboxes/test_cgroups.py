"""Control groups: on this host if it offers them, and the choice between versions on made-up hierarchies."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quintain.sandboxes import cgroups
from quintain.sandboxes.cgroups import GroupLimits, make_group
from quintain.sandboxes.conformance import Bench
from quintain.sandboxes.conformance.bench import host_pid
from quintain.sandboxes.fork import ForkProvider

LIMITS = GroupLimits(2**30, 4096)
offered = pytest.mark.skipif(cgroups.offered().startswith("none"), reason="this host offers this user no control group")


@offered
@pytest.mark.xdist_group("conformance")
async def test_sandboxes_are_in_the_group_of_their_platform_and_it_goes_with_them(
    runtime_cache: Path, tmp_path: Path
) -> None:
    provider = ForkProvider(runtime_cache, group_limits=LIMITS)
    async with Bench(provider, tmp_path).sandbox() as sandbox:
        assert f"quintain-{os.getpid()}-" in Path(f"/proc/{host_pid(sandbox)}/cgroup").read_text()
    assert list(Path("/sys/fs/cgroup").glob(f"**/quintain-{os.getpid()}-*"))
    await provider.close()
    assert not list(Path("/sys/fs/cgroup").glob(f"**/quintain-{os.getpid()}-*"))


@offered
def test_the_number_of_processes_is_bounded() -> None:
    group = make_group("few", GroupLimits(2**30, 4))
    assert group is not None
    script = (
        "import os, sys\n"
        "sys.stdin.readline()\n"
        "for n in range(8):\n"
        "    if os.fork() == 0:\n"
        "        os.read(0, 1)\n"
        "        os._exit(0)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as one:
        for door in group.doors:  # while it waits for its line
            door.write_text(str(one.pid))
        bounds = [folder / "pids.max" for folder in group.folders if (folder / "pids.max").exists()]
        assert [bound.read_text().strip() for bound in bounds] == ["4"]  # the harmless half: the limit is there
        _, errors = one.communicate("go\n", timeout=20)
    group.remove()
    assert "Resource temporarily unavailable" in errors


@offered
def test_the_group_has_a_share_of_the_processors_where_the_host_shares_them() -> None:
    group = make_group("share", GroupLimits(2**30, 64, cpu_processes=3))
    assert group is not None
    found = [
        (name, (folder / name).read_text().strip())
        for folder in group.folders
        for name in ("cpu.shares", "cpu.weight")
        if (folder / name).exists()
    ]
    group.remove()
    assert found in ([], [("cpu.shares", "3072")], [("cpu.weight", "300")])
    if group.version == 1:
        assert bool(found) == Path("/sys/fs/cgroup/cpu").is_dir()


@offered
def test_groups_of_platforms_that_are_gone_are_swept() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    group = make_group("left", LIMITS)
    assert group is not None
    left = [folder.rename(folder.with_name(f"quintain-{gone.pid}-left")) for folder in group.folders]
    assert cgroups.sweep() >= len(left)
    assert not [folder for folder in left if folder.exists()]


def test_a_host_without_groups_offers_none(tmp_path: Path) -> None:
    assert make_group("any", LIMITS, tmp_path) is None
    assert cgroups.offered(tmp_path).startswith("none")


def test_a_limit_that_does_not_read_back_is_no_limit(tmp_path: Path) -> None:
    """Plain directories take any file: what is written reads back, but a directory cannot be a group of processes."""
    for controller in ("memory", "pids"):
        (tmp_path / controller).mkdir()
    group = make_group("plain", LIMITS, tmp_path)
    assert group is None or group.version == 1
