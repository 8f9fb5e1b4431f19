"""The quarantine list: tasks that were shown to be unsound, and why. Validation writes it, people may edit it.

An entry is about one dataset, by digest; it says nothing about another version of the same tasks.
"""

import json
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from quintain.contracts.documents import UnreadableDocument, from_json, from_yaml
from quintain.contracts.identity import Digest
from quintain.contracts.untrusted import printable
from quintain.errors import QuarantineError
from quintain.tasks.base import normalised

MAX_DETAIL: Final = 2000
"""Most characters of an entry's detail; what is over it is cut."""

Place = tuple[str, int | None]
"""A task: the scenario's normalised name and the task's index; None for the whole scenario."""

Format = Literal["json", "yaml"]


class Reason(StrEnum):
    """Why a task, or a whole scenario, is unsound; `MEANINGS` says what each means."""

    UNREADABLE = "unreadable"
    DOES_NOT_BOOT = "does_not_boot"
    FIRST_OBSERVATION_DIFFERS = "first_observation_differs"
    WARM_DIFFERS = "warm_differs"
    NOOP_COMPLETE = "noop_complete"
    NOOP_CHANGES_STATE = "noop_changes_state"
    SOLUTION_NOT_COMPLETE = "solution_not_complete"
    SOLUTION_UNSAFE = "solution_unsafe"
    REPLAY_DIFFERS = "replay_differs"
    VERIFIER_UNCERTAIN = "verifier_uncertain"
    VERIFIER_NOT_DETERMINISTIC = "verifier_not_deterministic"
    RANDOM_COMPLETE = "random_complete"
    LEFT_BEHIND = "left_behind"
    BY_HAND = "by_hand"


MEANINGS: Final[dict[Reason, str]] = {
    Reason.UNREADABLE: "The dataset's rows for it cannot be read or used.",
    Reason.DOES_NOT_BOOT: "The scenario does not load, or its episodes do not start.",
    Reason.FIRST_OBSERVATION_DIFFERS: "Two starts with one seed differ: in the tools, the initial state, what a "
    "reset answers, or the first read.",
    Reason.WARM_DIFFERS: "A first read answers otherwise on a warmed scenario than on one that was not warmed.",
    Reason.NOOP_COMPLETE: "Doing nothing is scored complete.",
    Reason.NOOP_CHANGES_STATE: "Doing nothing changes the state.",
    Reason.SOLUTION_NOT_COMPLETE: "The reference solution is not scored complete.",
    Reason.SOLUTION_UNSAFE: "The reference solution breaks the task's own safety bounds.",
    Reason.REPLAY_DIFFERS: "The reference solution, played twice, gives other answers, another final state or another "
    "verdict.",
    Reason.VERIFIER_UNCERTAIN: "The verifier crashes, takes too long, or returns what is no verdict.",
    Reason.VERIFIER_NOT_DETERMINISTIC: "The verifier returns something else each time, on the same two states.",
    Reason.RANDOM_COMPLETE: "Something else than the reference solution is scored complete, and ends otherwise.",
    Reason.LEFT_BEHIND: "Destroyed episodes leave processes, mounts, files or descriptors.",
    Reason.BY_HAND: "Someone put it there. Validation neither finds this nor takes it off.",
}
"""What each reason means, for people."""


def _name(name: str) -> str:
    name = normalised(name)
    if not name:
        raise ValueError("a scenario's name has letters or digits")
    return name


def _cut(text: str) -> str:
    text = printable(text)  # others wrote it, and people will read it in a terminal
    return text if len(text) <= MAX_DETAIL else text[: MAX_DETAIL - 3] + "..."


def _to_the_second(when: datetime) -> datetime:
    return when.astimezone(UTC).replace(microsecond=0)


_Text = Annotated[str, AfterValidator(_cut)]


