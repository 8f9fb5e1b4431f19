"""A task source without its tasks in quarantine: what servers and samplers draw from."""

from collections.abc import Iterator, Sequence

from quintain.errors import QuarantinedTaskError, QuarantineError, UnknownTaskError
from quintain.tasks.base import Scenario, ScenarioReport, TaskRef, TaskSource, normalised
from quintain.tasks.over import SourceOver
from quintain.tasks.quarantine import Entry, Place, QuarantineList

_MAX_DETAIL = 300


class QuarantinedSource(SourceOver):
    """A `TaskSource` over another. Safe to share between threads where the other is.

    A scenario in quarantine is not listed. A task in quarantine stays in its scenario's list, so that no index moves.
    Neither can be resolved: every method that takes a name raises `QuarantinedTaskError`, except `report`.
    """

    def __init__(self, source: TaskSource, quarantine: QuarantineList, where: str = "the quarantine list") -> None:
        """`where` names the list in messages.

        Raises:
            QuarantineError: an entry for this very dataset names what the dataset does not hold.
        """
        super().__init__(source)
        self._where = where
        of = {normalised(scenario.name): source.dataset_of(scenario.name) for scenario in source.scenarios()}
        served = {source.dataset_digest, *of.values()}
        self.entries = tuple(entry for entry in quarantine.entries if entry.dataset_digest in served)
        """The entries that apply, in order."""
        self.others = tuple(entry for entry in quarantine.entries if entry.dataset_digest not in served)
        """The entries about other datasets; they do not apply."""
        self._held: dict[Place, Entry] = {entry.place: entry for entry in self.entries}
        for entry in self.entries:
            try:
                source.task(entry.scenario, entry.task_idx)
                if entry.dataset_digest not in (source.dataset_digest, of[entry.scenario]):
                    raise UnknownTaskError(f"{entry.scenario} is of dataset {of[entry.scenario]}; correct the entry")
            except UnknownTaskError as error:
                raise QuarantineError(f"{where} has an entry that its dataset has no task for: {error}") from error

    def quarantined(self, scenario: str, task_idx: int | None = None) -> Entry | None:
        """The entry that keeps a task from being played, its whole scenario's before its own; None for none."""
        name = normalised(scenario)
        return self._held.get((name, None)) or self._held.get((name, task_idx))

    def tasks(self) -> Iterator[TaskRef]:
        """Every task that may be played, in the dataset's order."""
        for scenario in self.scenarios():
            for index in range(len(scenario.tasks)):
                if self.quarantined(scenario.name, index) is None:
                    yield self._source.task(scenario.name, index)

    def scenarios(self) -> Sequence[Scenario]:
        """The scenarios that may be played, in the dataset's order."""
        found = self._source.scenarios()
        return tuple(scenario for scenario in found if (normalised(scenario.name), None) not in self._held)

    def report(self, name: str) -> ScenarioReport:
        """What the dataset holds for a scenario and what is wrong with it, in quarantine or not."""
        return self._source.report(name)

    def _admit(self, name: str, task_idx: int | None) -> None:
        entry = self.quarantined(name, task_idx)
        if entry is None:
            return
        detail = f": {entry.detail[:_MAX_DETAIL]}" if entry.detail else ""
        raise QuarantinedTaskError(
            f"{entry.where} is in quarantine ({', '.join(entry.reasons)}){detail}; "
            f"play another, or mend it and take its entry out of {self._where}"
        )
