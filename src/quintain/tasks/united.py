"""Several task sources served as one."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Self

from quintain.contracts.identity import digest_of
from quintain.errors import DatasetError, UnknownTaskError
from quintain.tasks.base import (
    JsonObject,
    OpenSource,
    Problem,
    Provenance,
    Scenario,
    ScenarioReport,
    Solution,
    TaskPolicy,
    TaskRef,
    Verifier,
    VerifierMode,
    normalised,
)


class UnitedSource:
    """A `TaskSource` of the scenarios of several, in their order. A context manager that closes them all.

    Each scenario keeps the identity that its own source gives it: `dataset_of` is that source's dataset, so an episode
    has the same id whatever is served beside it.
    """

    def __init__(self, parts: Sequence[OpenSource]) -> None:
        """`parts` are its own from now on: it closes them.

        Raises:
            DatasetError: two of them have a scenario of one name.
        """
        self.parts = tuple(parts)
        """The sources, in order."""
        holders: dict[str, list[OpenSource]] = defaultdict(list)
        for part in self.parts:
            for name in dict.fromkeys(normalised(one.name) for one in part.scenarios()):
                holders[name].append(part)
        twice = {name: held for name, held in holders.items() if len(held) > 1}
        if twice:
            told = [f"{name} ({', '.join(one.provenance.source for one in held)})" for name, held in twice.items()]
            more = f" and {len(told) - 5} more" if len(told) > 5 else ""
            raise DatasetError(
                f"scenarios of one name in several sources: {'; '.join(told[:5])}{more}; serve these sources apart, "
                "or rename the scenarios"
            )
        self._of = {name: held[0] for name, held in holders.items()}
        self._dataset_digest = digest_of(self.manifest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every part. Idempotent."""
        for part in self.parts:
            part.close()

    @property
    def dataset_digest(self) -> str:
        """Digest of `manifest`; no episode's identity holds it."""
        return self._dataset_digest

    @property
    def manifest(self) -> JsonObject:
        """The digests of the parts' manifests, in order."""
        return {"layout": "united/1", "datasets": [part.dataset_digest for part in self.parts]}

    @property
    def provenance(self) -> Provenance:
        """Where the parts came from, and under which licences."""
        of = [part.provenance for part in self.parts]
        return Provenance(
            source="; ".join(one.source for one in of), licence=" AND ".join(dict.fromkeys(one.licence for one in of))
        )

    @property
    def problems(self) -> Sequence[Problem]:
        """Everything wrong with the parts."""
        return tuple(problem for part in self.parts for problem in part.problems)

    def part_of(self, name: str) -> OpenSource:
        """The source that a scenario is of.

        Raises:
            UnknownTaskError: none has it; the message names close ones.
        """
        found = self._of.get(normalised(name))
        if found is None:
            near = get_close_matches(normalised(name), self._of, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else "list the scenarios to see what there is"
            raise UnknownTaskError(f"no scenario {name[:200]!r} among the {len(self._of)} there are; {hint}")
        return found

    def dataset_of(self, name: str) -> str:
        """Digest of the dataset that a scenario is of."""
        return self.part_of(name).dataset_of(name)

    def scenarios(self) -> Sequence[Scenario]:
        """All scenarios, those of the first part first."""
        return tuple(scenario for part in self.parts for scenario in part.scenarios())

    def scenario(self, name: str) -> Scenario:
        """One scenario."""
        return self.part_of(name).scenario(name)

    def task(self, name: str, task_idx: int | None = None, seed: int = 0) -> TaskRef:
        """A task by index, or the scenario open-ended."""
        return self.part_of(name).task(name, task_idx, seed)

    def template(self, name: str, task_idx: int) -> JsonObject | None:
        """What a task is for every seed, where a seed varies it."""
        return self.part_of(name).template(name, task_idx)

    def payload(self, name: str) -> JsonObject:
        """What the scenario's environment is built from."""
        return self.part_of(name).payload(name)

    def payload_digest(self, name: str) -> str:
        """Digest of the payload's canonical JSON."""
        return self.part_of(name).payload_digest(name)

    def verifier(self, name: str, task_idx: int, mode: VerifierMode) -> Verifier | None:
        """A task's verifier in one mode, or None where it has none."""
        return self.part_of(name).verifier(name, task_idx, mode)

    def verifiers(self, name: str, task_idx: int) -> tuple[Verifier, ...]:
        """A task's verifiers, of all modes it has."""
        return self.part_of(name).verifiers(name, task_idx)

    def solution(self, name: str, task_idx: int, seed: int = 0) -> Solution | None:
        """A task's reference solution for a seed, or None where its source ships none."""
        return self.part_of(name).solution(name, task_idx, seed)

    def policy(self, name: str, task_idx: int) -> TaskPolicy | None:
        """A task's safety bounds, or None where its source declares none."""
        return self.part_of(name).policy(name, task_idx)

    def report(self, name: str) -> ScenarioReport:
        """What the source of a scenario holds for it and what is wrong with it."""
        return self.part_of(name).report(name)


def united(openers: Sequence[Callable[[], OpenSource]]) -> OpenSource:
    """The one source there is, or several as one; none stays open if one does not open.

    Raises:
        DatasetError: one does not open, or two have a scenario of one name.
    """
    opened: list[OpenSource] = []
    try:
        for opener in openers:
            opened.append(opener())
        return opened[0] if len(opened) == 1 else UnitedSource(opened)
    except BaseException:
        for one in opened:
            one.close()
        raise
