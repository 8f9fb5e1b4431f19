"""Seccomp filters: classic BPF generated here, so that no system library is needed.

A filter refuses by name what a sandbox never needs, and every system call newer than the table below (ENOSYS,
as an older kernel would answer). Sources: seccomp(2), linux/filter.h, linux/seccomp.h and the kernel's
syscall tables for x86-64 and arm64.
"""

import errno
import platform
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from quintain.errors import IsolationError
from quintain.sandboxes.policy import SecurityPolicy

NAMESPACE_FLAGS = 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x80
"""mount, cgroup, uts, ipc, user, pid, net and time namespaces, as clone(2) flags."""
EPISODE_CLONE_FLAGS = 0x20000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x01000000 | 17
"""What a template passes to clone for one episode: six namespaces, CLONE_CHILD_SETTID, SIGCHLD."""
OWN_PROCESS = 0x7FFFFF01
"""Stands in a filter for the id of the process that will install it, where that is not known to be 1."""
_CLONE_THREAD = 0x10000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_FIOSETOWN, _SIOCSPGRP = 0x8901, 0x8902
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_SETLEASE, _F_NOTIFY = 8, 10, 15, 1024, 1026
_AF_UNIX, _SOCK_STREAM, _TYPE_OF_SOCKET = 1, 1, 0xF

# name: (x86-64, arm64); None where the architecture has no such call.
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "process_madvise": (440, 440),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "unshare": (272, 97), "setns": (308, 268), "clone": (56, 220), "clone3": (435, 435),
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_setup": (206, 0), "socket": (41, 198), "socketpair": (53, 199),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "create_module": (174, None), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "syslog": (103, 116), "vhangup": (153, 58),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "sethostname": (170, 161), "setdomainname": (171, 162), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None), "uselib": (134, None),
    "personality": (135, 92), "lookup_dcookie": (212, 18), "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "mknod": (133, None), "mknodat": (259, 33),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180), "ioctl": (16, 29), "fcntl": (72, 25),
    "shmat": (30, 196), "shmctl": (31, 195), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192), "mq_unlink": (241, 181),
    "bind": (49, 200), "connect": (42, 203), "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242),
    "inotify_init": (253, None), "inotify_init1": (294, 26), "statmount": (457, 457), "listmount": (458, 458),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "migrate_pages": (256, 238), "move_pages": (279, 239), "mbind": (237, 235),
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "prlimit64": (302, 261), "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119), "sched_setaffinity": (203, 122), "sched_setattr": (314, 274),
    "process_mrelease": (448, 448), "pidfd_open": (434, 434),
    "set_mempolicy": (238, 237), "get_mempolicy": (239, 236), "sysfs": (139, None), "ustat": (136, None),
}  # fmt: skip

_HIGHEST_KNOWN = 462  # mseal, Linux 6.10: the newest call the table was checked against
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

_REFUSED = (
    "ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd pidfd_send_signal process_madvise unshare setns bpf "
    "perf_event_open userfaultfd add_key request_key keyctl io_uring_setup io_uring_enter io_uring_register io_setup "
    "socket init_module finit_module delete_module create_module kexec_load kexec_file_load reboot swapon swapoff "
    "acct syslog vhangup settimeofday clock_settime adjtimex clock_adjtime quotactl quotactl_fd iopl "
    "ioperm modify_ldt uselib personality lookup_dcookie fanotify_init name_to_handle_at open_by_handle_at mknod "
    "mknodat memfd_create memfd_secret shmget msgget semget mq_open rt_sigqueueinfo rt_tgsigqueueinfo "
    "migrate_pages move_pages mbind set_mempolicy get_mempolicy sysfs ustat open_tree fsopen fsconfig fsmount fspick "
    "move_mount mount_setattr pivot_root chroot setpriority ioprio_set process_mrelease pidfd_open "
    "shmat shmctl msgsnd msgrcv msgctl semop semctl semtimedop mq_unlink bind connect listen accept accept4 "
    "inotify_init inotify_init1 statmount listmount"
).split()
_REFUSED_ON_THE_HOSTS_FILES = (
    "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat setxattr lsetxattr "
    "fsetxattr removexattr lremovexattr fremovexattr"
).split()
_ONLY_ON_ITSELF = "prlimit64 sched_setparam sched_setscheduler sched_setaffinity sched_setattr".split()
_REFUSED_IN_EPISODES = "mount umount2 sethostname setdomainname".split()

_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_LD, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NR, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24  # offsets in struct seccomp_data; little-endian low words of arguments


@dataclass(frozen=True)
class _Instruction:
    code: int
    k: int
    jump_true: int = 0
    jump_false: int = 0

    def pack(self) -> bytes:
        return struct.pack("<HBBI", self.code, self.jump_true, self.jump_false, self.k)


def _refuse(number: int) -> _Instruction:
    return _Instruction(_RET, 0x00050000 | number)


