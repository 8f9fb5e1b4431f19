"""The registry: imports, moves, openings, freezing; what is kept of them; and damage."""

import json
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quintain.errors import PoolError, RegistryError
from quintain.tasks.pools import Pool
from quintain.tasks.registry import TaskRegistry
from tasks.shelf import Shelf

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def registry(tmp_path: Path) -> TaskRegistry:
    return TaskRegistry.create(tmp_path / "registry", lambda: NOON)


def filled(registry: TaskRegistry) -> TaskRegistry:
    """Four tasks of lamps in dev, two of chairs in regression, two of doors in blind, one of books in train."""
    shelf = Shelf(lamps=range(4), chairs=[10, 11], doors=[20, 21], books=[30])
    places = {"lamps": Pool.DEV, "chairs": Pool.REGRESSION, "doors": Pool.BLIND, "books": Pool.TRAIN}
    for scenario, pool in places.items():
        registry.import_tasks(shelf, pool, by="ann", scenarios=[scenario])
    return registry


def test_an_import_keeps_provenance_and_a_second_one_does_nothing(registry: TaskRegistry) -> None:
    shelf = Shelf(lamps=[1, 2])
    report = registry.import_tasks(shelf, Pool.DEV, by="ann", why="first")
    assert report.added == ("lamps/0", "lamps/1")
    provenance, record = registry.provenance("lamps/1")
    assert (provenance.source, provenance.revision, provenance.licence) == ("a shelf", "7", "CC0-1.0")
    assert (provenance.dataset_digest, provenance.importer) == (shelf.dataset_digest, "quintain.tasks")
    assert (record.at, record.by, record.why) == (NOON, "ann", "first")
    again = registry.import_tasks(shelf, Pool.TRAIN, by="bob")
    assert (again.record, again.added, again.changed, again.unchanged) == (None, (), {}, 2)
    assert registry.tasks(Pool.DEV) == ("lamps/0", "lamps/1"), "known tasks stay where they are"
    assert len(registry.journal()) == 1


def test_a_move_to_train_is_for_good_and_its_trail_is_kept(registry: TaskRegistry) -> None:
    filled(registry).move(["lamps/2"], Pool.TRAIN, by="bob", why="more to learn from")
    for pool in (Pool.DEV, Pool.REGRESSION, Pool.BLIND):
        with pytest.raises(PoolError, match="trained on"):
            registry.move(["lamps/2"], pool, by="bob", why="back", milestone="m", revise=True)
    registry.import_tasks(Shelf(lamps=range(4)), Pool.DEV, by="bob")
    assert TaskRegistry.open(registry.root).pool_of("lamps/2") is Pool.TRAIN
    assert [(step.kind, step.source, step.target, step.by, step.why) for step in registry.trail("lamps/2")] == [
        ("import", None, Pool.DEV, "ann", ""),
        ("move", Pool.DEV, Pool.TRAIN, "bob", "more to learn from"),
    ]


def test_what_was_trained_on_does_not_come_back_under_another_name(registry: TaskRegistry) -> None:
    filled(registry).move(["lamps/2"], Pool.TRAIN, by="bob", why="more")
    with pytest.raises(PoolError, match=r"tables/0 cannot be in dev: it has been trained on"):
        registry.import_tasks(Shelf(tables=[2]), Pool.DEV, by="bob")
    with pytest.raises(PoolError, match=r"lamps/0 cannot be in dev: it has been trained on"):
        registry.import_tasks(Shelf(lamps=[2, 1, 2, 3]), Pool.DEV, by="bob")
    registry.import_tasks(Shelf(lamps=[0, 1, 99, 3]), Pool.DEV, by="bob")  # the task has other content now
    with pytest.raises(PoolError, match=r"tables/0 cannot be in dev"):
        registry.import_tasks(Shelf(tables=[2]), Pool.DEV, by="bob")


def test_content_is_in_one_pool_whatever_its_name(registry: TaskRegistry) -> None:
    filled(registry)
    with pytest.raises(PoolError, match=r"tables/0 has the same content as lamps/1"):
        registry.import_tasks(Shelf(tables=[1]), Pool.TRAIN, by="bob")
    registry.import_tasks(Shelf(tables=[1]), Pool.DEV, by="bob")
    with pytest.raises(PoolError, match="same content"):
        registry.move(["tables/0"], Pool.TRAIN, by="bob", why="x")
    registry.move(["tables/0", "lamps/1"], Pool.TRAIN, by="bob", why="x")
    assert registry.pool_of("lamps/1") is registry.pool_of("tables/0") is Pool.TRAIN


