"""Ingest, step by step: each record once, in the order of its commits, and what is left over is finished."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quintain.errors import ArtifactCorrupt, StoreBusy, StoreError
from quintain.records import Ledger
from quintain.records.checking import Fault, check, mend
from quintain.records.columns import MAX_TEXT_BYTES, SCHEMA, Row, table
from quintain.records.form import read_record
from quintain.records.index import LOST
from quintain.records.ingest import Ingest
from quintain.records.queries import Queries
from quintain.records.recorder import seal
from quintain.records.redaction import Redactor
from quintain.records.store import Store
from quintain.records.sweeping import unreferenced
from records.making import certain, key
from records.recording import a_step, payload, sealed


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "store", tmp_path / "ledger.db")
    yield opened
    opened.close()


def stored(store: Store) -> list[str]:
    return [row["digest"] for row in store.trajectories.rows(["digest"])]


def asked(store: Store, sql: str) -> list[tuple[Any, ...]]:
    queries = Queries(store)
    try:
        return list(queries.ask(sql).rows)
    finally:
        queries.close()


@given(
    order=st.lists(st.integers(0, 5), max_size=14), cuts=st.lists(st.integers(0, 14), max_size=3), appends=st.booleans()
)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_record_counts_once_whatever_the_order_and_the_batches(
    order: list[int], cuts: list[int], appends: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("store")
    store = Store.open(folder / "store", folder / "ledger.db")
    ingest = Ingest(store)
    new = duplicates = 0
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(order)], strict=True):
        accepted = ingest.accept(payload(number) for number in order[begin:end])
        new, duplicates = new + accepted.new, duplicates + accepted.duplicates
        if appends:
            ingest.append()
    ingest.append()
    assert (new, duplicates) == (len(set(order)), len(order) - len(set(order)))
    assert sorted(stored(store)) == sorted(sealed(number).envelope.digest for number in set(order))
    assert check(store).problems == ()
    store.close()


def test_what_is_accepted_is_durable_before_it_is_appended(store: Store, tmp_path: Path) -> None:
    Ingest(store).accept([payload(0), payload(1)])
    assert stored(store) == []
    assert store.index.counts() == {"records": 2, "tries": 2, "waiting": 2, "scored tries": 0,
                                    "bytes": 2 * len(sealed(0).data)}  # fmt: skip
    assert store.find(sealed(0).envelope.digest) == sealed(0).data, "it can be read from the outbox"
    store.close()
    again = Store.open(tmp_path / "store", tmp_path / "ledger.db")
    assert Ingest(again).recover() == 2
    assert Ingest(again).recover() == 0
    assert sorted(stored(again)) == sorted(sealed(number).envelope.digest for number in (0, 1))
    again.close()


def test_an_append_that_may_have_happened_is_looked_for_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest = Ingest(store)
    ingest.accept([payload(0)])
    append = store.trajectories.append

    def appended_but(rows: Any) -> None:
        append(rows)
        raise StoreError("the answer was lost")

    monkeypatch.setattr(store.trajectories, "append", appended_but)
    with pytest.raises(StoreError):
        ingest.append()
    monkeypatch.undo()
    assert ingest.due
    ingest.accept([payload(1)])
    assert ingest.append() == 1
    assert sorted(stored(store)) == sorted(sealed(number).envelope.digest for number in (0, 1))
    assert not ingest.due


def test_a_second_record_of_a_try_is_kept_and_does_not_count(store: Store) -> None:
    ingest = Ingest(store)
    ingest.accept([payload(0), payload(0, task="told otherwise"), payload(1)])
    ingest.append()
    assert len(stored(store)) == 3
    assert store.index.counts()["tries"] == 2
    assert asked(store, "SELECT attempt, digest FROM trajectories ORDER BY attempt") == [
        (number, sealed(number).envelope.digest) for number in (0, 1)
    ]
    assert asked(store, "SELECT count(*) FROM all_records") == [(3,)]


def test_records_without_an_identity_each_count(store: Store) -> None:
    fields: dict[str, Any] = {"episode_id": None, "environment_class_id": None, "reward": None, "reward_valid": False,
                              "steps": 0, "failure_owner": "infrastructure", "verifier_digest": None}  # fmt: skip
    Ingest(store).accept([payload(0, task="a", **fields), payload(0, task="b", **fields)])
    Ingest(store).recover()
    assert asked(store, "SELECT count(*) FROM trajectories") == [(2,)]
    assert store.index.counts()["tries"] == 0


@pytest.mark.parametrize(
    "bad",
    [b"", b"{}\n{}", payload(7)[:-1], b"\xff" * 50, sealed(8).envelope.model_dump_json().encode() + b"\n{}",
     payload(2**60), payload(3, model_digest="m" * 600), payload(4, scenario="a\0b"),
     payload(5, environment_failures=2**70)],
)  # fmt: skip
def test_what_is_no_record_is_refused_kept_and_holds_nothing_up(store: Store, bad: bytes) -> None:
    accepted = Ingest(store).accept([payload(0), bad, payload(1)])
    assert (accepted.new, accepted.duplicates, len(accepted.refused)) == (2, 0, 1)
    assert [path.read_bytes() for path in store.quarantine.iterdir()] == [bad]


def test_large_texts_are_blobs_and_come_back(store: Store) -> None:
    large = "é" * MAX_TEXT_BYTES
    steps = (a_step(1, result=large), a_step(2, arguments={"a/b~c": [large, "small"]}, result="x" * MAX_TEXT_BYTES))
    one = sealed(0).record().model_copy(update={"steps": steps})
    big = seal(one, Redactor(), "test", 1.0)
    ingest = Ingest(store)
    ingest.accept([big.payload()])
    ingest.append()
    (row,) = store.trajectories.rows()
    assert [blob["pointer"] for blob in row["blobs"]] == ["/steps/0/result", "/steps/1/arguments/a~1b~0c/0"]
    assert len(row["record"]) < 2 * MAX_TEXT_BYTES
    assert store.find(row["digest"]) == big.data
    assert read_record(big.data) == one
    assert check(store).problems == ()


async def scored(tmp_path: Path, *attempts: int, at: float = 1.5) -> None:
    async with await Ledger.open(tmp_path / "ledger.db") as ledger:
        for attempt in attempts:
            await ledger.submit(certain(key(attempt), submitted_at=at, run="the run"))


async def test_a_record_is_linked_to_its_score(tmp_path: Path, store: Store) -> None:
    await scored(tmp_path, 0)
    Ingest(store).accept([payload(0), payload(1)])
    assert [row["submission_id"] for row in store.index.rows()] == [1, None]
    Ingest(store).recover()
    assert check(store).problems == ()
    assert asked(store, "SELECT attempt, is_reward FROM scores") == [(0, True)]


async def test_a_reward_that_is_not_the_ledgers_is_told(tmp_path: Path, store: Store) -> None:
    await scored(tmp_path, 0)
    Ingest(store).accept([payload(0, reward=0.5)])
    Ingest(store).recover()
    assert [one.fault for one in check(store).problems] == [Fault.UNLINKED]


async def test_a_score_whose_record_never_comes_is_given_one(tmp_path: Path, store: Store) -> None:
    await scored(tmp_path, 0, 1)
    await scored(tmp_path, 2, at=1000.0)
    ingest = Ingest(store, clock=lambda: 1050.0)
    ingest.accept([payload(0)])
    assert check(store).unrecorded == 2
    assert ingest.record_lost(100.0) == 1
    assert ingest.record_lost(100.0) == 0
    ingest.append()
    ((record,),) = asked(store, f"SELECT record FROM trajectories WHERE terminal_reason = '{LOST}'")
    lost = read_record(record)
    assert (lost.attempt, lost.failure_owner, lost.reward, lost.reward_valid) == (1, "infrastructure", None, False)
    assert (lost.scenario, lost.seed, lost.task_idx) == ("outdoor_marketplace_1", 5, 3), "as its siblings have it"
    assert check(store).problems == ()
    ingest.accept([payload(1)])
    ingest.append()
    assert asked(store, "SELECT attempt, synthesized FROM trajectories ORDER BY attempt") == [(0, False), (1, False)]
    assert [row["of_try"] for row in store.index.rows()] == [True, False, True], "the true one takes its place"


def damaged_row(store: Store) -> None:
    """Write a row whose record is not what its digest names."""
    row = next(store.trajectories.rows())
    row["record"] = row["record"].replace("lamp", "lump")
    store.trajectories.remove(row["digest"])
    store.trajectories.append(pa.Table.from_pylist([row], schema=SCHEMA))


def test_damage_is_found_and_mended(store: Store) -> None:
    ingest = Ingest(store)
    ingest.accept([payload(0), payload(1)])
    ingest.append()
    damaged_row(store)
    found = check(store)
    assert [one.fault for one in found.problems] == [Fault.UNREADABLE]
    bad = found.problems[0].digest
    mended = mend(store, 1e9)
    assert mended.quarantined == 1
    assert check(store).problems == ()
    assert bad not in stored(store)
    assert any(bad in path.read_text() for path in store.quarantine.iterdir())
    assert ingest.accept([payload(0), payload(1)]).new == 1, "it can be sent again"


def test_a_corrupt_blob_is_found_and_its_record_quarantined(store: Store) -> None:
    ingest = Ingest(store)
    ingest.accept([payload(0, task="word " * MAX_TEXT_BYTES)])
    ingest.append()
    (row,) = store.trajectories.rows()
    blob = store.blobs.path(row["blobs"][0]["digest"])
    blob.chmod(0o600)
    blob.write_bytes(b"other")
    (problem,) = check(store).problems
    assert problem.fault is Fault.UNREADABLE
    with pytest.raises(ArtifactCorrupt):
        store.find(row["digest"])
    assert mend(store, 1e9).quarantined == 1
    assert check(store).problems == ()


def test_rows_that_the_index_lacks_or_has_alone(store: Store) -> None:
    ingest = Ingest(store)
    ingest.accept([payload(number) for number in range(3)])
    ingest.append()
    unindexed, missing = sealed(0).envelope.digest, sealed(1).envelope.digest
    store.index.forget([unindexed])
    store.trajectories.remove(missing)
    assert {(one.fault, one.digest) for one in check(store).problems} == {
        (Fault.UNINDEXED, unindexed), (Fault.MISSING, missing),
    }  # fmt: skip
    mended = mend(store, 1e9)
    assert (mended.restored, mended.forgotten) == (1, 1)
    assert check(store).problems == ()
    assert ingest.accept([payload(0), payload(1), payload(2)]).new == 1


def test_a_row_that_is_there_twice_is_made_one(store: Store) -> None:
    ingest = Ingest(store)
    ingest.accept([payload(0), payload(1)])
    ingest.append()
    rows = store.trajectories.dataset().to_table()
    store.trajectories.append(rows.slice(0, 1))
    assert [one.fault for one in check(store).problems] == [Fault.DOUBLED]
    mend(store, 1e9)
    assert check(store).problems == ()
    assert len(stored(store)) == 2


def test_an_outbox_entry_that_is_damaged_holds_nothing_up(store: Store, tmp_path: Path) -> None:
    Ingest(store).accept([payload(0), payload(1)])
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection, connection:
        connection.execute("UPDATE outbox SET payload = x'00' WHERE digest = ?", [sealed(0).envelope.digest])
    assert [one.fault for one in check(store).problems] == [Fault.OUTBOX]
    assert Ingest(store).recover() == 1
    assert check(store).problems == ()
    assert stored(store) == [sealed(1).envelope.digest]


@pytest.mark.parametrize("torn", ["entry", "empty entry", "file"])
def test_what_a_power_cut_tore_in_the_table_is_appended_again(store: Store, tmp_path: Path, torn: str) -> None:
    ingest = Ingest(store)
    ingest.accept([payload(0)])
    ingest.append()
    ingest.accept([payload(1)])
    (waiting,) = store.index.waiting(10, 10**6)
    row = Row(sealed(1), sealed(1).record(), waiting[1])
    store.trajectories.append(table([row], store.blobs))
    log = sorted((store.trajectories.folder / "_delta_log").glob("*.json"))[-1]
    if torn == "file":
        newest = max(store.trajectories.folder.rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
        newest.write_bytes(newest.read_bytes()[:100])
    else:
        log.write_bytes(b"" if torn == "empty entry" else log.read_bytes()[:-20])
    store.close()
    again = Store.open(tmp_path / "store", tmp_path / "ledger.db")
    assert Ingest(again).recover() == 1
    assert check(again).problems == ()
    assert len(stored(again)) == 2
    assert [path.suffix for path in again.quarantine.iterdir()] == [".torn"]
    again.close()


def test_one_writer_at_a_time_and_readers_at_any(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreBusy, match="ingests into the store"):
        Store.open(tmp_path / "store", tmp_path / "ledger.db")
    Store.read(tmp_path / "store", tmp_path / "ledger.db").close()
    with pytest.raises(StoreError, match="no store of records"):
        Store.read(tmp_path / "elsewhere", tmp_path / "ledger.db")


def test_redactions_are_counted_in_the_index(store: Store) -> None:
    Ingest(store).accept([payload(0, task="AKIAIOSFODNN7EXAMPLE and AKIAIOSFODNN7EXAMPLF"), payload(1)])
    assert store.index.redactions() == {"api_key": 2}


def test_files_can_be_put_together(store: Store) -> None:
    ingest = Ingest(store)
    for number in range(4):
        ingest.accept([payload(number)])
        ingest.append()
    assert store.trajectories.sizes()["files"] == 4
    store.trajectories.compact()
    assert store.trajectories.sizes()["files"] == 1
    assert check(store).problems == ()


def test_what_nothing_refers_to_is_swept_and_nothing_else(store: Store) -> None:
    ingest = Ingest(store)
    ingest.accept([payload(0, task="word " * MAX_TEXT_BYTES), payload(1, task="none " * MAX_TEXT_BYTES)])
    ingest.append()
    ingest.accept([payload(2)])
    ingest.append()
    damaged = next(row["digest"] for row in store.trajectories.rows() if row["attempt"] == 1)
    rewritten = [row | {"seed": 6} for row in store.trajectories.rows() if row["digest"] == damaged]
    store.trajectories.remove(damaged)
    store.trajectories.append(pa.Table.from_pylist(rewritten, schema=SCHEMA))
    assert mend(store, 1e9).quarantined == 1
    before = {path for path in store.root.rglob("*") if path.is_file()}
    left = [
        store.blobs.path(store.blobs.put(b"of a record that never came")),
        store.root / "blobs" / "tmp" / "0123456789ab.half",
        store.trajectories.folder / "day=2026-02-10" / "part-00000-killed.zstd.parquet",
        store.trajectories.folder / "_delta_log" / "_commit_killed.json.tmp",
    ]
    for path in left[1:]:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
    assert unreferenced(store) == sorted(left)
    assert mend(store, 1e9).swept == 4
    assert {path for path in store.root.rglob("*") if path.is_file()} == before
    assert check(store).problems == ()
    store.trajectories.compact()
    assert unreferenced(store) == [], "an older version has what is no more in the newest"
    assert sorted(row["attempt"] for row in store.trajectories.rows()) == [0, 2]