def filter_program(
    policy: SecurityPolicy, *, template: bool, own_process: int = 1, machine: str | None = None
) -> bytes:
    """BPF program (array of `struct sock_filter`) for an episode, or for a template that forks episodes.

    A template keeps two powers an episode has not: mounting inside namespaces it creates, and creating them with
    exactly the flags of an episode. An episode's filter is installed on top of its template's.

    Args:
        own_process: the one process that may be signalled; 1 in a process namespace of its own. Where it is another,
            the file system is the host's too, and changing what is known of a file (mode, owner, times) is refused:
            Landlock does not see to that.

    Raises:
        IsolationError: no table for this machine's architecture.
    """
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise IsolationError(
            f"no seccomp table for architecture {machine!r}; known: {', '.join(sorted(_ARCHITECTURES))}"
        )
    column, audit_arch = _ARCHITECTURES[machine]
    out = [
        _Instruction(_LD, _ARCH),
        _Instruction(_JEQ, audit_arch, 1, 0),
        _Instruction(_RET, _KILL),
        _Instruction(_LD, _NR),
        _Instruction(_JGE, _HIGHEST_KNOWN + 1, 0, 1),  # x32 calls (bit 30) are above it too
        _refuse(errno.ENOSYS),
    ]
    for name, rule in _rules(policy, template, own_process):
        number = _NUMBERS[name][column]
        if number is not None:
            out += [_Instruction(_JEQ, number, 0, len(rule)), *rule]
    out.append(_Instruction(_RET, _ALLOW))
    return b"".join(instruction.pack() for instruction in out)


def _rules(policy: SecurityPolicy, template: bool, own_process: int) -> Iterator[tuple[str, list[_Instruction]]]:
    """(system call, what to do with it); each rule ends in a return."""
    allow, refuse = _Instruction(_RET, _ALLOW), _refuse(errno.EPERM)
    for name in _REFUSED if template else (*_REFUSED, *_REFUSED_IN_EPISODES):
        yield name, [refuse]
    if own_process != 1:
        for name in _REFUSED_ON_THE_HOSTS_FILES:
            yield name, [refuse]
    for name in _ONLY_ON_ITSELF:  # 0 is the caller
        yield name, [_Instruction(_LD, _ARG0), _Instruction(_JEQ, 0, 1, 0), refuse, allow]
    yield "clone3", [_refuse(errno.ENOSYS)]  # glibc falls back to clone, whose flags a filter can read
    yield "clone", _clone_rule(policy, template)
    if not policy.processes and not template:
        yield "fork", [refuse]
        yield "vfork", [refuse]
    if not policy.programs:
        yield "execve", [refuse]
        yield "execveat", [refuse]
    # asyncio needs socketpair; a pair of datagram sockets could send to any local socket whose path can be named
    pair = [_Instruction(_LD, _ARG0), _Instruction(_JEQ, _AF_UNIX, 1, 0), refuse]
    stream = [_Instruction(_LD, _ARG1), _Instruction(_AND, _TYPE_OF_SOCKET), _Instruction(_JEQ, _SOCK_STREAM, 1, 0)]
    yield "socketpair", [*pair, *stream, refuse, allow]
    yield "ioctl", _unless_second_is(_TIOCSTI, _TIOCLINUX, _FIOSETOWN, _SIOCSPGRP)
    # who owns a descriptor is signalled when something comes; a lease holds up whoever opens the file
    yield "fcntl", _unless_second_is(_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_SETLEASE, _F_NOTIFY)
    if policy.processes and own_process == 1:
        return  # a process namespace of its own: nothing outside it can be named
    yield "tkill", [refuse]
    for name in ("kill", "tgkill"):  # only itself
        yield name, [_Instruction(_LD, _ARG0), _Instruction(_JEQ, own_process, 1, 0), refuse, allow]


def _unless_second_is(*refused: int) -> list[_Instruction]:
    """Refuse a call whose second argument is one of these."""
    jumps = [_Instruction(_JEQ, value, len(refused) - number, 0) for number, value in enumerate(refused)]
    return [_Instruction(_LD, _ARG1), *jumps, _Instruction(_RET, _ALLOW), _refuse(errno.EPERM)]


def _clone_rule(policy: SecurityPolicy, template: bool) -> list[_Instruction]:
    allow, refuse = _Instruction(_RET, _ALLOW), _refuse(errno.EPERM)
    load = _Instruction(_LD, _ARG0)
    if template:
        # exactly an episode's flags, or no namespace at all
        return [
            load,
            _Instruction(_JEQ, EPISODE_CLONE_FLAGS, 2, 0),
            _Instruction(_JSET, NAMESPACE_FLAGS, 0, 1),
            refuse,
            allow,
        ]
    if policy.processes:
        return [load, _Instruction(_JSET, NAMESPACE_FLAGS, 0, 1), refuse, allow]
    return [
        load,
        _Instruction(_JSET, NAMESPACE_FLAGS, 1, 0),
        _Instruction(_JSET, _CLONE_THREAD, 1, 0),
        refuse,
        allow,
    ]
