"""A template: one payload loaded in namespaces of its own; every episode of the payload is forked from it.

Once the payload's code has run, nothing this process says is trusted by the platform.
"""

import base64
import json
import os
import signal
import time
import traceback
from typing import Any

from inside import channel, episode, isolate, kernel, memory


def serve(
    kind_class: Any,
    isolation: isolate.Isolation,
    request: dict[str, Any],
    sock_fd: int,
    payload_fd: int,
    state: list[int],
    settings: dict[str, Any],
) -> None:
    """Isolate, load the payload, report, warm, and fork an episode per claim until the platform hangs up."""
    control = channel.take(sock_fd)
    clock = _Stopwatch()
    try:
        isolate.close_descriptors_except({sock_fd, payload_fd, *state})
        isolation.enter(request["directory"], request["limits"]["disk_bytes"])
        root = isolate.open_root(isolation.root)
        control.send({"ok": True}, (root,))  # the platform learns which process this is, to end it if it must
        os.close(root)
        isolate.place(isolation.root, list(zip(request["state"], state, strict=True)))
        payload = json.loads(channel.read_all(payload_fd))
        namespaced = isinstance(isolation, isolate.Namespaces)
        isolate.bound_template(request["limits"], count_processes=namespaced)
        isolation.seal(base64.b64decode(settings["filters"]["template"]))
        children = _Children(isolation, base64.b64decode(settings["filters"]["episode"]))
        kernel.set_name("q-template")
        clock.lap("isolate")
        kind = kind_class()
        description = kind.load(payload, isolation.root)
        clock.lap("load")
        control.send({"ok": True, "description": description, "segments": clock.laps})
        control.receive()  # the platform has copied the initial state
        clock = _Stopwatch()
        warmed = (kind.warm() or {}) if request["warm"] else {}
        clock.lap("warm")
        _plugs = memory.arrange(settings["immortal_heap"])
        clock.lap("settle")
        children.are_episodes()
        control.send({"ok": True, "warmed": warmed, "segments": clock.laps})
    except channel.Closed:
        return
    except BaseException as error:
        control.send({"error": _explained(error, kind_class)})
        return
    _fork_episodes(kind, isolation, control, base64.b64decode(settings["filters"]["episode"]))


class _Children:
    """What the payload forks while it loads and warms may do no more than an episode; episodes seal themselves."""

    def __init__(self, isolation: isolate.Isolation, program: bytes) -> None:
        self._isolation = isolation
        self._program = program
        self._sealed = True
        os.register_at_fork(after_in_child=self._forked)

    def are_episodes(self) -> None:
        """From now on: nothing but episodes is forked, and their number is the platform's affair."""
        self._sealed = False
        isolate.lift_process_limit()

    def _forked(self) -> None:
        if self._sealed:
            try:
                self._isolation.seal(self._program)
            except BaseException:
                os._exit(1)


def _explained(error: BaseException, kind_class: Any) -> str:
    """A kind's own errors say all there is to say; any other shows where it came from."""
    package = kind_class.__module__.partition(".")[0]
    own = type(error).__module__.partition(".")[0] == package
    return str(error)[-8192:] if own else traceback.format_exc()[-8192:]


def _fork_episodes(kind: Any, isolation: isolate.Isolation, control: channel.Channel, program: bytes) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        try:
            asked, fds = control.receive()
        except channel.Closed:
            return
        arrived = time.monotonic()
        (sock_fd,) = fds
        try:
            pid = isolation.fork()
        except OSError as error:
            channel.take(sock_fd).send({"error": str(error)})
            continue
        if pid == 0:
            control.sock.detach()
            episode.serve(kind, isolation, asked, sock_fd, program, arrived)
            os._exit(0)
        os.close(sock_fd)


class _Stopwatch:
    """Milliseconds between laps, by name."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps[name] = round((now - self._last) * 1e3, 3)
        self._last = now
