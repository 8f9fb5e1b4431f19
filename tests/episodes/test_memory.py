"""How much memory is left, read from a file system made for the test."""

from pathlib import Path

import pytest

from quintain.episodes.memory import FRESH_S, Memory

MIB = 2**20


def host(root: Path, available_mib: int, groups: str = "") -> Path:
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable:   {available_mib * 1024} kB\nCached: 1 kB\n")
    (root / "proc/self/cgroup").write_text(groups)
    return root


def group(folder: Path, limit: object, used_mib: int, inactive_mib: int, *, version: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.max", "memory.current", "inactive_file") if version == 2 else (
        "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")  # fmt: skip
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used_mib * MIB}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {inactive_mib * MIB}\n")


def test_without_control_groups_it_is_the_hosts(tmp_path: Path) -> None:
    assert Memory(host(tmp_path, 700)).available() == 700 * MIB


@pytest.mark.parametrize("path", ["/a/b", "/somewhere/else", "/../..", "/"])
def test_a_limit_of_version_2_anywhere_upwards_counts(tmp_path: Path, path: str) -> None:
    root = host(tmp_path, 4000, f"0::{path}\n")
    mount = tmp_path / "sys/fs/cgroup"
    group(mount, 1024 * MIB, 900, 100, version=2)
    group(mount / "a", 512 * MIB, 300, 0, version=2)
    group(mount / "a/b", "max", 300, 0, version=2)
    assert Memory(root).available() == (212 if path == "/a/b" else 224) * MIB


def test_a_limit_of_version_1(tmp_path: Path) -> None:
    root = host(tmp_path, 4000, "5:cpu,cpuacct:/\n4:memory:/docker/x\n0::/\n")
    group(tmp_path / "sys/fs/cgroup/memory", 600 * MIB, 500, 50, version=1)
    group(tmp_path / "sys/fs/cgroup/memory/docker/x", 2**63 - 4096, 500, 50, version=1)
    assert Memory(root).available() == 150 * MIB


def test_the_host_counts_where_it_has_less_than_the_limit(tmp_path: Path) -> None:
    root = host(tmp_path, 100, "0::/\n")
    group(tmp_path / "sys/fs/cgroup", 1024 * MIB, 0, 0, version=2)
    assert Memory(root).available() == 100 * MIB


def test_a_reading_counts_for_a_moment(tmp_path: Path) -> None:
    now = 0.0
    memory = Memory(host(tmp_path, 500), lambda: now)
    assert memory.available() == 500 * MIB
    host(tmp_path, 400)
    assert memory.available() == 500 * MIB
    now = FRESH_S * 1.01
    assert memory.available() == 400 * MIB


def test_this_host_tells() -> None:
    assert Memory().available() > 0
