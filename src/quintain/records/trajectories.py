"""The trajectory table: append-only, in Delta Lake's format, flushed to disk before anyone relies on it.

Delta's own writer leaves the flushing to the operating system, so files and log are flushed here; a log entry that a
power cut tore is put aside when the table is opened, and what it had added is still in the outbox.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.dataset as ds  # type: ignore[import-untyped]
from deltalake import DeltaTable, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError

from quintain.errors import StoreError
from quintain.records.columns import SCHEMA
from quintain.records.spool import flush_directory

_NAME: Final = "trajectories"
_WRITING: Final = WriterProperties(compression="ZSTD", compression_level=1)
_CHUNK: Final = 1000
_OF_LOG: Final = re.compile(r"\d+\.json|\d+\.checkpoint\S*\.parquet|_last_checkpoint|_sidecars")


class Trajectories:
    """The table in a directory. One process at a time may write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / "_delta_log"

    def make(self, quarantine: Path) -> list[str]:
        """Make the table if there is none, and put a torn log entry aside; what was put aside, as lines.

        Raises:
            StoreError: it cannot be made, or is damaged further back.
        """
        try:
            aside = self._put_torn_entries_aside(quarantine)
            if not DeltaTable.is_deltatable(str(self.folder)):
                self.folder.mkdir(parents=True, exist_ok=True)
                DeltaTable.create(
                    str(self.folder), SCHEMA, partition_by=["day"], name=_NAME,
                    description="One row per episode record; see `record` for the evidence",
                )  # fmt: skip
                self._flush(-1)
            return aside
        except (DeltaError, OSError) as error:
            raise self._refused("opened", error) from error

    def append(self, rows: pa.Table) -> None:
        """Append rows; they are on disk when it returns.

        Raises:
            StoreError: that is not certain; `present` says which are there.
        """
        try:
            table = DeltaTable(str(self.folder))
            before = table.version()
            write_deltalake(table, rows, mode="append", writer_properties=_WRITING)
            self._flush(before)
        except (DeltaError, OSError) as error:
            raise self._refused("written", error) from error

    def present(self, digests: Sequence[str], days: Sequence[str]) -> set[str]:
        """Which of these digests the table has, looked for in the partitions of these days. What it has is flushed.

        Raises:
            StoreError: it cannot be read.
        """
        found: set[str] = set()
        try:
            self._flush(-1)
            rows = self.dataset()
            for start in range(0, len(digests), _CHUNK):
                chosen = ds.field("day").isin(days) & ds.field("digest").isin(digests[start : start + _CHUNK])
                found.update(rows.to_table(columns=["digest"], filter=chosen)["digest"].to_pylist())
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise self._refused("read", error) from error
        return found

    def dataset(self) -> ds.Dataset:
        """The table as it is now.

        Raises:
            StoreError: there is none, or it cannot be read.
        """
        try:
            return DeltaTable(str(self.folder)).to_pyarrow_dataset()
        except (DeltaError, OSError) as error:
            raise self._refused("read", error) from error

    def rows(
        self, columns: Sequence[str] | None = None, condition: ds.Expression | None = None
    ) -> Iterator[dict[str, Any]]:
        """Rows as dictionaries, a batch in memory at a time.

        Raises:
            StoreError: it cannot be read.
        """
        try:
            for batch in self.dataset().to_batches(
                columns=columns, filter=condition, batch_size=256, batch_readahead=1
            ):
                yield from batch.to_pylist()
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise self._refused("read", error) from error

    def remove(self, digest: str) -> None:
        """Take a row out, by writing the rest of its day again; who looks at an older version still sees it.

        Delta's own delete would leave files whose texts are of another Arrow type, which filters cannot compare.

        Raises:
            StoreError: that failed.
        """
        try:
            table = DeltaTable(str(self.folder))
            before = table.version()
            days = self.dataset().to_table(columns=["day"], filter=being(digest))["day"].unique().to_pylist()
            for day in days:
                chosen = (ds.field("day") == day) & ~being(digest)
                rest = self.dataset().to_table(filter=chosen).select(SCHEMA.names).cast(SCHEMA)
                if rest.num_rows:
                    write_deltalake(
                        table, rest, mode="overwrite", predicate=f"day = '{day}'", writer_properties=_WRITING
                    )
                else:
                    table.delete(f"day = '{day}'")
                table = DeltaTable(str(self.folder))
            self._flush(before)
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise self._refused("written", error) from error

    def compact(self) -> dict[str, Any]:
        """Put small files together.

        Raises:
            StoreError: that failed; the table is as it was.
        """
        try:
            table = DeltaTable(str(self.folder))
            before = table.version()
            done = table.optimize.compact(writer_properties=_WRITING)
            self._flush(before)
        except (DeltaError, OSError) as error:
            raise self._refused("compacted", error) from error
        return {"files_added": done["numFilesAdded"], "files_removed": done["numFilesRemoved"]}

    def sizes(self) -> dict[str, int]:
        """Files and bytes of the newest version.

        Raises:
            StoreError: it cannot be read.
        """
        try:
            table = DeltaTable(str(self.folder))
            files = [Path(uri.removeprefix("file://")) for uri in table.file_uris()]
            return {
                "version": table.version(),
                "files": len(files),
                "bytes": sum(file.stat().st_size for file in files),
            }
        except (DeltaError, OSError) as error:
            raise self._refused("read", error) from error

    def unreferenced(self) -> list[Path]:
        """Files that no entry of the log names: a writer was killed while, or after, it wrote them.

        What an older version has is named in the log, and is none of them.

        Raises:
            StoreError: the table cannot be read.
        """
        try:
            paths = pa.table(DeltaTable(str(self.folder)).get_add_actions())["path"].to_pylist()
            for entry in self._entries():
                for action in map(json.loads, entry.read_text().splitlines()):
                    paths += [action[kind]["path"] for kind in ("add", "remove") if kind in action]
            named = {self.folder / path for path in paths} | {self.folder / unquote(path) for path in paths}
            found = []
            for file in self.folder.rglob("*"):
                if file.is_file() and file not in named:
                    of_log = file.parent == self._log and _OF_LOG.fullmatch(file.name)
                    found += [] if of_log else [file]
        except (DeltaError, OSError, ValueError) as error:
            raise self._refused("read", error) from error
        return sorted(found)

    def _entries(self) -> list[Path]:
        return sorted(path for path in self._log.glob("*.json") if path.stem.isdigit()) if self._log.is_dir() else []

    def _flush(self, before: int) -> None:
        """Have on disk what the versions after `before` added, with their entries in the log; all of the log if -1."""
        folders = {self.folder, self._log}
        for entry in self._entries():
            if int(entry.stem) <= before:
                continue
            for line in entry.read_text().splitlines():
                added = json.loads(line).get("add")
                if added and (file := self.folder / unquote(added["path"])).exists():
                    _flush_file(file)
                    folders.add(file.parent)
            _flush_file(entry)
        for path in self._log.iterdir():
            if path.name == "_last_checkpoint" or path.suffix == ".parquet":
                _flush_file(path)
        for folder in sorted(folders, reverse=True):
            flush_directory(folder)

    def _put_torn_entries_aside(self, quarantine: Path) -> list[str]:
        """From the newest entry back, those that are not whole, or whose files are not."""
        aside = []
        for entry in reversed(self._entries()):
            problem = self._problem_of(entry)
            if problem is None:
                break
            quarantine.mkdir(parents=True, exist_ok=True)
            entry.rename(quarantine / f"{entry.name}.torn")
            flush_directory(self._log)
            aside.append(f"{entry.name}: {problem}")
        return aside

    def _problem_of(self, entry: Path) -> str | None:
        try:
            actions = [json.loads(line) for line in entry.read_text().splitlines()]
        except ValueError as error:
            return f"not JSON ({error})"
        if not actions:
            return "empty"
        for action in actions:
            if added := action.get("add"):
                file = self.folder / unquote(added["path"])
                if not file.is_file() or file.stat().st_size != added["size"]:
                    return f"{added['path']} is not whole"
        return None

    def _refused(self, what: str, error: Exception) -> StoreError:
        said = " ".join(str(error).split())[:300]
        return StoreError(f"the trajectory table {self.folder} cannot be {what}: {said}")


def being(digest: str) -> ds.Expression:
    """The condition that a row is a record's."""
    return ds.field("digest") == digest


def _flush_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
