"""A server with its judge and its ledger, and three hands that take away verifiers, judge and database at random."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.chaos import killed
from e2e.judge_process import BEHAVIOURS, Judge
from e2e.serving import CACHE, COMMAND, Server, alive, descendants, environment, wait_until

VERIFIER = {"verifier": ("q-standby", "q-episode"), "verifier template": ("q-template",), "verifier zygote": ("bwrap",)}
_RESTARTS = 20
_LONGER_THAN_A_LEDGER_WAITS_S = 32.0

Weights = dict[str, int]
SANDBOXES: Weights = {"verifier": 8, "verifier template": 3, "verifier zygote": 2, "episode": 1, "server": 2}
JUDGE: Weights = {"judge killed": 4, **dict.fromkeys(BEHAVIOURS, 1)}
DATABASE: Weights = {"lock": 3, "torn": 3, "neighbour stopped": 2, "neighbour killed": 3}


@dataclass(frozen=True)
class Place:
    """Where the ledger lies. Other processes come to it by `prefix` before their commands."""

    ledger: Path
    prefix: tuple[str, ...] = ()
    small: bool = False
    """Whether it is a disk of its own that can be filled without harm."""
    seen_from_here: Path | None = None
    """The folder, where it is in other processes' name space only."""

    def fetched(self, into: Path) -> Path:
        """The ledger as a file that this process can read; nobody may have it open."""
        if self.seen_from_here is None:
            return self.ledger
        for file in self.seen_from_here.iterdir():
            shutil.copy(file, into / file.name)
        return into / self.ledger.name


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Place]:
    """A ledger on a disk of 24 MiB that only processes with its prefix see; where that cannot be, an ordinary one."""
    folder.mkdir()
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "mount"))):
        yield Place(folder / "ledger.db")
        return
    script = 'mount -t tmpfs -o size=24m,mode=700 none "$1" && echo ready && exec cat'
    with subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        ready = holder.stdout.readline() == "ready\n"
        prefix = ("nsenter", f"--mount=/proc/{holder.pid}/ns/mnt", "--") if ready else ()
        seen = Path(f"/proc/{holder.pid}/root{folder}") if ready else None
        yield Place(folder / "ledger.db", prefix, ready, seen)  # it ends when its input does


