"""One episode's process: isolated, then one answer per request until the platform hangs up or kills it."""

import os
import signal
import time
import traceback
from typing import Any

from inside import channel, isolate, kernel


def serve(
    kind: Any,
    isolation: isolate.Isolation,
    asked: dict[str, Any],
    sock_fd: int,
    program: bytes,
    arrived: float,
) -> None:
    """Isolate this fresh clone, wait to be claimed, place the claim's state, and answer calls."""
    data = channel.take(sock_fd)
    me = os.getpid()
    laps = _Laps(arrived)
    laps.end("fork")
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        isolate.close_descriptors_except({sock_fd})
        isolation.enter(asked["directory"], asked["disk_bytes"])
        kernel.set_name("q-standby")
        root = isolate.open_root(isolation.root)
        data.send({"ok": True}, (root,))  # the platform learns which process this is, to end it if it must
        os.close(root)
        laps.end("namespaces")
        if not data.waiting():
            _rehearse(kind)
            laps = _Laps(0.0)  # of a claim that comes later, nothing so far is part
        try:
            claim, state = data.receive()
        except channel.Closed:
            return
        laps.begin()
        isolate.place(isolation.root, list(zip(claim["state"], state, strict=True)))
        isolate.bound(claim["limits"], claim["mapped_bytes"], count_processes=isinstance(isolation, isolate.Namespaces))
        if claim["read_only"]:
            kind.begin(claim["start"])
            isolation.make_read_only()
        isolation.seal(program)
        kernel.set_name("q-episode")
        laps.end("inject")
        if not claim["read_only"]:
            kind.begin(claim["start"])
        laps.end("begin")
        data.send({"ok": True, "segments": laps.taken})
    except BaseException:
        data.send({"error": traceback.format_exc()[-8192:]})
        return
    _answer(kind, data, me)


def _rehearse(kind: Any) -> None:
    """While nobody waits: let a kind that can do so touch what it will need. It runs code of its own, no payload's."""
    if hasattr(kind, "rehearse"):
        kind.rehearse()


class _Laps:
    """Milliseconds of each part of a claim, by name."""

    def __init__(self, since: float) -> None:
        self.taken: dict[str, float] = {}
        self._since = since

    def begin(self) -> None:
        """What follows is timed from now."""
        self._since = time.monotonic()

    def end(self, name: str) -> None:
        """A part ends now, and the next begins."""
        now = time.monotonic()
        self.taken[name] = (now - self._since) * 1e3
        self._since = now


def _answer(kind: Any, data: channel.Channel, me: int) -> None:
    while True:
        try:
            request, _ = data.receive()
        except channel.Closed:
            return
        number = request["id"]
        try:
            answer = kind.call(request["request"])
        except BaseException:
            answer = {"status": "server_error", "error": "the call failed inside the sandbox", "http_status": None,
                      "log": traceback.format_exc()[-8192:]}  # fmt: skip
        if os.getpid() != me:
            os._exit(0)  # a process that the call forked came back here; only the episode itself may answer
        try:
            strays = not getattr(kind, "tends_processes", False) and _has_children()
            data.send({"id": number, "answer": answer, "strays": strays}, limit=channel.MAX_ANSWER)
        except ValueError as error:
            data.send({"id": number, "too_large": str(error)})


def _has_children() -> bool:
    """Whether the call left processes behind."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True