class _Contract(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Entry(_Contract):
    """One task in quarantine; `task_idx` None is the whole scenario. `note` is for people, and is kept."""

    scenario: Annotated[str, Field(strict=True, max_length=512), AfterValidator(_name)]
    task_idx: Annotated[int, Field(strict=True, ge=0)] | None
    reasons: Annotated[
        tuple[Reason, ...], Field(min_length=1), AfterValidator(lambda reasons: tuple(sorted(set(reasons))))
    ]
    detail: _Text = ""
    note: _Text = ""
    dataset_digest: Digest
    verifier_digest: Digest | None = Field(default=None, description="Of the task's verifiers of all modes")
    found_at: Annotated[AwareDatetime, AfterValidator(_to_the_second)]

    @property
    def place(self) -> Place:
        """Which task it is about."""
        return self.scenario, self.task_idx

    @property
    def where(self) -> str:
        """The same in words."""
        return self.scenario if self.task_idx is None else f"task {self.task_idx} of {self.scenario}"

    @property
    def key(self) -> tuple[str, int, str]:
        """What no two entries of a list share, and what they are ordered by."""
        return self.scenario, -1 if self.task_idx is None else self.task_idx, self.dataset_digest


def _in_order(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    ordered = tuple(sorted(entries, key=lambda entry: entry.key))
    for first, second in pairwise(ordered):
        if first.key == second.key:
            raise ValueError(f"{first.where} has two entries for one dataset; leave one")
    return ordered


class QuarantineList(_Contract):
    """Entries in the order of their tasks, at most one per task and dataset."""

    schema_version: Literal[1]
    entries: Annotated[tuple[Entry, ...], AfterValidator(_in_order)]

    @classmethod
    def of(cls, entries: Iterable[Entry] = ()) -> Self:
        """A list of these entries."""
        return cls(schema_version=1, entries=tuple(entries))

    def about(self, dataset_digest: str) -> tuple[Entry, ...]:
        """The entries about one dataset."""
        return tuple(entry for entry in self.entries if entry.dataset_digest == dataset_digest)

    def merged(
        self, found: Iterable[Entry], dataset_digest: str, cleared: Collection[Place] = (), *, release: bool = False
    ) -> Self:
        """The list with what a validation found.

        A task that is in it already keeps its entry, and gets the reasons that are new. Nothing is taken off but by
        `release`, and then only what was found to be in order; what somebody put there by hand stays.

        Args:
            found: one entry for each task with findings, all about this dataset.
            cleared: tasks of this dataset with no findings.
            release: take off the tasks that were cleared, and reasons that were not found again.
        """
        held = {entry.key: entry for entry in self.entries}
        for entry in found:
            known = held.get(entry.key)
            held[entry.key] = entry if known is None else _united(known, entry, release)
        if release:
            for scenario, task_idx in cleared:
                key = (scenario, -1 if task_idx is None else task_idx, dataset_digest)
                if key in held:
                    known = held.pop(key)
                    if Reason.BY_HAND in known.reasons:
                        held[key] = known.model_copy(update={"reasons": (Reason.BY_HAND,)})
        return self.of(held.values())

    @classmethod
    def read(cls, data: bytes, form: Format, source: str = "the quarantine list") -> Self:
        """The list that a file holds. `source` names the file in messages.

        Raises:
            QuarantineError: it is no such list; the message says which entry is wrong, and how.
        """
        try:
            document = from_json(data) if form == "json" else from_yaml(data)
            return cls.model_validate(document)
        except UnreadableDocument as error:
            raise QuarantineError(f"{source} is not readable as {form.upper()}: {error}; correct it") from error
        except ValidationError as error:
            wrong = error.errors(include_url=False)
            told = "; ".join(_explain(item) for item in wrong[:3]) + ("; ..." if len(wrong) > 3 else "")
            raise QuarantineError(f"{source} is no quarantine list: {told}") from error

    def written(self, form: Format) -> bytes:
        """The list as a file holds it: equal lists give equal bytes."""
        document: dict[str, Any] = {
            "schema_version": self.schema_version,
            "entries": [_shown(entry) for entry in self.entries],
        }
        if form == "json":
            return (json.dumps(document, indent=2) + "\n").encode()
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100_000, encoding="utf-8")


def _united(known: Entry, found: Entry, release: bool) -> Entry:
    """What is known of a task together with what was found now; what is known already keeps its date and words."""
    by_hand = {Reason.BY_HAND} & set(known.reasons)
    reasons = set(found.reasons) | (by_hand if release else set(known.reasons))
    if reasons == set(known.reasons) and known.verifier_digest == found.verifier_digest:
        return known
    details = (found.detail,) if release else (known.detail, found.detail)
    return found.model_copy(
        update={
            "reasons": tuple(sorted(reasons)),
            "detail": _cut("; ".join(dict.fromkeys(filter(None, details)))),
            "note": known.note,
        }
    )


def _shown(entry: Entry) -> dict[str, Any]:
    document = entry.model_dump(mode="json")
    return {name: value for name, value in document.items() if name != "note" or value}


def _explain(item: Any) -> str:
    where = ".".join(str(part) for part in item["loc"]) or "the document"
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "missing":
        return f"{where} is missing"
    if item["type"] == "extra_forbidden":
        return f"{where} is unknown; remove it"
    return f"{where} is {repr(item['input'])[:80]}: {message[:1].lower()}{message[1:]}"
