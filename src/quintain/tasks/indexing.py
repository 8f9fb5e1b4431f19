"""Building a dataset's index: one pass over the files, once.

The index is a small SQLite file: scenarios with their descriptions and tasks, where each row lies (offset, length,
digest), the reference solutions, and every problem found. The rows themselves stay in the dataset's files.
"""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ValidationError

from quintain.contracts.identity import canonical_json
from quintain.tasks import layout
from quintain.tasks.base import Problem, ProblemKind, Solution, ToolCall, normalised

FORMAT = 2
"""Bumped when the index's tables change; an index of another format is built anew."""

Progress = Callable[[str, int, int], None]
"""Told while a file is read: its name, bytes read, bytes in all."""

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE scenario (position INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, title TEXT NOT NULL,
    description TEXT NOT NULL, tasks TEXT NOT NULL);
CREATE TABLE place (file TEXT, scenario TEXT, task_idx INTEGER, offset INTEGER NOT NULL, length INTEGER NOT NULL,
    sha256 BLOB NOT NULL, PRIMARY KEY (scenario, file, task_idx)) WITHOUT ROWID;
CREATE TABLE solution (scenario TEXT, task_idx INTEGER, body TEXT NOT NULL,
    PRIMARY KEY (scenario, task_idx)) WITHOUT ROWID;
