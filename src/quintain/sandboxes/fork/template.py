"""The platform's handle on one template process: built from a payload, forked from per claim."""

import asyncio
import os
import shutil
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quintain.errors import ResultTooLarge, SandboxError, SandboxLost, TemplateError
from quintain.sandboxes.base import JsonObject, SandboxClass, SandboxLimits, StateFile, Template
from quintain.sandboxes.cgroups import ControlGroup, GroupLimits, make_inner
from quintain.sandboxes.fork.channel import Channel
from quintain.sandboxes.fork.idleness import idle_time
from quintain.sandboxes.fork.instance import ForkSandbox
from quintain.sandboxes.fork.process import SandboxedProcess
from quintain.sandboxes.fork.standby import Standbys, Started
from quintain.sandboxes.fork.zygote import Zygote

_DESCRIPTION_LIMIT = 8 * 2**20
_MAX_STATE_FILES = 64
_STANDBYS = 2
_STANDBY_TIMEOUT_S = 10.0
_MAX_DURATIONS, _MAX_NAME, _LONGEST_MS = 32, 32, 1e9


class LiveTemplate:
    """A template process. Its episodes live in namespaces below its own, so it must outlive them."""

    def __init__(
        self,
        template: Template,
        process: SandboxedProcess,
        folder: Path | None,
        warm: bool,
        lull: Callable[[], Awaitable[None]] = idle_time,
        group: ControlGroup | None = None,
    ) -> None:
        """`group` is where each episode gets a control group of its own; None: none does."""
        self.template = template
        self.warm = warm
        self.claims = 0
        self.memory_bytes = _private_bytes(process.pid)
        self._process = process
        self._folder = folder
        self._group = group
        self._mapped_bytes = _mapped_bytes(process.pid)
        self._sending = asyncio.Lock()
        self._standbys = Standbys(self._stand_by, _STANDBYS if warm else 0, lull)
        self._forks = 0
        self._episodes = 0
        self._sandboxes: set[ForkSandbox] = set()
        self._retired = False
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def build(
        cls,
        zygote: Zygote,
        key: str,
        payload: JsonObject,
        state: Sequence[StateFile],
        timeout_s: float,
        *,
        warm: bool,
        lull: Callable[[], Awaitable[None]] = idle_time,
    ) -> "LiveTemplate":
        """Fork a template, let it load (and warm) the payload, and copy out the state it made.

        Raises:
            TemplateError: the payload failed, took too long, or left threads running.
            SandboxLost: the process could not be isolated.
        """
        channel, folder = await zygote.fork_template(payload, state, warm=warm)
        process: SandboxedProcess | None = None
        try:
            async with asyncio.timeout(timeout_s):
                process = await SandboxedProcess.meet(channel)
                template = await _loaded(process, zygote.sandbox_class, key)
            group = zygote.group if zygote.sandbox_class.policy.processes else None
            live = cls(template, process, folder, warm, lull, group)
            live._standbys.refill()
            return live
        except BaseException as error:
            channel.close()
            if process is not None:
                await process.end()  # a payload that loads without end would go on
            if isinstance(error, TimeoutError):
                raise TemplateError(f"the payload did not load within {timeout_s:g} s") from error
            raise

    @property
    def keeps_state(self) -> bool:
        """Whether its episodes' state outlives the zygote: in file systems of their own, not in a folder of its."""
        return self._folder is None

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.alive

    async def fork(
        self, start: JsonObject, state: Sequence[StateFile], limits: SandboxLimits, read_only: bool, timeout_s: float
    ) -> ForkSandbox:
        """A clean episode, in a process that stood by for it or in a new one.

        Raises:
            SandboxLost: the template is gone or did not answer.
            SandboxError: the episode could not be isolated.
        """
        self._episodes += 1
        self.claims += 1
        claim = _Claim(start, state, limits, read_only, self._mapped_bytes)
        try:
            usual = limits == self.template.sandbox_class.limits
            sandbox = await self._from_standby(claim, timeout_s) if usual else None
            return sandbox or await self._forked(claim, timeout_s)
        except BaseException:
            self._released()
            raise
        finally:
            self._standbys.refill()

    async def stand_down(self) -> None:
        """End the processes that stand by; from now on each claim forks its own."""
        await self._standbys.close()

    async def _from_standby(self, claim: "_Claim", timeout_s: float) -> ForkSandbox | None:
        """A claimed process that stood by; None if there is none, or it died."""
        started = self._standbys.take()
        if started is None:
            return None
        try:
            async with _ready_within(timeout_s):
                await claim.send(started.process.channel)
                return await self._begun(started, claim, stood_by=True)
        except BaseException as error:
            await started.end()
            if isinstance(error, SandboxLost) and not isinstance(error.__cause__, TimeoutError):
                return None
            raise

    async def _forked(self, claim: "_Claim", timeout_s: float) -> ForkSandbox:
        """A new process, claimed before it is there: the claim waits for it in its channel."""
        channel, folder = await self._ask(claim.limits.disk_bytes)
        started: Started | None = None
        try:
            async with _ready_within(timeout_s):
                await claim.send(channel)
                started = await self._enclosed(await SandboxedProcess.meet(channel), folder, claim.limits)
                return await self._begun(started, claim)
        except BaseException:
            channel.close()
            if started is not None:
                await started.end()
            raise

    async def _stand_by(self) -> Started:
        """A new process that waits to be claimed."""
        channel, folder = await self._ask(self.template.sandbox_class.limits.disk_bytes)
        try:
            async with _ready_within(_STANDBY_TIMEOUT_S):
                process = await SandboxedProcess.meet(channel)
                return await self._enclosed(process, folder, self.template.sandbox_class.limits)
        except BaseException:
            channel.close()
            raise

    async def _enclosed(self, process: SandboxedProcess, folder: Path | None, limits: SandboxLimits) -> Started:
        """A new process in a control group of its own, where its class may start more and the host offers groups."""
        if self._group is None:
            return Started(process, folder)
        bounds = GroupLimits(limits.memory_bytes + limits.disk_bytes, limits.pids + 1)
        name = f"{process.pid}-{self._forks}"
        making = asyncio.create_task(asyncio.to_thread(make_inner, self._group, name, bounds))
        try:
            group = await asyncio.shield(making)
            if group is not None:
                await asyncio.to_thread(group.admit, process.pid)
        except BaseException as error:
            (made,) = await asyncio.gather(making, return_exceptions=True)  # whoever has stopped waiting for it
            await Started(process, folder, made if isinstance(made, ControlGroup) else None).end()
            if isinstance(error, OSError):
                raise SandboxLost(f"a process could not be moved into its control group: {error}") from error
            raise
        return Started(process, folder, group)

    async def _ask(self, disk_bytes: int) -> tuple[Channel, Path | None]:
        """Ask the template to fork; the channel to the new process, and its folder on the host if it has one."""
        channel, theirs = Channel.pair()
        self._forks += 1
        directory = f"e{self._forks}"
        try:
            async with self._sending:
                await self._process.channel.send({"directory": directory, "disk_bytes": disk_bytes}, [theirs.fileno()])
        except BaseException:
            channel.close()
            raise
        finally:
            theirs.close()
        return channel, self._folder / directory if self._folder else None

    async def _begun(self, started: Started, claim: "_Claim", *, stood_by: bool = False) -> ForkSandbox:
        ready = await started.process.channel.receive(_DESCRIPTION_LIMIT)
        if ready.get("ok") is not True:
            raise SandboxError(f"an episode could not be started: {ready.get('error', 'no reason given')}")
        sandbox = ForkSandbox(
            started.process,
            _durations(ready.get("segments")),
            claim.limits.disk_bytes,
            started.folder,
            self._destroyed,
            group=started.group,
            stood_by=stood_by,
        )
        self._sandboxes.add(sandbox)
        return sandbox

    def retire(self) -> None:
        """Take no more claims; the process ends when its last episode has."""
        self._retired = True
        self._standbys.dismiss()
        self._close_if_unused()

    async def close(self) -> None:
        """End the process and every episode below it."""
        await self._standbys.close()
        await asyncio.gather(*(sandbox.destroy() for sandbox in list(self._sandboxes)))
        await self._process.end()
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _destroyed(self, sandbox: ForkSandbox) -> None:
        self._sandboxes.discard(sandbox)
        self._released()

    def _released(self) -> None:
        self._episodes -= 1
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._retired and self._episodes == 0 and self._closing is None:
            self._closing = asyncio.create_task(self.close())


