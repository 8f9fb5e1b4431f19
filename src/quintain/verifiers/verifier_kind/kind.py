"""The verifier kind: runs one piece of verifier code on two read-only states and returns its value."""

import contextlib
import io
import json
import os
import sqlite3
import tempfile
import traceback
from collections.abc import Iterator
from typing import Any

from . import changes
from .code import VerifierCodeError, run
from .plain import make_plain

LOG_LIMIT = 64 * 2**10
"""Bytes of output kept per call, with the note of what was cut."""

_WARM_SCHEMA = """
CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL, owner INTEGER REFERENCES items(id));
CREATE INDEX items_by_name ON items(name);
CREATE TABLE owners (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT);
CREATE TABLE places (id INTEGER PRIMARY KEY, name VARCHAR(80) UNIQUE, created DATETIME);
INSERT INTO owners (name) VALUES ('one'), ('two');
INSERT INTO places (name, created) VALUES ('hall', '2026-02-10');
INSERT INTO items (name, price, owner) VALUES ('lance', 3.5, NULL), ('shield', 2.0, 1), ('horse', 90.0, 1);
"""
_WARM_CHANGE = "INSERT INTO items (name, price) VALUES ('spur', 1.0); UPDATE owners SET name = 'none' WHERE id = 1;"
_WARM_CODE = """
def verify_items(initial_db_path: str, final_db_path: str, final_answer: str | None = None) -> dict:
    import json
    import re
    import sqlite3

    def rows(path: str) -> list:
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        query = "SELECT i.*, o.name AS owned FROM items i LEFT JOIN items o ON o.id = i.owner WHERE i.name LIKE ?"
        found = [dict(row) for row in connection.execute(query, ("%e%",)).fetchall()]
        connection.close()
        return found

    try:
        before, after = rows(initial_db_path), rows(final_db_path)
        number = re.search(r"(\\d+)", final_answer or "")
        print(json.dumps(before), number)
        return {"result": "complete" if before == after else "others", "count": len(after)}
    except Exception as error:
        return {"result": "others", "error": str(error)}
"""

_ROOM = LOG_LIMIT - 64
_FRAMES = 20


