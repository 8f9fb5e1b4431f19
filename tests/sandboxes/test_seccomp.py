"""The filters as a machine would run them: an interpreter of classic BPF, so that every rule is tried on every call."""

import errno
import struct

import pytest

from quintain.errors import IsolationError
from quintain.sandboxes import seccomp
from quintain.sandboxes.policy import SecurityPolicy
from quintain.sandboxes.seccomp import EPISODE_CLONE_FLAGS, NAMESPACE_FLAGS, filter_program

X86, ARM = 0xC000003E, 0xC00000B7
ALLOW, KILL = "allow", "kill"
THREAD_FLAGS = 0x3D0F00  # what glibc passes for a thread
FORK_FLAGS = 0x01200011


def run(program: bytes, number: int, arguments: tuple[int, ...] = (), arch: int = X86) -> int | str:
    """The verdict: an errno, 'allow' or 'kill'."""
    values = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<iIQ6Q", number, arch, 0, *values)
    instructions = [struct.unpack_from("<HBBI", program, at) for at in range(0, len(program), 8)]
    accumulator, at = 0, 0
    while True:
        code, true, false, k = instructions[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, k)
        elif code == 0x15:
            at += true if accumulator == k else false
        elif code == 0x35:
            at += true if accumulator >= k else false
        elif code == 0x45:
            at += true if accumulator & k else false
        elif code == 0x54:
            accumulator &= k
        else:
            assert code == 0x06
            if k == 0x7FFF0000:
                return ALLOW
            return KILL if k == 0x80000000 else k & 0xFFFF


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def number(name: str, machine: str) -> int | None:
    return seccomp._NUMBERS[name][0 if machine == "x86_64" else 1]


def verdict(name: str, machine: str, arguments: tuple[int, ...] = (), **options: object) -> int | str:
    policy = options.pop("policy", SecurityPolicy())
    program = filter_program(policy, machine=machine, **{"template": False, **options})  # type: ignore[arg-type]
    found = number(name, machine)
    assert found is not None
    return run(program, found, arguments, X86 if machine == "x86_64" else ARM)


@pytest.mark.parametrize(
    "name",
    "ptrace mount umount2 unshare setns bpf perf_event_open add_key request_key keyctl io_uring_setup io_uring_enter "
    "io_uring_register socket init_module finit_module delete_module kexec_load memfd_create userfaultfd reboot "
    "execve execveat fsopen move_mount open_tree process_vm_readv pidfd_getfd pidfd_send_signal shmget shmat shmctl "
    "msgget msgsnd msgrcv msgctl semget semop semctl semtimedop mq_open mq_unlink bind connect listen accept accept4 "
    "inotify_init1 statmount listmount settimeofday clock_settime adjtimex clock_adjtime".split(),
)
def test_an_episode_is_refused(name: str, machine: str) -> None:
    assert verdict(name, machine) == errno.EPERM


def test_clone3_is_as_on_an_old_kernel_so_that_clone_is_used(machine: str) -> None:
    assert verdict("clone3", machine) == errno.ENOSYS


def test_threads_are_allowed_and_processes_only_by_policy(machine: str) -> None:
    assert verdict("clone", machine, (THREAD_FLAGS,)) == ALLOW
    assert verdict("clone", machine, (FORK_FLAGS,)) == errno.EPERM
    assert verdict("clone", machine, (FORK_FLAGS,), policy=SecurityPolicy(processes=True)) == ALLOW
    if machine == "x86_64":
        assert verdict("fork", machine) == verdict("vfork", machine) == errno.EPERM


@pytest.mark.parametrize("flag", [1 << bit for bit in range(32) if NAMESPACE_FLAGS >> bit & 1])
def test_no_namespace_can_be_made(flag: int, machine: str) -> None:
    for policy in (SecurityPolicy(), SecurityPolicy(processes=True)):
        assert verdict("clone", machine, (flag | FORK_FLAGS,), policy=policy) == errno.EPERM
        assert verdict("clone", machine, (flag | THREAD_FLAGS,), policy=policy) == errno.EPERM
    assert verdict("clone", machine, (flag | 17,), template=True) == errno.EPERM


def test_a_template_makes_namespaces_of_an_episode_only(machine: str) -> None:
    assert verdict("clone", machine, (EPISODE_CLONE_FLAGS,), template=True) == ALLOW
    assert verdict("clone", machine, (EPISODE_CLONE_FLAGS,)) == errno.EPERM
    assert verdict("clone", machine, (EPISODE_CLONE_FLAGS | 0x100,), template=True) == errno.EPERM
    assert verdict("mount", machine, template=True) == ALLOW
    assert verdict("unshare", machine, template=True) == errno.EPERM


