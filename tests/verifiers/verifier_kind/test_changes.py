"""What differs between two databases: every kind of change is found, counted and named, whatever the files hold."""

import json
import random
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.verifiers.verifier_kind import changes
from quintain.verifiers.verifier_kind.changes import Database, Unreadable, table_changes
from quintain.verifiers.verifier_kind.digest import logical_digest
from quintain.verifiers.verifier_kind.kind import Kind

SCHEMA = """
CREATE TABLE things (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, size, made TEXT AS (substr(name, 1, 1)) STORED,
    upper TEXT AS (upper(name)) VIRTUAL);
CREATE TABLE [odd "name"] (a TEXT, b, PRIMARY KEY (a)) WITHOUT ROWID;
CREATE TABLE Loose (value);
CREATE TABLE shadowed (rowid TEXT, oid TEXT, _rowid_ TEXT);
CREATE TABLE half (rowid TEXT, value);
CREATE TABLE [Tábla 表] (id INTEGER PRIMARY KEY, [select] TEXT);
CREATE TABLE never (id INTEGER PRIMARY KEY);
CREATE INDEX by_name ON things(lower(name));
CREATE VIEW small AS SELECT * FROM things WHERE size < 2;
CREATE TRIGGER kept AFTER DELETE ON half BEGIN SELECT 1; END;
INSERT INTO things (name, size) VALUES ('lance', 1), ('shield', 2.5), ('horse', NULL), ('x', x'78'), ('y', 'x');
INSERT INTO [odd "name"] VALUES ('1', 'one'), ('2', 'two');
INSERT INTO Loose VALUES (1), (1), ('zwölf');
INSERT INTO shadowed VALUES ('a', 'b', 'c'), ('a', 'b', 'c'), ('d', 'e', 'f');
INSERT INTO half VALUES ('same', 1), ('same', 2);
INSERT INTO [Tábla 表] VALUES (1, 'eins');
"""

Compare = Callable[..., dict[str, dict[str, Any]]]


