"""Checks of confinement: what code inside can see and reach. Nothing here destroys anything."""

import errno
import os
import tempfile
from pathlib import Path

from quintain.sandboxes.base import IsolationLevel
from quintain.sandboxes.conformance.bench import CALL_TIMEOUT_S, Bench, Check, host_pid, refusal_of, require, value_of

_REFUSED_CALLS = (
    "ptrace mount umount2 unshare setns bpf keyctl add_key io_uring_setup perf_event_open init_module finit_module "
    "delete_module kexec_load reboot pivot_root chroot userfaultfd memfd_create process_vm_readv pidfd_send_signal "
    "open_by_handle_at fsopen move_mount open_tree shmget execve"
).split()
_VISIBLE = {"data", "dev", "etc", "home", "lib", "lib64", "opt", "proc", "quintain", "root", "tmp", "usr", "var"}
_INNER_ENVIRONMENT = {"HOME", "TMPDIR", "PATH", "LANG", "TZ", "MALLOC_ARENA_MAX", "PWD"}
_AF_INET, _AF_INET6, _AF_UNIX, _AF_NETLINK, _AF_PACKET, _AF_VSOCK = 2, 10, 1, 16, 17, 40


async def host_files_are_out_of_sight(bench: Bench) -> None:
    """No account files, no home, no temporary file of the host."""
    with tempfile.NamedTemporaryFile("w", prefix="quintain-canary-") as canary:
        canary.write("canary")
        canary.flush()
        os.chmod(canary.name, 0o644)
        async with bench.sandbox() as sandbox:
            for path in ("/etc/passwd", "/etc/shadow", "/etc/hostname", "/root/.bashrc", canary.name):
                await refusal_of(sandbox, "read", path=path)
            top = (await sandbox.call({"probe": "listing", "arguments": {"path": "/"}}, CALL_TIMEOUT_S)).get(
                "value", []
            )
            require(set(top) <= _VISIBLE, f"unexpected names at the top: {sorted(set(top) - _VISIBLE)}")
            platform = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
            await refusal_of(sandbox, "listing", path=os.path.join(platform, "server"))


async def host_files_keep_their_attributes(bench: Bench) -> None:
    """Mode and times of a host's file cannot be changed, even one that belongs to whoever runs the platform."""
    with tempfile.NamedTemporaryFile(prefix="quintain-canary-") as canary:
        before = os.stat(canary.name)
        async with bench.sandbox() as sandbox:
            for how in ("mode", "times"):
                await refusal_of(sandbox, "change", path=canary.name, how=how)
        after = os.stat(canary.name)
        require((before.st_mode, before.st_mtime) == (after.st_mode, after.st_mtime), "the file was changed")


async def nothing_but_state_is_writable(bench: Bench) -> None:
    """Only the state directory takes writes."""
    async with bench.sandbox() as sandbox:
        for path in ("/x", "/dev/x", "/dev/shm/x", "/quintain/x", "/quintain/inside/x", "/usr/lib/x", "/lib64/x",
                     "/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/etc/x"):  # fmt: skip
            await refusal_of(sandbox, "write", path=path)
        await value_of(sandbox, "write_state", name="x", content="the state directory takes writes")


async def read_only_means_it(bench: Bench) -> None:
    """A read-only claim refuses writes to its state."""
    async with bench.sandbox(read_only=True) as sandbox:
        require(await value_of(sandbox, "read_state") == "initial", "the state is not there")
        await refusal_of(sandbox, "write_state", content="forged")
        await refusal_of(sandbox, "write_state", name="x", content="more")


async def no_network(bench: Bench) -> None:
    """No socket of any family; a socket pair works."""
    async with bench.sandbox() as sandbox:
        for family in (_AF_INET, _AF_INET6, _AF_UNIX, _AF_NETLINK, _AF_PACKET, _AF_VSOCK):
            await refusal_of(sandbox, "open_socket", family=family)
        require(await value_of(sandbox, "local_pair") == "pair", "socketpair does not work, asyncio needs it")


async def no_interfaces(bench: Bench) -> None:
    """A network namespace with nothing in it but loopback."""
    async with bench.sandbox() as sandbox:
        found = await value_of(sandbox, "interfaces")
        require(set(found) <= {"lo"}, f"network interfaces: {found}")


async def other_processes_are_out_of_sight(bench: Bench) -> None:
    """Only its own process is to be seen."""
    async with bench.sandbox() as sandbox:
        found = await value_of(sandbox, "processes")
        require(found == [1], f"processes to be seen: {found}")


async def other_processes_are_out_of_reach(bench: Bench) -> None:
    """No other process can be signalled or limited: not the platform, not a sibling, not a group."""
    async with bench.sandbox() as sandbox, bench.sandbox() as sibling:
        for pid in (os.getpid(), host_pid(sibling), 0, -1, 2):
            await refusal_of(sandbox, "signal_process", pid=pid)
        for pid in (os.getpid(), host_pid(sibling)):
            found = await value_of(sandbox, "limit_process", pid=pid)
            require(found in (errno.EPERM, errno.ESRCH), f"limits of process {pid} answered errno {found}")


