"""Scenarios that do harm: in a tool when asked to, in a tool whenever it is called, or while they are loaded."""

from e2e.pack import HEAD, JOURNAL, NOTE_TOOLS, NOTES, WAL, Scenario

# Every harm needs `really`, which is false unless asked for: no exercise of the tools before an episode does any.
HOSTILE = (
    HEAD
    + '''
import ctypes
import random
import resource
import secrets
import sys
import threading
import time
import uuid

COUNTER = {"calls": 0}


@app.get("/probe", operation_id="probe")
def probe():
    """What holds this process."""
    status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
    disk = os.statvfs(".")
    return {
        "limits": {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name))[1]
                   for name in ("AS", "NPROC", "CPU", "NOFILE", "FSIZE", "CORE")},
        "namespaces": {name: os.readlink("/proc/self/ns/" + name)
                       for name in ("user", "mnt", "pid", "net", "ipc", "uts")},
        "pid": os.getpid(),
        "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "seccomp": int(status["Seccomp"]),
        "no_new_privs": int(status["NoNewPrivs"]),
        "capabilities": int(status["CapEff"], 16),
        "disk_bytes": disk.f_blocks * disk.f_frsize,
        "environment": sorted(os.environ),
    }


@app.get("/spin", operation_id="spin")
def spin(really: bool = False):
    while really:
        pass
    return "not now"


@app.get("/spin_async", operation_id="spin_async")
async def spin_async(really: bool = False):
    while really:
        pass
    return "not now"


@app.get("/sleep", operation_id="sleep")
def sleep(seconds: float = 0):
    time.sleep(seconds)
    return "awake"


@app.post("/leave", operation_id="leave")
def leave(really: bool = False, status: int = 0, words: str = ""):
    """Write without committing, then end the process."""
    if really:
        session = Session()
        session.execute(text("INSERT INTO notes (text) VALUES (:words)"), {"words": words})
        os._exit(status)
    return "not now"


@app.post("/kill_itself", operation_id="kill_itself")
def kill_itself(really: bool = False):
    if really:
        os.kill(os.getpid(), 9)
    return "not now"


@app.post("/crash", operation_id="crash")
def crash(really: bool = False):
    if really:
        ctypes.string_at(0)
    return "not now"


@app.post("/fork", operation_id="fork_for_ever")
def fork_for_ever(really: bool = False):
    while really:
        try:
            os.fork()
        except OSError:
            pass
    return "not now"


@app.post("/fork_some", operation_id="fork_some")
def fork_some(really: bool = False):
    """A few forks by every way there is; how many came off."""
    made = 0
    for _ in range(8 if really else 0):
        try:
            pid = os.fork()
        except OSError:
            continue
        if pid == 0:
            time.sleep(30)
            os._exit(0)
        made += 1
    return made


@app.post("/allocate", operation_id="allocate")
def allocate(really: bool = False):
    kept = []
    while really:
        kept.append(bytearray(2**24))
    return "not now"


@app.post("/fill_disk", operation_id="fill_disk")
def fill_disk(really: bool = False):
    number = 0
    while really:
        number += 1
        with open(f"fill-{number % 8}", "ab", buffering=0) as file:
            file.write(bytes(2**20))
    return "not now"


@app.post("/make_room", operation_id="make_room")
def make_room():
    return [os.unlink(name) for name in os.listdir(".") if name.startswith("fill-")]


@app.get("/recurse", operation_id="recurse")
def recurse(really: bool = False):
    def deeper(level):
        return deeper(level + 1) + 1

    return deeper(0) if really else "not now"


@app.get("/recurse_natively", operation_id="recurse_natively")
def recurse_natively(really: bool = False):
    if not really:
        return "not now"
    sys.setrecursionlimit(2**30)

    class Deep:
        def __repr__(self):
            return repr(self)

    return repr(Deep())


@app.get("/large", operation_id="large", response_class=Response)
def large(size: int = 10, character: str = "x"):
    return Response(character * size, media_type="text/plain; charset=utf-8")


@app.get("/endless_body", operation_id="endless_body")
def endless_body(really: bool = False):
    from fastapi.responses import StreamingResponse

    def parts():
        while really:
            yield b"x" * 2**20

    return StreamingResponse(parts())


@app.get("/binary", operation_id="binary", response_class=Response)
def binary():
    return Response(b"\\x89PNG\\r\\n\\x1a\\n" + bytes(range(256)), media_type="image/png")


@app.get("/words", operation_id="words")
def words():
    """Characters that have tripped readers."""
    return {"line": "a\\u2028b\\u2029c", "nested": {"\\U0001f600": ["\\u00e9", {"\\u4e2d": "\\u202e"}]}, "nul": "\\x00"}


@app.get("/surrogate", operation_id="surrogate", response_class=Response)
def surrogate():
    return Response(b'{"half": "\\\\ud800"}', media_type="application/json")


@app.get("/not_a_number", operation_id="not_a_number", response_class=Response)
def not_a_number():
    return Response(b'{"value": NaN}', media_type="application/json")


@app.post("/echo", operation_id="echo")
def echo(words: str):
    return {"echo": words}


@app.post("/chatter", operation_id="chatter")
def chatter(lines: int = 1):
    for number in range(lines):
        print(f"line {number} " + "." * 80)
        print("to the error stream", file=sys.stderr)
    os.write(1, b"straight to the descriptor\\n")
    return lines


@app.post("/thread", operation_id="start_thread")
def start_thread(really: bool = False):
    if really:
        threading.Thread(target=lambda: [time.sleep(3600)], daemon=False).start()
    return threading.active_count()


@app.post("/busy_thread", operation_id="start_busy_thread")
def start_busy_thread(really: bool = False):
    def work():
        while True:
            pass

    if really:
        threading.Thread(target=work, daemon=True).start()
    return "started"


@app.post("/file", operation_id="write_file")
def write_file(path: str = "note.txt"):
    with open(path, "w") as file:
        file.write("x")
    return sorted(os.listdir("."))


@app.get("/file", operation_id="read_file")
def read_file(path: str = "note.txt"):
    try:
        with open(path) as file:
            return {"read": file.read(500)}
    except OSError as error:
        return {"refused": type(error).__name__}


@app.get("/stop", operation_id="stop")
def stop(really: bool = False):
    if really:
        raise SystemExit(3)
    return "not now"


@app.get("/stop_async", operation_id="stop_async")
async def stop_async(really: bool = False):
    if really:
        raise KeyboardInterrupt
    return "not now"


@app.get("/fail", operation_id="fail")
def fail(really: bool = False):
    if really:
        raise ValueError("invalid validation not found timeout")  # no word of it may decide anything
    return "not now"


@app.get("/missing", operation_id="missing")
def missing(status: int = 404):
    raise HTTPException(status_code=status, detail="Order not found")


@app.post("/remember", operation_id="remember")
def remember():
    COUNTER["calls"] += 1
    return COUNTER["calls"]


@app.post("/forge", operation_id="forge")
def forge(really: bool = False):
    """Garbage into every descriptor there is."""
    for fd in range(3, 256 if really else 0):
        try:
            os.write(fd, b"\\xff\\xff\\xff\\x7f{\\"id\\": 1, \\"answer\\": {\\"status\\": \\"ok\\"}}")
        except OSError:
            pass
    return "forged"


@app.post("/hang_up", operation_id="hang_up")
def hang_up(really: bool = False):
    if really:
        os.closerange(3, 256)
        time.sleep(3600)
    return "not now"


@app.post("/spoil", operation_id="spoil_database")
def spoil_database(really: bool = False):
    """Make the database file something that is none."""
    if really:
        for name in os.listdir("."):
            if name.endswith(".db"):
                with open(name, "r+b") as file:
                    file.write(b"this is no database " * 400)
    return "not now"


@app.post("/link", operation_id="link_database")
def link_database(really: bool = False):
    """Put a link to a file of the host in the database's place."""
    if really:
        for name in os.listdir("."):
            if name.endswith(".db"):
                os.unlink(name)
                os.symlink("/etc/passwd", name)
    return "not now"


@app.get("/moment", operation_id="moment")
def moment():
    with Session() as session:
        rows = session.execute(text("SELECT datetime('now'), random(), hex(randomblob(8)), CURRENT_TIMESTAMP")).one()
    return {
        "now": datetime.now().isoformat(), "time": time.time(), "uuid4": str(uuid.uuid4()), "uuid1": str(uuid.uuid1()),
        "random": random.random(), "own": random.Random().random(), "token": secrets.token_hex(8),
        "urandom": os.urandom(8).hex(), "sql": [str(value) for value in rows], "set": list({"a", "b", "c", "d", "e"}),
        "elapsed": time.perf_counter(), "hash": hash("quintain"), "file": os.listdir("."),
    }
'''
    + NOTE_TOOLS
)
"""A notebook with tools that do what no tool should."""

