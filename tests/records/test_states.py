"""Kept states on their way from a spool to the store, and what is told where one is missing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from quintain.artifacts import LocalArtifactStore
from quintain.contracts.identity import sha256
from quintain.contracts.record import EpisodeRecord
from quintain.errors import ArtifactMissing, RecordUnreadable
from quintain.records import Spool
from quintain.records.checking import Fault, check, mend
from quintain.records.exporting import export
from quintain.records.forwarding import Forwarder
from quintain.records.http import create_app
from quintain.records.ingest import Ingest
from quintain.records.service import IngestOptions, Service
from quintain.records.spool_reader import SpoolReader
from quintain.records.states import blobs_of, spool_states, state_files
from quintain.records.store import Store
from records.recording import a_record, payload, sealed

INITIAL, FINAL = b"the initial database", b"the final database"


def states(final: bytes = FINAL) -> dict[str, Any]:
    def blob(data: bytes) -> dict[str, Any]:
        return {"name": "lamps.db", "digest": sha256(data), "size_bytes": len(data)}

    return {"initial": [blob(INITIAL)], "final": [blob(final)]}


def kept(attempt: int) -> dict[str, Any]:
    return {"states": states(b"%d " % attempt + FINAL)}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "store", tmp_path / "ledger.db")
    yield opened
    opened.close()


def spooled(root: Path, *attempts: int, without: bytes | None = None) -> SpoolReader:
    """A spool with a record of each attempt and its states, but for one file."""
    blobs = spool_states(root)
    spool = Spool.open(root)
    for attempt in attempts:
        for data in (INITIAL, b"%d " % attempt + FINAL):
            if data != without:
                blobs.put(data)
        spool.append(payload(attempt, **kept(attempt))).result(30)
    spool.close()
    return SpoolReader.open(root)


def ingested(store: Store, reader: SpoolReader) -> Service:
    service = Service(store, [reader], IngestOptions(store=store.root, ledger="", once=True))
    service.start()
    service.ended.wait(30)
    service.stop()
    return service


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_states_reach_the_store_and_leave_the_spool(store: Store, tmp_path: Path) -> None:
    reader = spooled(tmp_path / "spool", 0, 1)
    assert ingested(store, reader).tally.stateless == 0
    for attempt in (0, 1):
        record = sealed(attempt, **kept(attempt)).record()
        assert [store.blobs.get(blob.digest) for blob in blobs_of(record)] == [INITIAL, b"%d " % attempt + FINAL]
    assert files_below(tmp_path / "spool" / "states") == []
    assert check(store).problems == ()
    reader.close()
    again = spooled(tmp_path / "spool", 2)
    assert ingested(store, again).tally.stateless == 0, "a shared state that was taken before is put there again"
    again.close()
    assert check(store).problems == ()


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_record_without_its_state_is_kept_and_told_and_the_state_may_follow(
    store: Store, tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    final = b"0 " + FINAL
    reader = spooled(tmp_path / "spool", 0, 1, without=final if how == "missing" else None)
    if how == "damaged":
        path = reader.states.path(sha256(final))
        path.chmod(0o600)
        path.write_bytes(b"torn")
    service = ingested(store, reader)
    assert (service.tally.new, service.tally.refused, service.tally.stateless) == (2, 0, 1)
    assert sha256(final) in caplog.text
    (problem,) = check(store).problems
    assert (problem.fault, problem.digest) == (Fault.STATELESS, sealed(0, **kept(0)).envelope.digest)
    assert mend(store, 1e9).quarantined == 0
    assert store.find(problem.digest) is not None, "the record itself is evidence, and stays"
    reader.close()
    again = spooled(tmp_path / "spool", 0)
    assert ingested(store, again).tally.duplicates == 1
    again.close()
    assert check(store).problems == ()


def test_a_damaged_state_of_the_store_is_put_aside_and_the_others_stay(store: Store, tmp_path: Path) -> None:
    reader = spooled(tmp_path / "spool", 0, 1)
    ingested(store, reader)
    reader.close()
    store.blobs.put(b"of nobody")
    bad = store.blobs.path(sha256(b"1 " + FINAL))
    bad.chmod(0o600)
    bad.write_bytes(b"other bytes")
    assert [one.fault for one in check(store).problems] == [Fault.STATELESS]
    mended = mend(store, 1e9)
    assert (mended.states, mended.swept, mended.quarantined) == (1, 1, 0)
    assert [path.read_bytes() for path in store.quarantine.iterdir()] == [b"other bytes"]
    assert store.blobs.has(sha256(INITIAL))
    assert store.blobs.has(sha256(b"0 " + FINAL))
    with pytest.raises(ArtifactMissing):
        store.blobs.get(sha256(b"1 " + FINAL))


def test_nothing_is_committed_before_its_states_are_durable(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[bool] = []
    accept = store.index.accept

    def watched(arrivals: Any, now: Any = None) -> Any:
        there.extend(store.blobs.has(blob.digest) for one in arrivals for blob in blobs_of(one.record))
        return accept(arrivals, now)

    monkeypatch.setattr(store.index, "accept", watched)
    reader = spooled(tmp_path / "spool", 0)
    Ingest(store).accept([payload(0, **kept(0))], reader.states)
    reader.close()
    assert there == [True, True]


@pytest.fixture
def endpoint(store: Store) -> Iterator[TestClient]:
    service = Service(store, [], IngestOptions(store=store.root, ledger=""))
    service.start()
    with TestClient(create_app(service, "secret", max_body_bytes=100_000)) as client:
        yield client
    service.stop()


def test_states_are_forwarded_before_their_records_and_only_where_they_are_lacking(
    store: Store, endpoint: TestClient, tmp_path: Path
) -> None:
    store.blobs.put(INITIAL)
    reader = spooled(tmp_path / "spool", 0, 1, 2, without=b"2 " + FINAL)
    forwarder = Forwarder(reader, str(endpoint.base_url), "secret", client=endpoint)
    done = forwarder.drain()
    assert (done.sent, done.refused, done.states, done.stateless) == (3, 0, 2, 1)
    assert files_below(tmp_path / "spool" / "states") == []
    assert store.index.counts()["records"] == 3
    for attempt in (0, 1):
        assert store.blobs.get(sha256(b"%d " % attempt + FINAL))
    reader.close()


def test_what_the_endpoint_refuses(endpoint: TestClient) -> None:
    token = {"Authorization": "Bearer secret"}
    digest = sha256(FINAL)
    cases: list[tuple[httpx.Response, int, str]] = [
        (endpoint.put(f"/v1/states/{digest}", content=FINAL), 401, "token"),
        (endpoint.post("/v1/states", json={"digests": []}), 401, "token"),
        (endpoint.put(f"/v1/states/{digest}", content=b"other", headers=token), 400, "whose digest is"),
        (endpoint.put(f"/v1/states/{digest}", content=bytes(100_001), headers=token), 413, "send fewer"),
        (endpoint.post("/v1/states", content=b"{", headers=token), 400, "not digests"),
        (endpoint.post("/v1/states", json={"digests": ["../../etc"]}, headers=token), 400, "not a digest"),
        (endpoint.post("/v1/states", json={"digests": "sha256"}, headers=token), 400, "a list"),
    ]
    for answer, status, said in cases:
        assert (answer.status_code, said in answer.text) == (status, True), answer.text
    assert endpoint.put(f"/v1/states/{digest}", content=FINAL, headers=token).status_code == 200
    lacking = endpoint.post("/v1/states", json={"digests": [digest, sha256(b"x")]}, headers=token)
    assert lacking.json() == {"missing": [sha256(b"x")]}


def test_states_are_exported_with_their_records(store: Store, tmp_path: Path) -> None:
    reader = spooled(tmp_path / "spool", 0, 1)
    ingested(store, reader)
    reader.close()
    question = "SELECT * FROM trajectories WHERE attempt = 1"
    assert export(store, question, tmp_path / "out.jsonl", "jsonl", states=tmp_path / "states") == 1
    out = LocalArtifactStore(tmp_path / "states")
    assert len(files_below(tmp_path / "states")) == 2
    assert out.get(sha256(b"1 " + FINAL))


def test_a_record_may_name_only_the_files_of_one_state(tmp_path: Path) -> None:
    blobs = LocalArtifactStore(tmp_path)
    digest = blobs.put(FINAL)

    def record(*names: str) -> EpisodeRecord:
        final = [{"name": name, "digest": digest, "size_bytes": 1} for name in names]
        return a_record(states={"final": final})

    named = state_files(record("lamps.db", "lamps.db-wal").states.final or (), blobs)  # type: ignore[union-attr]
    assert [file.name for file in named] == ["state.db", "state.db-wal"]
    with pytest.raises(RecordUnreadable, match="beside"):
        state_files(record("lamps.db", "passwd").states.final or (), blobs)  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="name"):
        record("../lamps.db")