def build(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
        connection.commit()


def told(initial: Path, final: Path) -> dict[str, dict[str, Any]]:
    """What changed, by table, without what did not."""
    found = table_changes(str(initial), str(final))
    assert found["omitted"] == 0
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    names = [entry["table"] for entry in found["tables"]]
    assert len(set(names)) == len(names)
    return {entry.pop("table"): {key: value for key, value in entry.items() if value} for entry in found["tables"]}


@pytest.fixture
def compare(tmp_path: Path) -> Compare:
    """What some statements change in a database of the schema above."""

    def run(*statements: str) -> dict[str, dict[str, Any]]:
        initial, final = tmp_path / "initial ?#%.db", tmp_path / "final ?#%.db"
        build(initial, SCHEMA)
        build(final, SCHEMA + ";\n".join(statements))
        return told(initial, final)

    return run


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("INSERT INTO Loose VALUES (5), (6)", {"Loose": {"kind": "changed", "inserted": 2}}),
        ("DELETE FROM Loose WHERE value = 1", {"Loose": {"kind": "changed", "deleted": 2}}),
        ("UPDATE Loose SET value = 1.0 WHERE rowid = 1", {"Loose": {"kind": "changed", "changed": 1}}),
        ("UPDATE Loose SET rowid = 9 WHERE rowid = 3", {"Loose": {"kind": "changed", "inserted": 1, "deleted": 1}}),
        ("UPDATE things SET size = x'79' WHERE id = 4", {"things": {"kind": "changed", "changed": 1}}),
        ("UPDATE things SET size = 'x' WHERE id = 4", {"things": {"kind": "changed", "changed": 1}}),
        ("UPDATE things SET size = '' WHERE id = 3", {"things": {"kind": "changed", "changed": 1}}),
        ("UPDATE things SET size = size + 1", {"things": {"kind": "changed", "changed": 4}}),
        (
            "INSERT INTO things (name) VALUES ('a'); DELETE FROM things WHERE name = 'a'",
            {"things": {"kind": "changed", "counter": True}},
        ),
        ("INSERT INTO [odd \"name\"] VALUES ('3', 0)", {'odd "name"': {"kind": "changed", "inserted": 1}}),
        ("UPDATE [odd \"name\"] SET b = 0 WHERE a = '1'", {'odd "name"': {"kind": "changed", "changed": 1}}),
        ("DELETE FROM shadowed WHERE oid = 'e'", {"shadowed": {"kind": "changed", "deleted": 1}}),
        ("INSERT INTO shadowed VALUES ('a', 'b', 'c')", {"shadowed": {"kind": "changed", "inserted": 1}}),
        ("UPDATE half SET value = 3 WHERE value = 2", {"half": {"kind": "changed", "changed": 1}}),
        ("UPDATE [Tábla 表] SET [select] = 'zwei'", {"Tábla 表": {"kind": "changed", "changed": 1}}),
        ("DROP TABLE Loose", {"Loose": {"kind": "dropped", "deleted": 3, "reshaped": True}}),
        ("DROP TABLE never", {"never": {"kind": "dropped", "reshaped": True}}),
        ("CREATE TABLE more AS SELECT 1 AS x", {"more": {"kind": "added", "inserted": 1, "reshaped": True}}),
        ("CREATE TABLE sqliteXstat1 (x)", {"sqliteXstat1": {"kind": "added", "reshaped": True}}),
        ("CREATE TABLE more (x)", {"more": {"kind": "added", "reshaped": True}}),
        ("ALTER TABLE never ADD COLUMN more", {"never": {"kind": "changed", "reshaped": True}}),
        ("ALTER TABLE Loose ADD COLUMN more", {"Loose": {"kind": "changed", "changed": 3, "reshaped": True}}),
        ("DROP INDEX by_name", {"things": {"kind": "changed", "reshaped": True}}),
        ("CREATE INDEX another ON things(size)", {"things": {"kind": "changed", "reshaped": True}}),
        ("DROP TRIGGER kept", {"half": {"kind": "changed", "reshaped": True}}),
        ("DROP VIEW small", {"small": {"kind": "dropped", "reshaped": True}}),
        ("CREATE VIEW large AS SELECT 1", {"large": {"kind": "added", "reshaped": True}}),
        (
            "ALTER TABLE never RENAME TO ever",
            {"never": {"kind": "dropped", "reshaped": True}, "ever": {"kind": "added", "reshaped": True}},
        ),
        (
            "DROP TABLE Loose; CREATE VIEW loose AS SELECT 1",
            {"loose": {"kind": "changed", "deleted": 3, "reshaped": True}},
        ),
        (
            "UPDATE things SET id = 7 WHERE id = 1; DELETE FROM half",
            {"things": {"kind": "changed", "inserted": 1, "deleted": 1}, "half": {"kind": "changed", "deleted": 2}},
        ),
    ],
)
def test_every_change_is_found_and_counted(compare: Compare, statement: str, expected: dict[str, Any]) -> None:
    assert compare(statement) == expected


def test_how_the_file_came_about_does_not_show(compare: Compare) -> None:
    detour = [
        'DELETE FROM [odd "name"]',
        "INSERT INTO [odd \"name\"] VALUES ('2', 'two')",
        "INSERT INTO [odd \"name\"] VALUES ('1', 'one')",
        "CREATE TABLE gone AS SELECT randomblob(90000)",
        "DROP TABLE gone",
        "ANALYZE",
        "PRAGMA page_size = 1024",
        "VACUUM",
    ]
    assert compare(*detour) == {}


def test_a_full_text_index_changes_in_its_shadow_tables(tmp_path: Path) -> None:
    schema = "CREATE VIRTUAL TABLE search USING fts5(text); INSERT INTO search VALUES ('one');"
    build(tmp_path / "a.db", schema)
    build(tmp_path / "b.db", schema + "INSERT INTO search VALUES ('two')")
    found = told(tmp_path / "a.db", tmp_path / "b.db")
    assert found["search_content"] == {"kind": "changed", "inserted": 1}
    assert "search" not in found