class Deployment:
    """A server, its judge, and a neighbour who submits to the same ledger. Whatever was killed is started again."""

    def __init__(self, folder: Path, place: Place, longest_s: float) -> None:
        """`longest_s` is for how long judge and database may be away; half of that on average."""
        self.folder = folder
        self._longest_s = longest_s
        self.place = place
        self.failures: list[str] = []
        self.tally: Counter[str] = Counter()
        # runtimes are built once per machine, but judgments of other runs would spare this one its judge
        cache = folder / "cache"
        cache.mkdir()
        (cache / "runtimes").symlink_to(CACHE / "runtimes")
        self.judge = Judge(folder)
        self._settings = {**self.judge.settings, "QUINTAIN_CACHE_DIR": str(cache), "QUINTAIN_LEDGER": str(place.ledger)}
        try:
            self.server = self._start_server(0)
        except BaseException:
            self.judge.kill()
            raise
        self.servers = [self.server.process.pid]
        self._said = folder / "neighbour.log"
        self._said.touch()
        self._neighbour = self._start_neighbour()

    def close(self) -> None:
        """End what submits beside the server, and the judge; the server is ended by who counts what it leaves."""
        self._end_neighbour()
        self.judge.kill()
        if self.server.process.poll() is None:
            self.server.stop()

    @property
    def acknowledged(self) -> list[int]:
        """The neighbour's attempts that it was told are scored."""
        said = [json.loads(line)[0] for line in self._said.read_text().splitlines(keepends=True) if line[-1:] == "\n"]
        return [number for number in said if number is not None]

    @property
    def contradicted(self) -> int:
        """How often the neighbour submitted the contrary of a score, and was told that score."""
        return len(self._said.read_text().splitlines()) - len(self.acknowledged)

    def strike_sandbox(self, kind: str, dice: random.Random) -> None:
        """Kill one process of a kind below the server, or the server."""
        if kind == "server":
            self._kill_server()
            return
        if not wait_until(lambda: self._running(kind), 10):
            self.tally[f"no {kind} to kill"] += 1
            return
        if kind == "verifier":
            self._kill_at_work(dice.uniform(0.2, 1.0))
        pid = dice.choice(self._running(kind) or [0])
        self.tally[f"{kind} killed" if killed(pid) else f"{kind} ended by itself"] += 1

    def _running(self, kind: str) -> list[int]:
        if kind not in VERIFIER:
            return sorted(self.server.episodes())
        below = self._verifiers()
        found = {below: "bwrap", **descendants(below)} if below else {}
        return sorted(pid for pid, name in found.items() if name in VERIFIER[kind])

    def _verifiers(self) -> int:
        """Process id of what holds all verifiers: bubblewrap below the server."""
        for pid in self.server.descendants():
            with contextlib.suppress(OSError):
                if b"/verifier_kind\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
        return 0

    def _kill_at_work(self, seconds: float) -> None:
        """For a while kill every verifier that is met in the middle of a verification, which takes milliseconds."""
        until, met = time.monotonic() + seconds, set[int]()
        while time.monotonic() < until:
            for template in self._running("verifier template"):
                for _ in range(100):
                    met.update(pid for pid in _children(template) if _name(pid) == "q-episode" and killed(pid))
        self.tally["verifier at work killed"] += len(met)

    def _start_server(self, port: int) -> Server:
        return Server(self.folder, port=port, command=[*self.place.prefix, *COMMAND], **self._settings)

    def _kill_server(self) -> None:
        below = list(self.server.descendants())
        if not killed(self.server.process.pid):
            self.failures.append("the server ended by itself")
        self.tally["server killed"] += 1
        self.server.stop()
        if not wait_until(lambda: not [pid for pid in below if alive(pid)], 20):
            self.failures.append(f"processes outlived the server: {[pid for pid in below if alive(pid)]}")
        for _ in range(_RESTARTS):
            try:  # its ledger may be locked or full just now
                self.server = self._start_server(self.server.port)
                self.servers.append(self.server.process.pid)
                return
            except AssertionError:
                self.tally["server not started"] += 1
                time.sleep(0.2)
        raise AssertionError(f"the server did not come back: {self.server.log[-1000:]}")

    def strike_judge(self, kind: str, dice: random.Random) -> None:
        """Let the judge be away, or no judge, for a while; some of it is longer than it is asked again."""
        away_s = dice.uniform(0.1, self._longest_s)
        if kind == "judge killed":
            self.judge.kill()
            time.sleep(away_s)
            self.judge.start()
        else:
            self.judge.behave(kind)
            time.sleep(away_s)
            self.judge.behave("judges")
        self.tally[kind if kind == "judge killed" else f"judge {kind}"] += 1

    def strike_database(self, kind: str, dice: random.Random) -> None:
        """Let another process hold, tear, stop at or fill the ledger."""
        if self._neighbour.poll() is not None:
            self.failures.append(f"the neighbour ended: {(self.folder / 'neighbour.err').read_text()[-1000:]}")
        if kind == "neighbour stopped":
            self._neighbour.send_signal(signal.SIGSTOP)
            time.sleep(dice.uniform(0.1, self._longest_s / 2))
            self._neighbour.send_signal(signal.SIGCONT)
        elif kind == "neighbour killed":
            self._end_neighbour()
            self._neighbour = self._start_neighbour()
        else:
            with self._user(kind.removesuffix(" for long")) as user:
                assert user.stdout is not None
                assert user.stdin is not None
                if not user.stdout.readline():
                    self.failures.append(f"nothing was held by {kind}")
                held_s = dice.uniform(0.1, self._longest_s / 2)
                time.sleep(_LONGER_THAN_A_LEDGER_WAITS_S if kind.endswith("for long") else held_s)
                if kind == "torn" or dice.random() < 0.3:
                    user.kill()
                else:
                    user.stdin.write("\n")
                    user.stdin.flush()
        self.tally[f"database: {kind}"] += 1

    def _user(self, command: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*self.place.prefix, sys.executable, "-m", "e2e.ledger_users", command, str(self.place.ledger)],
            env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    @property
    def _environment(self) -> dict[str, str]:
        return environment(self.folder) | {"PYTHONPATH": os.pathsep.join(sys.path)}

    def _start_neighbour(self) -> "subprocess.Popen[bytes]":
        start = str(max(self.acknowledged, default=-1) + 1)
        command = [sys.executable, "-m", "e2e.ledger_users", "neighbour", str(self.place.ledger), start]
        with self._said.open("ab") as said, (self.folder / "neighbour.err").open("ab") as errors:
            return subprocess.Popen(
                [*self.place.prefix, *command], env=self._environment, stdin=subprocess.DEVNULL, stdout=said,
                stderr=errors,
            )  # fmt: skip

    def _end_neighbour(self) -> None:
        self._neighbour.kill()
        self._neighbour.wait()


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


class Hand(threading.Thread):
    """Strikes once for each kind, spread evenly over the progress of what it strikes at."""

    def __init__(
        self,
        strike: Callable[[str, random.Random], None],
        kinds: Sequence[str],
        seed: str,
        progress: Callable[[], float],
        failures: list[str],
    ) -> None:
        """`progress` goes from 0 to 1, and to more than 1 when all is over."""
        super().__init__(name=seed, daemon=True)
        self._strike = strike
        self._kinds = kinds
        self._random = random.Random(seed)
        self._progress = progress
        self._failures = failures

    def run(self) -> None:
        """Strike until all is struck, or over."""
        try:
            for number, kind in enumerate(self._kinds):
                while self._progress() < 0.95 * number / len(self._kinds):
                    time.sleep(0.02)
                if self._progress() > 1:
                    return
                time.sleep(self._random.uniform(0, 0.2))
                self._strike(kind, self._random)
        except BaseException as error:  # a hand that fails must not look like one that had nothing to do
            self._failures.append(f"{self.name}: {error!r}")
            raise


def drawn(weights: Weights, count: int, seed: str) -> list[str]:
    """So many kinds in a random order: each once, the others by weight."""
    dice = random.Random(seed)
    kinds = list(weights)[:count]
    kinds += dice.choices(list(weights), list(weights.values()), k=max(0, count - len(kinds)))
    dice.shuffle(kinds)
    return kinds
