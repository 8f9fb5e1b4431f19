"""The registry's journal on disk: one line per record, each with its checksum and that of the one before it.

A line is `sha256:<hex> <canonical JSON>`. Records are appended and synced; nothing that was once whole is ever changed.
What a killed writer left of a line is no record: readers pass over it, the next writer cuts it off.
"""

import os
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import ValidationError

from quintain.contracts.identity import canonical_json, sha256
from quintain.errors import RegistryError
from quintain.tasks.history import JournalRecord

NOTHING: Final = sha256(b"")
"""What the first record follows."""


class Mark(NamedTuple):
    """How far a journal has been read: the last record, its checksum, and where the next one begins."""

    sequence: int = 0
    checksum: str = NOTHING
    offset: int = 0


class Read(NamedTuple):
    """What was read: the records after a mark, the mark after them, and how many bytes of a torn line follow."""

    records: tuple[JournalRecord, ...]
    mark: Mark
    torn: int


class Journal:
    """A journal's file. `append` and `cut` are for whoever holds the registry's lock; anyone may read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def signature(self) -> tuple[int, int, int] | None:
        """What changes when somebody writes; None where there is no journal."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RegistryError(f"{self.path} cannot be read: {error.strerror or error}") from error
        return status.st_ino, status.st_size, status.st_mtime_ns

    def read(self, mark: Mark) -> Read:
        """The records after a mark.

        Raises:
            RegistryError: a record is damaged, or records that were there before are gone.
        """
        try:
            with self.path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < mark.offset:
                    raise RegistryError(f"{self.path} is shorter than it was; restore it from a copy")
                file.seek(mark.offset)
                data = file.read()
        except FileNotFoundError:
            raise RegistryError(f"there is no task registry at {self.path.parent}; import tasks into it") from None
        except OSError as error:
            raise RegistryError(f"{self.path} cannot be read: {error.strerror or error}") from error
        records: list[JournalRecord] = []
        begin = 0
        while (end := data.find(b"\n", begin)) >= 0:
            try:
                record, checksum = _parsed(data[begin:end], mark)
            except ValueError as error:
                if end + 1 == len(data):
                    break  # the last line: a writer was killed within it, and blocks reach a disk in any order
                told = f"{self.path} is damaged after record {mark.sequence}: {_first(error)}; restore it from a copy"
                raise RegistryError(told) from error
            records.append(record)
            mark = Mark(record.sequence, checksum, mark.offset + end + 1 - begin)
            begin = end + 1
        return Read(tuple(records), mark, len(data) - begin)

    def append(self, mark: Mark, record: JournalRecord) -> Mark:
        """Write a record after all others; it is on disk when this returns.

        Raises:
            RegistryError: it cannot be written; nothing of it is left.
        """
        document = canonical_json(record.model_dump(mode="json"))
        checksum = sha256(document)
        line = checksum.encode() + b" " + document + b"\n"
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                self._write(handle, line, mark.offset)
            finally:
                os.close(handle)
            if mark.offset == 0:
                sync_folder(self.path.parent)
        except OSError as error:
            raise RegistryError(
                f"{self.path} cannot be written: {error.strerror or error}; nothing was changed"
            ) from error
        return Mark(record.sequence, checksum, mark.offset + len(line))

    def cut(self, mark: Mark) -> None:
        """Cut off what follows a mark.

        Raises:
            RegistryError: it cannot be written.
        """
        try:
            with self.path.open("r+b") as file:
                file.truncate(mark.offset)
                os.fsync(file.fileno())
        except OSError as error:
            raise RegistryError(f"{self.path} cannot be written: {error.strerror or error}") from error

    @staticmethod
    def _write(handle: int, line: bytes, offset: int) -> None:
        try:
            view = memoryview(line)
            while view:
                view = view[os.write(handle, view) :]
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, offset)
            raise


def sync_folder(folder: Path) -> None:
    """Bring a folder's names to disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _parsed(line: bytes, mark: Mark) -> tuple[JournalRecord, str]:
    given, _, document = line.partition(b" ")
    checksum = sha256(document)
    if given.decode("ascii", "replace") != checksum:
        raise ValueError("its checksum is not that of what it says")
    record = JournalRecord.model_validate_json(document)
    if (record.sequence, record.previous) != (mark.sequence + 1, mark.checksum):
        raise ValueError(f"record {record.sequence} does not follow record {mark.sequence}")
    return record, checksum


def _first(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        item = error.errors(include_url=False)[0]
        return f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
    return str(error)
