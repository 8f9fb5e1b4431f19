"""A verifier's code gets two plain, read-only databases and an answer; its value is strict JSON or an error."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journals import misleading_journal
from quintain.verifiers.verifier_kind.kind import LOG_LIMIT, Kind

COMPARES = """
import sqlite3

def helper(path):
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    rows = [row[0] for row in connection.execute("SELECT text FROM notes ORDER BY id")]
    connection.close()
    return rows

def verify_task_completion(initial_db_path: str, final_db_path: str, final_answer: str | None = None) -> dict:
    before, after = helper(initial_db_path), helper(final_db_path)
    return {"result": "complete", "initial": before, "final": after, "answer": final_answer}

def verify_second(initial_db_path, final_db_path):
    return {"result": "second"}
"""

TRACE = [{"index": 1, "tool_name": "buy"}]


def _database(path: Path, texts: list[str], journal: str = "delete") -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode={journal}")
    connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
    connection.executemany("INSERT INTO notes (text) VALUES (?)", [(text,) for text in texts])
    connection.commit()
    connection.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A state directory with two databases."""
    folder = tmp_path / "data"
    folder.mkdir()
    _database(folder / "initial.db", ["one"])
    _database(folder / "final.db", ["one", "two"])
    return folder


@pytest.fixture
def verify(root: Path) -> Callable[..., dict[str, Any]]:
    """Verify with a piece of code, as the platform does."""

    def run(
        code: str, final_answer: str | None = None, function: str | None = None, trace: list[Any] | None = None
    ) -> dict[str, Any]:
        kind = Kind()
        assert kind.load({}, str(root)) == {}
        kind.begin({"initial": "initial.db", "final": "final.db"})
        order = {"op": "verify", "code": code, "final_answer": final_answer, "initial": "initial.db"}
        return kind.call({**order, "final": "final.db", "function": function, "trace": trace})

    return run


def test_compares_the_databases_and_the_answer(verify: Callable[..., dict[str, Any]]) -> None:
    answer = verify(COMPARES, "done")
    value = {"result": "complete", "initial": ["one"], "final": ["one", "two"], "answer": "done"}
    assert answer == {"status": "ok", "value": value, "log": ""}
    assert verify(COMPARES, None)["value"]["answer"] == ""


def test_which_function_is_called(verify: Callable[..., dict[str, Any]]) -> None:
    assert verify(COMPARES, function="verify_second")["value"] == {"result": "second"}
    assert verify(COMPARES, function="not_there")["value"]["result"] == "complete"
    nested = "if True:\n    def verify_inner(a, b): return 1\ndef verify_outer(a, b): return {'result': 'o'}\n"
    assert verify(nested)["value"] == {"result": "o"}
    missing = verify("def check(a, b): return 1\n")
    assert missing["status"] == "error"
    assert "no function verify_*" in missing["error"]


@pytest.mark.parametrize(
    "signature",
    [
        "initial_db_path, final_db_path, final_answer",
        "final_answer, final_db_path, initial_db_path",
        "initial_db_path, final_db_path, **rest",
        "a, b, c",
        "a, b, /, c=None",
        "*all",
        "initial_db_path, b, c",
        "*, initial_db_path, final_db_path, final_answer",
    ],
)
def test_arguments_go_by_name_where_they_are_named(signature: str, verify: Callable[..., dict[str, Any]]) -> None:
    code = f"def verify_it({signature}):\n    return sorted(str(v) for v in _flat(locals()))\n"
    code += (
        "def _flat(found):\n    for name, value in found.items():\n"
        "        if isinstance(value, dict): yield from value.values()\n"
        "        elif isinstance(value, tuple): yield from value\n        else: yield value\n"
    )
    value = verify(code, "my answer")["value"]
    assert [os.path.basename(text) for text in value] == ["final.db", "initial.db", "my answer"]
    order = (
        f"def verify_it({signature}):\n    found = list(_flat(locals()))\n    return found\n" + code.split("\n", 2)[2]
    )
    names = [name.strip("*/ ").split("=")[0] for name in signature.split(",") if name.strip("*/ ")]
    if names[:1] == ["initial_db_path"] or names[:1] == ["a"]:
        assert os.path.basename(verify(order, "my answer")["value"][0]) == "initial.db"


