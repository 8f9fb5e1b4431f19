"""Is a store whole? Digests, and the links between index, trajectory table, blobs and ledger; and what mends it."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from quintain.errors import ArtifactCorrupt, ArtifactError, RecordUnreadable
from quintain.records.columns import Row, matches, table, whole
from quintain.records.form import canonical, read_record
from quintain.records.index import Entry, index_row
from quintain.records.ingest import Ingest, keep_aside
from quintain.records.packing import unpacked
from quintain.records.recorder import Envelope, Sealed
from quintain.records.states import blobs_of
from quintain.records.store import Store
from quintain.records.sweeping import sweep
from quintain.records.trajectories import being

_NOT_COMPARED: Final = frozenset({"number", "recorded_at", "redactions"})
"""What an index that was made again from the table may have otherwise."""


class Fault(StrEnum):
    """What can be wrong with a store."""

    UNREADABLE = "unreadable"
    """A row whose record is not what its digest names, or whose blob is missing or corrupt."""
    CONTRADICTION = "contradiction"
    """A row whose columns, or whose index row, say something else than its record."""
    DOUBLED = "doubled"
    """Two rows of one digest."""
    UNINDEXED = "unindexed"
    """A row that the index does not have."""
    MISSING = "missing"
    """A row of the index that is neither in the table nor in the outbox."""
    OUTBOX = "outbox"
    """An entry of the outbox that is not what its digest names."""
    STATELESS = "stateless"
    """A record that names states of which a file is missing or damaged."""
    UNLINKED = "unlinked"
    """A record whose reward is not what the ledger has for its try."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong."""

    fault: Fault
    digest: str
    what: str


@dataclass(frozen=True)
class Checked:
    """What was looked at, and what is wrong."""

    records: int
    waiting: int
    unrecorded: int
    """Scores without a record: their episodes may still be going on."""
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class Mended:
    """What mending did."""

    appended: int
    """Records that were in the outbox and not in the table."""
    quarantined: int
    restored: int
    """Index rows made again from the table."""
    forgotten: int
    """Index rows of records that are nowhere, so that they can be sent again."""
    lost: int
    """Records made for scores whose own never came."""
    swept: int
    """Files that nothing referred to, which killed writers had left."""
    states: int
    """Damaged files of states that went into quarantine; the records that name them stay."""


def check(store: Store, progress: Callable[[int], None] = lambda _: None) -> Checked:
    """Look at everything. What is being ingested meanwhile may look missing; nothing is changed.

    Args:
        progress: told how many records were looked at.

    Raises:
        StoreError, LedgerError: it cannot be read at all.
    """
    rewards = {row["id"]: row["reward"] for row in store.index.scores() if row["is_reward"]}
    indexed = {row["digest"]: row for row in store.index.all_rows()}
    problems: list[Problem] = []
    seen: set[str] = set()
    for count, row in enumerate(store.trajectories.rows(), 1):
        digest = row["digest"]
        if digest in seen:
            problems.append(Problem(Fault.DOUBLED, digest, "the trajectory table has it twice"))
            continue
        seen.add(digest)
        problems += _problems_of(store, row, indexed.get(digest), rewards)
        progress(count)
    waiting = {digest: row for digest, row in indexed.items() if row["waiting"]}
    for digest in indexed.keys() - seen - waiting.keys():
        problems.append(Problem(Fault.MISSING, digest, "the index has it; table and outbox do not"))
    for digest, packed in _outbox(store):
        try:
            unpacked(digest, packed).record()
        except RecordUnreadable as error:
            problems.append(Problem(Fault.OUTBOX, digest, str(error)))
    unrecorded = len(store.index.unrecorded(float("inf"), limit=1_000_000))
    return Checked(len(seen), len(waiting), unrecorded, tuple(problems))


def mend(store: Store, orphaned_after_s: float) -> Mended:
    """Finish the outbox, put what is damaged into quarantine, index again what is whole, sweep out what is nobody's.

    A record that went into quarantine is out of the index too, so its worker may send it again. The store must be open
    for writing.

    Args:
        orphaned_after_s: a score older than this without a record is given one.

    Raises:
        StoreError, LedgerError: it cannot be written; mending again goes on.
    """
    ingest = Ingest(store)
    appended = ingest.recover()
    quarantined = restored = states = 0
    found = check(store)
    for problem in found.problems:
        rows = list(store.trajectories.rows(condition=being(problem.digest)))
        match problem.fault:
            case Fault.UNREADABLE | Fault.CONTRADICTION:
                for row in rows:
                    keep_aside(store, json.dumps(row, default=str, sort_keys=True).encode(), "row")
                store.trajectories.remove(problem.digest)
                store.index.forget([problem.digest])
                quarantined += 1
            case Fault.DOUBLED:
                _keep_one(store, problem.digest, rows)
                quarantined += 1
            case Fault.UNINDEXED:
                store.index.restore(_restored(store, rows[0]))
                restored += 1
            case Fault.STATELESS:
                states += sum(_put_state_aside(store, row) for row in rows)
            case _:
                pass
    forgotten = [problem.digest for problem in found.problems if problem.fault is Fault.MISSING]
    store.index.forget(forgotten)
    appended += ingest.recover()
    lost = ingest.record_lost(orphaned_after_s)
    ingest.recover()
    return Mended(appended, quarantined, restored, len(forgotten), lost, sweep(store), states)


