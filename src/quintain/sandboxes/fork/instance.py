"""One claimed episode process, as the platform holds it."""

import asyncio
import errno
import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from quintain.errors import CallTimeout, ResultTooLarge, SandboxLost, StateTooLarge
from quintain.sandboxes.base import JsonObject, StateFile
from quintain.sandboxes.cgroups import ControlGroup
from quintain.sandboxes.fork.process import SandboxedProcess
from quintain.sandboxes.fork.stopping import stopped
from quintain.sandboxes.trees import BaseTree, Changes, pack_changes

ANSWER_LIMIT = 2**20
_MOST_STRANGERS = 16
_ROUNDING = 2**20  # a full disk leaves files that end in a hole, and so claim a little more than it has


class ForkSandbox:
    """A running episode. Its state directory outlives its process until `destroy`.

    Args:
        folder: the state directory on the host, where it is no private file system and must be removed.
        group: its own control group, which must be removed.
        destroyed: called once when everything of the episode is gone.
        stood_by: whether the process waited, isolated, before it was claimed.
    """

    def __init__(
        self,
        process: SandboxedProcess,
        segments: Mapping[str, float],
        disk_bytes: int,
        folder: Path | None,
        destroyed: Callable[["ForkSandbox"], None],
        *,
        group: ControlGroup | None = None,
        stood_by: bool = False,
    ) -> None:
        self.pid = process.pid
        self.stood_by = stood_by
        self.segments = segments
        self._process = process
        self._disk_bytes = disk_bytes
        self._folder = folder
        self._group = group
        self._when_destroyed = destroyed
        self._calls = 0
        self._alive = True
        self._destroyed = False

    @property
    def alive(self) -> bool:
        """False once the process is known to be gone."""
        return self._alive

    async def call(self, request: JsonObject, timeout_s: float) -> JsonObject:
        """One request to the kind; see `Sandbox.call`."""
        if not self._alive:
            raise SandboxLost("the sandbox has ended")
        self._calls += 1
        channel = self._process.channel
        try:
            async with asyncio.timeout(timeout_s):
                await channel.send({"id": self._calls, "request": request})
                for _ in range(_MOST_STRANGERS):
                    message = await channel.receive(ANSWER_LIMIT)
                    if message.get("id") == self._calls:
                        break  # else a stray process of an earlier call spoke
                else:
                    raise SandboxLost("the sandboxed process answers what was not asked")
        except TimeoutError as error:
            self._kill()
            raise CallTimeout(f"no answer within {timeout_s:g} s") from error
        except BaseException:
            self._kill()  # an interrupted conversation cannot be resumed: the next answer would be this call's
            raise
        return self._answer(message)

    def _answer(self, message: JsonObject) -> JsonObject:
        if message.get("strays"):
            self._kill()
            raise SandboxLost("the call left processes behind; they were stopped with the sandbox")
        if "too_large" in message:
            raise ResultTooLarge(str(message["too_large"]))
        answer = message.get("answer")
        if not isinstance(answer, dict):
            self._kill()
            raise SandboxLost("the sandboxed process answered with something that is not an object")
        return answer

    def _kill(self) -> None:
        self._alive = False
        self._process.kill()

    async def snapshot(self, names: Sequence[str], into: Path) -> list[StateFile]:
        """Copy state files with every process of the episode stopped; see `Sandbox.snapshot`."""
        if self._destroyed:
            raise SandboxLost("the sandbox was destroyed; its state is gone")
        return await asyncio.to_thread(self._copy_stopped, names, into)

    def _copy_stopped(self, names: Sequence[str], into: Path) -> list[StateFile]:
        with ExitStack() as stack:
            if self._alive:
                stack.enter_context(stopped(self.pid))
            found = {name: stack.enter_context(file) for name in names if (file := self._regular(name)) is not None}
            size = sum(os.fstat(file.fileno()).st_size for file in found.values())
            if size > self._disk_bytes + _ROUNDING:  # a sparse file may claim anything
                raise StateTooLarge(f"state files of {size} bytes are over the disk's {self._disk_bytes}")
            for name, file in found.items():
                with (into / name).open("wb") as copy:
                    _copy(file.fileno(), copy.fileno())
        return [StateFile(name, into / name) for name in found]

    async def pack(self, name: str, target: Path, base: BaseTree | None) -> Changes:
        """A folder of the state as a tar, with every process of the episode stopped; see `PacksTrees.pack`."""
        if self._destroyed:
            raise SandboxLost("the sandbox was destroyed; its state is gone")
        return await asyncio.to_thread(self._pack_stopped, name, target, base)

    def _pack_stopped(self, name: str, target: Path, base: BaseTree | None) -> Changes:
        with ExitStack() as stack:
            if self._alive:
                stack.enter_context(stopped(self.pid))
            try:
                return pack_changes(self._process.root_fd, name, target, base, self._disk_bytes)
            except OSError as error:
                raise SandboxLost(f"the folder {name} of a sandbox cannot be kept: {error}") from error

    def _regular(self, name: str) -> BinaryIO | None:
        """A regular file of that name, open. The directory is the sandbox's: nothing in it is followed."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            file = open(os.open(name, flags, dir_fd=self._process.root_fd), "rb")  # noqa: SIM115
        except OSError:
            return None
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file
        file.close()
        return None

    async def destroy(self) -> None:
        """End the process and give back all it held; see `Sandbox.destroy`."""
        if self._destroyed:
            return
        self._destroyed = True
        self._alive = False
        try:
            await self._process.end()
            if self._folder is not None:
                await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
            if self._group is not None:
                await asyncio.to_thread(self._group.remove)
        finally:
            self._when_destroyed(self)


def _copy(source: int, target: int) -> None:
    """Copy a file by its descriptors, its holes as holes."""
    size, offset = os.fstat(source).st_size, 0
    while offset < size:
        try:
            start = os.lseek(source, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # only a hole is left
        offset = os.lseek(source, start, os.SEEK_HOLE)
        os.lseek(target, start, os.SEEK_SET)
        while start < offset and (copied := os.sendfile(target, source, start, offset - start)):
            start += copied
    os.ftruncate(target, size)
