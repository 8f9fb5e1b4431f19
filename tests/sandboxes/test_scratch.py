"""The scratch directory: gone when its run is, however that ended; never touched while the run lives."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from quintain.errors import SandboxError
from quintain.sandboxes import scratch
from quintain.sandboxes.scratch import Scratch, provisional, sweep

HOLDS = """
import sys, time
from pathlib import Path
from quintain.sandboxes.scratch import Scratch, provisional
run = Scratch.open(Path(sys.argv[1]))
(run.path / "state" / "deep").mkdir(parents=True)
(run.path / "state" / "deep" / "file").write_text("x")
(run.path / "state").chmod(0)
with provisional(run.path, Path(sys.argv[2]) / "half"):
    print(run.path, flush=True)
    time.sleep(60)
"""
SOURCE = str(Path(scratch.__file__).parents[2])


@contextmanager
def killed_run(parent: Path, kept: Path) -> Iterator[Path]:
    """The scratch directory of a run that lives in the block and is killed at its end, while it keeps something."""
    command = [sys.executable, "-c", HOLDS, str(parent), str(kept)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": SOURCE}) as process:
        assert process.stdout is not None
        yield Path(process.stdout.readline().strip())
        process.send_signal(signal.SIGKILL)


def test_it_is_private_and_gone_at_the_end(tmp_path: Path) -> None:
    with Scratch.open(tmp_path) as run:
        assert run.path.parent == tmp_path
        assert run.path.stat().st_mode & 0o777 == 0o711
        (run.path / "sub").mkdir()
    assert list(tmp_path.iterdir()) == []
    run.close()


def test_what_killed_runs_left_is_swept_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    parent, kept = tmp_path / "scratch", tmp_path / "kept"
    with killed_run(parent, kept) as one, killed_run(parent, kept / "elsewhere") as two:
        assert sweep(parent) == 0  # they live
        assert (kept / "half").is_dir()
    assert one.is_dir()
    assert two.is_dir()
    with caplog.at_level(logging.WARNING), Scratch.open(parent) as run:
        assert list(parent.iterdir()) == [run.path]
        assert not (kept / "half").exists()
        assert not (kept / "elsewhere" / "half").exists()
    assert "removed what 2 killed runs had left" in caplog.text


def test_living_runs_and_what_others_made_are_left_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "precious").mkdir(parents=True)
    (tmp_path / f"{scratch.PREFIX}link").symlink_to(outside)
    (tmp_path / f"{scratch.PREFIX}file").write_text("x")
    with Scratch.open(tmp_path) as living:
        with Scratch.open(tmp_path) as other:
            assert living.path.is_dir()
            assert other.path != living.path
        assert living.path.is_dir()
        (living.path / "state").mkdir()
        (living.path / "state" / "link").symlink_to(outside)  # only links at the top name something of the run
    assert (outside / "precious").is_dir()
    assert (tmp_path / f"{scratch.PREFIX}file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's directory")
def test_another_users_directory_is_never_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    planted = tmp_path / f"{scratch.PREFIX}planted"
    planted.mkdir()
    (planted / "target").symlink_to(precious)
    os.chown(planted, 12345, 12345)
    assert sweep(tmp_path) == 0
    assert precious.is_dir()
    assert planted.is_dir()


def test_a_provisional_directory_stays_only_when_it_is_complete(tmp_path: Path) -> None:
    with Scratch.open(tmp_path / "scratch") as run:
        with provisional(run.path, tmp_path / "kept" / "whole") as folder:
            assert folder.stat().st_mode & 0o777 == 0o700
            (folder / "file").write_text("x")
        with pytest.raises(IsADirectoryError), provisional(run.path, tmp_path / "kept" / "half") as folder:
            folder.write_text("this fails half-way")
        assert [path.name for path in run.path.iterdir()] == ["lock"]
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["whole"]


def test_runs_that_start_at_once_do_not_sweep_each_other(tmp_path: Path) -> None:
    for _ in range(20):
        with ThreadPoolExecutor(8) as pool:
            runs = list(pool.map(lambda _: Scratch.open(tmp_path), range(8)))
        assert all((run.path / "lock").exists() for run in runs)
        assert len({run.path for run in runs}) == 8
        for run in runs:
            run.close()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SandboxError, match=r"scratch directory in .*file.*QUINTAIN_SCRATCH_DIR"):
        Scratch.open(tmp_path / "file")
