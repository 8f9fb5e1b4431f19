"""What must be there when the loop has come to rest: each attempt's record once, each score's too, and nothing else."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.serving import using
from quintain.records.checking import check
from quintain.records.store import Store
from quintain.records.sweeping import unreferenced
from quintain.rollout import RolloutPlan, RunDirectory

_TRY = ("episode_id", "model_digest", "attempt")
_COLUMNS = ("digest", *_TRY, "verifier_digest", "rollout_plan", "rollout_item", "synthesized")
_SPOOL_KEEPS = {"reader.lock", "quarantine"}

Row = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a loop has run."""

    folder: Path
    """All of it, with `tmp` for what is temporary."""
    store: Path
    ledger: str
    """The store's database: a SQLite file or a URL."""
    run_dir: Path
    spools: tuple[Path, ...]
    """All of them, the run's too."""
    elsewhere: frozenset[str] = frozenset()
    """Digests of records that were acknowledged to other workers."""
    platforms: tuple[int, ...] = ()
    """Process ids of those that played episodes."""


def audit(place: Place) -> list[str]:
    """What is wrong, one line for each thing."""
    store = Store.read(place.store, place.ledger)
    try:
        rows = list(store.trajectories.rows(list(_COLUMNS)))
        found = check(store)
        wrong = [f"verify tells: {one.fault}: {one.digest}: {one.what}" for one in found.problems]
        if found.waiting:
            wrong.append(f"orphan: {found.waiting} records are in the outbox still")
        wrong += [f"lost: the record of the scored try {score.key}" for score, _ in _unrecorded(store)]
        wrong += [f"orphan: nothing refers to the store's file {file}" for file in unreferenced(store)]
    finally:
        store.close()
    with RunDirectory.open(place.run_dir) as directory:
        wrong += _of_plan(directory.plan, rows)
        told = {one.record_digest: one.item for one in directory.found().outcomes.values()}
        there = {row["digest"] for row in rows}
        wrong += [f"lost: {told[digest]} ended with {digest}" for digest in sorted(told.keys() - there)]
    wrong += [f"lost: {digest} was acknowledged elsewhere" for digest in sorted(place.elsewhere - there)]
    return [*wrong, *_doubled(rows), *_by_ledger(directory.ledger, rows), *_left(place)]


def _unrecorded(store: Store) -> list[Any]:
    return store.index.unrecorded(float("inf"), limit=100_000)


def _of_plan(plan: RolloutPlan, rows: list[Row]) -> Iterator[str]:
    """Each item of a plan has one record, and no record is of another item."""
    expected = [item.name for item in plan.items()]
    had = Counter(row["rollout_item"] for row in rows if row["rollout_plan"] == plan.digest)
    yield from (f"lost: {item} has no record" for item in expected if not had[item])
    yield from (f"doubled: {item} has {had[item]} records" for item in expected if had[item] > 1)
    yield from (f"orphan: a record of {item}, which is not in the plan" for item in had.keys() - set(expected))


def _doubled(rows: list[Row]) -> Iterator[str]:
    keys = {"record": ("digest",), "try": _TRY, "score key": (*_TRY, "verifier_digest")}
    for what, names in keys.items():
        found = Counter(tuple(row[name] for name in names) for row in rows if row[names[0]] is not None)
        yield from (f"doubled: {number} records of the {what} {key}" for key, number in found.items() if number > 1)


def _by_ledger(file: Path, rows: list[Row]) -> Iterator[str]:
    """By the rows of the run's own ledger: every scored try has its record, no score key is there twice."""
    recorded = {tuple(row[name] for name in _TRY) for row in rows}
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        names = ", ".join(_TRY)
        for table, key in (("episode_score", names), ("score", f"{names}, verifier_digest")):
            for (number,) in connection.execute(f"SELECT count(*) FROM {table} GROUP BY {key} HAVING count(*) > 1"):
                yield f"doubled: {number} rows of one key in the ledger's {table}"
            for tried in connection.execute(f"SELECT {names} FROM {table}"):
                if tuple(tried) not in recorded:
                    yield f"lost: the record of {tried}, which the run's ledger has in {table}"
        for (state,) in connection.execute("PRAGMA integrity_check"):
            if state != "ok":
                yield f"sqlite finds {state}"


def _left(place: Place) -> Iterator[str]:
    """Processes, directories, control groups and files that should have gone."""
    yield from (f"orphan: process {pid} works on it still" for pid in using(place.folder))
    temporary = place.folder / "tmp"
    yield from _named("orphan: temporary: {}", temporary.iterdir() if temporary.exists() else ())
    for spool in place.spools:
        kept = [path for path in spool.iterdir() if path.name not in _SPOOL_KEEPS]
        yield from _named("orphan: in a spool, and not ingested: {}", kept)
    for suffix in ("tmp", "new"):
        yield from _named("orphan: half-written: {}", place.folder.rglob(f"*.{suffix}"))
    groups = Path("/sys/fs/cgroup")
    for pid in place.platforms:
        yield from _named("orphan: control group: {}", groups.rglob(f"quintain-{pid}-*"))


def _named(text: str, paths: Iterable[Path]) -> Iterator[str]:
    yield from (text.format(path) for path in sorted(paths))
