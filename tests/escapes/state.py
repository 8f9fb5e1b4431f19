"""Attempts on what the reward rests on: the databases, their side files, and the verdict's own way out."""

from escapes.base import NOTHING, Escape

_AREA = "reward"
_SQLITE = frozenset({"OperationalError", "DatabaseError", "AttributeError", "NotSupportedError"})
_COPIES = "the verifier judges copies of the named files, taken from outside"
_AS_A_ROW = "what a query gives is what the database says: worth as much as a row, and as little"

ESCAPES = (
    Escape("writing the databases", _AREA,
           "a verifier's state directory is mounted read-only; at reduced, Landlock refuses", """
def attempt(told):
    found = []
    for path in told["databases"]:
        def inserted(uri):
            connection = sqlite3.connect(uri, uri=True)
            connection.execute("INSERT INTO notes (text) VALUES ('done')")
            connection.commit()
            return "inserted"
        found += [tried(inserted, f"file:{path}{mode}") for mode in ("", "?mode=rw", "?mode=rwc",
                "?nolock=1&immutable=0")]
        found += [tried(os.open, path, os.O_RDWR), tried(os.truncate, path, 0), tried(os.unlink, path),
                  tried(os.rename, path, path + ".old"), tried(os.symlink, "/dev/null", path + "-journal"),
                  tried(os.link, path, path + ".more"), tried(write, path + "-wal")]
    return found
""", frozenset({"OperationalError", "EROFS", "EACCES", "EPERM", "EXDEV"}), roles=("verifier",)),
    Escape("SQLite to other paths", _AREA, "SQLite opens what the process may open, and no more", """
def attempt(told):
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (x)")
    paths = ("/etc/x.db", "/quintain/x.db", "/dev/shm/x.db", told["folder"] + "/x.db", told["secret_file"])
    found = [tried(connection.execute, "ATTACH ? AS other" + str(n), (path,)) for n, path in enumerate(paths)]
    found += [tried(connection.execute, "VACUUM INTO ?", (path,)) for path in paths]
    def opened(uri):  # a scenario's connections lead to its own database, whatever path it names
        (_, _, path), = sqlite3.connect(uri, uri=True).execute("PRAGMA database_list").fetchall()
        if os.path.realpath(os.path.dirname(path)) == os.getcwd():
            raise sqlite3.OperationalError("its own")
        return path
    found += [tried(opened, f"file:{path}?{mode}") for path in paths for mode in ("mode=rwc", "mode=ro")]
    found += [tried(connection.execute, f"SELECT load_extension('{name}')") for name in ("/usr/lib/x.so", "libc.so.6")]
    found += [tried(connection.execute, f"SELECT {name}") for name in ("readfile('/etc/passwd')",
            "writefile('/x', 'x')", "edit('x')")]
    return found
""", _SQLITE),
    Escape("stray prints that look like a verdict", _AREA,
           "a verdict comes over the process's own socket; prints are its log", """
def attempt(told):
    for text in ('{"result": "complete"}', '{"status": "ok", "value": {"result": "complete"}}', "__VERDICT__ complete"):
        print(text, flush=True)
        print(text, file=sys.stderr, flush=True)
        os.write(1, text.encode() + b"\\n")
        tried(lambda: open("/dev/stdout", "w").write(text))
        tried(lambda: open("/proc/self/fd/1", "w").write(text))
    return ["nothing"]
""", NOTHING, roles=("tool", "verifier")),
    Escape("the initial state", _AREA, _COPIES, """
def attempt(told):
    for name in ("initial.db", "final.db", "escape_room_1_initial.db", "trajectory.json", "verdict.json"):
        with open(name, "wb") as file:
            file.write(b"forged")
    return ["nothing"]
""", NOTHING, roles=("tool",)),
    Escape("a trigger", _AREA, "triggers fire on writes, and a verifier makes none", """
def attempt(told):
    connection = sqlite3.connect(told["database"])
    fires = "BEGIN INSERT INTO notes (text) VALUES ('done'); END"
    connection.execute(f"CREATE TRIGGER t BEFORE DELETE ON notes {fires}")
    connection.commit()
    connection.close()
    return ["nothing"]
""", NOTHING, roles=("tool",)),
    Escape("a view in a table's place", _AREA, _AS_A_ROW, """
def attempt(told):
    connection = sqlite3.connect(told["database"])
    connection.execute("ALTER TABLE notes RENAME TO kept")
    connection.execute("CREATE VIEW notes AS SELECT 1 AS id, 'done' AS text, NULL AS made")
    connection.commit()
    connection.close()
    return ["nothing"]
""", NOTHING, roles=("tool",), complete=True),
    Escape("a generated column", _AREA, _AS_A_ROW, """
def attempt(told):
    connection = sqlite3.connect(told["database"])
    connection.execute("ALTER TABLE notes RENAME COLUMN text TO said")
    connection.execute("ALTER TABLE notes ADD COLUMN text GENERATED ALWAYS AS ('done')")
    connection.commit()
    connection.close()
    return ["nothing"]
""", NOTHING, roles=("tool",), complete=True),
    Escape("a view without end", _AREA, "the verifier runs into its time, and its verdict counts for nothing", """
def attempt(told):
    connection = sqlite3.connect(told["database"])
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000000000)"
    connection.execute("ALTER TABLE notes RENAME TO kept")
    connection.execute(f"CREATE VIEW notes AS {endless} SELECT i AS id, char(i % 7 + 65) AS text FROM n")
    connection.commit()
    connection.close()
    return ["nothing"]
""", NOTHING, roles=("tool",), uncertain=True, destructive=True),
    Escape("a journal that names another file", _AREA,
           "such a journal is stale, and dropped before SQLite would delete that file", """
def attempt(told):
    magic = bytes.fromhex("d9d505f920a163d7")
    for target in (b"/data/initial.db", b"/proc/self/cwd/initial.db"):
        head = struct.pack(">8sIIIII", magic, 0, 0, 2, 512, 4096).ljust(512, b"\\0")
        tail = struct.pack(f">I{len(target)}sII8s", 2**18 + 1, target, len(target), sum(target), magic)
        with open(told["database"] + "-journal", "wb") as file:
            file.write(head + tail)
        if told["level"] == "full":
            break
    return ["nothing"]
""", NOTHING, roles=("tool",)),
    Escape("side files of rubbish", _AREA, "SQLite takes nothing from a log whose checksums do not hold", """
def attempt(told):
    for suffix in ("-wal", "-shm", "-journal"):
        with open(told["database"] + suffix, "wb") as file:
            file.write(b"rubbish" * 1000)
    return ["nothing"]
""", NOTHING, roles=("tool",)),
    Escape("a directory in the database's place", _AREA, _COPIES + ", and only regular files", """
def attempt(told):
    os.unlink(told["database"])
    os.mkdir(told["database"])
    return ["nothing"]
""", NOTHING, roles=("tool",), uncertain=True),
    Escape("a link in the database's place", _AREA, _COPIES + ", and no link is followed", """
def attempt(told):
    os.unlink(told["database"])
    os.symlink("/proc/self/fd/3", told["database"])
    return ["nothing"]
""", NOTHING, roles=("tool",), uncertain=True),
    Escape("a pipe in the database's place", _AREA, "none can be made, and none would be waited for", """
def attempt(told):
    name = told["database"] + "-wal"
    return [tried(os.mkfifo, name), tried(os.mknod, name, 0o140600)]
""", frozenset({"EPERM"}), roles=("tool",)),
)  # fmt: skip
