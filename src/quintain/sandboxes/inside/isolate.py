"""From a fresh fork to an isolated process, in one of two ways.

`Namespaces` gives each process a world of its own (level full). `Landlocked` restricts the world there is (level
reduced), for hosts that refuse user namespaces: no bound on disk and processes, and the host's own process table.
"""

import errno
import os
import resource
import signal
import stat
from collections.abc import Sequence
from typing import Any, Protocol

from inside import kernel, landlock

UID = 1000
_INODES, _BYTES_PER_INODE = 4096, 16384


class Isolation(Protocol):
    """How a template or an episode is set apart."""

    root: str
    """The state directory: the same path in every process, never the same directory."""

    def fork(self) -> int:
        """As `os.fork`, into whatever can only be had by forking."""
        ...

    def enter(self, directory: str, disk_bytes: int) -> None:
        """First steps in the new process: own session, an empty state directory, the current one."""
        ...

    def seal(self, program: bytes) -> None:
        """Give up every privilege and install the seccomp filter."""
        ...

    def make_read_only(self) -> None:
        """Refuse every further write to the state directory."""
        ...


class Namespaces:
    """User, mount, pid, net, ipc and uts namespaces of its own, with a tmpfs of bounded size."""

    root = "/data"
    folders = ("workspace", "tmp")
    """Folders of the state directory that are to be found at the root too, where programs may run."""
    _hidden = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC

    def __init__(self, programs: bool = False, kept: Sequence[str] = ()) -> None:
        """`programs`: whether those in the state directory may be run; `kept`: paths that its folders may not cover."""
        self._programs = programs
        self._kept = kept

    @property
    def _state(self) -> int:
        return self._hidden & ~kernel.MS_NOEXEC if self._programs else self._hidden

    def fork(self) -> int:
        return kernel.clone(kernel.ISOLATED)

    def enter(self, directory: str, disk_bytes: int) -> None:
        os.setsid()  # or kill(0) would reach the process group outside
        with open("/proc/self/setgroups", "w") as file:
            file.write("deny")
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(f"{UID} {UID} 1")
        kernel.set_hostname("quintain")
        inodes = max(_INODES, disk_bytes // _BYTES_PER_INODE)
        kernel.mount("tmpfs", self.root, "tmpfs", self._state, f"size={disk_bytes},nr_inodes={inodes},mode=0700")
        kernel.mount("proc", "/proc", "proc", self._hidden)
        os.mkdir(f"{self.root}/tmp", 0o700)
        if self._programs:
            self._show_folders()
        os.chdir(self.root)

    def _show_folders(self) -> None:
        for name in self.folders:
            held = {path: os.open(path, os.O_PATH) for path in self._kept if path.startswith(f"/{name}/")}
            os.makedirs(f"{self.root}/{name}", 0o700, exist_ok=True)
            kernel.mount(f"{self.root}/{name}", f"/{name}", "", kernel.MS_BIND)
            for path, descriptor in held.items():
                _show(path, descriptor)

    def seal(self, program: bytes) -> None:
        kernel.drop_privileges()
        kernel.install_filter(program)

    def make_read_only(self) -> None:
        kernel.mount("tmpfs", self.root, "tmpfs", kernel.MS_REMOUNT | kernel.MS_RDONLY | self._state)


def _show(path: str, descriptor: int) -> None:
    """Have at a path, where there is nothing, what a descriptor is of; closes it."""
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.makedirs(path)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "x").close()
    kernel.mount(f"/proc/self/fd/{descriptor}", path, "", kernel.MS_BIND | kernel.MS_REC)
    os.close(descriptor)


