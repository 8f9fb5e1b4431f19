"""What a registry's folder holds: where tasks are, their trail, and every version of every pool's manifest.

It follows what others write while it is open, without a lock: the journal alone decides, and grows by whole records.
"""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from quintain.artifacts import LocalArtifactStore
from quintain.errors import ArtifactError, PoolError, RegistryError
from quintain.tasks.history import JournalRecord, PoolVersion, TaskProvenance, TrailStep
from quintain.tasks.journal import Journal, Mark
from quintain.tasks.manifest import PoolManifest, TaskEntry
from quintain.tasks.placements import Placement, Placements
from quintain.tasks.pointers import check_pointers
from quintain.tasks.pools import Pool

Now = Callable[[], datetime]


def wall_clock() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


class RegisteredTasks:
    """A registry's folder, to read. Safe to share between threads."""

    def __init__(self, root: Path, now: Now = wall_clock) -> None:
        """Use `open`."""
        self.root = root
        self._now = now
        self._journal = Journal(root / "journal")
        self._store = LocalArtifactStore(root / "manifests", fsync=True)
        self._lock = threading.RLock()
        self._placements = Placements()
        self._mark = Mark()
        self._seen: tuple[int, ...] | None = ()  # unread

    @classmethod
    def open(cls, root: Path, now: Now = wall_clock) -> Self:
        """The registry in a folder.

        Raises:
            RegistryError: there is none, or it is damaged.
        """
        registry = cls(root, now)
        registry._follow()
        return registry

    @staticmethod
    def exists(root: Path) -> bool:
        """Whether a folder holds a registry, be it a damaged one."""
        return (root / "journal").exists() or (root / "pools").exists()

    def pool_of(self, task: str) -> Pool | None:
        """The pool a task is in, as of now; None where it is not registered."""
        with self._lock:
            placement = self._now_placed().tasks.get(task)
            return None if placement is None else placement.pool

    def digest_of(self, task: str) -> str | None:
        """Digest of a task's content as registered; None where it is not."""
        with self._lock:
            placement = self._now_placed().tasks.get(task)
            return None if placement is None else placement.digest

    def tasks(self, pool: Pool) -> tuple[str, ...]:
        """Ids of a pool's tasks, in the order they were imported. Of blind ones ids are told, never content."""
        with self._lock:
            return self._now_placed().in_pool(pool)

    def versions(self, pool: Pool) -> tuple[PoolVersion, ...]:
        """Every version of a pool's manifest, oldest first."""
        with self._lock:
            return tuple(self._now_placed().versions[pool])

    @property
    def sequence(self) -> int:
        """Number of the journal's last record; another means that something was done."""
        with self._lock:
            return self._now_placed().sequence

    @property
    def frozen(self) -> bool:
        """Whether the regression pool is frozen."""
        with self._lock:
            return self._now_placed().frozen

    @property
    def openings(self) -> tuple[JournalRecord, ...]:
        """Every opening of the blind pool: openings as such, and moves of blind tasks."""
        with self._lock:
            return tuple(self._now_placed().openings)

    def trail(self, task: str) -> tuple[TrailStep, ...]:
        """What happened to a task, oldest first.

        Raises:
            PoolError: it is not registered.
        """
        with self._lock:
            return tuple(self._placement(task).trail)

    def provenance(self, task: str) -> tuple[TaskProvenance, JournalRecord]:
        """Where a task's content came from, and the import that brought it: when and by whom.

        Raises:
            PoolError: it is not registered.
        """
        with self._lock:
            placement = self._placement(task)
            return placement.provenance, placement.imported

    def journal(self) -> tuple[JournalRecord, ...]:
        """Everything that was ever done, read anew.

        Raises:
            RegistryError: the journal is damaged.
        """
        return self._journal.read(Mark()).records

    def manifest(self, pool: Pool, version: int | None = None) -> PoolManifest:
        """A version of a pool's manifest, or its newest.

        Raises:
            PoolError: there is no such version, or the pool is blind: that is read by `open_blind`.
            RegistryError: the manifest is damaged or gone.
        """
        if pool is Pool.BLIND:
            raise PoolError("the blind pool is opened, not read; state a milestone")
        with self._lock:
            return self._manifest(pool, version)

    def check(self) -> None:
        """Read everything: the journal, every version of every manifest, the pointers.

        Raises:
            RegistryError: something is damaged or missing; the first that was found.
        """
        fresh = type(self).open(self.root, self._now)
        for pool in Pool:
            for version in fresh.versions(pool):
                fresh._manifest(pool, version.version)

    def _follow(self) -> int:
        """Take in what the journal has gained; how many torn bytes it ends in.

        Raises:
            RegistryError: it is damaged or gone. Nothing is known then, and it is read anew the next time.
        """
        try:
            if self._mark.sequence > 0:
                try:
                    return self._take_in()
                except RegistryError:
                    # a record that could not be brought to disk may have been seen here before it was taken back
                    self._forget()
            torn = self._take_in()
            self._check_pointers()  # no more than that may be gone
        except RegistryError:
            self._forget()
            raise
        return torn

    def _forget(self) -> None:
        self._placements, self._mark, self._seen = Placements(), Mark(), ()

    def _take_in(self) -> int:
        seen = self._journal.signature()
        read = self._journal.read(self._mark)
        for record in read.records:
            self._placements.apply(record)
        self._mark, self._seen = read.mark, seen
        return read.torn

    def _now_placed(self) -> Placements:
        signature = self._journal.signature()
        if signature != self._seen:
            self._follow()
        return self._placements

    def _placement(self, task: str) -> Placement:
        placement = self._now_placed().tasks.get(task)
        if placement is None:
            raise PoolError(f"no task {task[:200]} is registered; import its dataset, or see which there are")
        return placement

    def _check_pointers(self) -> None:
        """Compare the pools' files with the journal.

        Raises:
            RegistryError: they show that it has lost records.
        """
        check_pointers(self.root, lambda: self._placements, self._take_in)

    def _entries(self, pool: Pool) -> dict[str, TaskEntry]:
        return self._manifest(pool).by_task if self._placements.versions[pool] else {}

    def _manifest(self, pool: Pool, version: int | None = None) -> PoolManifest:
        """A version's manifest, which must be what the journal says it is."""
        versions = self.versions(pool)
        number = len(versions) if version is None else version
        if version is None and not versions:
            return PoolManifest(pool=pool)
        if not 1 <= number <= len(versions):
            raise PoolError(f"{pool} has no version {number}; it has {len(versions)}")
        digest = versions[number - 1].manifest
        try:
            data = self._store.get(digest)
        except ArtifactError as error:
            raise RegistryError(f"version {number} of {pool} is unreadable: {error}") from error
        manifest = PoolManifest.read(data, f"version {number} of {pool} ({digest})")
        held = {task: placement.digest for task, placement in self._placements.tasks.items() if placement.pool is pool}
        newest = number == len(versions)
        if manifest.pool is not pool or (newest and held != {one.task: one.digest for one in manifest.entries}):
            raise RegistryError(f"version {number} of {pool} ({digest}) is not what the journal says; restore it")
        return manifest