@dataclass(frozen=True)
class _Claim:
    """What makes a waiting process an episode."""

    start: JsonObject
    state: Sequence[StateFile]
    limits: SandboxLimits
    read_only: bool
    mapped_bytes: int

    async def send(self, channel: Channel) -> None:
        """Send it, with the state's files open.

        Raises:
            SandboxLost: the process is gone.
        """
        message = {
            "start": self.start,
            "state": [file.name for file in self.state],
            "limits": asdict(self.limits),
            "mapped_bytes": self.mapped_bytes,
            "read_only": self.read_only,
        }
        with ExitStack() as stack:
            files = [stack.enter_context(file.path.open("rb", buffering=0)) for file in self.state]
            await channel.send(message, [file.fileno() for file in files])


@asynccontextmanager
async def _ready_within(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise SandboxLost(f"an episode was not ready within {seconds:g} s") from error


async def _loaded(process: SandboxedProcess, sandbox_class: SandboxClass, key: str) -> Template:
    """The template once it has loaded and warmed its payload."""
    channel = process.channel
    try:
        loaded = await channel.receive(_DESCRIPTION_LIMIT)
        _refuse_failure(loaded)
        files = await asyncio.to_thread(_read_state, process.root_fd, sandbox_class.limits.disk_bytes)
        await channel.send({"op": "warm"})
        warmed = await channel.receive(_DESCRIPTION_LIMIT)
    except (SandboxLost, ResultTooLarge) as error:
        raise TemplateError(f"the payload's process ended while loading ({error})") from error
    _refuse_failure(warmed)
    _refuse_threads(process.pid)
    _refuse_processes(process.pid)
    description = {**_mapping(loaded.get("description")), **_mapping(warmed.get("warmed"))}
    build_ms = {**_durations(loaded.get("segments")), **_durations(warmed.get("segments"))}
    return Template(key, sandbox_class, description, files, build_ms)


def _refuse_failure(message: JsonObject) -> None:
    if message.get("ok") is not True:
        raise TemplateError(f"the payload did not load:\n{message.get('error', 'no reason given')}")


def _refuse_threads(pid: int) -> None:
    """Refuse a payload that keeps threads, as the host counts them."""
    try:
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except OSError as error:
        raise SandboxLost(f"the payload's process ended after loading ({error})") from error
    if threads != 1:
        raise TemplateError(
            f"the payload has {threads} threads running after it has loaded; only a process with one can be forked"
        )


def _refuse_processes(pid: int) -> None:
    """Refuse a payload that left processes behind. A kernel that does not list children is taken to have none."""
    try:
        children = [
            one for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()
        ]
    except OSError:
        return
    if children:
        raise TemplateError(
            f"the payload left {len(children)} processes running after it has loaded; it may start none"
        )


def _read_state(root_fd: int, limit: int) -> Mapping[str, bytes]:
    """Regular files at the top of a template's state directory; links are not followed."""
    files: dict[str, bytes] = {}
    for name in sorted(os.listdir(root_fd)):
        if not stat.S_ISREG(os.stat(name, dir_fd=root_fd, follow_symlinks=False).st_mode):
            continue
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=root_fd)
        with open(fd, "rb") as file:
            files[name] = file.read(limit + 1)
        if len(files) > _MAX_STATE_FILES or sum(map(len, files.values())) > limit:
            raise TemplateError(f"the payload's state is over {_MAX_STATE_FILES} files or {limit} bytes")
    return files


def _mapped_bytes(pid: int) -> int:
    """Address space of a process on this host."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    except (OSError, ValueError) as error:
        raise SandboxLost(f"the payload's process ended after loading ({error})") from error
    return pages * os.sysconf("SC_PAGE_SIZE")


def _private_bytes(pid: int) -> int:
    """Memory that is a process's alone; 0 where the kernel does not tell."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def _durations(value: Any) -> dict[str, float]:
    """Milliseconds by name; what is not that is left out, for a sandbox may say anything."""
    return {
        name: float(one)
        for name, one in list(_mapping(value).items())[:_MAX_DURATIONS]
        if name.isidentifier() and len(name) <= _MAX_NAME and isinstance(one, int | float) and 0 <= one < _LONGEST_MS
    }


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
