"""A real `quintain serve` in a process of its own, for tests that talk to it over sockets."""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from e2e.preloaded import Forked, shared
from quintain.sandboxes.runtime import choose_interpreter

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "quintain-tests"
"""Kept between runs, so that class runtimes are built once per machine."""

_SETTINGS = ("QUINTAIN_", "OPENENV_", "AWM_", "MAX_CONCURRENT_ENVS", "READY_POLL_INTERVAL")
COMMAND = (sys.executable, "-m", "quintain.cli.main")


@functools.cache
def _interpreter() -> str:
    """What classes are run with, looked for once: the names that a version manager puts on the path are slow."""
    return str(choose_interpreter(os.environ.get("QUINTAIN_RUNTIME_PYTHON")).executable)


def environment(folder: Path, extra: Mapping[str, str] | None = None, arguments: Sequence[str] = ()) -> dict[str, str]:
    """An environment without settings of whoever runs the tests, its temporary and kept files under `folder`.

    Unless `arguments` or `extra` name a dataset or packs, the sample of Agent World Model alone is served.
    """
    named = {"--awm-data", "--pack"} & set(arguments) or "AWM_DATA_DIR" in (extra or {})
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
    temporary = folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    return {
        **inherited,
        "QUINTAIN_CACHE_DIR": str(CACHE),
        "QUINTAIN_RUNTIME_PYTHON": _interpreter(),
        "QUINTAIN_LEDGER": str(folder / "ledger.db"),
        "QUINTAIN_SPOOL": str(folder / "spool"),
        "QUINTAIN_KEEP_DIR": str(folder / "kept"),
        "TMPDIR": str(temporary),
        "NO_COLOR": "1",
        "COLUMNS": "200",
        **({} if named else {"QUINTAIN_PACKS": "awm"}),
        **(extra or {}),
    }


def run(
    arguments: Sequence[str], folder: Path, *, timeout_s: float = 90, **extra: str
) -> subprocess.CompletedProcess[str]:
    """Run a `quintain` command to its end."""
    variables = environment(folder, extra, arguments)
    if not _of_an_interpreter(extra):
        return shared().run(arguments, folder, variables, timeout_s)
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False,
        env=variables, cwd=folder, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def _of_an_interpreter(extra: Mapping[str, str]) -> bool:
    """Whether there are variables that an interpreter reads when it starts."""
    return any(name.startswith("PYTHON") for name in extra)


class Server:
    """A running server. `folder` holds its log, its temporary files and what sessions keep.

    Where no `command` is named it is forked from a process that has imported everything.
    """

    def __init__(
        self,
        folder: Path,
        arguments: Sequence[str] = (),
        port: int = 0,
        command: Sequence[str | Path] = (),
        **extra: str,
    ) -> None:
        self.folder = folder
        self.kept = folder / "kept"
        self.temporary = folder / "tmp"
        self._log = folder / "server.log"
        self.process: subprocess.Popen[str] | Forked
        serve = ["serve", "--port", str(port), "--json", *arguments]
        variables = environment(folder, extra, arguments)
        with self._log.open("ab") as log:
            if command or _of_an_interpreter(extra):
                self.process = subprocess.Popen(
                    [*(command or COMMAND), *serve],
                    stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True, cwd=folder, env=variables,
                )  # fmt: skip
            else:
                self.process = shared().start(serve, folder, variables, stderr=log)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.stop()
            raise AssertionError(f"the server did not start: {self.log}")
        self.ready: dict[str, Any] = json.loads(line)
        self.url: str = self.ready["url"]
        self.port = int(self.url.rpartition(":")[2])

    @property
    def log(self) -> str:
        """What it printed to standard error."""
        return self._log.read_text(errors="replace")

    @property
    def complaints(self) -> list[str]:
        """Lines of its log that report an error, a warning or a traceback."""
        words = ("error", "warning", "critical", "traceback", "exception")
        return [line for line in self.log.splitlines() if any(word in line.lower() for word in words)]

    def descendants(self) -> dict[int, str]:
        """Names of the processes below it, by process id."""
        return descendants(self.process.pid)

    def episodes(self) -> list[int]:
        """Process ids of running episodes."""
        return [pid for pid, name in self.descendants().items() if name == "q-episode"]

    def leftovers(self) -> list[str]:
        """Names in its temporary directory, and in its scratch directory in there."""
        found = {path.name for path in self.temporary.iterdir()} - {path.name for path in self.runs()}
        return sorted(found.union(*({path.name for path in run.iterdir()} - {"lock"} for run in self.runs())))

    def runs(self) -> list[Path]:
        """The scratch directories in its temporary directory: its own and those of killed ones."""
        return list(self.temporary.glob("quintain-run-*"))

    def settle(self, seconds: float = 10.0) -> None:
        """Wait until no episode runs and nothing lies in the temporary directory."""
        wait_until(lambda: not self.episodes() and not self.leftovers(), seconds)

    def stop(self, number: int = signal.SIGTERM, timeout_s: float = 20) -> int:
        """Send a signal and wait for the end; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            if self.process.stdout is not None:
                self.process.stdout.close()


@contextlib.contextmanager
def serving(
    folder: Path,
    arguments: Sequence[str] = (),
    port: int = 0,
    command: Sequence[str | Path] = (),
    **extra: str,
) -> Iterator[Server]:
    """A server that is ended again and must have left no process behind."""
    server = Server(folder, arguments, port, command, **extra)
    try:
        yield server
    finally:
        below = list(server.descendants())
        server.stop()
        assert wait_until(lambda: not [pid for pid in below if alive(pid)], 20), "processes outlived their server"
        assert server.process.returncode < 0 or not server.runs(), "its scratch directory outlived a clean end"


def wait_until(condition: Any, seconds: float) -> bool:
    """Whether a condition came to hold in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def descendants(root: int) -> dict[int, str]:
    """Names of the processes below one, by process id."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            before, _, after = (entry / "stat").read_text().rpartition(")")
            pid, state = int(entry.name), after.split()[0]
            if state not in "ZX":
                parents[pid], names[pid] = int(after.split()[1]), before.partition("(")[2]
    found: dict[int, str] = {}
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found |= {pid: names[pid] for pid in frontier}
    return found


def using(folder: Path) -> list[int]:
    """Processes that were started with their temporary files under a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"{folder}/".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found
