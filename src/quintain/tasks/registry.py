"""The task registry: which tasks there are, where they came from, which pool each is in, and who did what.

A folder that several processes may use:

    journal            what was done, in order; alone decides (`journal.py`)
    manifests/         what each version of each pool held, by digest
    pools/POOL.json    the newest version of each pool, for other programs; follows the journal
    lock               held by whoever writes

Nothing in it is secret from who can read the folder: what it gives is a trail, not encryption.
"""

import fcntl
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from pydantic import ValidationError

from quintain import __version__
from quintain.errors import ArtifactError, PoolError, RegistryError
from quintain.tasks.base import TaskSource
from quintain.tasks.history import Event, Frozen, Imported, JournalRecord, Opened, PoolVersion, TaskProvenance
from quintain.tasks.manifest import PoolManifest, Progress, TaskEntry, Unusable, entries_of
from quintain.tasks.placements import Placements
from quintain.tasks.pointers import write_pointers
from quintain.tasks.pools import Pool
from quintain.tasks.registered import Now, RegisteredTasks, wall_clock

IMPORTER: Final = "quintain.tasks"
"""What reads tasks in: the importer that provenance names."""


@dataclass(frozen=True)
class ImportReport:
    """What an import did, by task id. `record` is None where there was nothing to do."""

    record: JournalRecord | None
    added: tuple[str, ...]
    changed: Mapping[str, tuple[str, ...]]
    """The parts in which the content differs."""
    unchanged: int
    absent: tuple[str, ...]
    """Registered tasks of the scenarios read that the dataset no longer has; they stay where they are."""
    unusable: tuple[Unusable, ...]