def test_two_arguments_are_enough(verify: Callable[..., dict[str, Any]]) -> None:
    assert verify("def verify_task(initial_db_path, final_db_path):\n    return {'result': 'x'}\n", "a")["value"]
    assert verify("def verify_task(first, second):\n    return [first != second]\n", "a")["value"] == [True]


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("{'score': float('nan')}", "nan"),
        ("[1, float('-inf')]", "-inf"),
        ("{'result': {1, 2}}", "set"),
        ("object()", "object"),
        ("{1: 'x'}", "int"),
        ("b'bytes'", "bytes"),
        ("{'a': [{'b': 1j}]}", "complex"),
        ("'\\ud800'", "surrogate"),
        ("nested", "deeper"),
        ("list(range(200_000))", "more than 20000 items"),
    ],
)
def test_a_value_that_is_not_json_is_an_error(value: str, word: str, verify: Callable[..., dict[str, Any]]) -> None:
    code = f"def verify_it(a, b, c):\n    nested = []\n    for _ in range(100): nested = [nested]\n    return {value}\n"
    answer = verify(code)
    assert answer["status"] == "error"
    assert word in answer["error"]
    assert "value" not in answer


def test_json_values_pass_unchanged(verify: Callable[..., dict[str, Any]]) -> None:
    value = {"result": "é\u2028", "n": [1, -2.5, True, None, 10**30], "t": {"x": []}}
    assert verify(f"def verify_it(a, b, c): return {value!r}\n")["value"] == value
    assert verify("def verify_it(a, b, c): return (1, (2,))\n")["value"] == [1, [2]]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("raise ValueError('broken')", "ValueError: broken"),
        ("raise SystemExit(0)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("return verify_it(a, b, c)", "RecursionError"),
        ("import no_such_module", "ModuleNotFoundError"),
    ],
)
def test_exceptions_are_errors_with_their_traceback(
    body: str, word: str, verify: Callable[..., dict[str, Any]]
) -> None:
    answer = verify(f"def verify_it(a, b, c):\n    print('before')\n    {body}\n")
    assert answer["status"] == "error"
    assert word in answer["error"]
    assert word in answer["log"]
    assert answer["log"].startswith("before\n")
    assert 'File "verifier.py", line 3, in verify_it' in answer["log"]


def test_code_that_does_not_compile_is_an_error(verify: Callable[..., dict[str, Any]]) -> None:
    answer = verify("def verify_it(:\n")
    assert answer["status"] == "error"
    assert "SyntaxError" in answer["error"]


def test_what_it_prints_is_kept_apart_and_bounded(verify: Callable[..., dict[str, Any]]) -> None:
    code = (
        "import sys\nprint('at import')\ndef verify_it(a, b, c):\n    print('{\"result\": \"complete\"}')\n"
        "    print('err', file=sys.stderr)\n    print('\\ud800', 'y' * 200_000)\n    return {'result': 'no'}\n"
    )
    answer = verify(code)
    assert answer["value"] == {"result": "no"}
    assert answer["log"].startswith('at import\n{"result": "complete"}\nerr\n\\ud800 yyy')
    assert answer["log"].endswith("more bytes were printed]")
    assert len(answer["log"].encode()) <= LOG_LIMIT


def test_a_wal_database_is_read_with_what_was_committed(root: Path, verify: Callable[..., dict[str, Any]]) -> None:
    (root / "final.db").unlink()
    writer = sqlite3.connect(root / "final.db")
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
    writer.execute("INSERT INTO notes (text) VALUES ('in the wal')")
    writer.commit()
    copies = {name: (root / name).read_bytes() for name in ("final.db", "final.db-wal")}
    writer.close()
    for name, content in copies.items():  # as snapshotted: the last writer never closed
        (root / name).write_bytes(content)
    assert verify(COMPARES)["value"]["final"] == ["in the wal"]
    assert sorted(path.name for path in root.iterdir()) == ["final.db", "initial.db"]