def test_only_itself_can_be_signalled(machine: str) -> None:
    for name in ("kill", "tgkill"):
        assert verdict(name, machine, (1, 9)) == ALLOW
        for other in (0, 2, 4711, 2**32 - 1):
            assert verdict(name, machine, (other, 9)) == errno.EPERM
        assert verdict(name, machine, (4711, 9), own_process=4711) == ALLOW
    assert verdict("tkill", machine, (1, 9)) == errno.EPERM


def test_only_local_socket_pairs(machine: str) -> None:
    assert verdict("socketpair", machine, (1, 1)) == ALLOW
    for family in (2, 10, 16, 17, 40):
        assert verdict("socketpair", machine, (family, 1)) == errno.EPERM


def test_pairs_of_streams_only(machine: str) -> None:
    """A datagram socket, though one of a pair, can send to any local socket that has a name."""
    cloexec, nonblock = 0o2000000, 0o4000
    assert verdict("socketpair", machine, (1, 1 | cloexec | nonblock)) == ALLOW
    for kind in (2, 2 | cloexec, 3, 5, 5 | nonblock):
        assert verdict("socketpair", machine, (1, kind)) == errno.EPERM


def test_terminal_injection_is_refused_and_other_ioctls_work(machine: str) -> None:
    assert verdict("ioctl", machine, (0, 0x5412)) == errno.EPERM
    assert verdict("ioctl", machine, (0, 0x541C)) == errno.EPERM
    assert verdict("ioctl", machine, (0, 0x5401)) == ALLOW


def test_nobody_is_signalled_through_a_descriptor(machine: str) -> None:
    for command in (8, 10, 15, 1024, 1026):  # F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY
        assert verdict("fcntl", machine, (3, command)) == errno.EPERM
    for command in (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030):  # dup, flags, locks
        assert verdict("fcntl", machine, (3, command)) == ALLOW
    for command in (0x8901, 0x8902):  # FIOSETOWN, SIOCSPGRP
        assert verdict("ioctl", machine, (3, command)) == errno.EPERM


@pytest.mark.parametrize("name", ["fchmod", "fchmodat", "fchown", "fchownat", "utimensat", "setxattr", "fsetxattr"])
def test_attributes_of_files_can_be_changed_only_on_a_file_system_of_its_own(name: str, machine: str) -> None:
    assert verdict(name, machine) == ALLOW
    assert verdict(name, machine, own_process=4711) == errno.EPERM


@pytest.mark.parametrize("name", ["prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam"])
def test_limits_and_scheduling_only_of_itself(name: str, machine: str) -> None:
    assert verdict(name, machine, (0,)) == ALLOW
    assert verdict(name, machine, (1,)) == verdict(name, machine, (4711,)) == errno.EPERM


def test_programs_run_only_by_policy(machine: str) -> None:
    assert verdict("execve", machine, policy=SecurityPolicy(programs=True)) == ALLOW


def test_ordinary_work_is_allowed() -> None:
    program = filter_program(SecurityPolicy(), template=False, machine="x86_64")
    for ordinary in (0, 1, 2, 3, 9, 12, 13, 35, 45, 46, 202, 228, 231, 257, 318):  # read, write, mmap, futex ...
        assert run(program, ordinary) == ALLOW


def test_calls_newer_than_the_table_are_unknown(machine: str) -> None:
    arch = X86 if machine == "x86_64" else ARM
    program = filter_program(SecurityPolicy(), template=False, machine=machine)
    for unknown in (463, 470, 1000, 0x40000000 + 1):  # the last is an x32 call
        assert run(program, unknown, arch=arch) == errno.ENOSYS


def test_another_architecture_ends_the_process() -> None:
    program = filter_program(SecurityPolicy(), template=False, machine="x86_64")
    assert run(program, 1, arch=0x40000003) == KILL  # 32-bit calls have other numbers


def test_an_unknown_machine_is_an_error() -> None:
    with pytest.raises(IsolationError, match="riscv64"):
        filter_program(SecurityPolicy(), template=False, machine="riscv64")


def test_each_power_makes_another_document_of_a_policy() -> None:
    documents = {SecurityPolicy(processes=p, programs=q).document for p in (False, True) for q in (False, True)}
    assert len(documents) == 4
