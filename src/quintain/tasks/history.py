"""What the registry's journal records: who did what to the pools, when and why."""

from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from quintain.contracts.identity import Digest
from quintain.tasks.pools import Pool, TaskId

MAX_WORDS: Final = 500
"""Most characters of a name, a reason or a milestone."""

Words = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_WORDS)]
Stated = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_WORDS)]


class _Contract(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskProvenance(_Contract):
    """Where tasks came from, under which licence, and what read them in."""

    source: str
    revision: str | None = None
    commit: str | None = None
    licence: str = "unknown"
    dataset_digest: Digest
    importer: str
    importer_version: str


class Imported(_Contract):
    """Tasks were read in: new ones into `pool`, known ones with other content where they were. By task, digests."""

    kind: Literal["import"] = "import"
    pool: Pool
    provenance: TaskProvenance
    added: dict[TaskId, Digest] = Field(default_factory=dict)
    changed: dict[TaskId, Digest] = Field(default_factory=dict)


class Moved(_Contract):
    """Tasks left the pools they were in for another. A milestone is stated where blind ones are among them."""

    kind: Literal["move"] = "move"
    tasks: dict[TaskId, Pool] = Field(min_length=1)
    to: Pool
    milestone: Stated | None = None


class Opened(_Contract):
    """The blind pool was opened: its `tasks` tasks, as its manifest has them."""

    kind: Literal["opening"] = "opening"
    milestone: Stated
    manifest: Digest
    tasks: int = Field(ge=0)


class Frozen(_Contract):
    """The regression pool was frozen as it is; from then on every change of it is a revision."""

    kind: Literal["freeze"] = "freeze"
    manifest: Digest


Event = Annotated[Imported | Moved | Opened | Frozen, Field(discriminator="kind")]


class PoolVersion(_Contract):
    """The n-th manifest of a pool, from 1. What a version holds never changes."""

    version: int = Field(ge=1)
    manifest: Digest


class JournalRecord(_Contract):
    """One entry of the journal. `previous` is the checksum of the one before it, so that none can be lost unseen."""

    schema_version: Literal[1] = 1
    sequence: int = Field(ge=1)
    previous: Digest
    at: AwareDatetime
    by: Stated
    why: Words = ""
    revision: bool = False
    """Whether a frozen pool was changed on purpose."""
    versions: dict[Pool, PoolVersion] = Field(default_factory=dict)
    """The manifests that came of it, of the pools that changed."""
    event: Event


class TrailStep(_Contract):
    """One thing that happened to a task."""

    sequence: int
    at: AwareDatetime
    by: str
    kind: Literal["import", "change", "move"]
    source: Pool | None
    """The pool it was in; None when it was read in."""
    target: Pool
    why: str = ""
    digest: Digest
