"""Real processes that record and ingest, killed: nothing that was acknowledged is lost, and nothing is there twice."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quintain.records.checking import check
from quintain.records.store import Store

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def killed_at_boundaries(folder: Path, step: int) -> list[dict[str, Any]]:
    command = [sys.executable, str(HERE / "boundaries.py"), str(folder), "3", str(step)]
    done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def nothing_lost_nothing_doubled(told: list[dict[str, Any]]) -> None:
    for one in told:
        assert one["status"][2:] == [0, 0], one
        assert one["rows"] == told[-1]["rows"], one
        assert len(set(one["rows"])) == len(one["rows"]) == 6
        assert one["problems"] == [], one
        assert (one["counts"]["records"], one["counts"]["tries"], one["counts"]["waiting"]) == (6, 6, 0)
        assert (one["again"]["new"], one["again"]["duplicates"]) == (0, 8)
        assert one["left"] == []


@pytest.mark.timeout(300)
def test_killed_at_a_boundary_and_again_while_it_recovers(tmp_path: Path) -> None:
    told = killed_at_boundaries(tmp_path, step=11)
    assert [one["status"][0] for one in told] == [-9] * (len(told) - 1) + [0]
    assert len(told) > 8
    nothing_lost_nothing_doubled(told)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_killed_at_every_boundary(tmp_path: Path) -> None:
    told = killed_at_boundaries(tmp_path, step=1)
    assert len(told) > 100
    nothing_lost_nothing_doubled(told)


@contextmanager
def process(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, *map(str, arguments)], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as running:  # fmt: skip
        try:
            yield running
        finally:
            running.kill()


def ingesting(root: Path, *more: str) -> list[object]:
    return ["-m", "quintain.records.ingest", "--store", root / "store", "--ledger", root / "ledger.db",
            "--spool", root / "spool", "--json", "--append-after", "0.1", *more]  # fmt: skip


def lines(running: subprocess.Popen[str]) -> Iterator[Any]:
    assert running.stdout is not None
    for line in running.stdout:
        if line.endswith("\n"):  # one that was cut off was never said
            yield json.loads(line)


@pytest.mark.timeout(300)
def test_workers_and_ingest_killed_at_random(tmp_path: Path) -> None:
    chance, acknowledged = Random(3), dict[str, str]()
    for round_ in range(2):
        names = [f"{round_}-a", f"{round_}-b"]
        with process(*ingesting(tmp_path)) as ingest:
            assert next(lines(ingest))["event"] == "ready"
            with (
                process(HERE / "worker.py", "record", tmp_path / "spool", names[0], 0) as one,
                process(HERE / "worker.py", "record", tmp_path / "spool", names[1], 0) as two,
            ):
                workers = dict(zip(names, (one, two), strict=True))
                for worker in workers.values():
                    assert next(lines(worker)) == "ready"
                time.sleep(chance.uniform(0.1, 0.6))
                ingest.kill()
                time.sleep(chance.uniform(0, 0.2))
                for name, worker in workers.items():
                    worker.kill()
                    acknowledged.update({f"{name} {number}": digest for number, digest in lines(worker)})
    assert len(acknowledged) > 20
    last = subprocess.run([sys.executable, *map(str, ingesting(tmp_path, "--once"))], env=ENVIRONMENT, check=True)
    assert last.returncode == 0
    store = Store.read(tmp_path / "store", tmp_path / "ledger.db")
    digests = [row["digest"] for row in store.trajectories.rows(["digest"])]
    tries = [(row["model_digest"], row["attempt"]) for row in store.trajectories.rows(["model_digest", "attempt"])]
    found = check(store)
    store.close()
    assert set(acknowledged.values()) <= set(digests), "an acknowledged record was lost"
    assert len(set(digests)) == len(digests)
    assert len(set(tries)) == len(tries)
    assert found.problems == ()
    assert [path.name for path in (tmp_path / "spool").iterdir() if path.name != "quarantine"] == ["reader.lock"]


def test_sigterm_drains_and_a_second_process_is_refused(tmp_path: Path) -> None:
    with (
        process(HERE / "worker.py", "record", tmp_path / "spool", "a", 0) as worker,
        process(*ingesting(tmp_path)) as ingest,
    ):
        assert next(lines(ingest))["event"] == "ready"
        second = subprocess.run(
            [sys.executable, *map(str, ingesting(tmp_path))], env=ENVIRONMENT, capture_output=True, text=True
        )
        assert second.returncode == 2
        assert f"process {ingest.pid} ingests into the store" in second.stderr
        assert next(lines(worker)) == "ready"
        said = [next(lines(worker)) for _ in range(30)]
        worker.kill()
        said += list(lines(worker))
        ingest.send_signal(signal.SIGTERM)
        (ended,) = lines(ingest)
        assert ingest.wait() == 0
    assert ended["event"] == "ended"
    assert ended["new"] == ended["appended"] >= len(said)
    assert ended["problem"] == ""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[list[str]]:
    """The start of a command line that runs on a disk of 3 MiB, mounted at the test's folder in a namespace."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a small disk takes root and unshare")
    probe = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], check=False)
    if probe.returncode:
        pytest.skip("no mount namespace can be had here")
    script = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'
    with suppress(FileNotFoundError):
        yield ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh"]


def test_a_full_disk_under_a_spool(tmp_path: Path, small_disk: list[str]) -> None:
    command = [*small_disk, "600k", str(tmp_path), sys.executable, str(HERE / "worker.py"), "fill", str(tmp_path)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert "its disk is full; make room" in told["refused"]
    assert told["read"] == told["acknowledged"], "what was refused is not half there"
    assert len(told["acknowledged"]) > 40
    assert told["damages"] == 0


@pytest.mark.parametrize("left", [0, 40_000, 80_000, 140_000])
def test_a_full_disk_under_a_store(tmp_path: Path, small_disk: list[str], left: int) -> None:
    program = [sys.executable, str(HERE / "worker.py"), "fill_store", str(tmp_path), str(left)]
    command = [*small_disk, "3m", str(tmp_path), *program]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["refused"] or left > 100_000
    assert (told["rows"], told["problems"], told["problem"]) == (100, [], "")
