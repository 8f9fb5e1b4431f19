"""Processes of a workspace. This process is the first of its namespace: what loses its parent becomes its child.

A command is ended with everything that it started, whether or not that left its group or session: as first process of
the namespace this one can signal all others at once, and the kernel lets nobody slip in between.
"""

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .answers import Output, Refusal

MAX_OUTPUT_BYTES = 16 * 2**20
"""Output after which a command is stopped."""

MAX_JOBS = 8
"""Background jobs that run at once."""

_LOOK_EVERY_S = 0.02
_END_TIMEOUT_S = 5.0
_CHUNK = 2**16


@dataclass(frozen=True)
class Ended:
    """How a command ended: its wait status, None if it was stopped, and then why."""

    output: Output
    status: int | None
    stopped: str = ""

    def text(self) -> str:
        """What it printed, and how it ended."""
        printed = self.output.text()
        gap = "" if not printed or printed.endswith("\n") else "\n"
        return f"{printed}{gap}[{self.stopped or told(self.status)}]"


def told(status: int | None) -> str:
    """A wait status in words."""
    if status is None:
        return "still running"
    if os.WIFSIGNALED(status):
        return f"ended by signal {os.WTERMSIG(status)}"
    return f"exit status {os.WEXITSTATUS(status)}"


class Job:
    """A background command; a thread takes its output."""

    def __init__(self, number: int, command: str, pid: int, pipe: int) -> None:
        self.number, self.command, self.pid = number, command, pid
        self.output = Output()
        self.status: int | None = None
        self.stopped = False
        threading.Thread(target=self._take, args=(pipe,), daemon=True).start()

    def _take(self, pipe: int) -> None:
        while data := os.read(pipe, _CHUNK):
            self.output.add(data)
        os.close(pipe)

    @property
    def runs(self) -> bool:
        """Whether its first process does."""
        return self.status is None

    def told(self) -> str:
        """How it is."""
        return "stopped" if self.stopped else told(self.status)


class Processes:
    """Everything that runs in the namespace beside this process."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self._ended: dict[int, int] = {}
        self._score = -1

    def begin(self) -> None:
        """In the episode: what is started is to go before this process does where memory runs out."""
        self._score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)

    def _started(
        self, argv: Sequence[str], folder: str, environment: dict[str, str], descriptors: Sequence[int] = ()
    ) -> tuple[int, int]:
        """A new process's id, and the pipe from which what it prints is to be read."""
        os.write(self._score, b"1000")  # it inherits this; a moment later would be too late
        try:
            return _started(argv, folder, environment, descriptors)
        finally:
            os.write(self._score, b"0")

    def run(
        self,
        argv: Sequence[str],
        folder: str,
        environment: dict[str, str],
        timeout_s: float,
        descriptors: Sequence[int] = (),
    ) -> Ended:
        """Run a command to its end, at most so long; what it left behind is ended too.

        Args:
            descriptors: what it inherits beside its standard streams.

        Raises:
            Refusal: it cannot be started.
        """
        pid, pipe = self._started(argv, folder, environment, descriptors)
        try:
            output, status, stopped = Output(), None, ""
            deadline, open_pipe = time.monotonic() + timeout_s, True
            while True:
                if open_pipe and select.select([pipe], [], [], _LOOK_EVERY_S)[0]:
                    data = os.read(pipe, _CHUNK)
                    output.add(data)
                    open_pipe = bool(data)
                elif not open_pipe:
                    time.sleep(_LOOK_EVERY_S / 10)
                if (status := self._reaped(pid)) is not None:
                    break
                if time.monotonic() > deadline:
                    stopped = f"stopped after {timeout_s:g} s, with everything it had started"
                    break
                if output.total > MAX_OUTPUT_BYTES:
                    stopped = f"stopped: it printed over {MAX_OUTPUT_BYTES} bytes; send output to a file"
                    break
            self.end_strays()
            self._ended.pop(pid, None)
            while select.select([pipe], [], [], 0)[0] and (data := os.read(pipe, _CHUNK)):  # whoever wrote has gone
                output.add(data)
            return Ended(output, status, stopped)
        finally:
            os.close(pipe)

    def start(self, command: str, argv: Sequence[str], folder: str, environment: dict[str, str]) -> Job:
        """Start a background job.

        Raises:
            Refusal: it cannot be started, or too many run.
        """
        if sum(job.runs for job in self.current()) >= MAX_JOBS:
            raise Refusal(f"{MAX_JOBS} background jobs run already; stop one")
        pid, pipe = self._started(argv, folder, environment)
        try:
            job = Job(len(self.jobs) + 1, command, pid, pipe)
        except RuntimeError as error:  # no thread is to be had for its output
            self.end_strays()
            os.close(pipe)
            raise Refusal(f"the job cannot be started: {error}") from error
        self.jobs[job.number] = job
        return job

    def current(self) -> list[Job]:
        """All jobs as they are now; what those that have ended left behind is ended."""
        before = {job.number for job in self.jobs.values() if job.runs}
        for number in before:
            job = self.jobs[number]
            job.status = self._reaped(job.pid)
        if any(not self.jobs[number].runs for number in before):
            self.end_strays()
        return list(self.jobs.values())

    def stop(self, job: Job) -> None:
        """End a job with everything that it started."""
        if job.runs:
            job.stopped = True
            job.status = signal.SIGKILL
            self.end_strays()

    def end_strays(self) -> None:
        """End every process but those of jobs that run."""
        roots = {job.pid for job in self.jobs.values() if job.runs}
        if not roots:
            _signal(-1, signal.SIGKILL)
        else:
            _signal(-1, signal.SIGSTOP)  # all at once, so that none starts another while it is looked who there is
            for pid in _outside(roots):
                _signal(pid, signal.SIGKILL)
            _signal(-1, signal.SIGCONT)
        deadline = time.monotonic() + _END_TIMEOUT_S
        while time.monotonic() < deadline:
            left = self._reap()  # whoever has no parent any more is a child of this process
            if not left or (roots and not _outside(roots)):
                return
            time.sleep(0.001)

    def _reaped(self, pid: int) -> int | None:
        self._reap()
        return self._ended.get(pid)

    def _reap(self) -> bool:
        """Take the statuses of children that have ended; whether others are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self._ended[pid] = status


def _started(
    argv: Sequence[str], folder: str, environment: dict[str, str], descriptors: Sequence[int] = ()
) -> tuple[int, int]:
    """A new process's id, and the pipe from which what it prints is to be read."""
    ours, theirs = os.pipe()
    try:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            pass_fds=descriptors,
        )
    except (OSError, ValueError) as error:
        os.close(ours)
        raise Refusal(f"the command cannot be started: {error}") from error
    finally:
        os.close(theirs)
    process.returncode = 0  # its end is waited for here, with everybody else's
    return process.pid, ours


def _outside(roots: set[int]) -> list[int]:
    """Processes that neither are one of these nor descend from one; those that have ended do not count."""
    parents = _parents()
    found = []
    for pid in parents:
        at = pid
        while at not in roots and at in parents:
            at = parents[at]
        if at not in roots and pid != os.getpid():
            found.append(pid)
    return found


def _parents() -> dict[int, int]:
    """The parent of every process that runs."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except OSError:
                continue
            if state not in (b"Z", b"X"):
                found[int(name)] = int(parent)
    return found


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
