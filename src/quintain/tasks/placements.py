"""Which pool every task is in and has been in, replayed from the journal; and what may be done next.

What holds at any time: a task is in one pool, and so is content, under whatever name; what has been trained on, by
task or by content, is in `train`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from quintain.errors import PoolError, RegistryError
from quintain.tasks.history import (
    Event,
    Frozen,
    Imported,
    JournalRecord,
    Moved,
    Opened,
    PoolVersion,
    TaskProvenance,
    TrailStep,
)
from quintain.tasks.manifest import TaskEntry
from quintain.tasks.pools import REFUSED, Pool, refuse_move

_SHOWN = 5


@dataclass
class Placement:
    """Where a task is: its pool, its content, where that came from, and what happened to it."""

    pool: Pool
    digest: str
    provenance: TaskProvenance
    imported: JournalRecord
    """The import that brought this content."""
    trail: list[TrailStep] = field(default_factory=list)


@dataclass(frozen=True)
class ImportPlan:
    """What an import would do, by task; `unchanged` tasks are known with this content."""

    added: dict[str, TaskEntry]
    changed: dict[str, TaskEntry]
    unchanged: tuple[str, ...]
    revision: bool
    """Whether a frozen pool is changed on purpose."""


class Placements:
    """The pools as the journal tells. `apply` is the only thing that changes them."""

    def __init__(self) -> None:
        self.tasks: dict[str, Placement] = {}
        self.versions: dict[Pool, list[PoolVersion]] = {pool: [] for pool in Pool}
        self.openings: list[JournalRecord] = []
        self.sequence = 0
        self.frozen = False
        """Whether the regression pool is."""
        self._trained: set[str] = set()
        self._places: defaultdict[str, set[str]] = defaultdict(set)

    def apply(self, record: JournalRecord) -> None:
        """Take in the next record.

        Raises:
            RegistryError: it does not fit what came before; the journal is not one that a registry wrote.
        """
        for pool, new in record.versions.items():
            if new.version != len(self.versions[pool]) + 1:
                raise _misfit(record, f"{pool} has version {len(self.versions[pool])}, and version {new.version} next")
        event = record.event
        if isinstance(event, Imported):
            self._import(record, event)
        elif isinstance(event, Moved):
            self._move(record, event)
        elif isinstance(event, Frozen):
            self.frozen = True
        if isinstance(event, Opened) or (isinstance(event, Moved) and event.milestone is not None):
            self.openings.append(record)
        for pool, new in record.versions.items():
            self.versions[pool].append(new)
        self.sequence = record.sequence

    def in_pool(self, pool: Pool) -> tuple[str, ...]:
        """Ids of the tasks in a pool, in the order they were read in."""
        return tuple(task for task, placement in self.tasks.items() if placement.pool is pool)

    def plan_import(self, entries: Iterable[TaskEntry], pool: Pool, *, revise: bool) -> ImportPlan:
        """What an import of these entries would do, new tasks going to `pool`.

        Raises:
            PoolError: their content is in another pool or has been trained on, or a frozen pool would change unasked.
        """
        added: dict[str, TaskEntry] = {}
        changed: dict[str, TaskEntry] = {}
        unchanged: list[str] = []
        for entry in entries:
            known = self.tasks.get(entry.task)
            if known is None:
                added[entry.task] = entry
            elif known.digest == entry.digest:
                unchanged.append(entry.task)
            else:
                changed[entry.task] = entry
        sealed = [task for task in changed if self._sealed(self.tasks[task].pool)]
        grows = bool(added) and pool is Pool.REGRESSION and self.frozen
        if sealed and not revise:
            raise PoolError(
                f"{len(sealed)} tasks of frozen pools have other content in this dataset ({_some(sealed)}); "
                "leave their scenarios out, or say that it is a revision"
            )
        if grows and not revise:
            raise _unasked(f"{len(added)} new tasks")
        targets = dict.fromkeys(added, pool) | {task: self.tasks[task].pool for task in changed}
        self._refuse_content({task: entry.digest for task, entry in (added | changed).items()}, targets)
        return ImportPlan(added, changed, tuple(unchanged), revision=bool(sealed or grows))

    def plan_move(self, tasks: Iterable[str], to: Pool, milestone: str | None, *, revise: bool) -> tuple[Moved, bool]:
        """The move of these tasks, and whether it is a revision of a frozen pool.

        Raises:
            PoolError: a task is not registered, or the rules do not allow it.
        """
        moving: dict[str, Pool] = {}
        for task in tasks:
            if task not in self.tasks:
                raise PoolError(f"no task {task} is registered; import its dataset, or see which there are")
            moving[task] = self.tasks[task].pool
            refuse_move(task, moving[task], to)
        if not moving:
            raise PoolError("there is nothing to move; name tasks")
        if Pool.BLIND in moving.values() and not (milestone or "").strip():
            raise PoolError("moving blind tasks opens them; state the milestone that it is for")
        revision = self.frozen and Pool.REGRESSION in {to, *moving.values()}
        if revision and not revise:
            raise _unasked(f"moving {len(moving)} tasks")
        self._refuse_content({task: self.tasks[task].digest for task in moving}, dict.fromkeys(moving, to))
        return Moved(tasks=moving, to=to, milestone=milestone if Pool.BLIND in moving.values() else None), revision

    def _refuse_content(self, digests: Mapping[str, str], targets: Mapping[str, Pool]) -> None:
        """Refuse that content lies in two pools, or that what was trained on lies elsewhere than in train."""
        goes: dict[str, tuple[str, Pool]] = {}
        for task, digest in digests.items():
            pool = targets[task]
            if pool is not Pool.TRAIN and digest in self._trained:
                raise PoolError(f"{task} cannot be in {pool}: {REFUSED[Pool.TRAIN, pool]} under this or another name")
            twin, other = goes.setdefault(digest, (task, pool))
            if other is not pool:
                raise PoolError(f"{task} would be in {pool} and {twin} in {other}, with the same content")
            for twin in self._places[digest] - digests.keys():
                if self.tasks[twin].pool is not pool:
                    raise PoolError(f"{task} has the same content as {twin}, which would be in another pool than it")

    def _sealed(self, pool: Pool) -> bool:
        return pool is Pool.BLIND or (pool is Pool.REGRESSION and self.frozen)

    def _import(self, record: JournalRecord, event: Imported) -> None:
        if clash := event.added.keys() & self.tasks.keys():
            raise _misfit(record, f"{_some(sorted(clash))} were there before")
        if unknown := event.changed.keys() - self.tasks.keys():
            raise _misfit(record, f"{_some(sorted(unknown))} were never read in")
        for task, digest in event.added.items():
            self.tasks[task] = Placement(event.pool, digest, event.provenance, record)
            self._placed(record, task, "import", None)
        for task, digest in event.changed.items():
            placement = self.tasks[task]
            self._places[placement.digest].discard(task)
            placement.digest, placement.provenance, placement.imported = digest, event.provenance, record
            self._placed(record, task, "change", placement.pool)

    def _move(self, record: JournalRecord, event: Moved) -> None:
        for task, source in event.tasks.items():
            placement = self.tasks.get(task)
            if placement is None or placement.pool is not source or (source, event.to) in REFUSED:
                raise _misfit(record, f"{task} cannot have moved from {source} to {event.to}")
            placement.pool = event.to
            self._placed(record, task, "move", source)

    def _placed(self, record: JournalRecord, task: str, kind: str, source: Pool | None) -> None:
        placement = self.tasks[task]
        if placement.pool is Pool.TRAIN:
            self._trained.add(placement.digest)
        elif placement.digest in self._trained:
            raise _misfit(record, f"{task} in {placement.pool} has content that was trained on")
        self._places[placement.digest].add(task)
        placement.trail.append(
            TrailStep.model_construct(
                sequence=record.sequence,
                at=record.at,
                by=record.by,
                kind=kind,
                source=source,
                target=placement.pool,
                why=record.why,
                digest=placement.digest,
            )
        )


def changes(event: Event) -> bool:
    """Whether an event changed what a pool holds."""
    return isinstance(event, Imported | Moved)


def _unasked(what: str) -> PoolError:
    return PoolError(f"{what} would change the frozen regression pool; say that it is a revision")


def _misfit(record: JournalRecord, why: str) -> RegistryError:
    return RegistryError(f"record {record.sequence} of the journal does not fit: {why}; restore it from a copy")


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