def test_a_move_is_all_or_nothing(registry: TaskRegistry) -> None:
    before = filled(registry).sequence
    for tasks, told in ((["lamps/0", "books/0"], "books/0 cannot move"), (["lamps/0", "sofas/1"], "no task sofas/1")):
        with pytest.raises(PoolError, match=told):
            registry.move(tasks, Pool.REGRESSION, by="bob", why="x")
    with pytest.raises(PoolError, match="reason"):
        registry.move(["lamps/0"], Pool.TRAIN, by="bob", why=" ")
    with pytest.raises(PoolError, match="nothing to move"):
        registry.move([], Pool.TRAIN, by="bob", why="x")
    with pytest.raises(PoolError, match="by: "):
        registry.move(["lamps/0"], Pool.TRAIN, by="", why="x")
    assert registry.sequence == before
    assert registry.tasks(Pool.DEV) == tuple(f"lamps/{index}" for index in range(4))


def test_a_frozen_pool_changes_only_on_purpose_and_old_versions_stay(registry: TaskRegistry) -> None:
    filled(registry).move(["lamps/0"], Pool.REGRESSION, by="ann", why="not frozen yet")
    first = registry.freeze(by="ann", why="baseline")
    with pytest.raises(PoolError, match="frozen already"):
        registry.freeze(by="ann")
    other = Shelf(chairs=[10, 12], stools=[40])
    for attempt in (
        lambda: registry.import_tasks(other, Pool.TRAIN, by="bob", scenarios=["chairs"]),
        lambda: registry.import_tasks(other, Pool.REGRESSION, by="bob", scenarios=["stools"]),
        lambda: registry.move(["lamps/1"], Pool.REGRESSION, by="bob", why="x"),
        lambda: registry.move(["chairs/0"], Pool.DEV, by="bob", why="x"),
    ):
        with pytest.raises(PoolError, match="revision"):
            attempt()
    with pytest.raises(PoolError, match="needs a reason"):
        registry.import_tasks(other, Pool.TRAIN, by="bob", scenarios=["chairs"], revise=True)
    assert registry.manifest(Pool.REGRESSION) == first
    report = registry.import_tasks(other, Pool.TRAIN, by="bob", why="it was wrong", scenarios=["chairs"], revise=True)
    assert report.record is not None
    assert report.record.revision
    assert report.changed == {"chairs/1": ("text", "verifiers")}
    assert registry.frozen, "a revision does not thaw it"
    assert [one.version for one in registry.versions(Pool.REGRESSION)] == [1, 2, 3]
    assert registry.manifest(Pool.REGRESSION, 2) == first
    newest = registry.manifest(Pool.REGRESSION)
    assert newest.digest != first.digest
    assert newest.by_task["chairs/1"].digest == registry.digest_of("chairs/1") != first.by_task["chairs/1"].digest
    with pytest.raises(PoolError, match="no version 4"):
        registry.manifest(Pool.REGRESSION, 4)


def test_every_opening_of_blind_is_counted_and_logged(registry: TaskRegistry) -> None:
    filled(registry)
    with pytest.raises(PoolError, match="opened, not read"):
        registry.manifest(Pool.BLIND)
    for milestone in ("", "  "):
        with pytest.raises(PoolError, match="milestone"):
            registry.open_blind(milestone=milestone, by="ann")
    with pytest.raises(PoolError, match="milestone"):
        registry.move(["doors/0"], Pool.DEV, by="ann", why="spent")
    assert registry.openings == ()
    manifest = registry.open_blind(milestone="release 1", by="ann", why="last look")
    assert list(manifest.by_task) == ["doors/0", "doors/1"]
    registry.open_blind(milestone="release 2", by="bob")
    registry.move(["doors/0"], Pool.DEV, by="cem", why="spent", milestone="release 2")
    told = [(one.at, one.by, one.why, one.event.milestone) for one in TaskRegistry.open(registry.root).openings]  # type: ignore[union-attr]
    assert told == [
        (NOON, "ann", "last look", "release 1"),
        (NOON, "bob", "", "release 2"),
        (NOON, "cem", "spent", "release 2"),
    ]
    with pytest.raises(PoolError, match="revision"):
        registry.import_tasks(Shelf(doors=[20, 99]), Pool.TRAIN, by="bob")