CREATE TABLE problem (position INTEGER PRIMARY KEY, scenario TEXT, body TEXT NOT NULL);
CREATE INDEX problem_scenario ON problem (scenario);
"""
NO_TASK = -1
"""`place.task_idx` of a row that belongs to a whole scenario."""
_REPORT_EVERY = 8 * 2**20


class IndexBuilder:
    """Fills an empty SQLite database with the index of one dataset folder."""

    def __init__(self, connection: sqlite3.Connection, folder: Path, progress: Progress | None = None) -> None:
        self._connection = connection
        self._folder = folder
        self._progress = progress
        self._scenarios: dict[str, tuple[str, str]] = {}
        self._tasks: dict[str, list[str]] = {}
        self._places: dict[tuple[str, str, int], tuple[int, int, bytes]] = {}
        self._task_rows: list[tuple[Problem, int, str]] = []
        self._problems: list[Problem] = []

    def build(self, files: tuple[str, ...]) -> None:
        """Read the files and commit the index."""
        digests = {file: self._read_file(file) for file in files}
        manifest = {"layout": layout.LAYOUT, "epoch": layout.EPOCH, "files": digests}
        self._join()
        self._connection.executescript(_SCHEMA)
        self._connection.execute(f"PRAGMA user_version = {FORMAT}")
        self._connection.execute("INSERT INTO meta VALUES ('manifest', ?)", (canonical_json(manifest).decode(),))
        self._connection.executemany(
            "INSERT INTO scenario (name, title, description, tasks) VALUES (?, ?, ?, ?)",
            [(name, *said, json.dumps(self._tasks.get(name, []))) for name, said in self._scenarios.items()],
        )
        self._connection.executemany(
            "INSERT INTO place (file, scenario, task_idx, offset, length, sha256) VALUES (?, ?, ?, ?, ?, ?)",
            [(*key, *place) for key, place in sorted(self._places.items())],
        )
        self._connection.executemany("INSERT INTO solution VALUES (?, ?, ?)", self._solutions())
        self._connection.executemany(
            "INSERT INTO problem (scenario, body) VALUES (?, ?)",
            [(problem.scenario, problem.model_dump_json()) for problem in self._problems],
        )
        self._connection.commit()

    def _read_file(self, file: str) -> str:
        path = self._folder / file
        total, told, hasher = path.stat().st_size, 0, hashlib.sha256()
        for number, offset, line in layout.lines(path):
            hasher.update(line)
            if line.strip():
                self._read_row(file, number, offset, line)
            if self._progress and offset - told >= _REPORT_EVERY:
                told = offset
                self._progress(file, told, total)
        if self._progress:
            self._progress(file, total, total)
        return "sha256:" + hasher.hexdigest()

    def _read_row(self, file: str, number: int, offset: int, line: bytes) -> None:
        try:
            row = layout.parse(file, line)
        except layout.UnparsableRow as error:
            self._report("unparsable_row", file, str(error), line=number)
            return
        except layout.UnusableRow as error:
            self._report("unusable_row", file, str(error), line=number, scenario=error.scenario)
            return
        key = (file, row.scenario, NO_TASK if row.task_idx is None else row.task_idx)
        if key in self._places:
            task = "" if row.task_idx is None else f" task {row.task_idx}"
            detail = f"another row for {row.scenario}{task}; the first one counts"
            self._report("duplicate_row", file, detail, line=number, scenario=row.scenario)
            return
        self._places[key] = (offset, len(line), hashlib.sha256(line).digest())
        if file == layout.SCENARIO:
            description = row.content.get("description")
            self._scenarios[row.scenario] = (
                row.content["name"],
                description if isinstance(description, str) else "",
            )
        elif file == layout.TASKS:
            self._tasks[row.scenario] = row.content["tasks"]
        elif row.task_idx is not None:
            problem = Problem(kind="task_mismatch", file=file, line=number, scenario=row.scenario, detail="")
            self._task_rows.append((problem, row.task_idx, str(row.content.get("task", ""))))

    def _join(self) -> None:
        """What can only be seen with every file read: rows missing, rows of nobody, rows of other tasks."""
        for name in self._scenarios:
            for file in (layout.TASKS, *layout.PAYLOAD_FILES):
                if (file, name, NO_TASK) not in self._places:
                    self._report("missing_row", file, f"no usable row for {name}", scenario=name)
        for file, name in dict.fromkeys((key[0], key[1]) for key in self._places):
            if name not in self._scenarios:
                detail = f"{name} is not in {layout.SCENARIO}; its rows are not used"
                self._report("unlisted_scenario", file, detail, scenario=name)
        for problem, task_idx, text in self._task_rows:
            if problem.scenario not in self._scenarios:
                continue
            tasks = self._tasks.get(problem.scenario or "", [])
            if task_idx >= len(tasks):
                what = "policy" if problem.file == layout.POLICIES else "verifier"
                detail = f"{what} for task {task_idx}, but there are {len(tasks)} tasks"
            elif text and text.strip() != tasks[task_idx].strip():
                detail = f"the verifier of task {task_idx} was written for another text: {text[:100]!r}"
            else:
                continue
            self._problems.append(problem.model_copy(update={"detail": detail}))

    def _solutions(self) -> Iterator[tuple[str, int, str]]:
        path = self._folder / layout.SOLUTIONS
        if not path.is_file():
            return
        try:
            by_scenario = json.loads(path.read_bytes())
            entries = [(name, key, body) for name, tasks in by_scenario.items() for key, body in tasks.items()]
        except (ValueError, AttributeError, RecursionError) as error:
            self._report("unparsable_row", layout.SOLUTIONS, f"not solutions by scenario and task: {error}")
            return
        for name, key, body in entries:
            scenario = normalised(name)
            try:
                calls = tuple(ToolCall(name=tool, arguments=arguments) for tool, arguments in body["calls"])
                solution = Solution(calls=calls, final_answer=body["final_answer"])
                if int(key) not in range(len(self._tasks.get(scenario, []))):
                    raise ValueError("there is no such task")
            except (ValidationError, ValueError, KeyError, TypeError) as error:
                detail = f"task {key}: not a solution: {' '.join(str(error).split())[:200]}"
                self._report("unusable_row", layout.SOLUTIONS, detail, scenario=scenario)
                continue
            yield scenario, int(key), solution.model_dump_json()

    def _report(
        self, kind: ProblemKind, file: str, detail: str, *, line: int | None = None, scenario: str | None = None
    ) -> None:
        self._problems.append(Problem(kind=kind, file=file, line=line, scenario=scenario, detail=detail))
