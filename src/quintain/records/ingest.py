"""Ingest: records from spools and from the network into the store, each once.

The order is: the score is in the ledger already, since the verdict; one SQL transaction commits index row, link to the
score and outbox entry; from then on the record is accepted, and its sender is told. Then the trajectory table is
appended to, and only when that is on disk the outbox entry goes. What is in the outbox after a kill is looked for in
the table, by digest, before it is appended again.

`python -m quintain.records.ingest --help` runs it as a process of its own, as `quintain store ingest` does.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from quintain.artifacts import LocalArtifactStore
from quintain.contracts.identity import sha256
from quintain.contracts.record import EpisodeRecord
from quintain.errors import QuintainError, RecordUnreadable
from quintain.records import columns
from quintain.records.base import MAX_ATTEMPT
from quintain.records.index import Arrival, Entry
from quintain.records.lost import lost_record
from quintain.records.packing import packer, unpacked
from quintain.records.recorder import Sealed, seal
from quintain.records.redaction import Redactor
from quintain.records.spool import flush_directory
from quintain.records.states import Carried, carry
from quintain.records.store import Store

ORPHANED_AFTER_S: Final = 24 * 3600.0
"""After this long a score whose record never came is given one."""

APPEND_ROWS: Final = 2000
APPEND_BYTES: Final = 64 * 2**20
APPEND_AFTER_S: Final = 2.0
"""The trajectory table is appended to when so many rows or bytes wait, or one of them for so long."""

_LOG = logging.getLogger(__name__)


@dataclass
class Accepted:
    """What became of a batch."""

    new: int = 0
    duplicates: int = 0
    refused: list[str] = field(default_factory=list)
    """Why what was no record was refused; it is in quarantine."""
    states: Carried = field(default_factory=Carried)
    """What became of the states that the records name."""


@dataclass
class _Waiting:
    """Accepted records that are to be appended, as they are in memory."""

    rows: list[columns.Row] = field(default_factory=list)
    size: int = 0
    since: float = 0.0


class Ingest:
    """Brings records into an open store. Used by one thread."""

    def __init__(
        self,
        store: Store,
        *,
        append_rows: int = APPEND_ROWS,
        append_after_s: float = APPEND_AFTER_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives seconds since 1970."""
        self._store = store
        self._append_rows = append_rows
        self._append_after_s = append_after_s
        self._clock = clock
        self._waiting = _Waiting()
        self._certain = True
        self._packed = packer()

    def accept(self, payloads: Iterable[bytes], states: LocalArtifactStore | None = None) -> Accepted:
        """Accept payloads; they are durable when it returns. What is no record is put in quarantine and told of.

        The states that they name come first, so that no accepted record names what was still to be brought.

        Args:
            states: where these states are; None: in the store, or nowhere.

        Raises:
            LedgerError, ArtifactError: nothing was accepted, or it is not known; accepting it again is safe.
        """
        outcome = Accepted()
        arrivals: list[Arrival] = []
        for payload in payloads:
            try:
                arrivals.append(self._arrival(payload))
            except RecordUnreadable as error:
                self._refuse(payload, error, outcome)
        for arrival in arrivals:
            carry(arrival.record, arrival.digest, states, self._store.blobs, outcome.states)
        self._commit(arrivals, outcome)
        return outcome

    def _arrival(self, payload: bytes) -> Arrival:
        sealed = Sealed.read(payload)
        one = sealed.record()
        if problem := _unfit(one):
            raise RecordUnreadable(problem)
        return Arrival(sealed, one, self._packed(payload))

    def _commit(self, arrivals: Sequence[Arrival], outcome: Accepted) -> None:
        """Accept a batch; one that the database cannot hold is found by halving."""
        if not arrivals:
            return
        try:
            entries = self._store.index.accept(arrivals, self._clock())
        except RecordUnreadable as error:
            if len(arrivals) == 1:
                self._refuse(arrivals[0].sealed.payload(), error, outcome)
                return
            middle = len(arrivals) // 2
            self._commit(arrivals[:middle], outcome)
            self._commit(arrivals[middle:], outcome)
            return
        outcome.new += len(entries)
        outcome.duplicates += len(arrivals) - len(entries)
        if entries and not self._waiting.rows:
            self._waiting.since = time.monotonic()
        for arrival in arrivals:
            if (entry := entries.pop(arrival.digest, None)) is not None:
                self._waiting.rows.append(columns.Row(arrival.sealed, arrival.record, entry))
                self._waiting.size += len(arrival.sealed.data)

    def _refuse(self, payload: bytes, why: RecordUnreadable, outcome: Accepted) -> None:
        outcome.refused.append(str(why))
        _LOG.error("not ingested: %s", why)
        keep_aside(self._store, payload, "refused")

    @property
    def due(self) -> bool:
        """Whether the trajectory table should be appended to now."""
        waiting = self._waiting
        if not waiting.rows:
            return not self._certain
        old = time.monotonic() - waiting.since >= self._append_after_s
        return old or len(waiting.rows) >= self._append_rows or waiting.size >= APPEND_BYTES

    def append(self) -> int:
        """Append to the trajectory table what was accepted; how many rows.

        Raises:
            StoreError, ArtifactError: it stays in the outbox, and the next time it is looked for in the table first.
            LedgerError: likewise.
        """
        if not self._certain:
            return self.recover()
        waiting, self._waiting = self._waiting, _Waiting()
        if waiting.rows:
            self._certain = False
            self._store.trajectories.append(columns.table(waiting.rows, self._store.blobs))
            self._store.index.stored(row.sealed.envelope.digest for row in waiting.rows)
            self._certain = True
        return len(waiting.rows)

    def recover(self) -> int:
        """Finish the outbox: what is not in the trajectory table is appended; how many rows were.

        Raises:
            StoreError, ArtifactError, LedgerError: the rest stays in the outbox.
        """
        self._waiting, self._certain = _Waiting(), False
        done, index = 0, self._store.index
        while entries := index.waiting(APPEND_ROWS, APPEND_BYTES):
            there = self._store.trajectories.present(
                [digest for digest, _, _ in entries], sorted({entry.day for _, entry, _ in entries})
            )
            rows = [self._row(digest, entry, data) for digest, entry, data in entries if digest not in there]
            if missing := [row for row in rows if row is not None]:
                self._store.trajectories.append(columns.table(missing, self._store.blobs))
            index.stored(digest for digest, _, _ in entries)
            done += len(missing)
        self._certain = True
        return done

    def _row(self, digest: str, entry: Entry, data: bytes) -> columns.Row | None:
        """An outbox entry unpacked; one that is damaged goes into quarantine and out of the index."""
        try:
            sealed = unpacked(digest, data)
            return columns.Row(sealed, sealed.record(), entry)
        except RecordUnreadable as error:
            _LOG.error("%s in the outbox is damaged, and put in quarantine: %s", digest, error)
            keep_aside(self._store, data, "outbox")
            self._store.index.forget([digest])
            return None

    def record_lost(self, orphaned_after_s: float = ORPHANED_AFTER_S) -> int:
        """Give a record to every score that has none and is older than this; how many were made.

        Such a try's worker was killed between its verdict and its record. What the ledger has stands; the record says
        that the infrastructure ended it, so nothing trains on it. If the true one comes after all, it takes its place.

        Raises:
            LedgerError: they are made the next time.
        """
        made = 0
        while found := self._store.index.unrecorded(self._clock() - orphaned_after_s):
            sealed = [
                seal(lost_record(score, like), Redactor(entropy=False), score.run, score.submitted_at)
                for score, like in found
            ]
            outcome = self.accept(one.payload() for one in sealed)
            made += outcome.new
            if not outcome.new:
                break  # whatever keeps them from counting, it would do so again
        return made