STATEMENTS = st.sampled_from(
    [
        "INSERT INTO items (name, price) VALUES ('{0}', {0})",
        "DELETE FROM items WHERE id = {0}",
        "UPDATE items SET price = {0} WHERE id = {1}",
        "INSERT OR REPLACE INTO pairs VALUES ('{0}', {1})",
        "DELETE FROM pairs WHERE a = '{0}'",
        "INSERT INTO heap VALUES ({0})",
        "DELETE FROM heap WHERE value = {0}",
        "UPDATE heap SET value = {0} WHERE rowid = {1}",
    ]
)
WORK = st.lists(st.builds(str.format, STATEMENTS, st.integers(0, 4), st.integers(0, 4)), max_size=12)
TABLES = """CREATE TABLE items (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, price REAL);
CREATE TABLE pairs (a TEXT PRIMARY KEY, b) WITHOUT ROWID; CREATE TABLE heap (value); CREATE INDEX i ON items(name);
INSERT INTO items (name) VALUES ('a'), ('b'); INSERT INTO pairs VALUES ('1', 1); INSERT INTO heap VALUES (1), (2);"""


@settings(max_examples=60)
@given(WORK, WORK)
def test_what_is_told_is_what_sql_tells(
    tmp_path_factory: pytest.TempPathFactory, one: list[str], other: list[str]
) -> None:
    """Nothing is told exactly when the logical digests are equal, and the numbers are those of a comparison in SQL."""
    folder = tmp_path_factory.mktemp("pair")
    paths = [folder / "a.db", folder / "b.db"]
    for path, statements in zip(paths, (one, other), strict=True):
        build(path, TABLES + ";".join(statements))
    found = told(*paths)
    assert (found == {}) is (logical_digest(str(paths[0])) == logical_digest(str(paths[1])))
    with closing(sqlite3.connect(paths[0])) as db:
        db.execute("ATTACH ? AS other", (str(paths[1]),))
        for table, key in (("items", "id"), ("pairs", "a"), ("heap", "rowid")):

            def count(inner: str, table: str = table) -> int:
                return int(db.execute(f"SELECT count(*) FROM {inner}").fetchone()[0])

            keys = {side: f"(SELECT {key} FROM {side}.{table}" for side in ("main", "other")}
            rows = f"(SELECT {key}, * FROM main.{table} EXCEPT SELECT {key}, * FROM other.{table})"
            deleted = count(f"{keys['main']} EXCEPT SELECT {key} FROM other.{table})")
            expected = {
                "inserted": count(f"{keys['other']} EXCEPT SELECT {key} FROM main.{table})"),
                "deleted": deleted,
                "changed": count(rows) - deleted,
            }
            numbers = {key: value for key, value in found.get(table, {}).items() if key in expected}
            assert numbers == {key: value for key, value in expected.items() if value}


def test_a_final_database_that_cannot_be_read_has_lost_every_table(tmp_path: Path) -> None:
    build(tmp_path / "a.db", "CREATE TABLE one (x); CREATE TABLE two (x);")
    for content in (b"no database at all " * 300, b"", None):
        (tmp_path / "b.db").unlink(missing_ok=True)
        if content is not None:
            (tmp_path / "b.db").write_bytes(content)
        found = told(tmp_path / "a.db", tmp_path / "b.db")
        assert set(found) == {"one", "two"}
        assert {entry["kind"] for entry in found.values()} == ({"dropped"} if content == b"" else {"unreadable"})
        assert not (tmp_path / "b.db").exists() or content is not None