class Kind:
    """Nothing is loaded ahead: every episode is one verification."""

    def load(self, payload: dict[str, Any], root: str) -> dict[str, Any]:
        """Remember where the databases will be."""
        self._root = os.path.abspath(root)
        self._problems: list[str] = []
        return {}

    def warm(self) -> dict[str, Any]:
        """Verify once with code of our own, so that a forked verification meets warm pages; nothing of it is left."""
        with tempfile.TemporaryDirectory(dir=self._root) as folder:
            paths = [os.path.join(folder, name) for name in ("initial.db", "final.db")]
            for path in paths:
                with contextlib.closing(sqlite3.connect(path)) as connection:
                    connection.executescript(_WARM_SCHEMA)
                make_plain(path)
            with contextlib.closing(sqlite3.connect(paths[1])) as connection:
                connection.executescript(_WARM_CHANGE)
            inputs = {"initial_db_path": paths[0], "final_db_path": paths[1], "final_answer": "3 items"}
            changes.answer(*paths)
            with _captured() as log:
                _verified(_WARM_CODE, None, inputs, log)
        return {"warm": True}

    def rehearse(self) -> None:
        """Do so once more in the process that will verify, which then has the memory that it needs."""
        self.warm()

    def begin(self, start: dict[str, Any]) -> None:
        """Make the states named `initial` and `final` plain databases, unless they are JSON or trees.

        Trees are unpacked. The directory becomes read-only afterwards.
        """
        if _is_tree(start["initial"]):
            self._problems = []
            self._unpack(self._path(start["initial"]), self._path(start["final"]))
            return
        paths = [self._path(start[name]) for name in ("initial", "final") if not _is_json(start[name])]
        self._problems = [problem for path in paths if (problem := make_plain(path)) is not None]

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """Verify: `{"op": "verify", "code", "function", "final_answer", "initial", "final", "trace", "variables"}`,
        and `tests` where the task has hidden ones.

        `{"op": "changes", "initial", "final"}` says instead which tables differ. Once code of a verifier has run, no
        later answer of the same process is to be trusted.

        Returns:
            `{"status": "ok", "value"}` or `{"status": "error", "error"}`, each with the `log` of what was printed.
        """
        if request.get("op") == "changes":
            return changes.answer(self._path(request["initial"]), self._path(request["final"]))
        if request.get("op") != "verify":
            return {"status": "error", "error": f"no such operation: {request.get('op')!r}", "log": ""}
        more = {"trace": request.get("trace") or [], "variables": request.get("variables") or {}}
        if "tests" in request:
            more["tests"] = request["tests"]
        try:
            inputs = self._inputs(request)
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            return {"status": "error", "error": f"a state is no JSON that can be read: {error}"[:500], "log": ""}
        with _captured() as log:
            log.write("".join(f"{problem}\n" for problem in self._problems).encode())
            answer = _verified(request["code"], request.get("function"), inputs, log, more)
        return answer | {"log": log.text()}

    def _inputs(self, request: dict[str, Any]) -> dict[str, Any]:
        paths = {name: self._path(request[name]) for name in ("initial", "final")}
        answer = {"final_answer": request.get("final_answer") or ""}
        if _is_tree(request["initial"]):
            return {f"{name}_dir": self._path(name) for name in paths} | answer
        if not _is_json(request["initial"]):
            return {f"{name}_db_path": path for name, path in paths.items()} | answer
        states = {}
        for name, path in paths.items():
            with open(path, encoding="utf-8") as file:
                states[f"{name}_state"] = json.load(file)
        return states | answer

    def _unpack(self, initial: str, final: str) -> None:
        from inside import trees  # in a sandbox only

        for name, tree, base in (("initial", initial, None), ("final", final, initial)):
            os.mkdir(self._path(name), 0o700)
            trees.unpack(self._path(name), tree, base if trees.over(tree) else None)
        os.unlink(initial)
        os.unlink(final)

    def _path(self, name: str) -> str:
        return os.path.join(self._root, os.path.basename(name))


def _is_tree(name: str) -> bool:
    return name.endswith(".tar")


def _is_json(name: str) -> bool:
    return name.endswith(".json")


def _verified(
    code: str, function: str | None, inputs: dict[str, Any], log: "_Log", more: dict[str, Any] | None = None
) -> dict[str, Any]:
    try:
        return {"status": "ok", "value": run(code, function, inputs, more or {})}
    except VerifierCodeError as error:
        return {"status": "error", "error": str(error)}
    except BaseException as error:
        log.write(_explained(error).encode("utf-8", "backslashreplace"))
        return {"status": "error", "error": _headline(error)}


def _explained(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error, limit=-_FRAMES))
    except Exception:  # a message that cannot be made
        return type(error).__name__ + "\n"


def _headline(error: BaseException) -> str:
    try:
        text = f"the code raised {type(error).__name__}: {error}"
    except Exception:
        text = f"the code raised {type(error).__name__}"
    return text.encode("utf-8", "replace").decode()[:2000]


class _Log(io.BytesIO):
    def __init__(self) -> None:
        super().__init__()
        self._lost = 0

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        kept = view[: max(_ROOM - self.tell(), 0)]
        super().write(kept)
        self._lost += len(view) - len(kept)
        return len(view)

    def text(self) -> str:
        text = self.getvalue().decode("utf-8", "ignore")
        return text + (f"\n[{self._lost} more bytes were printed]" if self._lost else "")


@contextlib.contextmanager
def _captured() -> Iterator[_Log]:
    log = _Log()
    stream = io.TextIOWrapper(log, encoding="utf-8", errors="backslashreplace", write_through=True)
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        yield log
    stream.detach()
