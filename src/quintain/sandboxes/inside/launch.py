"""Start a program as an ordinary user: `python -I launch.py '<json>'`; used for zygotes, in bubblewrap or without.

Started by root, it first makes what the program needs reachable for a user that owns nothing, then becomes that
user for good: bubblewrap run by root would still be root to the host inside.
"""

import ctypes
import json
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE, _MS_NOSUID = 0x20000, 4096, 16384, 1 << 18, 2
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Carry out a plan.

    It names control groups to join, uid or null, needed paths, death_signal and parent, folder, program, arguments
    and environment.
    """
    plan = json.loads(sys.argv[1])
    for file in plan.get("groups", ()):  # before there is anything that could be left outside
        with open(file, "w") as processes:
            processes.write("0")
    if plan["uid"] is not None:
        make_reachable([Path(path) for path in plan["needed"]])
        os.setgroups([])
        os.setresgid(plan["uid"], plan["uid"], plan["uid"])
        os.setresuid(plan["uid"], plan["uid"], plan["uid"])
    if plan["death_signal"]:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, plan["death_signal"], 0, 0, 0)
        if os.getppid() != plan["parent"]:
            raise SystemExit("the platform ended while this was being started")
    os.chdir(plan["folder"])
    os.execve(plan["program"], [plan["program"], *plan["arguments"]], plan["environment"])


def make_reachable(needed: Sequence[Path]) -> None:
    """Let every user traverse to the paths, in a mount namespace of this process's own.

    A folder above a path that only its owner may enter is covered by one that shows nothing but the paths. The host
    sees nothing of it, and where all is open already nothing is done.

    Raises:
        OSError: mounting is not allowed here; the message names the folder that would have to be opened.
    """
    closed = {path: folder for path in needed if (folder := _closed_ancestor(path)) is not None}
    if not closed:
        return
    libc = ctypes.CDLL(None, use_errno=True)

    def call(result: int) -> None:
        if result:
            number = ctypes.get_errno()
            folders = ", ".join(sorted({str(folder) for folder in closed.values()}))
            raise OSError(
                number, f"{os.strerror(number)}: other users cannot enter {folders}, and it cannot be covered"
            )

    call(libc.unshare(_CLONE_NEWNS))
    call(libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
    handles = {path: os.open(path, os.O_PATH) for path in closed}  # before anything is covered
    for folder in set(closed.values()):
        call(libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", _MS_NOSUID, b"mode=0755,size=1m"))
    for path, handle in handles.items():
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        call(libc.mount(f"/proc/self/fd/{handle}".encode(), os.fsencode(path), None, _MS_BIND | _MS_REC, None))
        os.close(handle)


def _closed_ancestor(path: Path) -> Path | None:
    for folder in reversed(path.parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


if __name__ == "__main__":
    main()