def test_a_hot_journal_is_rolled_back(root: Path, verify: Callable[..., dict[str, Any]]) -> None:
    writer = sqlite3.connect(root / "final.db", isolation_level=None)
    writer.execute("PRAGMA cache_size=1")
    writer.execute("BEGIN")
    writer.executemany("INSERT INTO notes (text) VALUES (?)", [("x" * 3000,) for _ in range(200)])
    copies = {name: (root / name).read_bytes() for name in ("final.db", "final.db-journal")}
    writer.execute("ROLLBACK")
    writer.close()
    for name, content in copies.items():
        (root / name).write_bytes(content)
    assert verify(COMPARES)["value"]["final"] == ["one", "two"]


def test_a_file_that_is_no_database_is_for_the_code_to_judge(root: Path, verify: Callable[..., dict[str, Any]]) -> None:
    (root / "final.db").write_bytes(b"not a database, " * 100)
    answer = verify("def verify_it(a, b, c):\n    import os; return {'size': os.path.getsize(b)}\n")
    assert answer["value"] == {"size": 1600}
    assert "final.db cannot be read" in answer["log"]
    (root / "final.db").unlink()
    answer = verify("import os\ndef verify_it(a, b, c):\n    return os.path.exists(b)\n")
    assert answer["value"] is False
    assert "does not exist" in answer["log"]


def test_other_operations_are_refused(root: Path) -> None:
    kind = Kind()
    kind.load({}, str(root))
    assert kind.call({"op": "tool"})["status"] == "error"


def test_warming_leaves_nothing(root: Path) -> None:
    before = {path.name: path.read_bytes() for path in root.iterdir()}
    kind = Kind()
    kind.load({}, str(root))
    assert kind.warm() == {"warm": True}
    assert {path.name: path.read_bytes() for path in root.iterdir()} == before


def test_a_journal_cannot_have_another_file_deleted(root: Path, verify: Callable[..., dict[str, Any]]) -> None:
    """A rollback journal may name a super-journal; SQLite deletes the file of that name, here the initial state."""
    (root / "final.db-journal").write_bytes(misleading_journal(root / "initial.db", pages=2))
    value = verify(COMPARES)["value"]
    assert (value["initial"], value["final"]) == (["one"], ["one", "two"])
    (root / "final.db-journal").write_bytes(misleading_journal(root / "initial.db", pages=2))
    connection = sqlite3.connect(root / "final.db")
    connection.execute("SELECT * FROM notes").fetchall()
    connection.close()
    assert not (root / "initial.db").exists()  # which is what SQLite does, left to itself


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        ("initial_db_path, final_db_path, trace", [2, TRACE]),
        ("a, b, c, trace", [3, TRACE]),
        ("a, b, *, trace=None", [2, TRACE]),
        ("initial_db_path, final_db_path, **rest", [3, None]),
        ("*args", [3, None]),
    ],
)
def test_the_trace_goes_to_a_parameter_of_its_name_alone(verify: Any, signature: str, expected: list[Any]) -> None:
    code = (
        f"def verify_it({signature}):\n"
        "    given = dict(locals())\n"
        "    rest = given.pop('rest', {})\n"
        "    trace = given.pop('trace', rest.get('trace'))\n"
        "    args = list(given.pop('args', ())) + list(given.values()) + list(rest.values())\n"
        "    return [len(args), trace]\n"
    )
    assert verify(code, trace=TRACE)["value"] == expected


def test_what_an_agent_made_long_does_not_spoil_the_verdict(verify: Callable[..., dict[str, Any]]) -> None:
    rows = verify("def verify_it(a, b): return {'result': 'complete', 'rows': list(range(10**6))}\n")["value"]
    assert (rows["result"], set(rows)) == ("complete", {"result", "omitted"})
    long = verify("def verify_it(a, b): return {'result': 'no', 'row': 'x' * 10**6, 'word': 'w' * 300}\n")["value"]
    assert (long["result"], len(long["row"]) < 17_000, long["row"][-30:]) == ("no", True, long["row"][-30:])
    assert long["row"].endswith("more characters]")
    assert long["word"] == "w" * 300
    many = verify("def verify_it(a, b): return {'result': 'no', 'rows': ['y' * 20_000] * 300}\n")["value"]
    assert len(str(many)) < 300_000
