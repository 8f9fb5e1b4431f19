"""A dataset's index, opened: built when it is not there yet, otherwise reopened without reading the data.

The index of a folder is keyed by the names, sizes and modification times of the folder's files. It is built under
a temporary name and renamed, so processes that build at once do not disturb each other. Every row read is checked
against the digest taken when it was indexed.
"""

import hashlib
import json
import os
import sqlite3
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from quintain.artifacts.local import remove_abandoned
from quintain.errors import DatasetError
from quintain.tasks import layout
from quintain.tasks.base import JsonObject, Problem, Scenario, Solution, VerifierMode
from quintain.tasks.indexing import FORMAT, NO_TASK, IndexBuilder, Progress


class DatasetIndex:
    """The read side of one dataset folder. Safe to share between threads; close it when done."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, file: Path | None) -> None:
        """Use `open`; `file` is where the index lies, None for one in memory."""
        self._folder = folder
        self._connection = connection
        self._file = file
        self._lock = threading.Lock()
        self.manifest: JsonObject = json.loads(self._query("SELECT value FROM meta WHERE key = 'manifest'")[0][0])

    @classmethod
    def open(cls, folder: Path, cache_dir: Path | None, progress: Progress | None = None) -> Self:
        """Open a folder's index, building it first when there is none for the files as they are now.

        Args:
            cache_dir: where indexes are kept; None builds one in memory, for small datasets.
            progress: told while files are read, which happens only when the index is built.

        Raises:
            DatasetError: the folder lacks a file, a file changed meanwhile, or the index cannot be written.
        """
        folder = folder.resolve()
        files = layout.present_files(folder)
        if cache_dir is None:
            connection = sqlite3.connect(":memory:", check_same_thread=False)
            _fill(connection, folder, files, progress)
            return cls(folder, connection, None)
        target = _index_file(cache_dir, folder, files)
        opened = cls._reopen(folder, target)
        if opened is None:
            _build_file(target, folder, files, progress)
            opened = cls._reopen(folder, target)
        if opened is None:
            raise DatasetError(f"the index {target} cannot be read back; delete it and open the dataset again")
        return opened

    @classmethod
    def _reopen(cls, folder: Path, target: Path) -> Self | None:
        """The index if it is there and whole, else None."""
        if not target.is_file():
            return None
        # immutable: the file is never written after its rename, so no locks and no journal are looked for.
        uri = target.resolve().as_uri() + "?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        try:
            if connection.execute("PRAGMA user_version").fetchone() == (FORMAT,):
                return cls(folder, connection, target)
        except (sqlite3.DatabaseError, DatasetError, IndexError, ValueError):
            pass  # a damaged index is not an error: it is built again
        connection.close()
        return None

    def close(self) -> None:
        """Close the index. Idempotent."""
        with self._lock:
            self._connection.close()

    def scenarios(self) -> list[Scenario]:
        """All scenarios in the order of gen_scenario.jsonl."""
        return [_scenario(row) for row in self._query(f"{_SELECT_SCENARIO} ORDER BY position")]

    def scenario(self, name: str) -> Scenario | None:
        """One scenario by its normalised name."""
        return next((_scenario(row) for row in self._query(f"{_SELECT_SCENARIO} WHERE name = ?", name)), None)

    def names(self) -> list[str]:
        """Every scenario's normalised name."""
        return [name for (name,) in self._query("SELECT name FROM scenario ORDER BY position")]

    def row(self, file: str, scenario: str, task_idx: int | None = None) -> JsonObject | None:
        """One row of one file, read from the file now and checked; None where there is none.

        Raises:
            DatasetError: the file cannot be read or no longer holds the row that was indexed.
        """
        found = self._query(
            "SELECT offset, length, sha256 FROM place WHERE scenario = ? AND file = ? AND task_idx = ?",
            scenario,
            file,
            NO_TASK if task_idx is None else task_idx,
        )
        if not found:
            return None
        offset, length, digest = found[0]
        path = self._folder / file
        try:
            with path.open("rb", buffering=0) as data:
                line = os.pread(data.fileno(), length, offset)
        except OSError as error:
            raise DatasetError(f"cannot read {path}: {error.strerror}; put the file back") from error
        if hashlib.sha256(line).digest() != digest:
            self._drop()
            raise DatasetError(f"{path} is not the file that was indexed; open the dataset again to index it anew")
        return layout.parse(file, line).content

    def verifier_modes(self, scenario: str) -> dict[VerifierMode, list[int]]:
        """Which tasks of a scenario have a verifier, by mode."""
        modes: dict[VerifierMode, list[int]] = {mode: [] for mode in layout.VERIFIER_FILES.values()}
        places = "SELECT file, task_idx FROM place WHERE scenario = ? AND task_idx >= 0 ORDER BY file, task_idx"
        for file, task_idx in self._query(places, scenario):
            if file in layout.VERIFIER_FILES:
                modes[layout.VERIFIER_FILES[file]].append(task_idx)
        return modes

    def solution(self, scenario: str, task_idx: int) -> Solution | None:
        """A task's reference solution."""
        found = self._query("SELECT body FROM solution WHERE scenario = ? AND task_idx = ?", scenario, task_idx)
        return Solution.model_validate_json(found[0][0]) if found else None

    def solution_count(self, scenario: str) -> int:
        """How many of a scenario's tasks have a reference solution."""
        return int(self._query("SELECT count(*) FROM solution WHERE scenario = ?", scenario)[0][0])

    def problems(self, scenario: str | None = None) -> list[Problem]:
        """The problems of one scenario, or all of them."""
        if scenario is None:
            rows = self._query("SELECT body FROM problem ORDER BY position")
        else:
            rows = self._query("SELECT body FROM problem WHERE scenario = ? ORDER BY position", scenario)
        return [Problem.model_validate_json(body) for (body,) in rows]

    def _query(self, sql: str, *values: object) -> Sequence[Any]:
        try:
            with self._lock:
                return self._connection.execute(sql, values).fetchall()
        except sqlite3.ProgrammingError as error:
            raise DatasetError(f"the dataset {self._folder} was closed; open it again") from error
        except sqlite3.DatabaseError as error:
            self._drop()
            raise DatasetError(f"the index of {self._folder} is damaged ({error}); open the dataset again") from error

    def _drop(self) -> None:
        if self._file is not None:
            self._file.unlink(missing_ok=True)


