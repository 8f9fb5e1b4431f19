"""Kept states on their way to the store: files by digest, beside a spool's writers, then among the store's blobs.

A worker puts them into `<spool>/states` before it appends the record that names them. Whoever takes the record takes
them first, and removes them from the spool once they are durable elsewhere. Another record may name the same ones, such
as an initial state; then its worker has put them there again, or they are where its record goes already.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from quintain.artifacts import ArtifactStore, LocalArtifactStore
from quintain.contracts.record import EpisodeRecord, StateBlob
from quintain.errors import ArtifactCorrupt, ArtifactError, ArtifactMissing, RecordUnreadable
from quintain.records.spool import STATES
from quintain.sandboxes.base import StateFile

_SIDE_FILES: Final = ("", "-wal", "-journal")
_LOG = logging.getLogger(__name__)


def spool_states(root: Path) -> LocalArtifactStore:
    """Where the states are that a spool's records name; what is put there is on disk when `put` returns."""
    return LocalArtifactStore(root / STATES, fsync=True)


def blobs_of(record: EpisodeRecord) -> tuple[StateBlob, ...]:
    """The files of all states that a record names, each digest once."""
    kept = record.states
    if kept is None:
        return ()
    files = (*(kept.initial or ()), *(kept.final or ()), *(kept.scored or ()))
    return tuple({file.digest: file for file in files}.values())


def state_files(state: Iterable[StateBlob], blobs: ArtifactStore) -> list[StateFile]:
    """A kept state as files under names of ours, for a sandbox; their bytes are verified.

    Raises:
        ArtifactError: one is missing or damaged.
        RecordUnreadable: the record names files that do not belong together.
    """
    found: list[StateFile] = []
    first = ""
    for file in state:
        first = first or file.name
        suffix = file.name.removeprefix(first)
        if not file.name.startswith(first) or suffix not in _SIDE_FILES:
            raise RecordUnreadable(f"a kept state with the file {file.name!r} beside {first!r}")
        found.append(StateFile(f"{own_name(first)}{suffix}", blobs.path(file.digest)))
    return found


def own_name(first: str) -> str:
    """Our name for the first file of a state, by whose suffix its form is known: JSON, a tree, or a database."""
    return next((f"state{suffix}" for suffix in (".json", ".tar") if first.endswith(suffix)), "state.db")


@dataclass
class Carried:
    """What became of states that records name."""

    there: set[str] = field(default_factory=set)
    """Digests that the store has."""
    missing: list[str] = field(default_factory=list)
    """Which it has not, and why, in words."""


def carry(
    record: EpisodeRecord, digest: str, source: ArtifactStore | None, store: ArtifactStore, told: Carried
) -> None:
    """Have the states that a record names in the store; they are durable when it returns.

    What is missing or damaged is told, and the record is worth keeping all the same.

    Args:
        digest: the record's, for messages.
        source: where they come from; None: they are in the store, or nowhere.

    Raises:
        ArtifactError: the store cannot be written, or the source not read; carrying it again is safe.
    """
    for blob in blobs_of(record):
        if blob.digest in told.there:
            continue
        if not store.has(blob.digest):
            try:
                if source is None:
                    raise ArtifactMissing(f"it was not sent; {blob.digest} is not in the store")
                store.put(source.get(blob.digest))
            except (ArtifactMissing, ArtifactCorrupt) as error:
                told.missing.append(f"the file {blob.name!r} of a state of {digest}: {error}")
                _LOG.error("a state was not ingested: %s", told.missing[-1])
                continue
        told.there.add(blob.digest)


def drop(states: LocalArtifactStore, digests: Iterable[str]) -> None:
    """Remove states from a spool that are durable elsewhere. What cannot be removed stays; the log tells of it."""
    for digest in digests:
        try:
            states.remove(digest)
        except ArtifactError as error:
            _LOG.warning("a state that is no longer needed stays: %s", error)
