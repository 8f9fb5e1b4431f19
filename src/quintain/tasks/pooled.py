"""A task source that shows the tasks of some pools only: what a control token's holder may list and reset."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

from quintain.errors import PoolError, QuintainError, RegistryError, UnknownTaskError
from quintain.tasks.base import Problem, Scenario, TaskRef, TaskSource, normalised
from quintain.tasks.manifest import TaskEntry
from quintain.tasks.over import SourceOver
from quintain.tasks.pools import Pool, task_id
from quintain.tasks.registry import TaskRegistry

Answer = TypeVar("Answer")

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class PoolScope:
    """Whose view it is: the pools that are seen, by whom, and the milestone that blind is opened for."""

    pools: frozenset[Pool]
    by: str
    milestone: str | None = None

    @property
    def words(self) -> str:
        """The pools in their order."""
        return ", ".join(pool for pool in Pool if pool in self.pools)


class PooledSource(SourceOver):
    """A `TaskSource` over another. Safe to share between threads where the other is.

    It follows the registry: a task that moves while the server runs is out of reach at the next listing and reset.
    A scenario is seen if one of its tasks is. No index moves: in its list, tasks that are not seen are empty strings,
    and those after the last that is seen are left out. A task whose content is not what was registered is refused.

    The blind pool is opened, once per source, before anything of it is shown.
    """

    def __init__(self, source: TaskSource, registry: TaskRegistry, scope: PoolScope) -> None:
        """`scope` needs a milestone if it has the blind pool.

        Raises:
            PoolError: it has none.
        """
        if Pool.BLIND in scope.pools and not (scope.milestone or "").strip():
            raise PoolError(f"{scope.by} may see blind tasks, and no milestone is stated; state one")
        super().__init__(source)
        self._registry = registry
        self._scope = scope
        self._lock = threading.Lock()
        self._opened = False
        self._seen: tuple[int, dict[str, frozenset[int]]] = (-1, {})
        self._checked: set[tuple[str, str]] = set()

    @property
    def problems(self) -> Sequence[Problem]:
        """What is wrong with the rows of the scenarios that are seen."""
        seen = self._places()
        return tuple(problem for problem in self._source.problems if normalised(problem.scenario or "") in seen)

    def indices(self, name: str) -> tuple[int, ...]:
        """Indices of a scenario's tasks that are seen; empty for a scenario that is not."""
        return tuple(sorted(self._places().get(normalised(name), ())))

    def tasks(self) -> Iterator[TaskRef]:
        """Every task that is seen, in the dataset's order."""
        for scenario in self.scenarios():
            for index in self.indices(scenario.name):
                if index < len(scenario.tasks):
                    yield self.task(scenario.name, index)

    def scenarios(self) -> Sequence[Scenario]:
        """The scenarios that are seen, in the dataset's order."""
        seen = self._places()
        every = ((one, seen[normalised(one.name)]) for one in self._source.scenarios() if normalised(one.name) in seen)
        shown = tuple(_shown(one, places) for one, places in every if any(place < len(one.tasks) for place in places))
        self._open_for(task_id(one.name, place) for one in shown for place in seen[normalised(one.name)])
        return shown

    def scenario(self, name: str) -> Scenario:
        """One scenario."""
        places = self._refuse(name)
        self._open_for(task_id(name, place) for place in places)
        return _shown(self._source.scenario(name), places)

    def _admit(self, name: str, task_idx: int | None) -> None:
        places = self._refuse(name)
        if task_idx is None:
            return
        if isinstance(task_idx, bool) or task_idx not in places:
            raise UnknownTaskError(
                f"no task {task_idx} in {normalised(name)} that {self._scope.by} may see ({self._scope.words}); "
                f"it may see {', '.join(str(place) for place in sorted(places))}"
            )
        self._open_for([task_id(name, task_idx)])
        self._refuse_changed(name, task_idx)

    def _places(self) -> dict[str, frozenset[int]]:
        """Indices of the tasks that are seen, by scenario, as the registry has it now.

        Raises:
            QuintainError: the registry cannot be read; nothing is seen then.
        """
        with self._lock:
            sequence = self._ask(lambda registry: registry.sequence)
            if self._seen[0] != sequence:
                found: dict[str, set[int]] = {}
                pools = self._scope.pools
                for task in self._ask(lambda registry: [one for pool in pools for one in registry.tasks(pool)]):
                    scenario, _, index = task.rpartition("/")
                    found.setdefault(scenario, set()).add(int(index))
                self._seen = sequence, {name: frozenset(places) for name, places in found.items()}
            return self._seen[1]

    def _ask(self, ask: Callable[[TaskRegistry], Answer]) -> Answer:
        """What the registry answers. Where it fails, others are told that it does, without the paths it names."""
        try:
            return ask(self._registry)
        except RegistryError as error:
            _LOG.error("the task registry failed: %s", error)
            raise QuintainError(
                "the task registry cannot be used now, so no task is shown; its log says why"
            ) from error

    def _refuse(self, name: str) -> frozenset[int]:
        """Refuse a scenario that is not seen; else the indices in it that are, blind opened if they are all blind."""
        seen = self._places()
        places = seen.get(normalised(name))
        if places is None:
            near = get_close_matches(normalised(name), seen, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else "list the scenarios to see what there is"
            raise UnknownTaskError(
                f"no scenario {name[:200]!r} that {self._scope.by} may see ({self._scope.words}); {hint}"
            )
        if all(self._blind(task_id(name, place)) for place in places):
            self._open()
        return places

    def _blind(self, task: str) -> bool:
        return Pool.BLIND in self._scope.pools and self._ask(lambda registry: registry.pool_of(task)) is Pool.BLIND

    def _open_for(self, tasks: Iterable[str]) -> None:
        """Open the blind pool if any of these tasks is in it."""
        if not self._opened and Pool.BLIND in self._scope.pools and any(self._blind(task) for task in tasks):
            self._open()

    def _open(self) -> None:
        with self._lock:
            milestone = self._scope.milestone
            if self._opened or milestone is None:
                return
            self._ask(lambda registry: registry.open_blind(milestone=milestone, by=self._scope.by, why="served"))
            self._opened = True

    def _refuse_changed(self, name: str, task_idx: int) -> None:
        task = task_id(name, task_idx)
        registered = self._ask(lambda registry: registry.digest_of(task))
        if registered is None or (task, registered) in self._checked:
            return
        if TaskEntry.of(self._source, name, task_idx).digest != registered:
            raise PoolError(f"{task} is not what was registered under that name; import the dataset again")
        self._checked.add((task, registered))


def _shown(scenario: Scenario, places: frozenset[int]) -> Scenario:
    """A scenario with the texts of the tasks that are seen, each at its index."""
    last = max((place for place in places if place < len(scenario.tasks)), default=-1)
    texts = (text if index in places else "" for index, text in enumerate(scenario.tasks[: last + 1]))
    return scenario.model_copy(update={"tasks": tuple(texts)})