def _problems_of(
    store: Store, row: dict[str, Any], indexed: dict[str, Any] | None, rewards: dict[int, float | None]
) -> Iterator[Problem]:
    digest = row["digest"]
    try:
        data = whole(row["record"], row["blobs"], store.blobs)
        one = read_record(data)
        if canonical(json.loads(data)) != data:
            raise RecordUnreadable("it is not canonical JSON")
    except (RecordUnreadable, ArtifactError, ValueError) as error:
        yield Problem(Fault.UNREADABLE, digest, str(error))
        return
    if (why := matches(row, data, one)) is not None:
        yield Problem(Fault.UNREADABLE if why.startswith("the record") else Fault.CONTRADICTION, digest, why)
        return
    if indexed is None:
        yield Problem(Fault.UNINDEXED, digest, "the index does not have it")
        return
    entry = Entry(row["number"], indexed["accepted_at"], row["day"])
    expected = index_row(_sealed(row, data), one, entry, indexed["submission_id"])
    for name in expected.keys() - _NOT_COMPARED:
        if expected[name] != indexed[name]:
            yield Problem(
                Fault.CONTRADICTION, digest, f"the index has {name} {indexed[name]!r}, not {expected[name]!r}"
            )
            return
    held = indexed["submission_id"]
    if one.reward is not None and held is not None and rewards.get(held) != one.reward:
        yield Problem(Fault.UNLINKED, digest, f"its reward is {one.reward}, and the ledger's is {rewards.get(held)}")
    if problems := [why for blob in blobs_of(one) if (why := _state_problem(store, blob.digest)) is not None]:
        yield Problem(Fault.STATELESS, digest, "; ".join(problems))


def _state_problem(store: Store, digest: str) -> str | None:
    try:
        store.blobs.path(digest)
    except ArtifactError as error:
        return str(error)
    return None


def _put_state_aside(store: Store, row: dict[str, Any]) -> int:
    """Damaged files of a record's states go into quarantine, so that whole ones can take their places."""
    moved = 0
    for blob in blobs_of(read_record(whole(row["record"], row["blobs"], store.blobs))):
        try:
            store.blobs.path(blob.digest)
        except ArtifactCorrupt:
            keep_aside(store, store.blobs.damaged(blob.digest), "state")
            store.blobs.remove(blob.digest)
            moved += 1
        except ArtifactError:
            continue
    return moved


def _outbox(store: Store) -> Iterator[tuple[str, bytes]]:
    # all of it at once: it is small but for a store whose table cannot be written
    for digest, _, packed in store.index.waiting(10_000_000, 2**40):
        yield digest, packed


def _keep_one(store: Store, digest: str, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        keep_aside(store, json.dumps(row, default=str, sort_keys=True).encode(), "row")
    data = whole(rows[0]["record"], rows[0]["blobs"], store.blobs)
    entry = Entry(rows[0]["number"], rows[0]["accepted_at"].timestamp(), rows[0]["day"])
    kept = Row(_sealed(rows[0], data), read_record(data), entry)
    store.trajectories.remove(digest)
    store.trajectories.append(table([kept], store.blobs))


def _restored(store: Store, row: dict[str, Any]) -> dict[str, Any]:
    data = whole(row["record"], row["blobs"], store.blobs)
    entry = Entry(row["number"], row["accepted_at"].timestamp(), row["day"])
    return index_row(_sealed(row, data), read_record(data), entry, None)


def _sealed(row: dict[str, Any], data: bytes) -> Sealed:
    redactions: dict[str, int] = {}
    with suppress(ValueError):
        redactions = json.loads(row["redactions"])
    return Sealed(
        Envelope(
            digest=row["digest"], redactions=redactions, run=row["run"], recorded_at=row["recorded_at"].timestamp()
        ),
        data,
    )
