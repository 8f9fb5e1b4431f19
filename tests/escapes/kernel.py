"""Attempts on the kernel's rarer interfaces, each with arguments that fail harmlessly where it is not refused."""

from escapes.base import NOTHING, REFUSED, Escape

_AREA = "kernel"
_FILTER = "the seccomp filter refuses it by name"


def _calls(name: str, calls: str, reason: str = _FILTER) -> Escape:
    code = f"\ndef attempt(told):\n    return [tried(call, name) for name in {calls.split()!r}]\n"
    return Escape(name, _AREA, reason, code, REFUSED)


ESCAPES = (
    _calls("tracing and profiling",
           "ptrace bpf perf_event_open userfaultfd lookup_dcookie fanotify_init inotify_init1"),
    _calls("asynchronous input and output", "io_uring_setup io_setup"),
    _calls("keys", "keyctl add_key request_key"),
    _calls("modules and reboot", "init_module finit_module kexec_load reboot swapon acct quotactl syslog vhangup"),
    _calls("memory without a file", "memfd_create memfd_secret"),
    _calls("hardware", "iopl ioperm modify_ldt personality"),
    Escape("mounts", _AREA, "no capability to mount is left, and an episode's filter refuses to try", """
def attempt(told):
    def mounted(kind, flags=0):
        return call("mount", ctypes.c_char_p(b"none"), ctypes.c_char_p(b"/proc"), ctypes.c_char_p(kind), flags, 0)
    kinds = (b"tmpfs", b"proc", b"sysfs", b"cgroup2", b"cgroup", b"overlay", b"bpf", b"mqueue")
    found = [tried(mounted, kind) for kind in kinds]
    found += [tried(mounted, b"none", flag) for flag in (4096, 32, 1 << 18)]  # bind, remount, private
    found += [tried(call, name) for name in ("fsopen", "move_mount", "open_tree", "mount_setattr")]
    return [*found, tried(call, "umount2", ctypes.c_char_p(b"/proc"), 2)]
""", REFUSED),
    Escape("the host's clock and name", _AREA, "calls that set them are refused", """
def attempt(told):
    names = ("adjtimex", "clock_adjtime", "settimeofday", "clock_settime", "sethostname", "setdomainname")
    return [tried(call, name) for name in names] + [tried(time.clock_settime, time.CLOCK_REALTIME, time.time())]
""", REFUSED),
    Escape("the clock that is seen", _AREA,
           "a tool sees the episode's clock, which tells nothing of the host's day", """
def attempt(told):
    import datetime
    seen = {time.strftime("%Y-%m-%d", time.gmtime()), datetime.datetime.now().date().isoformat(),
            datetime.date.today().isoformat()}
    return [f"GOT {one}" for one in seen if one != "2026-02-10"] or ["nothing"]
""", NOTHING, roles=("tool",)),
    Escape("privileges", _AREA, "every capability is gone for good, and so is the way back", """
def attempt(told):
    caps = struct.pack("6I", *[0xFFFFFFFF] * 6)
    return [tried(os.setuid, 0) if os.getuid() else "GOT root", tried(os.setgid, 0), tried(os.setgroups, [0]),
            tried(lambda: checked(LIBC.capset(struct.pack("Ii", 0x20080522, 0), caps), "capset")),
            tried(lambda: checked(LIBC.prctl(38, 0, 0, 0, 0), "no_new_privs off")),
            tried(lambda: checked(LIBC.prctl(22, 0, 0, 0, 0), "seccomp off")),
            tried(lambda: checked(LIBC.prctl(35, 1, 0, 0, 0), "PR_SET_MM")), tried(os.nice, -5)]
""", frozenset({"EPERM", "EINVAL", "EACCES"})),
    Escape("typing into a terminal", _AREA, _FILTER, """
def attempt(told):
    import fcntl
    return [tried(fcntl.ioctl, fd, number, b"x") for fd in (0, 1, 2, channel()) for number in (0x5412, 0x541C)]
""", REFUSED),
    Escape("calls the filter does not know", _AREA, "answered as by a kernel that does not have them", """
def attempt(told):
    numbers = [463, 467, 470, 600, 1023, *([0x40000000 + 39, 0x40000000
            + 520] if platform.machine() == "x86_64" else [])]
    return [tried(lambda: checked(LIBC.syscall(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6), "unknown"))
            for number in numbers]
""", frozenset({"ENOSYS"})),
)  # fmt: skip