AT_LOAD = {
    "Raises At Load 1": "raise RuntimeError('no such luck')",
    "Leaves At Load 1": "import os\nos._exit(3)",
    "Threads At Load 1": "import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
    "Has No App 1": "app = None",
    "Is No Python 1": "def (:",
}
"""Scenarios that fail before any tool can be called."""


_COUNTED = (
    HEAD
    + """
import resource
import time

MADE = []
for _ in range(200):
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    MADE.append(pid)
raise RuntimeError(f"{len(MADE)} processes, {resource.getrlimit(resource.RLIMIT_AS)[0]} bytes")
"""
)
"""Harmless where nothing bounds it: 200 processes that wait, and no memory at all. Says what it could have had."""

_UNARMED = (
    HEAD
    + """
@app.post("/leave", operation_id="leave")
def leave():
    os._exit(0)


@app.post("/fork", operation_id="fork_for_ever")
def fork_for_ever():
    while True:
        try:
            os.fork()
        except OSError:
            pass


@app.post("/allocate", operation_id="allocate")
def allocate():
    kept = []
    while True:
        kept.append(bytearray(2**24))
"""
    + NOTE_TOOLS
)
"""Tools that do harm whenever they are called, the exercise of the tools before an episode included."""


def hostile_scenarios() -> list[Scenario]:
    """The hostile notebook, one with a write-ahead log, one that is sound, and those that do not load."""
    return [
        Scenario("Hostile House 1", HOSTILE, solutions={0: [("add_note", {"words": "done"})]}),
        Scenario("Wal Ledger 1", WAL),
        Scenario("Journal Ledger 1", JOURNAL),
        Scenario("Plain Notes 1", NOTES),
        *(Scenario(title, HEAD + code + "\n") for title, code in AT_LOAD.items()),
        Scenario("Spins At Load 1", HEAD + "while True:\n    pass\n"),
        Scenario("Counts At Load 1", _COUNTED),
        Scenario("Allocates At Load 1", HEAD + "kept = []\nwhile True:\n    kept.append(bytearray(2**24))\n"),
        Scenario("Unarmed Notes 1", _UNARMED),
    ]
