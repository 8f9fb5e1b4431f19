"""The platform's handle on one zygote: started once per class, asked for templates."""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from quintain.errors import SandboxError, SandboxLost
from quintain.sandboxes.base import IsolationLevel, JsonObject, SandboxClass, StateFile
from quintain.sandboxes.cgroups import ControlGroup
from quintain.sandboxes.fork.channel import Channel
from quintain.sandboxes.fork.launch import plan_launch
from quintain.sandboxes.fork.users import take_user
from quintain.sandboxes.runtime import ClassRuntime
from quintain.sandboxes.seccomp import filter_program

_START_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 2.0
_MESSAGE_LIMIT = 2**20


class Zygote:
    """A running zygote of one class. `start` it; `close` ends it and everything forked from it."""

    def __init__(
        self,
        sandbox_class: SandboxClass,
        runtime: ClassRuntime,
        level: IsolationLevel,
        immortal_heap: bool,
        scratch: Path | None,
        group: ControlGroup | None,
    ) -> None:
        self.sandbox_class = sandbox_class
        self.runtime = runtime
        self.level = level
        self.immortal_heap = immortal_heap
        self._scratch = scratch
        self._group = group
        self.import_ms = 0.0
        self.folder: Path | None = None
        self._templates = 0
        self._user = take_user()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process

    @property
    def alive(self) -> bool:
        """Whether its process still runs; known at once, before bubblewrap around it has ended."""
        return (
            self._process is not None
            and self._process.poll() is None
            and self._channel is not None
            and self._channel.connected
        )

    @property
    def group(self) -> ControlGroup | None:
        """The control group of all sandboxes, where the host offers one."""
        return self._group

    @property
    def pid(self) -> int:
        """Process id of bubblewrap on the host; 0 before the start."""
        return self._process.pid if self._process is not None else 0

    async def start(self) -> None:
        """Start bubblewrap and wait until the class's libraries are imported.

        Raises:
            SandboxError: it did not start; the message carries what it printed.
        """
        channel, theirs = Channel.pair()
        launch = plan_launch(
            self.level,
            self.sandbox_class,
            self.runtime,
            theirs.fileno(),
            self._user.uid,
            self._scratch,
            self._group.doors if self._group is not None else (),
        )
        self.folder = launch.folder
        # from this thread, which lives as long as the platform: the kernel ends the zygote when it does
        self._process = subprocess.Popen(  # noqa: ASYNC220
            launch.command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            env={},
            start_new_session=True,
        )
        theirs.close()
        self._channel = channel
        policy = self.sandbox_class.policy
        hello = {
            **launch.hello,
            "preload": list(self.sandbox_class.preload),
            "kind": self.sandbox_class.kind.name,
            "immortal_heap": self.immortal_heap,
            "filters": {
                "template": _encoded(filter_program(policy, template=True, own_process=launch.own_process)),
                "episode": _encoded(filter_program(policy, template=False, own_process=launch.own_process)),
            },
        }
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                await channel.send(hello)
                answer = await channel.receive(_MESSAGE_LIMIT)
        except (SandboxLost, TimeoutError) as error:
            printed = self._printed()
            self.close()
            kind = SandboxLost if isinstance(error, SandboxLost) and not printed else SandboxError  # killed, perhaps
            raise kind(
                f"the {self.sandbox_class.name} zygote did not start: {printed or error or 'no answer in time'}"
            ) from error
        except asyncio.CancelledError:
            self.close()
            raise
        self.import_ms = float(answer.get("import_ms", 0.0))

    async def fork_template(
        self, payload: JsonObject, state: Sequence[StateFile], *, warm: bool
    ) -> tuple[Channel, Path | None]:
        """Fork a template that begins to load the payload at once, and then warms it if asked to.

        Returns:
            The channel its answers come over, and its folder on the host where it has no private file system.

        Raises:
            SandboxLost: the zygote is gone.
        """
        if self._channel is None:
            raise SandboxLost(f"the {self.sandbox_class.name} zygote is not running")
        channel, theirs = Channel.pair()
        self._templates += 1
        directory = f"t{self._templates}"
        limits = asdict(self.sandbox_class.limits)
        names = [file.name for file in state]
        request = {"directory": directory, "limits": limits, "state": names, "warm": warm}
        fds = [theirs.detach(), _memory_file(json.dumps(payload).encode())]
        try:
            fds += [os.open(file.path, os.O_RDONLY | os.O_CLOEXEC) for file in state]
            await self._channel.send(request, fds)
        finally:
            for fd in fds:
                os.close(fd)
        return channel, self.folder / directory if self.folder else None

    def close(self) -> None:
        """End the zygote and everything forked from it. Idempotent.

        With the zygote goes its process namespace. Where it has none, it is asked to end what is below it.
        """
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None and self._process.poll() is None:
            if self.level is not IsolationLevel.FULL:
                self._process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_END_TIMEOUT_S)
            self._process.kill()
            self._process.wait()
        self._errors.close()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._user.release()

    def _printed(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-2000:].decode(errors="replace").strip()


def _memory_file(content: bytes) -> int:
    fd = os.memfd_create("payload", os.MFD_CLOEXEC)
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    return fd


def _encoded(program: bytes) -> str:
    return base64.b64encode(program).decode()