def keep_aside(store: Store, data: bytes, what: str) -> None:
    """Keep bytes in the store's quarantine, under a name made of what they are; it is on disk when this returns."""
    name = f"{what}-{sha256(data).removeprefix('sha256:')}"
    store.quarantine.mkdir(mode=0o700, exist_ok=True)
    with (store.quarantine / name).open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    flush_directory(store.quarantine)


def _unfit(one: EpisodeRecord) -> str | None:
    """Why no database or table could hold it."""
    for name in ("attempt", "task_idx", "environment_failures", "hibernations"):
        if abs(getattr(one, name) or 0) > MAX_ATTEMPT:
            return f"{name} {getattr(one, name)}: numbers over {MAX_ATTEMPT} cannot be indexed"
    if any(step.index >= 2**31 for step in one.steps):
        return "a step whose index is 2^31 or more"
    if len(one.model_digest) > 512:
        return f"a model_digest of {len(one.model_digest)} characters; at most 512 can be indexed"
    if any("\0" in text for text in (one.model_digest, one.scenario, one.terminal_reason)):
        return "NUL in model_digest, scenario or terminal_reason, which not every database can hold"
    return None


def main() -> int:
    """Run the ingest process with the arguments of the command line."""
    from quintain.records.service import run_from_arguments

    try:
        return run_from_arguments(sys.argv[1:])
    except QuintainError as error:
        print(f"quintain: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
