"""A server under load whose processes are killed at random, and what must hold all the same."""

import contextlib
import ctypes
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.exceptions import WebSocketException

from e2e.preloaded import shared
from e2e.serving import Server, alive, descendants, wait_until
from e2e.wire import Wire, step

KINDS = {"zygote": ("bwrap", "q-zygote"), "template": ("q-template",), "episode": ("q-episode", "q-standby")}
AFTERMATH_S = 5.0
"""How long after a kill a session may be told of it."""
_TRUTHFUL = ("ended without answering", "could be started", "is gone", "ended before", "ended while")
_TRIES = 3
_SET_CHILD_SUBREAPER = 36


class Chaos:
    """A server, its load, and the hand that kills. Findings that must not be are in `failures`."""

    def __init__(self, folder: Path, seed: int, clients: int = 6, **settings: str) -> None:
        self.folder = folder
        self.settings = settings
        self.server = Server(folder, **settings)
        self.tally: Counter[str] = Counter()
        self.failures: list[str] = []
        self._random = random.Random(seed)
        self._over = threading.Event()
        self._deaths = 0
        self._up = True
        self._last_kill = 0.0
        self._servers = [self.server.process.pid]
        self._threads = [
            threading.Thread(target=self._client, args=(random.Random(f"{seed}:{number}"),), name=f"client {number}")
            for number in range(clients)
        ]
        for thread in self._threads:
            thread.start()

    def strike(self, kind: str) -> None:
        """Kill one process of a kind in the middle of the load, and see that all is well soon after."""
        time.sleep(self._random.uniform(0, 0.3))
        if kind != "server" and not wait_until(lambda: self._running(kind), 10):
            self.failures.append(f"there is no {kind} to kill, so there is no load")
            return
        below = self.server.descendants()
        pid = self.server.process.pid if kind == "server" else self._random.choice(self._running(kind) or [0])
        self._last_kill = time.monotonic()
        if kind == "server":
            self._deaths, self._up = self._deaths + 1, False
        if not killed(pid):
            self.tally[f"{kind} ended by itself"] += 1
            return
        self.tally[f"{kind} killed"] += 1
        if kind == "server":
            self._restart(list(below))
        self._must_serve(kind)

    def _running(self, kind: str) -> list[int]:
        return sorted(pid for pid, name in self.server.descendants().items() if name in KINDS[kind])

    def _restart(self, below: list[int]) -> None:
        self.server.process.wait()
        self.server.stop()
        if not wait_until(lambda: not [pid for pid in below if alive(pid)], 20):
            self.failures.append(f"processes outlived the server: {[pid for pid in below if alive(pid)]}")
        self.server = Server(self.folder, port=self.server.port, **self.settings)
        self._servers.append(self.server.process.pid)
        self._last_kill = time.monotonic()
        self._up = True
        if self.server.ready["isolation"] != "full":
            self.failures.append(f"the server came back with {self.server.ready}")
        if len(self.server.runs()) != 1:
            self.failures.append(f"scratch directories after a restart: {self.server.runs()}")

    def _must_serve(self, kind: str) -> None:
        for attempt in range(_TRIES):
            with Wire(self.server.url) as session:
                answer = session.ask({"type": "reset", "data": {"scenario": "vet_clinic_1", "task_idx": 7}})["data"]
                if answer["observation"]["reward_type"] == "reset_ok":
                    observation = session.seen("list_veterinarians")
                    if observation["reward_type"] == "tool_call_ok":
                        self.tally[f"served at try {attempt + 1} after {kind}"] += 1
                        return
        self.failures.append(f"a new episode did not work after a {kind} was killed: {answer}")

    @property
    def summary(self) -> str:
        """What was done and what came of it, each kind of failure once."""
        kinds = {failure[:60]: failure for failure in reversed(self.failures)}
        return "\n".join([f"{len(self.failures)} failures", *kinds.values(), str(dict(self.tally))])

    def finish(self) -> None:
        """End the load and the server; whatever is left is a failure."""
        self._over.set()
        for thread in self._threads:
            thread.join(90)
            if thread.is_alive():
                self.failures.append(f"{thread.name} hangs")
        self.failures += left_behind(self.server, self._servers)
        for kept in self.server.kept.glob("*"):
            if not (kept / "trajectory.json").exists():
                self.failures.append(
                    f"kept, and not whole: {kept.name}: {sorted(path.name for path in kept.iterdir())}"
                )

    def _client(self, dice: random.Random) -> None:
        while not self._over.is_set():
            deaths, up = self._deaths, self._up
            try:
                with Wire(self.server.url, timeout_s=40) as session:
                    _Shopper(self, session, dice).play()
            except TimeoutError:
                self.failures.append("a session was left without an answer")
            except (OSError, WebSocketException) as error:
                if up and self._up and deaths == self._deaths:
                    self.failures.append(f"a session was lost and the server lives: {error!r}")
                self.tally["sessions lost"] += 1
                time.sleep(0.1)
            except AssertionError as error:
                self.failures.append(str(error)[:600])

    def excused(self) -> bool:
        """Whether an error may be the aftermath of a kill."""
        return time.monotonic() - self._last_kill < AFTERMATH_S