def test_an_initial_database_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    build(tmp_path / "b.db", "CREATE TABLE one (x)")
    (tmp_path / "a.db").write_bytes(b"no database at all " * 300)
    with pytest.raises(Unreadable, match="DatabaseError: file is not a database"):
        table_changes(str(tmp_path / "a.db"), str(tmp_path / "b.db"))
    kind = Kind()
    kind.load({}, str(tmp_path))
    assert kind.call({"op": "changes", "initial": "a.db", "final": "b.db"}) == {
        "status": "error",
        "error": "the initial database cannot be read: DatabaseError: file is not a database",
        "log": "",
    }


def test_the_kind_tells_of_databases_in_wal_mode(tmp_path: Path) -> None:
    for name in ("initial.db", "final.db"):
        build(tmp_path / name, "CREATE TABLE notes (text); INSERT INTO notes VALUES ('one')")
    with closing(sqlite3.connect(tmp_path / "writer.db")) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA wal_autocheckpoint=0")
        db.executescript("CREATE TABLE notes (text); INSERT INTO notes VALUES ('one'), ('two');")
        for suffix in ("", "-wal"):
            (tmp_path / f"final.db{suffix}").write_bytes((tmp_path / f"writer.db{suffix}").read_bytes())
    kind = Kind()
    kind.load({}, str(tmp_path))
    kind.begin({"initial": "initial.db", "final": "final.db"})
    answer = kind.call({"op": "changes", "initial": "../initial.db", "final": "final.db"})
    assert answer["status"] == "ok"
    (entry,) = answer["value"]["tables"]
    assert (entry["table"], entry["kind"], entry["inserted"]) == ("notes", "changed", 1)