class Landlocked:
    """Landlock on the host's own file system: the runtime can be read, the state directory written."""

    root = "/proc/self/cwd"  # every process has its own current directory

    def __init__(self, readable: list[str]) -> None:
        self._readable = readable

    def fork(self) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            kernel.die_with_parent(signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)  # it died before the line above
        return pid

    def enter(self, directory: str, disk_bytes: int) -> None:
        os.setsid()
        os.mkdir(directory, 0o700)
        os.chdir(directory)
        os.mkdir("tmp", 0o700)
        os.environ["TMPDIR"] = os.getcwd() + "/tmp"

    def seal(self, program: bytes) -> None:
        kernel.drop_privileges()
        landlock.restrict(readable=self._readable, writable=[os.getcwd()])
        kernel.install_filter(program.replace(kernel.OWN_PROCESS, os.getpid().to_bytes(4, "little")))

    def make_read_only(self) -> None:
        kernel.drop_privileges()
        landlock.restrict(readable=[*self._readable, os.getcwd()], writable=[])


def chosen(description: dict[str, Any]) -> Isolation:
    """The isolation the platform asked the zygote for."""
    if description["kind"] == "namespaces":
        return Namespaces(bool(description.get("programs")), description.get("kept", ()))
    return Landlocked(description["readable"])


def bound_template(limits: dict[str, Any], *, count_processes: bool) -> None:
    """Bound a template while it loads: it may add as much memory, and start as many processes, as an episode.

    Episodes inherit the hard limits, so those leave room: for an episode's memory, and for all their processes.
    """
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    memory = limits["memory_bytes"]
    _lower(resource.RLIMIT_AS, mapped + memory, mapped + 2 * memory)
    _lower(resource.RLIMIT_CORE, 0, 0)
    if count_processes:
        _lower(resource.RLIMIT_NPROC, limits["pids"], None)


def lift_process_limit() -> None:
    """Let this template have as many episodes as the host allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def _lower(what: int, soft: int, hard: int | None) -> None:
    """Set a limit, or keep the host's where that is lower. `hard` None is the host's."""
    _, most = resource.getrlimit(what)
    if hard is None or (most != resource.RLIM_INFINITY and most < hard):
        hard = most
    resource.setrlimit(what, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def bound(limits: dict[str, Any], mapped_bytes: int, *, count_processes: bool) -> None:
    """Apply resource limits; memory counts on top of what the process has mapped already.

    `count_processes` is for a process with a user namespace of its own; elsewhere the kernel would count everything
    the host runs for this user.
    """
    wanted = [
        (resource.RLIMIT_AS, mapped_bytes + limits["memory_bytes"]),
        (resource.RLIMIT_CPU, limits["cpu_seconds"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_FSIZE, limits["disk_bytes"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
    ]
    if count_processes:
        wanted.append((resource.RLIMIT_NPROC, limits["pids"]))
    for what, value in wanted:
        resource.setrlimit(what, (value, value))


def close_descriptors_except(keep: set[int]) -> None:
    """Close every inherited descriptor but standard input, output and error and those named."""
    first = 3
    for fd in sorted(keep):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, 2**20)


def place(root: str, files: list[tuple[str, int]]) -> None:
    """Copy state files, given as open descriptors, into the state directory; closes them."""
    for name, source in files:
        if "/" in name or name in ("", ".", ".."):
            raise ValueError(f"not a state file name: {name!r}")
        target = os.open(f"{root}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _copy(source, target)
        finally:
            os.close(target)
            os.close(source)


def _copy(source: int, target: int) -> None:
    """Copy a file by its descriptors, its holes as holes: a full disk leaves a file that fits only so."""
    size, offset = os.fstat(source).st_size, 0
    while offset < size:
        try:
            start = os.lseek(source, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # only a hole is left
        offset = os.lseek(source, start, os.SEEK_HOLE)
        os.lseek(target, start, os.SEEK_SET)
        while start < offset and (copied := os.sendfile(target, source, start, offset - start)):
            start += copied
    os.ftruncate(target, size)


def open_root(root: str) -> int:
    """A descriptor of the state directory, for the platform to read it by after this process has gone."""
    return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def quiet() -> None:
    """Standard streams to nowhere: nothing a payload prints may block or reach the platform by itself."""
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