class _Shopper:
    """One episode of a client that knows what the database must hold."""

    def __init__(self, chaos: Chaos, session: Wire, dice: random.Random) -> None:
        self._chaos = chaos
        self._session = session
        self._dice = dice

    def play(self) -> None:
        answer = self._session.ask(
            {"type": "reset", "data": {"scenario": "outdoor_marketplace_1", "task_idx": 0, "seed": 1}}
        )
        observation = answer["data"]["observation"]
        if observation["reward_type"] != "reset_ok":
            self._truthful("reset", observation)
            time.sleep(0.05)
            return
        if self._dice.random() < 0.5:
            self._verify(complete=self._call("add_cart_item", product_id=3, quantity=2) is not None)
        else:
            self._review()
        self._end()

    def _review(self) -> None:
        """Write, and find again what was written: no less, and no more than may have been."""
        certain, doubtful = [], []
        for turn in range(self._dice.randint(1, 4)):
            title = f"review {turn}"
            written = self._call("create_product_review", product_id=5, rating=4, title=title, body="Sound.")
            (doubtful if written is None else certain).append(title)
            time.sleep(self._dice.choice((0.0, 0.05, 0.3)))  # the longest is long enough to be hibernated in
        listed = self._call("list_product_reviews", product_id=5)
        if listed is not None:
            titles = [one["title"] for one in listed["reviews"] if one["title"].startswith("review ")]
            assert set(certain) <= set(titles) <= {*certain, *doubtful}, f"{titles}, written {certain}, {doubtful}"
        self._verify(complete=False)

    def _call(self, tool: str, **arguments: Any) -> Any:
        """The result, or None where the process went away in the call."""
        observation = self._session.call(tool, **arguments)["observation"]
        self._chaos.tally["calls"] += 1
        if observation["reward_type"] == "tool_call_ok":
            self._chaos.tally["calls in a new process"] += "warning" in observation
            return json.loads(observation["tool_result"])
        self._truthful(tool, observation)
        return None

    def _verify(self, *, complete: bool) -> None:
        answer = self._session.call("verify")
        verdict = answer["observation"]
        if verdict["reward_type"] == "judge_error":
            self._truthful("verify", verdict)
            assert verdict["metadata"]["reward_valid"] is False, verdict
        elif complete:
            assert (verdict["reward_type"], answer["reward"]) == ("complete", 1.0), verdict

    def _end(self) -> None:
        ending = self._dice.random()
        if ending < 0.3:
            done = self._session.call("done", keep_session=True)["observation"]
            assert "session_dir" in done or self._chaos.excused(), done
            if "session_dir" in done:
                assert Path(done["session_dir"], "trajectory.json").exists()
        elif ending < 0.6:
            self._session.call("done")
        elif ending < 0.8:
            self._session.send(step("list_products", {}))
            self._session.hang_up()

    def _truthful(self, what: str, observation: dict[str, Any]) -> None:
        told = observation.get("error") or (observation.get("verify_result") or {}).get("error_message") or ""
        self._chaos.tally[f"{what} failed: {told[:100]}"] += 1
        assert self._chaos.excused(), f"{what} failed without a kill: {observation}"
        assert any(words in told for words in _TRUTHFUL), f"{what} failed and does not say why: {observation}"


def left_behind(server: Server, pids: list[int]) -> list[str]:
    """End a server; what it or those before it, by process id, leave, and the first traceback in their log."""
    server.settle()
    failures = []
    if server.episodes() or server.leftovers():
        failures.append(f"left while serving: {server.episodes()}, {server.leftovers()}")
    below = list(server.descendants())
    if server.stop() != 0:
        failures.append("the server did not end cleanly")
    if not wait_until(lambda: not [pid for pid in below if alive(pid)], 20):
        failures.append("processes outlived the last server")
    if left := [path.name for path in server.temporary.iterdir()]:
        failures.append(f"left in the temporary directory: {left}")
    for pid in pids:
        if groups := list(Path("/sys/fs/cgroup").rglob(f"quintain-{pid}-*")):
            failures.append(f"control groups of server {pid} are left: {groups}")
    if "Traceback" in server.log:
        failures.append(server.log[server.log.index("Traceback") :][:2000])
    return failures


def killed(pid: int, number: signal.Signals = signal.SIGKILL) -> bool:
    """Kill by descriptor, so that an id that has been given to another meanwhile is not hit; nor is one of 0."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


@contextlib.contextmanager
def no_orphans(seconds: float = 20.0) -> Iterator[None]:
    """Whatever loses its parent in the block becomes this process's child; afterwards no such process may be left."""
    libc = ctypes.CDLL(None, use_errno=True)
    shared()  # which stays
    before = _children()
    assert libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
        assert wait_until(lambda: not _reaped(_children() - before), seconds), _reaped(_children() - before)
    finally:
        libc.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _children() -> set[int]:
    found: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
            found.update(map(int, (thread / "children").read_text().split()))
    return found


def _reaped(pids: set[int]) -> dict[int, str]:
    """Those that still run, by name; the dead are reaped."""
    names = descendants(os.getpid())
    for pid in pids - names.keys():
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return {pid: names[pid] for pid in pids & names.keys()}


def mounts() -> list[str]:
    """What is mounted where this process is."""
    return Path("/proc/self/mounts").read_text().splitlines()


def survive(folder: Path, seed: int, kinds: list[str], **options: Any) -> Chaos:
    """Strike once per kind; the chaos, over, with its failures."""
    mounted = mounts()
    with no_orphans():
        chaos = Chaos(folder, seed, **options)
        try:
            for kind in kinds:
                chaos.strike(kind)
        finally:
            chaos.finish()
    if mounts() != mounted:
        chaos.failures.append("mounts were left")
    return chaos
