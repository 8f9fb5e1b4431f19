"""`quintain` commands in forks of one process that has imported the command line, because importing it takes longer
than what most commands do. Each is a process of its own, with the environment, folder and files it was given.

Run as a program with the name of a module, this is that process: it takes orders from the socket it inherited, each
with three files and a pipe, forks, calls the module's `main`, and writes to the pipe the process id and at the end the
status.
"""

import array
import atexit
import functools
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

from quintain.tasks.shipped import open_named, shipped_packs

ROOT = Path(__file__).resolve().parents[2]
_ORDER_BYTES = 2**17


class Forked:
    """A process that was forked; what `subprocess.Popen` has, as far as it is needed."""

    def __init__(self, arguments: Sequence[str], told: int, stdin: IO[str] | None, stdout: IO[str] | None) -> None:
        self.args = arguments
        self.stdin, self.stdout = stdin, stdout
        self.returncode: int | None = None
        self._told, self._pipe = b"", told
        self.pid = self._number(90)

    def poll(self) -> int | None:
        """Its status, or None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; its status."""
        if self.returncode is None:
            try:
                self.returncode = os.waitstatus_to_exitcode(self._number(timeout))
            except TimeoutError:
                raise subprocess.TimeoutExpired(list(self.args), timeout or 0) from None
            os.close(self._pipe)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it is known to have ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> tuple[str, None]:
        """What it still prints until it ends."""
        if self.stdin is not None:
            self.stdin.close()
        printed = "" if self.stdout is None else self.stdout.read()
        self.__exit__()
        return printed, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self.stdin, self.stdout):
            if file is not None:
                file.close()
        self.wait()

    def _number(self, timeout: float | None) -> int:
        """The next number that is told of it."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._told:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._pipe], [], [], left)[0]:
                raise TimeoutError
            part = os.read(self._pipe, 64)
            assert part, "the process that others are forked from has ended"
            self._told += part
        line, _, self._told = self._told.partition(b"\n")
        return int(line)


class Preloaded:
    """The process that others are forked from."""

    def __init__(self, module: str = "quintain.cli.main") -> None:
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, module, str(theirs.fileno())], stdin=subprocess.DEVNULL, cwd="/",
                env={**os.environ, "PYTHONPATH": path}, pass_fds=[theirs.fileno()],
            )  # fmt: skip

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int | IO[Any] = subprocess.PIPE,
        stderr: int | IO[Any] | None = None,
    ) -> Forked:
        """Start a command. Where a file is `PIPE`, its other end is the process's `stdin` or `stdout`."""
        mine: list[IO[str] | None] = [None, None]
        given = [os.open(os.devnull, os.O_RDONLY)]
        if stdin == subprocess.PIPE:
            os.close(given.pop())
            reading, writing = os.pipe()
            given, mine[0] = [reading], os.fdopen(writing, "w")
        if stdout == subprocess.PIPE:
            reading, writing = os.pipe()
            given.append(writing)
            mine[1] = os.fdopen(reading)
        else:
            given.append(os.dup(stdout if isinstance(stdout, int) else stdout.fileno()))
        given.append(os.dup(2 if stderr is None else stderr if isinstance(stderr, int) else stderr.fileno()))
        told, telling = os.pipe()
        given.append(telling)
        order = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment)}
        self._socket.sendmsg(
            [json.dumps(order).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", given))]
        )
        for file in given:
            os.close(file)
        return Forked(arguments, told, *mine)

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        timeout_s: float,
        *,
        typed: str | None = None,
        together: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, as `subprocess.run` does, with `typed` in a pipe as its input.

        Where it is told `together`, what it printed to either is in `stdout` and in `stderr`.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            said = out if together else err
            process = self.start(
                arguments, folder, environment, stdout=out, stderr=said,
                stdin=subprocess.DEVNULL if typed is None else subprocess.PIPE,
            )  # fmt: skip
            if process.stdin is not None:
                process.stdin.write(typed or "")
                process.stdin.close()
            try:
                status = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)
                raise subprocess.TimeoutExpired(list(arguments), timeout_s, _read(out), _read(said)) from None
            return subprocess.CompletedProcess(["quintain", *arguments], status, _read(out), _read(said))

    def close(self) -> None:
        """End it."""
        self._socket.close()
        assert self._process.wait(30) == 0


@functools.cache
def shared(module: str = "quintain.cli.main") -> Preloaded:
    """The one of this process, which ends with it."""
    made = Preloaded(module)
    atexit.register(made.close)
    return made


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _serve(module: str, orders: socket.socket) -> None:
    loaded = importlib.import_module(module)
    main = loaded.main
    for command in getattr(loaded, "_COMMANDS", {}).values():  # which are otherwise imported when they are asked for
        importlib.import_module(f"{loaded.__package__}.{command.partition(':')[0]}")
    for pack in shipped_packs():  # expressions are compiled once in a process
        with open_named(pack):
            pass
    running: dict[int, int] = {}
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = select.select([orders, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            _reap(running)
        if orders in ready:
            order, files, _, _ = socket.recv_fds(orders, _ORDER_BYTES, 4)
            if not order:
                return
            if (pid := os.fork()) == 0:
                try:
                    signal.set_wakeup_fd(-1)
                    for file in (orders.fileno(), woken, waking, *running.values(), files.pop()):
                        os.close(file)
                    _become(json.loads(order), files)
                except BaseException:
                    traceback.print_exc()
                    os._exit(70)
                main()
                sys.exit(0)
            for file in files[:3]:
                os.close(file)
            running[pid] = files[3]
            _tell(files[3], pid)


def _reap(running: dict[int, int]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        telling = running.pop(pid)
        _tell(telling, status)
        os.close(telling)


def _tell(telling: int, number: int) -> None:
    try:
        os.write(telling, b"%d\n" % number)
    except BrokenPipeError:
        pass  # nobody wants to know


def _become(order: dict[str, Any], files: Sequence[int]) -> None:
    """Make this process what a shell would have started."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    sys.argv = ["quintain", *order["arguments"]]


if __name__ == "__main__":
    _serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
