"""Run a command that ends, with everything it has started, when the platform does: `python -I -S guard.py PID COMMAND`.

Installers start processes of their own, so a death signal for the first of them would not do.
"""

import ctypes
import os
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Run the command in a process group of its own; PID is the platform's."""
    parent = int(sys.argv[1])
    stopped = False
    child: subprocess.Popen[bytes] | None = None

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True
        if child is not None:
            os.killpg(child.pid, signal.SIGKILL)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        return 1
    child = subprocess.Popen(sys.argv[2:], start_new_session=True)
    if stopped:
        stop()  # it came before there was a child to end
    return abs(child.wait())


if __name__ == "__main__":
    sys.exit(main())
