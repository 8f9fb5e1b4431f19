"""Probes of reach: files, network, processes, kernel, secrets. None of them destroys anything."""

import ctypes
import os
import platform
import resource
import socket
from typing import Any

_NUMBERS = {
    "x86_64": {
        "ptrace": 101, "mount": 165, "umount2": 166, "unshare": 272, "setns": 308, "bpf": 321, "keyctl": 250,
        "add_key": 248, "io_uring_setup": 425, "perf_event_open": 298, "init_module": 175, "finit_module": 313,
        "delete_module": 176, "kexec_load": 246, "reboot": 169, "pivot_root": 155, "chroot": 161, "userfaultfd": 323,
        "memfd_create": 319, "process_vm_readv": 310, "pidfd_send_signal": 424, "open_by_handle_at": 304,
        "clone3": 435, "fsopen": 430, "move_mount": 429, "open_tree": 428, "shmget": 29, "execve": 59,
    },
    "aarch64": {
        "ptrace": 117, "mount": 40, "umount2": 39, "unshare": 97, "setns": 268, "bpf": 280, "keyctl": 219,
        "add_key": 217, "io_uring_setup": 425, "perf_event_open": 241, "init_module": 105, "finit_module": 273,
        "delete_module": 106, "kexec_load": 104, "reboot": 142, "pivot_root": 41, "chroot": 51, "userfaultfd": 282,
        "memfd_create": 279, "process_vm_readv": 270, "pidfd_send_signal": 424, "open_by_handle_at": 265,
        "clone3": 435, "fsopen": 430, "move_mount": 429, "open_tree": 428, "shmget": 194, "execve": 221,
    },
}  # fmt: skip


def system_call(kind: Any, name: str) -> int:
    """errno that a system call with arguments of -1 gives; 0 if it succeeded.

    With such arguments each of them fails harmlessly where it is not refused (EFAULT, EINVAL, EBADF), so the
    number tells a refusal from an attempt. Zeros would not do: ptrace(0) asks to be traced by the parent.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    number = _NUMBERS[platform.machine()][name]
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6)
    return ctypes.get_errno() if result < 0 else 0


def clone_namespace(kind: Any) -> int:
    """errno of creating a user namespace by clone; in the child the probe ends at once."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = {"x86_64": 56, "aarch64": 220}[platform.machine()]
    result = libc.syscall(ctypes.c_long(number), ctypes.c_ulong(0x10000000 | 17), *[ctypes.c_long(0)] * 4)
    if result == 0:
        os._exit(0)
    return ctypes.get_errno() if result < 0 else 0


def push_terminal_input(kind: Any) -> int:
    """errno of TIOCSTI, which would type into the terminal of whoever started the platform."""
    libc = ctypes.CDLL(None, use_errno=True)
    return ctypes.get_errno() if libc.ioctl(0, ctypes.c_ulong(0x5412), b"x") < 0 else 0


def open_socket(kind: Any, family: int) -> str:
    """'open', if a socket of that family can be made."""
    socket.socket(family, socket.SOCK_STREAM).close()
    return "open"


def local_pair(kind: Any) -> str:
    """A socket pair, which asyncio needs."""
    left, right = socket.socketpair()
    left.sendall(b"pair")
    return right.recv(4).decode()


def interfaces(kind: Any) -> list[str]:
    """Names of the network interfaces."""
    with open("/proc/self/net/dev") as file:
        return sorted(line.split(":")[0].strip() for line in file if ":" in line)


def read(kind: Any, path: str) -> str:
    """First kilobyte of a file."""
    with open(path, errors="replace") as file:
        return file.read(1024)


def write(kind: Any, path: str) -> str:
    """Create or append to a file with nothing."""
    with open(path, "a"):
        return "written"


def change(kind: Any, path: str, how: str) -> str:
    """'changed', if what is known of a file (its mode or its times) can be changed."""
    if how == "mode":
        os.chmod(path, 0o777)
    else:
        os.utime(path, (0, 0))
    return "changed"


def limit_process(kind: Any, pid: int) -> int:
    """errno of setting a resource limit of another process to what it is."""
    try:
        resource.prlimit(pid, resource.RLIMIT_CORE)
    except OSError as error:
        return error.errno or 0
    return 0


def listing(kind: Any, path: str) -> list[str]:
    """Names in a directory."""
    return sorted(os.listdir(path))


def environment(kind: Any) -> dict[str, str]:
    """The environment variables."""
    return dict(os.environ)


def processes(kind: Any) -> list[int]:
    """Process ids to be seen."""
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def signal_process(kind: Any, pid: int) -> str:
    """'reached', if signal 0 reaches a process."""
    os.kill(pid, 0)
    return "reached"


def namespaces(kind: Any) -> dict[str, str]:
    """Identity of each namespace this process is in."""
    names = ("user", "mnt", "pid", "net", "ipc", "uts")
    return {name: os.readlink(f"/proc/self/ns/{name}") for name in names}
