"""A process inside a sandbox, as the platform holds it: by descriptor, so that its id cannot be another's by now."""

import asyncio
import logging
import os
import select
import signal

from quintain.errors import SandboxLost
from quintain.sandboxes.fork.channel import Channel

_DEATH_TIMEOUT_S = 10.0
_HELLO_LIMIT = 64 * 1024
_log = logging.getLogger(__name__)


class SandboxedProcess:
    """One template or episode: its channel, its process and its state directory, which outlives the process."""

    def __init__(self, channel: Channel, pid: int, root_fd: int) -> None:
        self.channel = channel
        self.pid = pid
        self.root_fd = root_fd
        self._pidfd = _process_descriptor(pid)
        self._closed = False

    @classmethod
    async def meet(cls, channel: Channel) -> "SandboxedProcess":
        """Wait for a new process to say who it is, and for its state directory.

        Raises:
            SandboxLost: it ended, or could not be isolated; the message carries what it said.
        """
        hello, fds, pid = await channel.receive_with_descriptors(_HELLO_LIMIT)
        try:
            if hello.get("ok") is not True or len(fds) != 1 or pid <= 0:
                raise SandboxLost(f"a process could not be isolated: {hello.get('error', 'no state directory')}")
            return cls(channel, pid, fds[0])
        except (OSError, SandboxLost) as error:
            channel.close()
            for fd in fds:
                os.close(fd)
            raise SandboxLost(str(error)) from error

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        if self._closed or self._pidfd is None:
            return False
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        return not ended.poll(0)

    def kill(self) -> None:
        """Kill the process and, with its namespace, everything it started. Idempotent."""
        self.channel.close()
        if not self._closed and self._pidfd is not None:
            try:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            except OSError:
                pass  # gone already

    async def end(self) -> None:
        """Kill, wait until the process is gone, and give back the descriptors. Idempotent."""
        if self._closed:
            return
        self.kill()
        self._closed = True
        os.close(self.root_fd)
        if self._pidfd is None:
            return
        try:
            await _exited(self._pidfd)
        except TimeoutError:
            _log.error("process %d of a sandbox did not end within %g s", self.pid, _DEATH_TIMEOUT_S)
        finally:
            os.close(self._pidfd)


def _process_descriptor(pid: int) -> int | None:
    """A descriptor of a process; None if it has ended already, though what it said can still be read."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


async def _exited(pidfd: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(pidfd, lambda: None if ready.done() else ready.set_result(None))
    try:
        async with asyncio.timeout(_DEATH_TIMEOUT_S):
            await ready
    finally:
        loop.remove_reader(pidfd)
