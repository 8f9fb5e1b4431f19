"""The store of records: the trajectory table, its blobs, its lock; the index lies with the ledger's database.

    <root>/trajectories   Delta Lake table
    <root>/blobs          large texts, by digest
    <root>/quarantine     what was damaged, kept for whoever looks into it
    <root>/ingest.lock    held by the one process that writes

Needs the extra `store`. Only those who ingest or query import it.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from quintain.artifacts import LocalArtifactStore
from quintain.errors import StoreBusy, StoreError, UsageError
from quintain.records.database import Database
from quintain.records.index import Index

try:
    from quintain.records.columns import whole
    from quintain.records.packing import unpacked
    from quintain.records.trajectories import Trajectories, being
except ImportError as _missing:
    raise UsageError(f"the store of records needs its extra ({_missing}): pip install 'quintain[store]'") from _missing

LOCK_TIMEOUT_S: Final = 30.0


class Store:
    """An open store. Close it when done."""

    def __init__(self, root: Path, database: Database, lock: int | None) -> None:
        """Use `open` or `read`."""
        self.root = root
        self.index = Index(database)
        self.blobs = LocalArtifactStore(root / "blobs", fsync=True)
        self.trajectories = Trajectories(root / "trajectories")
        self.quarantine = root / "quarantine"
        self._database = database
        self._lock = lock

    @classmethod
    def open(cls, root: Path, ledger: str | Path) -> Self:
        """A store to write to, made first where there is none. One process at a time has it.

        Args:
            ledger: the ledger's database, a SQLite file or an SQLAlchemy URL, which has the index too.

        Raises:
            StoreBusy: another process writes to it.
            StoreError: it cannot be made or read.
            LedgerError, UsageError: the ledger's database cannot be opened.
        """
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(root / "ingest.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreError(f"the store {root} cannot be written: {error.strerror or error}; name another") from error
        try:
            _take(lock, root)
            database = Database.open(ledger, LOCK_TIMEOUT_S)
            try:
                store = cls(root, database, lock)
                store.trajectories.make(store.quarantine)
            except BaseException:
                database.close()
                raise
        except BaseException:
            os.close(lock)
            raise
        return store

    @classmethod
    def read(cls, root: Path, ledger: str | Path) -> Self:
        """A store to read from, whoever writes to it.

        Raises:
            StoreError: there is none.
            LedgerError, UsageError: the ledger's database cannot be opened.
        """
        cls.expect(root)
        return cls(root, Database.open(ledger, LOCK_TIMEOUT_S), None)

    @staticmethod
    def expect(root: Path) -> None:
        """Raises StoreError: there is no store at `root`."""
        if not (root / "trajectories").is_dir():
            raise StoreError(f"there is no store of records at {root}; name another, or ingest into it first")

    def find(self, digest: str) -> bytes | None:
        """A record's canonical JSON, from the table or while it waits from the outbox; None if it is in neither.

        Raises:
            StoreError, ArtifactError, RecordUnreadable: it cannot be read.
        """
        for row in self.trajectories.rows(["record", "blobs"], being(digest)):
            return whole(row["record"], row["blobs"], self.blobs)
        packed = self.index.packed(digest)
        return None if packed is None else unpacked(digest, packed).data

    def close(self) -> None:
        """Let another process have it. Idempotent."""
        self._database.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _take(lock: int, root: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
        raise StoreBusy(f"process {holder or '?'} ingests into the store {root}; end it first, or use it") from error
    with suppress(OSError):  # it is the lock that counts; the name in it is for messages
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
