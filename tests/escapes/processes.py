"""Attempts on processes: the platform's, other episodes', and more of one's own than there may be."""

from escapes.base import NOTHING, REFUSED, Escape

_AREA = "processes"
_ONLY_ITSELF = "a process may signal itself alone; at level full it cannot even name another"
_NO_PROCESS = "scenarios and verifiers may start threads and no process"
_NAMED = frozenset({"EPERM", "ESRCH", "ENOENT", "EACCES"})

ESCAPES = (
    Escape("signals", _AREA, _ONLY_ITSELF, """
def attempt(told):
    others = [pid for pid in told["pids"] if pid != os.getpid()] + [0, -1, 2, os.getppid() or -1]
    found = [tried(os.kill, pid, 0) for pid in others]
    if set(found) != {"EPERM"}:
        return found
    import signal
    found += [tried(os.kill, pid, number) for pid in others for number in (signal.SIGKILL, signal.SIGSTOP,
            signal.SIGHUP)]
    return found + [tried(os.killpg, pid, 0) for pid in told["pids"]] + [tried(call, "tkill", told["pids"][0], 0),
                    tried(call, "rt_sigqueueinfo", told["pids"][0], 0, 0)]
""", REFUSED, destructive=True),
    Escape("signals through descriptors", _AREA,
           "nobody can be made the owner of a descriptor, whom the kernel signals", """
def attempt(told):
    import fcntl
    left, right = socket.socketpair()
    return [tried(fcntl.fcntl, left, command, pid) for pid in told["pids"] for command in (8, 10)] + [
        tried(fcntl.ioctl, left, command, struct.pack("i", told["pids"][0])) for command in (0x8901, 0x8902)]
""", REFUSED),
    Escape("tracing other processes", _AREA, "calls that look into another process are refused", """
def attempt(told):
    found = []
    for pid in told["pids"]:
        found += [tried(call, "ptrace", 16, pid, 0, 0), tried(call, "ptrace", 0x4206, pid, 0, 0),
                  tried(call, "process_vm_readv", pid), tried(call, "process_vm_writev", pid), tried(call, "kcmp",
                  pid, pid),
                  tried(call, "pidfd_open", pid, 0), tried(call, "process_madvise"), tried(call, "process_mrelease"),
                  tried(call, "move_pages", pid), tried(call, "migrate_pages", pid)]
    return found
""", REFUSED),
    Escape("the platform by its socket", _AREA,
           "the socket names the platform's process; nothing can be done with a name", """
def attempt(told):
    with socket.socket(fileno=os.dup(channel())) as mine:
        pid = struct.unpack("3i", mine.getsockopt(socket.SOL_SOCKET, 17, 12))[0]
        found = [tried(os.kill, pid, 0)]
        try:
            (held,) = struct.unpack("i", mine.getsockopt(socket.SOL_SOCKET, 77, 4))  # SO_PEERPIDFD, Linux 6.5
        except OSError:
            return found
    found += [tried(call, "pidfd_send_signal", held, 9, 0, 0), tried(call, "pidfd_getfd", held, 0, 0),
              tried(call, "setns", held, 0x10000000), tried(call, "process_mrelease", held, 0)]
    os.close(held)
    return found
""", REFUSED),
    Escape("limits and priorities of others", _AREA, _ONLY_ITSELF, """
def attempt(told):
    found = []
    for pid in told["pids"]:
        found += [tried(resource.prlimit, pid, resource.RLIMIT_CORE, (0, 0)), tried(os.sched_setaffinity, pid, {0}),
                  tried(os.setpriority, os.PRIO_PROCESS, pid, 19),
                  tried(os.sched_setscheduler, pid, 0, os.sched_param(0))]
    return found + [tried(os.setpriority, os.PRIO_USER, 0, 19), tried(os.setpriority, os.PRIO_PROCESS, 0, -20),
                    tried(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(50)), tried(call, "ioprio_set", 1,
                    0, 1 << 13)]
""", _NAMED),
    Escape("starting processes", _AREA, _NO_PROCESS, """
def attempt(told):
    import multiprocessing
    def forked():
        if os.fork() == 0:
            os._exit(0)
        return "forked"
    def cloned(flags):
        if call("clone", flags, 0, 0, 0, 0) == 0:
            os._exit(0)
        return "cloned"
    return [tried(forked), tried(os.posix_spawn, "/bin/sh", ["sh"], {}), tried(cloned, 17),
            tried(cloned, 0x8000 | 17), tried(multiprocessing.get_context("fork").Process(target=print).start),
            *([tried(call, "fork"), tried(call, "vfork")] if platform.machine() == "x86_64" else [])]
""", REFUSED, roles=("tool", "verifier")),
    Escape("clone3", _AREA, "answered as by a kernel that does not have it, for a filter cannot read its flags", """
def attempt(told):
    return [tried(call, "clone3")]
""", frozenset({"ENOSYS"})),
    Escape("running programs", _AREA, "no program can be executed", """
def attempt(told):
    with open("program", "w") as file:
        file.write("#!/bin/sh\\n")
    found = [tried(os.execv, path, [path]) for path in ("program", "/bin/sh", sys.executable)]
    held = os.open(sys.executable, os.O_RDONLY)
    found += [tried(os.execve, held, ["python"], {}), tried(call, "memfd_create"), tried(call, "execveat")]
    os.close(held)
    os.unlink("program")
    return found
""", REFUSED, roles=("tool",)),
    Escape("new namespaces", _AREA, "none of the eight kinds can be made or joined", """
def attempt(told):
    flags = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80)
    def cloned(flag):
        if call("clone", flag | 17, 0, 0, 0, 0) == 0:
            os._exit(0)
        return "cloned"
    return [tried(call, "unshare", flag) for flag in flags] + [tried(cloned, flag) for flag in flags] + [
        tried(call, "setns")]
""", REFUSED),
    Escape("fork bomb", _AREA, _NO_PROCESS, """
def attempt(told):
    def one():
        if os.fork() == 0:
            os._exit(0)
        return "forked"
    found = [tried(one)]
    if found == ["EPERM"]:  # the harmless half: one process, that ends at once
        for _ in range(2000):
            try:
                os.fork() or time.sleep(5)
            except OSError as error:
                found.append(errno.errorcode[error.errno])
    return sorted(set(found))
""", REFUSED, roles=("tool", "verifier"), destructive=True),
    Escape("thread bomb", _AREA, "threads end at the process limit, or where the address space does", """
def attempt(told):
    release, started = threading.Event(), []
    try:
        for _ in range(1000):
            thread = threading.Thread(target=release.wait, args=(30,))
            thread.start()
            started.append(thread)
    except (RuntimeError, MemoryError) as error:
        return [type(error).__name__]
    finally:
        release.set()
        for thread in started:
            thread.join()
    return [f"GOT {len(started)} threads"]
""", frozenset({"RuntimeError", "MemoryError"}), roles=("tool", "verifier"), destructive=True),
    Escape("stopping itself", _AREA, "its own end is its call's end", """
def attempt(told):
    import signal
    tried(os.kill, os.getpid(), signal.SIGKILL)  # the first process of a namespace may ignore its own
    os._exit(9)
""", ending="lost", roles=("tool", "verifier")),
    Escape("a thread that outlives its call", _AREA,
           "what it writes later is its own episode's; the verdict is another's", """
def attempt(told):
    fd = channel()
    def late():
        for number in range(1, 60):
            time.sleep(0.005)
            value = '"text": "late", "log": "", "value": {"result": "complete"}'
            answer = '{"id": %d, "answer": {"status": "ok", ' + value + "}}"
            tried(os.write, fd, frame(answer % (number % 6)))
    threading.Thread(target=late, daemon=True).start()
    return ["nothing"]
""", NOTHING, ending="any", roles=("tool", "verifier")),
)  # fmt: skip