def test_changed_content_stays_in_its_pool_and_lost_tasks_are_told(registry: TaskRegistry) -> None:
    filled(registry)
    report = registry.import_tasks(Shelf(lamps=[0, 7, 2]), Pool.TRAIN, by="bob")
    assert report.changed == {"lamps/1": ("text", "verifiers")}
    assert report.absent == ("lamps/3", "chairs/0", "chairs/1", "doors/0", "doors/1", "books/0")
    assert registry.pool_of("lamps/1") is registry.pool_of("lamps/3") is Pool.DEV
    assert [step.kind for step in registry.trail("lamps/1")] == ["import", "change"]
    assert registry.manifest(Pool.DEV, 1).by_task["lamps/1"].digest == registry.trail("lamps/1")[0].digest


def test_two_registries_with_the_same_tasks_have_the_same_manifests(tmp_path: Path) -> None:
    one = filled(TaskRegistry.create(tmp_path / "one"))
    other = TaskRegistry.create(tmp_path / "other")
    other.import_tasks(Shelf(books=[30]), Pool.TRAIN, by="bob")
    other.import_tasks(Shelf(lamps=range(4)), Pool.DEV, by="cem")
    for pool in (Pool.TRAIN, Pool.DEV):
        assert one.manifest(pool).digest == other.manifest(pool).digest


def test_a_registry_follows_what_another_writes(registry: TaskRegistry) -> None:
    filled(registry)
    reader, writer = TaskRegistry.open(registry.root), TaskRegistry.open(registry.root)
    writer.move(["lamps/0"], Pool.TRAIN, by="bob", why="x")
    assert reader.pool_of("lamps/0") is Pool.TRAIN
    registry.move(["lamps/1"], Pool.TRAIN, by="ann", why="x")
    writer.move(["lamps/2"], Pool.TRAIN, by="bob", why="x")
    assert reader.tasks(Pool.DEV) == ("lamps/3",)
    reader.check()


def test_the_pools_files_say_what_the_journal_says(registry: TaskRegistry) -> None:
    filled(registry)
    for pool in Pool:
        pointer = json.loads((registry.root / "pools" / f"{pool}.json").read_bytes())
        newest = registry.versions(pool)[-1]
        assert pointer == {
            "pool": pool,
            "version": newest.version,
            "manifest": newest.manifest,
            "sequence": registry.sequence,
        }
        digest = newest.manifest.removeprefix("sha256:")
        stored = registry.root / "manifests" / "sha256" / digest[:2] / digest[2:4] / digest
        assert json.loads(stored.read_bytes())["pool"] == pool
    assert stat.S_IMODE(registry.root.stat().st_mode) == 0o700


def test_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="no task registry at"):
        TaskRegistry.open(tmp_path)
    assert not TaskRegistry.exists(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RegistryError, match="cannot be made"):
        TaskRegistry.create(tmp_path / "file" / "registry")


# damage