_SELECT_SCENARIO = "SELECT name, title, description, tasks FROM scenario"


def _scenario(row: tuple[str, str, str, str]) -> Scenario:
    name, title, description, tasks = row
    return Scenario(name=name, title=title, description=description, tasks=tuple(json.loads(tasks)))


def _stamps(folder: Path, files: tuple[str, ...]) -> list[tuple[str, int, int]]:
    named = [*files, layout.SOLUTIONS] if (folder / layout.SOLUTIONS).is_file() else list(files)
    stats = [(name, (folder / name).stat()) for name in named]
    return [(name, status.st_size, status.st_mtime_ns) for name, status in stats]


def _index_file(cache_dir: Path, folder: Path, files: tuple[str, ...]) -> Path:
    """`<folder>-<files>.sqlite`: the first part lets an index of older files be told from other folders' indexes."""
    place = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    stamps = json.dumps([FORMAT, _stamps(folder, files)])
    return cache_dir / f"awm-{place}-{hashlib.sha256(stamps.encode()).hexdigest()[:24]}.sqlite"


def _build_file(target: Path, folder: Path, files: tuple[str, ...], progress: Progress | None) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(target.parent.glob("awm-*.tmp"))
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.stem + ".", suffix=".tmp")
    except OSError as error:
        raise DatasetError(f"cannot keep an index in {target.parent}: {error.strerror}; name another folder") from error
    os.close(handle)
    temporary = Path(name)
    connection = sqlite3.connect(temporary)
    try:
        connection.execute("PRAGMA journal_mode = OFF")
        _fill(connection, folder, files, progress)
        connection.close()
        os.replace(temporary, target)
    except (OSError, sqlite3.OperationalError) as error:
        raise DatasetError(f"cannot write the index {target}: {error}; free space or name another folder") from error
    finally:
        connection.close()
        temporary.unlink(missing_ok=True)
    for older in target.parent.glob(target.name.rpartition("-")[0] + "-*.sqlite"):
        if older != target:
            older.unlink(missing_ok=True)


def _fill(connection: sqlite3.Connection, folder: Path, files: tuple[str, ...], progress: Progress | None) -> None:
    before = _stamps(folder, files)
    IndexBuilder(connection, folder, progress).build(files)
    if _stamps(folder, files) != before:
        raise DatasetError(f"the files in {folder} changed while they were indexed; open the dataset again")
