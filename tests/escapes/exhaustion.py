"""Attempts to use up what is shared. Each is bounded itself, and made only where the limit was seen to hold."""

from escapes.base import NOTHING, Escape

_AREA = "exhaustion"
_BOTH = ("tool", "verifier")
_READ_ONLY = frozenset({"EROFS", "EACCES", "OperationalError"})

ESCAPES = (
    Escape("memory bomb", _AREA, "the address space has a limit; more is a MemoryError inside", """
def attempt(told):
    import mmap
    kept, found = [], []
    try:
        for _ in range(512):
            kept.append(bytearray(2**23))
        found.append("GOT 4 GiB")
    except MemoryError:
        found.append("MemoryError")
    kept.clear()
    for size in (2**31, 2**35, 2**45):
        found.append(tried(mmap.mmap, -1, size))
    return found
""", frozenset({"MemoryError", "ENOMEM"}), destructive=True),
    Escape("memory that cannot be swapped", _AREA, "none may be locked", """
def attempt(told):
    page = ctypes.create_string_buffer(2**16)
    return [tried(lambda: checked(LIBC.mlock(page, ctypes.c_size_t(2**16)), "mlock")),
            tried(lambda: checked(LIBC.mlockall(3), "mlockall"))]
""", frozenset({"EPERM", "ENOMEM"}), roles=_BOTH),
    Escape("disk bomb", _AREA,
           "the state directory is a file system with a size of its own; a verifier's takes no writes", """
def attempt(told):
    found, made = set(), []
    try:
        for number in range(16):
            made.append(f"bomb-{number}")
            with open(made[-1], "wb", buffering=0) as file:
                for _ in range(64):
                    file.write(bytes(2**20))
    except OSError as error:
        found.add(errno.errorcode[error.errno])
    for name in made:
        tried(os.unlink, name)
    return sorted(found) or ["GOT 1 GiB"]
""", frozenset({"ENOSPC"}), verifier=_READ_ONLY, roles=_BOTH, levels=("full",), destructive=True),
    Escape("a huge file", _AREA, "no file may grow over the disk's size", """
def attempt(told):
    found = []
    try:
        with open("bomb", "wb", buffering=0) as file:
            found += [tried(os.truncate, "bomb", 2**40), tried(os.posix_fallocate, file.fileno(), 0, 2**40)]
            for _ in range(300):
                file.write(bytes(2**20))
    except OSError as error:
        found.append(errno.errorcode[error.errno])
    tried(os.unlink, "bomb")
    return found
""", frozenset({"EFBIG", "ENOSPC"}), verifier=_READ_ONLY, roles=_BOTH, destructive=True),
    Escape("inode bomb", _AREA, "the state directory holds so many files and no more", """
def attempt(told):
    found, made = [], 0
    os.mkdir("inodes") if tried(os.mkdir, "inodes") != "EROFS" and not os.path.isdir("inodes") else None
    try:
        for made in range(8192):
            os.close(os.open(f"inodes/{made}", os.O_CREAT | os.O_WRONLY))
        found.append("GOT 8192 files")
    except OSError as error:
        found.append(errno.errorcode[error.errno])
    for number in range(made):
        tried(os.unlink, f"inodes/{number}")
    return found
""", frozenset({"ENOSPC"}), verifier=frozenset({"EROFS", "ENOENT"}), roles=_BOTH, levels=("full",), destructive=True),
    Escape("descriptor bomb", _AREA, "descriptors end at their limit", """
def attempt(told):
    held = []
    try:
        for _ in range(4096):
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        return [errno.errorcode[error.errno]]
    finally:
        for fd in held:
            os.close(fd)
    return ["GOT 4096"]
""", frozenset({"EMFILE"}), roles=_BOTH, destructive=True),
    Escape("an endless loop", _AREA, "the call has a time, and the process goes with it", """
def attempt(told):
    for _ in range(told["seconds"] * 10**8):
        pass
    return ["GOT through"]
""", ending="timeout", roles=_BOTH, destructive=True),
    Escape("an endless loop in native code", _AREA, "the platform kills from outside; no code inside need listen", """
def attempt(told):
    import signal
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGXCPU):
        signal.signal(number, signal.SIG_IGN)
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000000000)"
    query = numbers + " SELECT count(*) FROM n"
    return sqlite3.connect(":memory:").execute(query).fetchall()
""", ending="timeout", roles=_BOTH, destructive=True),
    Escape("endless recursion", _AREA, "the interpreter's own limit, or the end of the process", """
def attempt(told):
    def deeper():
        return deeper()
    deeper()
""", ending="raises", roles=_BOTH, destructive=True),
    Escape("output flood", _AREA, "what is printed is kept up to 64 KiB; the descriptors lead nowhere", """
def attempt(told):
    line = "x" * 10**6
    for _ in range(30):
        print(line)
        sys.stderr.write(line)
        os.write(1, line.encode())
        os.write(2, line.encode())
    return ["nothing"]
""", NOTHING, roles=_BOTH, destructive=True),
    Escape("a huge answer", _AREA, "answers are bounded where they enter", """
def attempt(told):
    return ["x" * (20 * 2**20)]
""", ending="raises", roles=("tool",), destructive=True),  # of a verifier's value what is long is cut
    Escape("a deep answer", _AREA, "nesting is bounded where it enters", """
def attempt(told):
    nested = []
    for _ in range(50_000):
        nested = [nested]
    return nested
""", ending="raises", roles=_BOTH, destructive=True),
    Escape("a frame too large", _AREA, "a frame over its bound ends the conversation, and with it its own process", """
def attempt(told):
    fd = channel()
    os.write(fd, struct.pack("<I", 2**32 - 1))
    for _ in range(64):
        os.write(fd, bytes(2**16))
    return ["nothing"]
""", NOTHING, ending="any", roles=_BOTH, destructive=True),
    Escape("a frame that is no message", _AREA, "what is not JSON of the right shape ends its own conversation", """
def attempt(told):
    fd = channel()
    for text in ("[" * 100_000, '{"id": NaN, "answer": {"value": Infinity}}', "null",
            '{"attached": [["value", -1]], "answer": {}}'):
        os.write(fd, frame(text))
    return ["nothing"]
""", NOTHING, ending="any", roles=_BOTH),
)  # fmt: skip
