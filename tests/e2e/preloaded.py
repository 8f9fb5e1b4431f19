"""`quintain` commands in forks of one process that has imported the command line, because importing it takes longer
than what most commands do. Each is a process of its own, with the environment, folder and files it was given.

Run as a program, this is that process: orders on standard input, on standard output a process id and then its status.
"""

import json
import os
import select
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class Preloaded:
    """The process that commands are forked from; one command at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/"
        )
        self._told = b""

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        timeout_s: float,
        scratch: Path,
        together: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, as `subprocess.run` does; its output is kept in `scratch` meanwhile.

        Where it is told `together`, what it printed to either is in `stdout` and in `stderr`.
        """
        out, err = scratch / "stdout", scratch / ("stdout" if together else "stderr")
        for file in (out, err):
            file.write_bytes(b"")
        order = {"arguments": arguments, "folder": str(folder), "environment": dict(environment),
                 "out": str(out), "err": str(err)}  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        pid = int(self._line(90))
        try:
            status = os.waitstatus_to_exitcode(int(self._line(timeout_s)))
        except TimeoutError:
            os.kill(pid, 9)
            self._line(30)
            raise subprocess.TimeoutExpired(list(arguments), timeout_s, out.read_bytes(), err.read_bytes()) from None
        return subprocess.CompletedProcess(["quintain", *arguments], status, out.read_text(), err.read_text())

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        assert self._process.wait(30) == 0

    def _line(self, timeout_s: float) -> str:
        """Its next line, read without a buffer that `select` would not know of."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._told:
            if not select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError
            part = os.read(self._process.stdout.fileno(), 4096)
            assert part, "the process that commands are forked from has ended"
            self._told += part
        line, _, self._told = self._told.partition(b"\n")
        return line.decode()


def _serve() -> None:
    from quintain.cli.main import main

    while line := sys.stdin.buffer.readline():
        pid = os.fork()
        if pid == 0:
            try:
                _become(json.loads(line))
            except BaseException:
                traceback.print_exc()
                os._exit(70)
            main()
            sys.exit(0)
        print(pid, flush=True)
        print(os.waitpid(pid, 0)[1], flush=True)


def _become(order: dict[str, Any]) -> None:
    """Make this process what a shell would have started."""
    files = (
        os.open(os.devnull, os.O_RDONLY),
        *(os.open(order[to], os.O_WRONLY | os.O_APPEND) for to in ("out", "err")),
    )
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    sys.argv = ["quintain", *order["arguments"]]


if __name__ == "__main__":
    _serve()
