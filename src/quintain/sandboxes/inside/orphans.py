"""What payloads leave behind where there is no process namespace to go with them.

A template must be able to fork. With a raw system call, a payload that loads can do so too, and have the new process
belong to nobody. The zygote adopts such processes and ends them; so it does with all below it before it ends itself.
"""

import os
import select
import signal
import time
from types import FrameType

from inside import channel, isolate, kernel

_LOOK_EVERY_S = 0.5
_MOST_ROUNDS = 1000


class Guardian:
    """Watches over a zygote's children. Outside namespaces only; elsewhere it does nothing."""

    def __init__(self, isolation: isolate.Isolation) -> None:
        self._watches = isinstance(isolation, isolate.Landlocked)
        self._own: set[int] = set()
        if self._watches:
            kernel.adopt_orphans()
            signal.signal(signal.SIGTERM, self._end_all)  # comes when the platform has ended

    def forked(self, pid: int) -> None:
        """This one is the zygote's own."""
        self._own.add(pid)

    def left(self) -> None:
        """In a new process: it watches over nobody."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def next_request(self, control: channel.Channel) -> tuple[dict[str, object], list[int]]:
        """The platform's next message; orphans are ended while it is awaited. Everything is, when it has hung up."""
        while self._watches and not select.select([control.sock], [], [], _LOOK_EVERY_S)[0]:
            self._end_orphans()
        try:
            return control.receive()
        except channel.Closed:
            if self._watches:
                self._end_all()
            raise

    def _end_orphans(self) -> None:
        for _ in range(_MOST_ROUNDS):  # what is ended may have started others
            children = _children()
            self._own &= children
            if not children - self._own:
                return
            for pid in children - self._own:
                _kill(pid)

    def _end_all(self, number: int = 0, frame: FrameType | None = None) -> None:
        while children := _children():  # what they leave comes here
            for pid in children:
                _kill(pid)
            time.sleep(0.001)
        if number:
            os._exit(0)


def _children() -> set[int]:
    """This process's children that run; none where the kernel does not list them."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return {int(pid) for pid in file.read().split()}
    except OSError:
        return set()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
