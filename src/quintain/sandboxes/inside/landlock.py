"""Landlock: a process gives up, for itself and all it starts, every file it does not name.

Source: landlock(7) and linux/landlock.h. Access rights newer than the running kernel's are left out.
"""

import ctypes
import os
import stat

from inside import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_EXECUTE, _READ_FILE, _READ_DIR = 1, 4, 8
_FILE_RIGHTS = 1 | 2 | 4 | 1 << 14 | 1 << 15  # those that make sense on a file: execute, write, read, truncate, ioctl
_RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_SCOPE_ALL = 3  # abstract sockets and signals stay within the restricted process; version 6
_TCP_BIND_AND_CONNECT = 3  # version 4


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """The Landlock version of the running kernel; 0 without Landlock."""
    found = kernel.system_call(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    return max(found, 0)


def restrict(readable: list[str], writable: list[str]) -> None:
    """From now on only `readable` can be read and executed, and only `writable` changed. Needs no new privileges.

    Raises:
        OSError: the kernel has no Landlock.
    """
    newest = version()
    if newest < 1:
        raise OSError("this kernel has no Landlock")
    rights = _RIGHTS_BY_VERSION[min(newest, 5)]
    rules = _Ruleset(rights, _TCP_BIND_AND_CONNECT if newest >= 4 else 0, _SCOPE_ALL if newest >= 6 else 0)
    size = {1: 8, 2: 8, 3: 8, 4: 16, 5: 16}.get(newest, 24)
    ruleset = kernel.checked_system_call("landlock ruleset", _CREATE_RULESET, ctypes.byref(rules), size, 0)
    for path in readable:
        _allow(ruleset, path, _EXECUTE | _READ_FILE | _READ_DIR)
    for path in writable:
        _allow(ruleset, path, rights & ~_EXECUTE)
    kernel.checked_system_call("landlock", _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            rights &= _FILE_RIGHTS
        rule = _PathBeneath(rights, parent)
        kernel.checked_system_call(f"landlock {path}", _ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(parent)
