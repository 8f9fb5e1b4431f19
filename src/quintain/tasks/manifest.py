"""What a pool holds, as a document whose digest is its identity, and how a dataset's tasks become its entries.

A manifest says nothing of when or by whom it was made: two registries that hold the same tasks have the same one.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from quintain.contracts.documents import UnreadableDocument, from_json
from quintain.contracts.identity import Digest, canonical_json, digest_of, sha256
from quintain.errors import DatasetError, DescriptorError, RegistryError
from quintain.tasks.base import TaskSource, normalised, verifier_bundle
from quintain.tasks.pools import Pool, TaskId, task_id

Progress = Callable[[int, int], None]
"""Told how many scenarios of how many are done."""


class _Contract(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskEntry(_Contract):
    """One task: its place, and the digests of everything that makes it what it is.

    `digest` is of the other four; it does not depend on the place. `payload` and `verifiers` are those of the episode's
    descriptor, so entries and episodes can be joined. Where a seed varies the task, `text` is of its template: what it
    draws, its text and what it varies of the initial state, so that a task is registered for all seeds at once.
    """

    task: TaskId
    scenario: str
    task_idx: int = Field(ge=0)
    digest: Digest
    payload: Digest
    text: Digest
    verifiers: Digest
    policy: Digest | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.task != task_id(self.scenario, self.task_idx):
            raise ValueError(f"task {self.task} is not task {self.task_idx} of {self.scenario}")
        if self.digest != content_digest(self.payload, self.text, self.verifiers, self.policy):
            raise ValueError(f"the digest of {self.task} is not that of its parts")
        return self

    @classmethod
    def of(cls, source: TaskSource, scenario: str, task_idx: int) -> Self:
        """The entry of a source's task. Reads its content.

        Raises:
            UnknownTaskError: no such task.
            DatasetError, DescriptorError: its rows are missing, unreadable, or not representable.
        """
        ref = source.task(scenario, task_idx)
        kept = (one for one in source.verifiers(ref.scenario, task_idx) if one.code.strip())
        policy = source.policy(ref.scenario, task_idx)
        template = source.template(ref.scenario, task_idx)
        payload = source.payload_digest(ref.scenario)
        text = digest_of({"text": ref.text} if template is None else {"template": template})
        verifiers, bounds = digest_of(verifier_bundle(kept)), None if policy is None else policy.digest
        return cls(
            task=task_id(ref.scenario, task_idx),
            scenario=normalised(ref.scenario),
            task_idx=task_idx,
            digest=content_digest(payload, text, verifiers, bounds),
            payload=payload,
            text=text,
            verifiers=verifiers,
            policy=bounds,
        )

    def changes(self, other: Self) -> tuple[str, ...]:
        """Names of the parts in which two entries of one task differ."""
        return tuple(
            name for name in ("payload", "text", "verifiers", "policy") if getattr(self, name) != getattr(other, name)
        )


def content_digest(payload: str, text: str, verifiers: str, policy: str | None) -> str:
    """Digest of a task's content by the digests of its parts."""
    return digest_of({"payload": payload, "text": text, "verifiers": verifiers, "policy": policy})


def _in_order(entries: tuple[TaskEntry, ...]) -> tuple[TaskEntry, ...]:
    ordered = tuple(sorted(entries, key=lambda entry: (entry.scenario, entry.task_idx)))
    for first, second in pairwise(ordered):
        if first.task == second.task:
            raise ValueError(f"{first.task} stands twice")
    return ordered


class PoolManifest(_Contract):
    """What a pool holds, in the order of scenario and index, whatever the order they were given in."""

    schema_version: Literal[1] = 1
    pool: Pool
    entries: Annotated[tuple[TaskEntry, ...], AfterValidator(_in_order)] = ()

    @classmethod
    def of(cls, pool: Pool, entries: Iterable[TaskEntry]) -> Self:
        """The manifest of these entries.

        Raises:
            ValidationError: a task stands twice.
        """
        return cls(pool=pool, entries=tuple(entries))

    @property
    def document(self) -> bytes:
        """Its canonical JSON: what is stored."""
        return canonical_json(self.model_dump(mode="json"))

    @property
    def digest(self) -> str:
        """Digest of the document: the manifest's identity."""
        return sha256(self.document)

    @property
    def by_task(self) -> dict[str, TaskEntry]:
        """Its entries by task id."""
        return {entry.task: entry for entry in self.entries}

    @classmethod
    def read(cls, data: bytes, source: str) -> Self:
        """The manifest in a document. `source` names it in messages.

        Raises:
            RegistryError: it is none.
        """
        try:
            return cls.model_validate(from_json(data))
        except UnreadableDocument as error:
            raise RegistryError(f"{source} is no pool manifest: {error}; restore it from a copy") from error
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the document"
            raise RegistryError(
                f"{source} is no pool manifest: {where}: {str(first['msg'])[:300]}; restore it from a copy"
            ) from error


class Unusable(NamedTuple):
    """A task that cannot be registered, and why."""

    task: str
    why: str


class Entries(NamedTuple):
    """A source's tasks as entries, and those that are unusable."""

    entries: tuple[TaskEntry, ...]
    unusable: tuple[Unusable, ...]


def entries_of(
    source: TaskSource, scenarios: Collection[str] | None = None, progress: Progress | None = None
) -> Entries:
    """The entries of a source's tasks, of all its scenarios or of those named. Reads their content: it takes a while.

    Raises:
        UnknownTaskError: a scenario that is named is not there.
    """
    every = source.scenarios()
    wanted: Sequence[str] = [one.name for one in every]
    if scenarios is not None:
        wanted = list(dict.fromkeys(source.scenario(name).name for name in scenarios))
    counts = {one.name: len(one.tasks) for one in every}
    entries: list[TaskEntry] = []
    unusable: list[Unusable] = []
    for done, name in enumerate(wanted):
        if progress is not None:
            progress(done, len(wanted))
        for task_idx in range(counts[name]):
            try:
                entries.append(TaskEntry.of(source, name, task_idx))
            except (DatasetError, DescriptorError) as error:
                unusable.append(Unusable(task_id(name, task_idx), str(error)))
    return Entries(tuple(entries), tuple(unusable))
