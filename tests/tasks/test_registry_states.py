"""Any sequence of imports, moves, openings and freezes: what must hold after each, on disk."""

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from quintain.errors import PoolError
from quintain.tasks.manifest import PoolManifest
from quintain.tasks.pools import Pool
from quintain.tasks.registry import TaskRegistry
from tasks.shelf import Shelf

TASKS = [f"{scenario}/{index}" for scenario in ("lamps", "chairs") for index in range(4)]
POOLS = st.sampled_from(Pool)
CONTENTS = st.integers(0, 9)  # few, so that tasks come to share them and get them back


class Registry(RuleBasedStateMachine):
    """A registry, and what was seen of it so far."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.registry = TaskRegistry.create(Path(self.folder.name) / "registry")
        self.trained: set[str] = set()
        self.trained_contents: set[str] = set()
        self.imported: set[str] = set()
        self.versions: dict[tuple[Pool, int], bytes] = {}
        self.openings = 0
        self.frozen_at: int | None = None
        self.revisions = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(
        lamps=st.lists(CONTENTS, max_size=4),
        chairs=st.lists(CONTENTS, max_size=4),
        pool=POOLS,
        revise=st.booleans(),
        one=st.booleans(),
    )
    def imports(self, lamps: list[int], chairs: list[int], pool: Pool, revise: bool, one: bool) -> None:
        before = self.registry.sequence
        shelf = Shelf(lamps=lamps, chairs=chairs)
        try:
            report = self.registry.import_tasks(
                shelf, pool, by="ann", why="x", revise=revise, scenarios=["lamps"] if one else None
            )
        except PoolError:
            assert self.registry.sequence == before
            return
        self.imported |= set(report.added)
        if report.record is not None and report.record.revision and self.frozen_at is not None:
            self.revisions += Pool.REGRESSION in report.record.versions

    @rule(
        tasks=st.sets(st.sampled_from(TASKS), min_size=1, max_size=3),
        to=POOLS,
        revise=st.booleans(),
        named=st.booleans(),
    )
    def moves(self, tasks: set[str], to: Pool, revise: bool, named: bool) -> None:
        before = {task: self.registry.pool_of(task) for task in TASKS}
        milestone = "release" if named else None
        try:
            record = self.registry.move(tasks, to, by="bob", why="x", revise=revise, milestone=milestone)
        except PoolError:
            assert {task: self.registry.pool_of(task) for task in TASKS} == before
            return
        assert {task: self.registry.pool_of(task) for task in TASKS} == before | dict.fromkeys(tasks, to)
        self.openings += Pool.BLIND in {before[task] for task in tasks}
        self.revisions += record.revision and self.frozen_at is not None

    @rule()
    def opens(self) -> None:
        try:
            manifest = self.registry.open_blind(milestone="release", by="cem")
        except PoolError:
            assert self.registry.versions(Pool.BLIND) == ()
            return
        self.openings += 1
        assert set(manifest.by_task) == set(self.registry.tasks(Pool.BLIND))

    @rule()
    def freezes(self) -> None:
        try:
            self.registry.freeze(by="ann")
        except PoolError:
            assert self.registry.frozen or not self.registry.tasks(Pool.REGRESSION)
            return
        assert self.frozen_at is None
        self.frozen_at = len(self.registry.versions(Pool.REGRESSION))

    @rule()
    def another_process_goes_on(self) -> None:
        root = self.registry.root
        self.registry = TaskRegistry.open(root) if TaskRegistry.exists(root) else TaskRegistry.create(root)

    def manifests(self) -> dict[Pool, PoolManifest]:
        return {pool: self.registry._manifest(pool) for pool in Pool}

    @invariant()
    def a_task_is_in_one_pool_and_so_is_content(self) -> None:
        held = self.manifests()
        tasks = Counter(task for manifest in held.values() for task in manifest.by_task)
        assert set(tasks) == self.imported
        assert set(tasks.values()) <= {1}
        contents = Counter(one for manifest in held.values() for one in {entry.digest for entry in manifest.entries})
        assert set(contents.values()) <= {1}
        for pool, manifest in held.items():
            assert set(self.registry.tasks(pool)) == set(manifest.by_task)

    @invariant()
    def what_was_in_train_stays_there(self) -> None:
        held = self.manifests()
        self.trained |= set(held[Pool.TRAIN].by_task)
        self.trained_contents |= {entry.digest for entry in held[Pool.TRAIN].entries}
        assert self.trained == set(held[Pool.TRAIN].by_task)
        for pool in (Pool.DEV, Pool.REGRESSION, Pool.BLIND):
            assert not self.trained_contents & {entry.digest for entry in held[pool].entries}

    @invariant()
    def a_version_never_changes(self) -> None:
        for pool in Pool:
            for number, version in enumerate(self.registry.versions(pool), 1):
                assert version.version == number
                document = self.registry._manifest(pool, number).document
                assert self.versions.setdefault((pool, number), document) == document

    @invariant()
    def what_is_counted_is_all_there_was(self) -> None:
        assert len(self.registry.openings) == self.openings
        if self.frozen_at is not None:
            assert len(self.registry.versions(Pool.REGRESSION)) == self.frozen_at + self.revisions
        else:
            assert self.revisions == 0

    @invariant()
    def the_folder_is_whole(self) -> None:
        if TaskRegistry.exists(self.registry.root):
            self.registry.check()


Registry.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestRegistry = pytest.mark.timeout(300)(Registry.TestCase)
