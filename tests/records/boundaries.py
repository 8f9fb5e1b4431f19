"""Kill an ingest process at each of its boundaries: `python boundaries.py FOLDER RECORDS STEP`, one JSON line per kill.

A boundary is a flush, a rename, a removal, an SQL statement, a commit, and an append to the trajectory table, each
before and after. The process is forked from this one, which has imported everything and started nothing, and killed
when it has come to the n-th; then again, at another boundary, while it recovers; then it may finish. What is told is
what is there afterwards.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import sqlalchemy as sa

from quintain.records import Spool, trajectories
from quintain.records.checking import check
from quintain.records.service import IngestOptions, run
from quintain.records.store import Store
from records.recording import payload


class Boundaries:
    """Counts boundaries, and kills this process at the n-th."""

    def __init__(self, last: int) -> None:
        self.left = last
        for module, name in ((os, "fsync"), (os, "rename"), (os, "replace"), (os, "unlink"), (os, "pwrite"),
                             (trajectories, "write_deltalake")):  # fmt: skip
            setattr(module, name, self.around(getattr(module, name)))
        for event in ("before_cursor_execute", "after_cursor_execute", "commit"):
            sa.event.listen(sa.Engine, event, self.passed)

    def passed(self, *_: Any) -> None:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, do: Callable[..., Any]) -> Callable[..., Any]:
        def done(*arguments: Any, **options: Any) -> Any:
            self.passed()
            result = do(*arguments, **options)
            self.passed()
            return result

        return done


def forked(do: Callable[[], Any]) -> tuple[int, Any]:
    """Do something in another process; its exit status, and what it told."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.close(reading)
        _end(do, writing)
    os.close(writing)
    with os.fdopen(reading) as file:
        told = file.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), json.loads(told) if told else None


def _end(do: Callable[[], Any], writing: int) -> NoReturn:
    try:
        told = do()
        os.write(writing, json.dumps(told).encode())
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def ingest(root: Path, die_at: int) -> dict[str, int]:
    boundaries = Boundaries(die_at)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    tally = run(IngestOptions(root / "store", str(root / "ledger.db"), (root / "spool",), once=True))
    return {"new": tally.new, "duplicates": tally.duplicates, "passed": die_at - boundaries.left}


def audit(root: Path) -> dict[str, Any]:
    store = Store.read(root / "store", root / "ledger.db")
    try:
        rows = sorted(row["digest"] for row in store.trajectories.rows(["digest"]))
        found = check(store)
        counts = store.index.counts()
    finally:
        store.close()
    left = [str(path) for path in (root / "spool").rglob("*.seg")]
    return {"rows": rows, "problems": [str(one) for one in found.problems], "counts": counts, "left": left}


def main(folder: Path, count: int, step: int) -> None:
    random = Random(11)

    def made() -> None:
        for part in range(2):
            spool = Spool.open(folder / "made", segment_bytes=4000)
            for number in range(count):
                spool.append(payload(part * count + number)).result(30)
            spool.append(payload(part * count)).result(30)  # sent twice
            spool.close()

    forked(made)
    last, survived = 0, False
    while not survived:
        last += step
        root = folder / str(last)
        root.mkdir()
        shutil.copytree(folder / "made", root / "spool")
        status, _ = forked(lambda root=root, last=last: ingest(root, last))  # type: ignore[misc]
        survived = status == 0
        second, _ = forked(lambda root=root: ingest(root, random.randint(1, 60)))  # type: ignore[misc]
        third, _ = forked(lambda root=root: ingest(root, 10**9))  # type: ignore[misc]
        shutil.copytree(folder / "made", root / "spool", dirs_exist_ok=True)  # everything is sent again
        again, told = forked(lambda root=root: ingest(root, 10**9))  # type: ignore[misc]
        _, state = forked(lambda root=root: audit(root))  # type: ignore[misc]
        print(json.dumps({"at": last, "status": [status, second, third, again], "again": told, **state}), flush=True)
        shutil.rmtree(root)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
