"""The newest version of each pool in a small file of its own, for people and other programs.

They follow the journal, so they never tell of more than it has; one that does shows that the journal has lost records.
"""

from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quintain.contracts.documents import one_line
from quintain.contracts.identity import Digest, canonical_json
from quintain.errors import RegistryError
from quintain.tasks.placements import Placements
from quintain.tasks.pools import Pool
from quintain.tasks.quarantine_file import replace_file


class Pointer(BaseModel):
    """The newest version of a pool, and the journal's last record when it was written. Version 0 has no manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pool: Pool
    version: int = Field(ge=0)
    manifest: Digest | None
    sequence: int = Field(ge=0)


def write_pointers(root: Path, placements: Placements) -> None:
    """Bring every pool's file up to the journal.

    Raises:
        RegistryError: one cannot be written. What the journal has is done all the same.
    """
    folder = root / "pools"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for pool in Pool:
            versions = placements.versions[pool]
            new = Pointer(
                pool=pool,
                version=len(versions),
                manifest=versions[-1].manifest if versions else None,
                sequence=placements.sequence,
            )
            document = canonical_json(new.model_dump(mode="json")) + b"\n"
            file = folder / f"{pool}.json"
            if not (file.is_file() and file.read_bytes() == document):
                replace_file(file, document)
    except OSError as error:
        raise RegistryError(f"{folder} cannot be written: {error.strerror or error}; the journal is whole") from error


def check_pointers(root: Path, placements: Callable[[], Placements], follow: Callable[[], object]) -> None:
    """Compare what the pools' files say with what the journal says.

    Raises:
        RegistryError: a file tells of what the journal does not have, or otherwise than it; or it is unreadable.
    """
    for pool in Pool:
        file = root / "pools" / f"{pool}.json"
        try:
            pointer = Pointer.model_validate_json(file.read_bytes())
        except FileNotFoundError:
            continue
        except (ValidationError, OSError) as error:
            told = one_line(error) if isinstance(error, OSError) else "it is not what the registry writes"
            raise RegistryError(f"{file} cannot be read: {told}; remove it, it is written anew") from error
        if pointer.sequence > placements().sequence:
            follow()  # it may have been written since the journal was read
        if pointer.sequence > placements().sequence:
            raise RegistryError(
                f"the journal in {root} ends at record {placements().sequence}, and {file.name} was written after "
                f"record {pointer.sequence}: records are lost; restore the journal from a copy"
            )
        versions = placements().versions[pool]
        known = versions[pointer.version - 1].manifest if 0 < pointer.version <= len(versions) else None
        if pointer.pool is not pool or pointer.manifest != known:
            raise RegistryError(
                f"{file} has {pointer.manifest} for version {pointer.version} of {pool}, and the journal {known}; "
                "a version's content never changes: restore the registry from a copy"
            )
