"""The loop with its processes killed at random: nothing lost, nothing doubled, nothing left; and what audits it."""

import asyncio
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from e2e.loop_audit import Place, audit
from e2e.loop_chaos import plan, survive
from quintain.records import Ledger, Redactor, Spool
from quintain.records.columns import SCHEMA
from quintain.records.ingest import Ingest
from quintain.records.recorder import seal
from quintain.records.store import Store
from quintain.rollout import EventLog, RunDirectory, RunEvent
from quintain.rollout.outcome import outcome_of
from records.making import certain, key
from records.recording import a_record, payload

pytestmark = pytest.mark.xdist_group("loop")


@pytest.mark.timeout(600)
def test_whatever_is_killed_each_attempt_has_its_record_once(tmp_path: Path) -> None:
    loop = survive(tmp_path, 1, episodes=36, others=12, strikes=6, longest_s=0.4, limit_s=450)
    assert not loop.failures, loop.summary
    assert sum(count for what, count in loop.tally.items() if what.endswith(" killed")) >= 4, loop.summary


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A small loop that has come to rest."""
    folder = tmp_path_factory.mktemp("loop")
    made, store = plan(12), Store.open(folder / "store", folder / "run" / "ledger.db")
    ingest, digests = Ingest(store), []

    async def score() -> None:
        async with await Ledger.open(folder / "run" / "ledger.db") as ledger:
            for number, item in enumerate(made.items()):
                await ledger.submit(certain(key(item.attempt, episode=number, model=item.agent.model)))
            await ledger.submit(certain(key(0, model="elsewhere")))

    asyncio.run(score())
    with RunDirectory.open(folder / "run", made) as directory, EventLog(directory.events) as log:
        Spool.open(directory.spool).close()
        shutil.rmtree(next(directory.spool.iterdir()))
        for number, item in enumerate(made.items()):
            record = a_record(
                item.attempt, episode=number, model_digest=item.agent.model, rollout_plan=made.digest,
                rollout_item=item.name,
            )  # fmt: skip
            sealed = seal(record, Redactor(), "run", 1.5)
            digests.append(sealed.envelope.digest)
            ingest.accept([sealed.payload()])
            log.tell(RunEvent.FINISHED, outcome=outcome_of(record, digests[-1]).model_dump(mode="json"))
    sealed = seal(a_record(0, model_digest="elsewhere"), Redactor(), "elsewhere", 1.5)
    ingest.accept([sealed.payload()])
    ingest.append()
    store.close()
    away = folder / "away"
    Spool.open(away).close()
    shutil.rmtree(next(away.iterdir()))
    return Place(
        folder, folder / "store", str(folder / "run" / "ledger.db"), folder / "run", (folder / "run" / "spool", away),
        frozenset({sealed.envelope.digest}),
    )  # fmt: skip


@pytest.fixture
def place(sound: Place, tmp_path: Path) -> Place:
    """A copy of it, to be spoilt."""
    folder = tmp_path / "loop"
    shutil.copytree(sound.folder, folder)
    run = folder / "run"
    return Place(
        folder, folder / "store", str(run / "ledger.db"), run, (run / "spool", folder / "away"), sound.elsewhere
    )


def test_a_sound_loop_has_nothing_wrong(place: Place) -> None:
    assert audit(place) == []


def lost(place: Place, store: Store) -> None:
    digest = next(row["digest"] for row in store.trajectories.rows() if row["rollout_item"])
    store.trajectories.remove(digest)
    store.index.forget([digest])


def lost_elsewhere(place: Place, store: Store) -> None:
    (digest,) = place.elsewhere
    store.trajectories.remove(digest)
    store.index.forget([digest])


def doubled(place: Place, store: Store) -> None:
    row = next(store.trajectories.rows())
    store.trajectories.append(pa.Table.from_pylist([row], schema=SCHEMA))


def played_twice(place: Place, store: Store) -> None:
    row = next(row for row in store.trajectories.rows() if row["rollout_item"])
    again = a_record(
        row["attempt"], episode=int(row["episode_id"][-4:], 16), model_digest=row["model_digest"],
        rollout_plan=row["rollout_plan"], rollout_item=row["rollout_item"], task="Another.",
    )  # fmt: skip
    ingest = Ingest(store)
    ingest.accept([seal(again, Redactor(), "run", 1.5).payload()])
    ingest.append()


def of_no_item(place: Place, store: Store) -> None:
    made = plan(12)
    stray = a_record(0, episode=99, rollout_plan=made.digest, rollout_item="no/0@0/such/0")
    ingest = Ingest(store)
    ingest.accept([seal(stray, Redactor(), "run", 1.5).payload()])
    ingest.append()


def in_a_spool(place: Place, store: Store) -> None:
    spool = Spool.open(place.spools[1])
    spool.append(payload(7)).result(30)
    spool.close()


def in_the_outbox(place: Place, store: Store) -> None:
    Ingest(store).accept([payload(7, model_digest="late")])


def a_blob(place: Place, store: Store) -> None:
    store.blobs.put(b"of no record")


def a_directory(place: Place, store: Store) -> None:
    (place.folder / "tmp" / "quintain-run-killed").mkdir(parents=True)


def half_written(place: Place, store: Store) -> None:
    (place.folder / "run" / "plan.json.tmp").touch()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lost, "lost: outdoor_marketplace_1/0@0/reference/0 has no record"),
        (lost, "lost: the record of the scored try"),
        (lost_elsewhere, "was acknowledged elsewhere"),
        (doubled, "doubled: 2 records of the record"),
        (doubled, "verify tells: doubled"),
        (played_twice, "doubled: outdoor_marketplace_1/0@0/reference/0 has 2 records"),
        (played_twice, "doubled: 2 records of the score key"),
        (of_no_item, "orphan: a record of no/0@0/such/0"),
        (in_a_spool, "orphan: in a spool, and not ingested"),
        (in_the_outbox, "orphan: 1 records are in the outbox still"),
        (a_blob, "orphan: nothing refers to the store's file"),
        (a_directory, "orphan: temporary: "),
        (half_written, "orphan: half-written: "),
    ],
)
def test_the_audit_sees(place: Place, spoil: Callable[[Place, Store], None], said: str) -> None:
    store = Store.open(place.store, place.ledger)
    spoil(place, store)
    store.close()
    assert [line for line in audit(place) if said in line], audit(place)


def test_the_audit_sees_a_process(place: Place) -> None:
    with subprocess.Popen(["sleep", "60"], env={"TMPDIR": f"{place.folder}/tmp"}) as process:
        try:
            assert audit(place) == [f"orphan: process {process.pid} works on it still"]
        finally:
            process.kill()