def test_a_torn_end_is_cut_off_and_told_wherever_it_is_torn(registry: TaskRegistry, tmp_path: Path) -> None:
    filled(registry)
    journal, pools = registry.root / "journal", registry.root / "pools"
    before, pointers = journal.read_bytes(), {file: file.read_bytes() for file in pools.iterdir()}
    registry.move(["lamps/0"], Pool.TRAIN, by="bob", why="x")
    whole = journal.read_bytes()
    lengths = {len(before) + 1, len(before) + 70, (len(before) + len(whole)) // 2, len(whole) - 2, len(whole) - 1}
    torn = [whole[:length] for length in lengths] + [
        before + b"\0" * 512,
        before + b"\0" * 80 + whole[len(before) + 80 :],
    ]
    for data in torn:
        journal.write_bytes(data)
        for file, content in pointers.items():
            file.write_bytes(content)
        opened = TaskRegistry.open(registry.root)
        assert opened.pool_of("lamps/0") is Pool.DEV, "a record that was not finished was not done"
        assert opened.repaired == []
        opened.move(["lamps/1"], Pool.TRAIN, by="bob", why="y")
        assert f"ended in {len(data) - len(before)} bytes of a record" in opened.repaired[0]
        again = TaskRegistry.open(registry.root)
        again.check()
        assert (again.pool_of("lamps/0"), again.pool_of("lamps/1")) == (Pool.DEV, Pool.TRAIN)


def test_pools_files_that_lag_are_brought_up(registry: TaskRegistry) -> None:
    pools = filled(registry).root / "pools"
    old = {file: file.read_bytes() for file in pools.iterdir()}
    registry.move(["lamps/0"], Pool.TRAIN, by="bob", why="x")
    new = {file: file.read_bytes() for file in pools.iterdir()}
    for file, content in old.items():
        file.write_bytes(content)
    assert TaskRegistry.open(registry.root).pool_of("lamps/0") is Pool.TRAIN, "the journal decides"
    (pools / "blind.json").unlink()
    TaskRegistry.open(registry.root).import_tasks(Shelf(books=[30]), Pool.TRAIN, by="bob")
    assert {file: file.read_bytes() for file in pools.iterdir()} == new


def test_lost_records_are_noticed(registry: TaskRegistry) -> None:
    filled(registry)
    journal = registry.root / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    registry.open_blind(milestone="release 1", by="ann")
    journal.write_bytes(b"".join(lines))  # as if it had never been opened
    with pytest.raises(RegistryError, match=r"ends at record 4.*after record 5: records are lost"):
        TaskRegistry.open(registry.root)
    for _ in range(2):
        with pytest.raises(RegistryError, match="records are lost"):
            registry.move(["lamps/0"], Pool.TRAIN, by="bob", why="x")
        with pytest.raises(RegistryError, match="records are lost"):
            registry.pool_of("lamps/0")
    journal.unlink()
    assert TaskRegistry.exists(registry.root), "or a server would serve everything"
    for attempt in (TaskRegistry.open, TaskRegistry.create):
        with pytest.raises(RegistryError, match="no task registry"):
            attempt(registry.root)


def test_a_line_taken_out_of_the_middle_is_noticed(registry: TaskRegistry) -> None:
    filled(registry).open_blind(milestone="release 1", by="ann")
    registry.move(["lamps/0"], Pool.TRAIN, by="bob", why="x")
    journal = registry.root / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:4] + lines[5:]))
    with pytest.raises(RegistryError):
        TaskRegistry.open(registry.root)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_changed_byte_of_the_journal_goes_unnoticed(registry: TaskRegistry, data: st.DataObject) -> None:
    if registry.sequence == 0:
        filled(registry).open_blind(milestone="release 1", by="ann")
    journal = registry.root / "journal"
    whole = journal.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != whole[place]))
    try:
        journal.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
        with pytest.raises(RegistryError):
            TaskRegistry.open(registry.root)
    finally:
        journal.write_bytes(whole)
    TaskRegistry.open(registry.root).check()


def test_a_manifest_that_is_damaged_or_gone_is_told(registry: TaskRegistry) -> None:
    filled(registry).move(["lamps/0"], Pool.TRAIN, by="bob", why="x")
    digest = registry.versions(Pool.DEV)[0].manifest.removeprefix("sha256:")
    stored = registry.root / "manifests" / "sha256" / digest[:2] / digest[2:4] / digest
    data = stored.read_bytes()
    stored.chmod(0o600)
    stored.write_bytes(data.replace(b"lamps/1", b"lamps/9"))
    with pytest.raises(RegistryError, match=r"version 1 of dev is unreadable: .*does not hold"):
        registry.manifest(Pool.DEV, 1)
    with pytest.raises(RegistryError, match="version 1 of dev"):
        registry.check()
    registry.move(["lamps/1"], Pool.TRAIN, by="bob", why="what is not touched can go on")
    stored.unlink()
    with pytest.raises(RegistryError, match="version 1 of dev is unreadable"):
        registry.manifest(Pool.DEV, 1)


def test_other_content_under_the_same_version_is_told(registry: TaskRegistry) -> None:
    filled(registry)
    pointer = registry.root / "pools" / "regression.json"
    document = json.loads(pointer.read_bytes())
    document["manifest"] = registry.versions(Pool.DEV)[0].manifest
    pointer.write_text(json.dumps(document))
    with pytest.raises(RegistryError, match=r"version 1 of regression.*never changes"):
        TaskRegistry.open(registry.root)
    pointer.write_text("{}")
    with pytest.raises(RegistryError, match=r"regression\.json cannot be read"):
        TaskRegistry.open(registry.root)