async def namespaces_are_its_own(bench: Bench) -> None:
    """User, mount, pid, net, ipc and uts namespaces differ from the platform's and from a sibling's."""
    async with bench.sandbox() as sandbox, bench.sandbox() as sibling:
        mine, theirs = await value_of(sandbox, "namespaces"), await value_of(sibling, "namespaces")
        for name, identity in mine.items():
            require(identity != os.readlink(f"/proc/self/ns/{name}"), f"the {name} namespace is the platform's")
            require(identity != theirs[name], f"the {name} namespace is shared with a sibling")


async def privileges_are_gone(bench: Bench) -> None:
    """No capability, no new privileges, a seccomp filter, and not root on the host."""
    async with bench.sandbox() as sandbox:
        status = _status(host_pid(sandbox))
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            require(int(status[name], 16) == 0, f"{name} is {status[name]}")
        require(status["NoNewPrivs"] == "1", "new privileges can be gained")
        require(status["Seccomp"] == "2", "no seccomp filter")
        require("0" not in status["Uid"].split(), "the process is root on the host")


async def privileges_cannot_return(bench: Bench) -> None:
    """The bounding set is empty too: no program could ever bring a capability back."""
    async with bench.sandbox() as sandbox:
        bounding = _status(host_pid(sandbox))["CapBnd"]
        require(int(bounding, 16) == 0, f"CapBnd is {bounding}")


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


async def kernel_is_out_of_reach(bench: Bench) -> None:
    """System calls that an environment never needs are refused, and namespaces cannot be made."""
    async with bench.sandbox() as sandbox:
        for name in _REFUSED_CALLS:
            found = await value_of(sandbox, "system_call", name=name)
            require(found == errno.EPERM, f"{name} answered errno {found}, not EPERM")
        found = await value_of(sandbox, "system_call", name="clone3")
        require(found == errno.ENOSYS, f"clone3 answered errno {found}, not ENOSYS")
        found = await value_of(sandbox, "clone_namespace")
        require(found == errno.EPERM, f"clone into a user namespace answered errno {found}")
        found = await value_of(sandbox, "push_terminal_input")
        require(found == errno.EPERM, f"TIOCSTI answered errno {found}")


async def secrets_are_out_of_reach(bench: Bench) -> None:
    """No variable of the platform's environment, no descriptor but the data channel."""
    async with bench.sandbox() as sandbox:
        names = set(await value_of(sandbox, "environment"))
        foreign = {name for name in names if name not in _INNER_ENVIRONMENT and not name.startswith("PYTHON")}
        require(not foreign, f"environment variables inside: {sorted(foreign)}")
        process = Path(f"/proc/{host_pid(sandbox)}")
        started_with = {entry.partition("=")[0] for entry in (process / "environ").read_text().split("\0") if entry}
        require(started_with <= names, f"environment variables at the start: {sorted(started_with - names)}")
        targets = {int(entry.name): os.readlink(entry) for entry in (process / "fd").iterdir()}
        others = [target for number, target in sorted(targets.items()) if number > 2]
        require(len(others) == 1 and others[0].startswith("socket:"), f"descriptors inside: {others}")
        standard = {targets[number] for number in (0, 1, 2)}
        require(standard == {"/dev/null"}, f"standard streams inside: {standard}")


async def hashes_are_the_same_everywhere(bench: Bench) -> None:
    """The order of a set of texts is part of what an agent sees, so hashing is not randomised."""
    async with bench.sandbox() as sandbox, bench.sandbox(bench.forking) as of_another_zygote:
        mine = await value_of(sandbox, "text_hash", text="quintain")
        theirs = await value_of(of_another_zygote, "text_hash", text="quintain")
        require(mine == theirs, f"two processes hash one text to {mine} and {theirs}")


CHECKS = tuple(
    Check(run.__name__, area, level, run)
    for area, level, run in (
        ("files", IsolationLevel.REDUCED, host_files_are_out_of_sight),
        ("files", IsolationLevel.REDUCED, host_files_keep_their_attributes),
        ("files", IsolationLevel.REDUCED, nothing_but_state_is_writable),
        ("files", IsolationLevel.REDUCED, read_only_means_it),
        ("network", IsolationLevel.REDUCED, no_network),
        ("network", IsolationLevel.FULL, no_interfaces),
        ("processes", IsolationLevel.REDUCED, other_processes_are_out_of_reach),
        ("processes", IsolationLevel.FULL, other_processes_are_out_of_sight),
        ("processes", IsolationLevel.FULL, namespaces_are_its_own),
        ("privileges", IsolationLevel.REDUCED, privileges_are_gone),
        ("privileges", IsolationLevel.FULL, privileges_cannot_return),
        ("kernel", IsolationLevel.REDUCED, kernel_is_out_of_reach),
        ("secrets", IsolationLevel.REDUCED, secrets_are_out_of_reach),
        ("determinism", IsolationLevel.REDUCED, hashes_are_the_same_everywhere),
    )
)