class TaskRegistry(RegisteredTasks):
    """A registry's folder, to read and to write. Safe to share between threads and processes."""

    def __init__(self, root: Path, now: Now = wall_clock) -> None:
        """Use `open` or `create`."""
        super().__init__(root, now)
        self.repaired: list[str] = []
        """What had to be repaired while writing, in words."""

    @classmethod
    def create(cls, root: Path, now: Now = wall_clock) -> Self:
        """The registry in a folder, which is made if it is not there; it holds nothing until tasks are imported.

        Raises:
            RegistryError: it cannot be made, or is damaged.
        """
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise RegistryError(f"{root} cannot be made: {error.strerror or error}; name another folder") from error
        if cls.exists(root):
            return cls.open(root, now)
        registry = cls(root, now)
        registry._seen = None
        return registry

    def import_tasks(
        self,
        source: TaskSource,
        pool: Pool,
        *,
        by: str,
        why: str = "",
        scenarios: Collection[str] | None = None,
        revise: bool = False,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Read a source's tasks in: new ones into `pool`, known ones where they are, with the content they have now.

        Args:
            scenarios: only these, by name.
            revise: content in frozen pools may change; `why` must say why.

        Raises:
            PoolError: the rules do not allow it; nothing was imported.
            UnknownTaskError, DatasetError: a scenario is not there, or the dataset cannot be read.
            RegistryError: the registry is damaged or cannot be written.
        """
        read = entries_of(source, scenarios, progress)
        given = source.provenance.model_dump()
        provenance = TaskProvenance(
            **given, dataset_digest=source.dataset_digest, importer=IMPORTER, importer_version=__version__
        )
        with self._writing() as placements:
            plan = placements.plan_import(read.entries, pool, revise=revise)
            touched = {placements.tasks[task].pool for task in plan.changed} | ({pool} if plan.added else set())
            before = {one: self._entries(one) for one in touched}
            parts = {
                task: entry.changes(before[placements.tasks[task].pool][task]) for task, entry in plan.changed.items()
            }
            after = {one: dict(entries) for one, entries in before.items()}
            for task, entry in plan.changed.items():
                after[placements.tasks[task].pool][task] = entry
            if plan.added:
                after[pool].update(plan.added)
            event = Imported(
                pool=pool,
                provenance=provenance,
                added={task: entry.digest for task, entry in plan.added.items()},
                changed={task: entry.digest for task, entry in plan.changed.items()},
            )
            absent = _absent(placements, source, read.entries, read.unusable, scenarios)
            record = self._commit(event, by, why, after, revision=plan.revision) if touched else None
        return ImportReport(record, tuple(plan.added), parts, len(plan.unchanged), absent, read.unusable)

    def move(
        self, tasks: Iterable[str], to: Pool, *, by: str, why: str, milestone: str | None = None, revise: bool = False
    ) -> JournalRecord:
        """Move tasks into another pool, all or none.

        Args:
            tasks: their ids.
            why: the reason; must be stated.
            milestone: what blind tasks are opened for; must be stated if there are any among them.
            revise: the regression pool may change though it is frozen.

        Raises:
            PoolError: a task is not registered, or the rules (`pools.REFUSED`, for instance) do not allow it.
            RegistryError: the registry is damaged or cannot be written.
        """
        _require(why, "a move needs a reason; state it")
        with self._writing() as placements:
            event, revision = placements.plan_move(dict.fromkeys(tasks), to, milestone, revise=revise)
            touched = {to, *event.tasks.values()}
            after = {pool: self._entries(pool) for pool in Pool if pool in touched}
            for task, source in event.tasks.items():
                after[to][task] = after[source].pop(task)
            return self._commit(event, by, why, after, revision=revision)

    def open_blind(self, *, milestone: str, by: str, why: str = "") -> PoolManifest:
        """Open the blind pool: counted and logged, then read.

        Raises:
            PoolError: no milestone is stated, or the pool is empty.
            RegistryError: the registry is damaged, or the opening cannot be logged.
        """
        _require(milestone, "the blind pool is opened for a milestone; state which")
        with self._writing():
            if not self.versions(Pool.BLIND):
                raise PoolError("the blind pool is empty; there is nothing to open")
            manifest = self._manifest(Pool.BLIND)
            event = Opened(milestone=milestone, manifest=manifest.digest, tasks=len(manifest.entries))
            self._commit(event, by, why, {})
        return manifest

    def freeze(self, *, by: str, why: str = "") -> PoolManifest:
        """Freeze the regression pool as it is: whatever changes it from now on is a revision, with a reason.

        Raises:
            PoolError: it is frozen already, or empty.
            RegistryError: the registry is damaged or cannot be written.
        """
        with self._writing() as placements:
            if placements.frozen:
                raise PoolError("the regression pool is frozen already; there is nothing to do")
            if not placements.in_pool(Pool.REGRESSION):
                raise PoolError("the regression pool is empty; move or import tasks into it first")
            manifest = self._manifest(Pool.REGRESSION)
            self._commit(Frozen(manifest=manifest.digest), by, why, {})
        return manifest

    def _commit(
        self,
        event: Event,
        by: str,
        why: str,
        after: Mapping[Pool, Mapping[str, TaskEntry]],
        *,
        revision: bool = False,
    ) -> JournalRecord:
        """Store what the pools hold afterwards, then say so in the journal: from that moment on it is done."""
        if revision:
            _require(why, "a revision of a frozen pool needs a reason; state it")
        placements = self._placements
        try:
            versions = {
                pool: PoolVersion(
                    version=len(placements.versions[pool]) + 1,
                    manifest=self._store.put(PoolManifest.of(pool, entries.values()).document),
                )
                for pool, entries in after.items()
            }
            record = JournalRecord(
                sequence=self._mark.sequence + 1,
                previous=self._mark.checksum,
                at=self._now(),
                by=by,
                why=why,
                revision=revision,
                versions=versions,
                event=event,
            )
        except ValidationError as error:
            item = error.errors(include_url=False)[0]
            raise PoolError(f"{item['loc'][0]}: {str(item['msg'])[:200].lower()}; state it otherwise") from error
        except ArtifactError as error:
            raise RegistryError(str(error)) from error
        self._mark = self._journal.append(self._mark, record)
        placements.apply(record)
        self._seen = self._journal.signature()
        write_pointers(self.root, placements)
        return record

    @contextmanager
    def _writing(self) -> Iterator[Placements]:
        """Alone among processes and threads, with everything that was written before, and what was torn cut off."""
        with self._lock, _alone_in(self.root):
            if self.exists(self.root):
                torn = self._follow()
                self._check_pointers()
                if torn:
                    self._journal.cut(self._mark)
                    self.repaired.append(
                        f"the journal ended in {torn} bytes of a record that was never finished; they were cut off"
                    )
                write_pointers(self.root, self._placements)
            yield self._placements


def _absent(
    placements: Placements,
    source: TaskSource,
    entries: Iterable[TaskEntry],
    unusable: Iterable[Unusable],
    scenarios: Collection[str] | None,
) -> tuple[str, ...]:
    found = {entry.task for entry in entries} | {one.task for one in unusable}
    names = {source.scenario(name).name for name in scenarios} if scenarios is not None else None
    mine = source.provenance.source
    return tuple(
        task
        for task, placement in placements.tasks.items()
        if task not in found
        and (placement.provenance.source == mine if names is None else task.rpartition("/")[0] in names)
    )


def _require(words: str, otherwise: str) -> None:
    if not words.strip():
        raise PoolError(otherwise)


@contextmanager
def _alone_in(root: Path) -> Iterator[None]:
    try:
        handle = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RegistryError(f"{root} cannot be written: {error.strerror or error}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