def test_equal_files_with_a_log_beside_one_are_not_taken_for_equal(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE notes (text)")
    content = (tmp_path / "a.db").read_bytes()
    (tmp_path / "b.db").write_bytes(content)
    with closing(sqlite3.connect(tmp_path / "b.db")) as db:
        db.execute("PRAGMA wal_autocheckpoint=0")
        db.execute("INSERT INTO notes VALUES ('one')")
        db.commit()
        assert (tmp_path / "b.db").read_bytes() == content
        assert told(tmp_path / "a.db", tmp_path / "b.db") == {"notes": {"kind": "changed", "inserted": 1}}


def test_rows_hidden_from_an_index_are_seen(tmp_path: Path) -> None:
    """An index that covers a table and says that nothing changed is not asked."""
    script = "CREATE TABLE t (a); CREATE INDEX i ON t(a); INSERT INTO t VALUES (1), (2);"
    build(tmp_path / "a.db", script)
    build(tmp_path / "b.db", script)
    with closing(sqlite3.connect(tmp_path / "b.db")) as db:
        db.execute("PRAGMA writable_schema=ON")
        saved = db.execute("SELECT * FROM sqlite_schema WHERE type = 'index'").fetchone()
        db.execute("DELETE FROM sqlite_schema WHERE type = 'index'")
        db.commit()
    with closing(sqlite3.connect(tmp_path / "b.db")) as db:
        db.execute("UPDATE t SET a = 3 WHERE a = 2")
        db.execute("PRAGMA writable_schema=ON")
        db.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", saved)
        db.commit()
    with closing(sqlite3.connect(tmp_path / "b.db")) as db:
        assert db.execute("SELECT a FROM t ORDER BY a").fetchall() == [(1,), (2,)]  # so says the index
    assert told(tmp_path / "a.db", tmp_path / "b.db") == {"t": {"kind": "changed", "changed": 1}}


HOSTILE = [
    ("an odd name", lambda db: db.execute('CREATE TABLE "\'; DROP TABLE one; --" (x)')),
    ("a very long name", lambda db: db.execute(f'CREATE TABLE "{"n" * 5000}" (x)')),
    ("a name of line breaks", lambda db: db.execute('CREATE TABLE "\n\r\u2028\u202e" ("\n")')),
    ("a view that never ends", lambda db: db.execute(
        "CREATE VIEW endless AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n")),
    ("a large value", lambda db: db.execute("INSERT INTO one VALUES (zeroblob(20000000))")),
    ("many columns", lambda db: db.execute(f"CREATE TABLE wide ({', '.join(f'c{n}' for n in range(1900))})")),
    ("a schema that is no SQL", lambda db: (
        db.execute("PRAGMA writable_schema=ON"),
        db.execute("UPDATE sqlite_schema SET sql = 'CREATE TABLE one (((' WHERE name = 'one'"))),
    ("a root page beyond the end", lambda db: (
        db.execute("PRAGMA writable_schema=ON"),
        db.execute("UPDATE sqlite_schema SET rootpage = 4000000 WHERE name = 'one'"))),
    ("two tables on one page", lambda db: (
        db.execute("PRAGMA writable_schema=ON"),
        db.execute("UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'two')"))),
    ("a name that is no text", lambda db: (
        db.execute("PRAGMA writable_schema=ON"),
        db.execute("UPDATE sqlite_schema SET name = x'fffe', tbl_name = x'fffe' WHERE name = 'one'"))),
    ("a counter of nothing", lambda db: db.execute("INSERT INTO sqlite_sequence VALUES (x'00ff', 'much'), (NULL, 1)")),
    ("a module that is not there", lambda db: (
        db.execute("PRAGMA writable_schema=ON"),
        db.execute("INSERT INTO sqlite_schema VALUES ('table', 'v', 'v', 0, 'CREATE VIRTUAL TABLE v USING nowhere')"))),
]  # fmt: skip
TWO = "CREATE TABLE one (x); CREATE TABLE two (x); CREATE TABLE c (i INTEGER PRIMARY KEY AUTOINCREMENT); \
INSERT INTO one VALUES (1); INSERT INTO two VALUES (2);"


@pytest.mark.parametrize(("what", "harm"), HOSTILE, ids=[name for name, _ in HOSTILE])
def test_hostile_databases_are_told_as_changes(tmp_path: Path, what: str, harm: Callable[..., Any]) -> None:
    build(tmp_path / "a.db", TWO)
    build(tmp_path / "b.db", TWO)
    with closing(sqlite3.connect(tmp_path / "b.db")) as db:
        harm(db)
        db.commit()
    found = table_changes(str(tmp_path / "a.db"), str(tmp_path / "b.db"))
    assert found["tables"] != [], what
    assert all(entry["kind"] != "uncompared" for entry in found["tables"])
    assert len(json.dumps(found)) < 20_000
    for entry in found["tables"]:
        entry["table"].encode()


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_file_is_never_taken_for_the_same_and_never_raises(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    script = TABLES + "".join(f"INSERT INTO heap VALUES (hex(randomblob({n % 300})));" for n in range(400))
    build(tmp_path / "a.db", script)
    content = bytearray((tmp_path / "a.db").read_bytes())
    for _ in range(chance.randint(1, 40)):
        content[chance.randrange(100, len(content))] = chance.randrange(256)
    (tmp_path / "b.db").write_bytes(content)
    found = table_changes(str(tmp_path / "a.db"), str(tmp_path / "b.db"))
    assert all(entry["kind"] != "uncompared" for entry in found["tables"])
    try:
        same = logical_digest(str(tmp_path / "a.db")) == logical_digest(str(tmp_path / "b.db"))
    except (sqlite3.Error, ValueError):
        same = False
    # damage in free space, or in an index alone, may pass: what the tables hold is the same then
    if found["tables"] == [] and not same:
        assert rows_of(tmp_path / "a.db") == rows_of(tmp_path / "b.db")


def rows_of(path: Path) -> list[Sequence[Any]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        db.text_factory = bytes
        return [db.execute(f"SELECT * FROM {table} NOT INDEXED").fetchall() for table in ("items", "pairs", "heap")]


def test_many_tables_are_cut_and_counted(tmp_path: Path) -> None:
    build(tmp_path / "a.db", "CREATE TABLE one (x)")
    build(tmp_path / "b.db", "BEGIN;" + "".join(f"CREATE TABLE t{n:04} (x);" for n in range(1000)) + "COMMIT;")
    found = table_changes(str(tmp_path / "a.db"), str(tmp_path / "b.db"))
    assert (len(found["tables"]), found["omitted"]) == (changes.MAX_TABLES, 1001 - changes.MAX_TABLES)


ROWS = "CREATE TABLE {0} (x); WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {1}) \
INSERT INTO {0} SELECT x FROM n;"


def test_what_is_too_large_to_compare_is_not_taken_for_equal(tmp_path: Path) -> None:
    build(tmp_path / "a.db", ROWS.format("large", changes.MAX_ROWS + 1) + "CREATE TABLE small (x)")
    build(
        tmp_path / "b.db", ROWS.format("large", changes.MAX_ROWS + 1) + "CREATE TABLE small (x);PRAGMA user_version=1"
    )
    found = told(tmp_path / "a.db", tmp_path / "b.db")
    assert set(found) == {"large"}
    assert found["large"]["kind"] == "uncompared"
    assert "rows are compared up to" in found["large"]["reason"]


def test_an_agent_that_fills_a_table_hides_nothing_behind_it(tmp_path: Path) -> None:
    script = "CREATE TABLE aaa (x); CREATE TABLE other (x); INSERT INTO other VALUES (1), (2);"
    build(tmp_path / "a.db", script)
    fill = ROWS.format("aaa", changes.MAX_ROWS * 2).replace("CREATE TABLE aaa (x);", "")
    build(tmp_path / "b.db", f"{script} {fill} UPDATE other SET x = 3 WHERE x = 2")
    found = told(tmp_path / "a.db", tmp_path / "b.db")
    assert (found["aaa"]["kind"], found["aaa"]["inserted"]) == ("changed", changes.MAX_ROWS * 2)
    assert found["other"] == {"kind": "changed", "changed": 1}


def interior(child: int, cells: int = 50, page: int = 512) -> bytes:
    """A page of a table's tree all of whose branches lead to one page."""
    body = b"".join(child.to_bytes(4, "big") + bytes([number + 1]) for number in range(cells))
    start = page - len(body)
    head = b"\x05\0\0" + cells.to_bytes(2, "big") + start.to_bytes(2, "big") + b"\0" + child.to_bytes(4, "big")
    head += b"".join((start + 5 * number).to_bytes(2, "big") for number in range(cells))
    return head + bytes(start - len(head)) + body


def test_a_tree_that_is_walked_for_ever_is_left(tmp_path: Path) -> None:
    """Eighteen levels of fifty branches each, all leading to one leaf: more rows than there is time for."""
    build(tmp_path / "a.db", "PRAGMA page_size=512; CREATE TABLE one (x); INSERT INTO one VALUES (1)")
    content = bytearray((tmp_path / "a.db").read_bytes())
    pages, leaf = len(content) // 512, bytes(content[512:1024])
    content[512:1024] = interior(pages + 1)
    for level in range(1, 18):
        content += interior(pages + level + 1)
    content += leaf
    content[28:32] = (len(content) // 512).to_bytes(4, "big")
    (tmp_path / "b.db").write_bytes(content)
    with closing(sqlite3.connect(tmp_path / "b.db")) as db:
        assert db.execute("SELECT count(*) FROM (SELECT x FROM one LIMIT 5000)").fetchone() == (5000,)
    found = told(tmp_path / "a.db", tmp_path / "b.db")
    assert (found["one"]["kind"], found["one"]["inserted"]) == ("changed", changes.MAX_COUNT - 1)
    with closing(Database(str(tmp_path / "b.db"), first=True)) as endless:
        endless.open()
        rows = endless.read(lambda connection: connection.execute("SELECT x FROM one WHERE x > 1"))
        with pytest.raises(Unreadable, match="interrupted"):
            list(rows)
