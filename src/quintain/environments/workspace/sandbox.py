"""The sandbox class of workspaces: it may start processes and run the programs of the host that are named here."""

import hashlib
from pathlib import Path

from quintain.sandboxes.base import SandboxClass, SandboxLimits
from quintain.sandboxes.fork.launch import host_programs
from quintain.sandboxes.policy import SecurityPolicy

CLASS_NAME = "workspace-v1"

PROGRAMS = tuple(
    "bash sh awk mawk basename bzip2 bunzip2 cat chmod cksum cmp comm cp csplit cut date dd df diff diff3 dirname du "
    "echo env egrep expand expr factor false fgrep file find fmt fold git grep gunzip gzip head hostname id install "
    "join kill ln ls make md5sum mkdir mktemp mv nice nl nohup nproc numfmt od paste patch pathchk pr printenv printf "
    "ps pwd readlink realpath rev rm rmdir sed seq setsid sha1sum sha256sum sha512sum shuf sleep sort split stat "
    "stdbuf sum sync tac tail tar tee test timeout touch tr true truncate tsort tty uname unexpand uniq unlink wc "
    "which whoami xargs xz unxz yes".split()
)
"""Those that the host lacks are not there; the class's identity says which it had."""

LIMITS = SandboxLimits(
    memory_bytes=1024 * 2**20,
    disk_bytes=256 * 2**20,
    pids=96,
    cpu_seconds=900,
    open_files=512,
)


def workspace_class(limits: SandboxLimits | None = None) -> SandboxClass:
    """The sandbox class that runs workspaces."""
    here = Path(__file__).parent
    return SandboxClass(
        "workspace",
        here / "workspace.lock.txt",
        here.parent / "workspace_kind",
        ("ctypes", "fnmatch", "json", "re", "select", "shutil", "subprocess", "tarfile", "threading"),
        SecurityPolicy(processes=True, programs=True),
        limits or LIMITS,
        PROGRAMS,
    )


def programs_digest(names: tuple[str, ...] = PROGRAMS) -> str:
    """Which of the programs this host has, and in which build: 16 hexadecimal digits."""
    told = hashlib.sha256()
    for name, path in sorted(host_programs(names).items()):
        told.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return told.hexdigest()[:16]
