"""What every attempt can use inside: one source text, prepended to scenarios and to verifiers."""

HELPERS = r'''
import ctypes
import errno
import gc
import os
import platform
import re
import resource
import socket
import sqlite3
import struct
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
X86 = {
    "accept": 43, "acct": 163, "add_key": 248, "adjtimex": 159, "bpf": 321, "chroot": 161, "clock_adjtime": 305,
    "clock_settime": 227, "clone": 56, "clone3": 435, "execve": 59, "execveat": 322, "fanotify_init": 300, "fork": 57,
    "finit_module": 313, "fsopen": 430, "init_module": 175, "inotify_init1": 294, "io_setup": 206,
    "io_uring_setup": 425,
    "ioperm": 173, "iopl": 172, "ioprio_set": 251, "kcmp": 312, "kexec_load": 246, "keyctl": 250, "listmount": 458,
    "lookup_dcookie": 212, "memfd_create": 319, "memfd_secret": 447, "migrate_pages": 256, "modify_ldt": 154,
    "mount": 165, "mount_setattr": 442, "move_mount": 429, "move_pages": 279, "mq_open": 240, "msgctl": 71,
    "msgget": 68,
    "msgrcv": 70, "msgsnd": 69, "name_to_handle_at": 303, "open_by_handle_at": 304, "open_tree": 428,
    "perf_event_open": 298, "personality": 135, "pidfd_getfd": 438, "pidfd_open": 434, "pidfd_send_signal": 424,
    "pivot_root": 155, "process_madvise": 440, "process_mrelease": 448, "process_vm_readv": 310,
    "process_vm_writev": 311, "ptrace": 101, "quotactl": 179, "reboot": 169, "request_key": 249, "rt_sigqueueinfo": 129,
    "semget": 64, "semop": 65, "setdomainname": 171, "sethostname": 170, "setns": 308, "settimeofday": 164, "shmat": 30,
    "shmget": 29, "statmount": 457, "swapon": 167, "syslog": 103, "tkill": 200, "umount2": 166, "unshare": 272,
    "userfaultfd": 323, "vfork": 58, "vhangup": 153,
}
ARM = {
    "accept": 202, "acct": 89, "add_key": 217, "adjtimex": 171, "bpf": 280, "chroot": 51, "clock_adjtime": 266,
    "clock_settime": 112, "clone": 220, "clone3": 435, "execve": 221, "execveat": 281, "fanotify_init": 262,
    "finit_module": 273, "fsopen": 430, "init_module": 105, "inotify_init1": 26, "io_setup": 0, "io_uring_setup": 425,
    "ioprio_set": 30, "kcmp": 272, "kexec_load": 104, "keyctl": 219, "listmount": 458, "lookup_dcookie": 18,
    "memfd_create": 279, "memfd_secret": 447, "migrate_pages": 238, "mount": 40, "mount_setattr": 442,
    "move_mount": 429, "move_pages": 239, "mq_open": 180, "msgctl": 187, "msgget": 186, "msgrcv": 188, "msgsnd": 189,
    "name_to_handle_at": 264, "open_by_handle_at": 265, "open_tree": 428, "perf_event_open": 241, "personality": 92,
    "pidfd_getfd": 438, "pidfd_open": 434, "pidfd_send_signal": 424, "pivot_root": 41, "process_madvise": 440,
    "process_mrelease": 448, "process_vm_readv": 270, "process_vm_writev": 271, "ptrace": 117, "quotactl": 60,
    "reboot": 142, "request_key": 218, "rt_sigqueueinfo": 138, "semget": 190, "semop": 193, "setdomainname": 162,
    "sethostname": 161, "setns": 268, "settimeofday": 170, "shmat": 196, "shmget": 194, "statmount": 457, "swapon": 224,
    "syslog": 116, "tkill": 130, "umount2": 39, "unshare": 97, "userfaultfd": 282, "vhangup": 58,
}
NUMBERS = X86 if platform.machine() == "x86_64" else ARM


def call(name, *arguments):
    """A raw system call; arguments that are not given are -1, with which each fails where it is not refused."""
    if name not in NUMBERS:
        raise OSError(errno.EPERM, "this architecture has no " + name)
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in (*arguments, *[-1] * (6 - len(arguments)))]
    answer = LIBC.syscall(ctypes.c_long(NUMBERS[name]), *given)
    if answer == -1:
        raise OSError(ctypes.get_errno(), name)
    return answer


def checked(answer, what):
    if answer == -1:
        raise OSError(ctypes.get_errno(), what)
    return answer


def tried(act, *arguments, **options):
    """What trying gave: the name of the errno or exception, `nothing`, or what it GOT."""
    try:
        got = act(*arguments, **options)
    except OSError as error:
        inner = getattr(error, "reason", None)
        number = error.errno or getattr(inner, "errno", None)
        return errno.errorcode.get(number, type(error).__name__)
    except Exception as error:
        return type(error).__name__
    return "nothing" if got is None or (hasattr(got, "__len__") and len(got) == 0) else f"GOT {got!r:.300}"


def read(path):
    with open(path, "rb") as file:
        return file.read(300)


def write(path):
    """Opens for writing and writes nothing: where it is not refused, a file is not changed."""
    open(path, "ab").close()
    return "open for writing"


def put(path, content):
    fd = os.open(path, os.O_WRONLY)
    try:
        return os.write(fd, content)
    finally:
        os.close(fd)


def limits_that_do_not_hold(full, loading=False):
    """Looks, and touches nothing: what of the limits is missing in this very process."""
    most = {"AS": 2**32, "CORE": 0, **({} if loading else {"CPU": 3600, "NOFILE": 256, "FSIZE": 2**28})}
    if full and not loading:
        most["NPROC"] = 64
    missing = []
    for name, value in most.items():
        limit = resource.getrlimit(getattr(resource, "RLIMIT_" + name))[0]
        if not 0 <= limit <= value:
            missing.append(f"{name} is {limit}")
    if LIBC.prctl(21, 0, 0, 0, 0) != 2:
        missing.append("no seccomp filter")
    if LIBC.prctl(39, 0, 0, 0, 0) != 1:
        missing.append("privileges can be gained")
    if full:
        disk = os.statvfs(".")
        if not 0 < disk.f_blocks * disk.f_frsize <= 2**28:
            missing.append("the disk is not its own")
        if os.getpid() != 1 or [name for name in os.listdir("/proc") if name.isdigit()] != ["1"]:
            missing.append("the process namespace is not its own")
    return missing


def tokens_in_memory():
    """Every planted secret in this process's memory."""
    pattern = re.compile(rb"quintain-canary-[0-9a-f]{32}")
    found = set()
    try:
        with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
            for line in maps:
                span, rights, *_ = line.split()
                first, last = (int(part, 16) for part in span.split("-"))
                for at in range(first, last if "r" in rights else first, 2**22):
                    try:
                        memory.seek(at)
                        found.update(pattern.findall(memory.read(min(2**22 + 64, last - at))))
                    except (OSError, ValueError, OverflowError):
                        break
    except OSError:
        found = tokens_in_objects(pattern)
    return sorted(one.decode() for one in found)


def tokens_in_objects(pattern):
    found, seen = set(), set()
    waiting = [*gc.get_objects(), *(vars(module) for module in list(sys.modules.values()) if hasattr(module,
            "__dict__"))]
    while waiting:
        fresh = {id(one): one for one in waiting if id(one) not in seen}
        seen.update(fresh)
        for one in fresh.values():
            if type(one) is str:
                found.update(pattern.findall(one.encode("utf-8", "replace")))
            elif type(one) in (bytes, bytearray):
                found.update(pattern.findall(one))
        waiting = gc.get_referents(*fresh.values())
    return found


def channel():
    """The descriptor of this process's conversation with the platform."""
    for fd in range(3, 256):
        try:
            pair = socket.socket(fileno=os.dup(fd))
        except OSError:
            continue
        with pair:
            if pair.family == socket.AF_UNIX and pair.type == socket.SOCK_STREAM:
                return fd
    raise LookupError("no channel")


def frame(text):
    return struct.pack("<I", len(text)) + text.encode()


def run_attempt(code, told):
    names = dict(globals())
    exec(code, names)
    return names["attempt"](told)
'''
