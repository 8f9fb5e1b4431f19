"""The system calls that Python's standard library lacks, through ctypes."""

import ctypes
import os
import platform
import struct

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
CLONE_CHILD_SETTID, SIGCHLD = 0x01000000, 17
ISOLATED = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 8, 32, 4096, 16384

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_SECUREBITS, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 1, 24, 28, 38, 22
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 47, 4, 15, 36
_SECCOMP_MODE_FILTER = 2
_SECURE_ALL_LOCKED = 0x2F  # no root privileges, no capability retention, each locked
_CAPABILITY_VERSION_3 = 0x20080522
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}
_TID_OFFSET = 0x2D0  # of the thread id in glibc's thread descriptor on x86-64; checked before it is used

OWN_PROCESS = b"\x01\xff\xff\x7f"
"""Stands in a filter for the id of the process that installs it, where that is not 1."""

_libc = ctypes.CDLL(None, use_errno=True)
_locked_libc = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter lock: a fork must not run without it


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def system_call(number: int, *arguments: object) -> int:
    """A raw system call; -1 on failure."""
    return int(_libc.syscall(ctypes.c_long(number), *arguments))


def checked_system_call(what: str, number: int, *arguments: object) -> int:
    """A raw system call; raises OSError saying what failed."""
    return _check(system_call(number, *arguments), what)


def die_with_parent(number: int) -> None:
    """Have the kernel send this process a signal when its parent ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0), "death signal")


def adopt_orphans() -> None:
    """Have every process below this one become its child when its own parent ends."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "adoption of orphans")


def _thread_id_address() -> int:
    """Where glibc caches this thread's id, or 0 where that is not known (it then stays stale, as harmless as rare)."""
    if platform.machine() != "x86_64":
        return 0
    _libc.pthread_self.restype = ctypes.c_void_p
    address: int = _libc.pthread_self() + _TID_OFFSET
    return address if ctypes.c_int.from_address(address).value == _libc.gettid() else 0


def clone(flags: int) -> int:
    """Fork this single-threaded process into new namespaces; returns as `os.fork` does.

    One raw clone costs about 2 ms with six namespaces; fork and unshare cost ten times that.
    """
    number = _SYS_CLONE[platform.machine()]
    tid = _thread_id_address()
    word = ctypes.c_int(0)
    address = ctypes.c_void_p(tid or ctypes.addressof(word))
    arguments = [ctypes.c_ulong(flags | CLONE_CHILD_SETTID | SIGCHLD), ctypes.c_void_p(0), ctypes.c_void_p(0)]
    last = [address, ctypes.c_void_p(0)] if platform.machine() == "x86_64" else [ctypes.c_void_p(0), address]
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    pid = int(_locked_libc.syscall(ctypes.c_long(number), *arguments, *last))
    number = ctypes.get_errno()
    if pid == 0:
        python.PyOS_AfterFork_Child()
        return 0
    python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(number, f"clone: {os.strerror(number)}")
    return pid


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """mount(2)."""
    result = _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    _check(result, f"mount {kind} on {target}")


def set_hostname(name: str) -> None:
    """sethostname(2), in the caller's uts namespace."""
    _check(_libc.sethostname(name.encode(), len(name)), "sethostname")


def set_name(name: str) -> None:
    """Name this process for ps and top (15 bytes)."""
    _libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def drop_privileges() -> None:
    """Give up every capability for good: bounding, ambient, effective, permitted and inheritable; no new privileges."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break  # past the newest capability this kernel knows
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    _libc.prctl(_PR_SET_SECUREBITS, _SECURE_ALL_LOCKED, 0, 0, 0)  # refused where the capability is gone already
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, struct.pack("6I", 0, 0, 0, 0, 0, 0)), "capset")


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install_filter(program: bytes) -> None:
    """Install a seccomp filter (array of `struct sock_filter`) on this process and all it will start."""
    pointer = _FilterProgram(len(program) // 8, program)
    result = _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(pointer), 0, 0)
    _check(result, "seccomp")
