"""Attempts by way of the interpreter: it is no boundary, so each of these gets as far as the kernel and no further."""

from escapes.base import HOST_FILE, NOTHING, REFUSED, Escape

_AREA = "interpreter"
_NO_PROGRAM = "everything in the interpreter can be reached, and starting a program is refused by the kernel"
_OWN_PROCESS = "it spoils its own process alone; verdicts come from another one"

ESCAPES = (
    Escape("dunder walk", _AREA, _NO_PROGRAM, """
def attempt(told):
    for one in ().__class__.__base__.__subclasses__():
        found = getattr(getattr(one, "__init__", None), "__globals__", {}).get("sys")
        if found is not None:
            return [tried(found.modules["os"].popen, "id")]
    return ["the walk failed"]
""", REFUSED),
    Escape("format-string dunders", _AREA, "the environment they read was cleared; it holds no secret", """
def attempt(told):
    import warnings
    shown = "{0.__init__.__globals__[sys].modules[os].environ}".format(warnings.catch_warnings())
    return sorted(set(re.findall("quintain-canary-[0-9a-f]+", shown))) or ["nothing" if "HOME" in shown else "failed"]
""", NOTHING),
    Escape("io.open", _AREA, "files of the host are not there, whatever opens them", """
def attempt(told):
    import io, pathlib, codecs, _io, posix
    ways = (io.open, _io.open, codecs.open, _io.FileIO, lambda path: posix.open(path, 0), io.open_code,
            lambda path: pathlib.Path(path).read_text())
    return [tried(way, path) for way in ways for path in ("/etc/passwd", told["secret_file"])]
""", HOST_FILE),
    Escape("collections._sys", _AREA, _NO_PROGRAM, """
def attempt(told):
    import collections
    return [tried(collections._sys.modules["os"].popen, "id")]
""", REFUSED),
    Escape("subprocess", _AREA, _NO_PROGRAM, """
def attempt(told):
    import subprocess
    return [tried(subprocess.run, command) for command in (["/bin/sh", "-c", "id"], [sys.executable, "-c", "1"])]
""", REFUSED),
    Escape("ctypes", _AREA, "native code meets the same filter as Python code", """
def attempt(told):
    strings = (ctypes.c_char_p * 2)(b"/bin/sh", None)
    return [
        tried(lambda: checked(LIBC.execv(b"/bin/sh", strings), "execv")),
        tried(lambda: checked(LIBC.execv(sys.executable.encode(), strings), "execv")),
        tried(lambda: checked(LIBC.fork() or os._exit(0), "fork")),
        tried(lambda: checked(LIBC.kill(-1, 0), "kill")),
        tried(lambda: checked(LIBC.socket(2, 1, 0), "socket")),
    ]
""", REFUSED, roles=("tool", "verifier")),
    Escape("native code for another architecture", _AREA,
           "the filter kills a process that calls as a 32-bit one does", """
def attempt(told):
    import mmap
    if platform.machine() != "x86_64":
        os._exit(1)
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    return ["a 32-bit call was answered"]
""", ending="lost", roles=("tool", "verifier")),
    Escape("secrets in memory", _AREA,
           "nothing but its own code was ever in this process or in those it was forked from", """
def attempt(told):
    return [one for one in tokens_in_memory() if one != told["own_token"]] + (
        ["nothing"] if told["own_token"] in tokens_in_memory() else ["its own token was not found"])
""", NOTHING),
    Escape("objects of the platform", _AREA, "the process was forked from one that never held any", """
def attempt(told):
    kinds = {str(type(one).__module__) for one in gc.get_objects()}
    return sorted(name for name in {*sys.modules, *kinds} if name.partition(".")[0] == "quintain") or ["nothing"]
""", NOTHING),
    Escape("import hooks", _AREA, _OWN_PROCESS, """
def attempt(told):
    class Hook:
        def find_spec(self, name, path=None, target=None):
            raise ImportError(name)
    sys.meta_path.insert(0, Hook())
    sys.path.insert(0, "/data")
    sys.path_hooks.clear()
    sys.modules["sqlite3"] = sys.modules["json"] = None
    return ["nothing"]
""", NOTHING, ending="any", roles=("tool", "verifier")),
    Escape("json replaced", _AREA, _OWN_PROCESS, """
def attempt(told):
    import json
    forged = '{"id": 1, "answer": {"status": "ok", "value": {"result": "complete"}, "text": "forged", "log": ""}}'
    json.dumps = json.encoder.JSONEncoder.encode = lambda *a, **k: forged
    json.loads = lambda *a, **k: {"id": 1, "request": {}}
    return ["nothing"]
""", ending="any", roles=("tool",)),
    Escape("sqlite3 and builtins replaced", _AREA, _OWN_PROCESS, """
def attempt(told):
    import builtins
    class Liar:
        def __getattr__(self, name):
            return lambda *a, **k: self
        def fetchone(self):
            return (99,)
        __iter__ = lambda self: iter([("done",)])
    sqlite3.connect = sqlite3.dbapi2.connect = lambda *a, **k: Liar()
    builtins.len = lambda one: 10**6
    builtins.isinstance = lambda *a: True
    return ["nothing"]
""", ending="any", roles=("tool",)),
    Escape("tracing", _AREA, _OWN_PROCESS, """
def attempt(told):
    def trace(frame_, event, argument):
        frame_.f_trace_opcodes = True
        if "result" in frame_.f_locals:
            frame_.f_locals["result"] = "complete"
        return trace
    sys.settrace(trace)
    threading.settrace(trace)
    sys.setprofile(lambda *a: None)
    return ["nothing"]
""", NOTHING, roles=("tool", "verifier")),
    Escape("exit handlers and finalisers", _AREA, _OWN_PROCESS, """
def attempt(told):
    import atexit, weakref
    class Late:
        def __del__(self):
            os.write(channel(), frame('{"id": 2, "answer": {"status": "ok", "text": "late"}}'))
    atexit.register(Late().__del__)
    weakref.finalize(attempt, Late().__del__)
    return ["nothing"]
""", NOTHING, ending="any", roles=("tool", "verifier")),
    Escape("signal handlers and alarms", _AREA, "its process ends, and nothing else hears of it", """
def attempt(told):
    import signal
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    time.sleep(0.1)
    return ["nothing"]
""", NOTHING, ending="any", roles=("tool", "verifier")),
    Escape("an error that cannot be told", _AREA, "what it raises is caught, and named by its type", """
def attempt(told):
    class Mute(BaseException):
        def __str__(self):
            raise self
        __repr__ = __str__
    raise Mute
""", ending="raises", roles=("tool", "verifier")),
)  # fmt: skip
