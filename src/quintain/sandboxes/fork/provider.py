"""The default provider: a zygote per class, a template per payload, an episode per claim."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from quintain.errors import SandboxError, SandboxLost, TemplateError
from quintain.sandboxes.base import IsolationLevel, JsonObject, SandboxClass, SandboxLimits, StateFile, Template
from quintain.sandboxes.cgroups import ControlGroup, GroupLimits, make_group
from quintain.sandboxes.fork.idleness import idle_time
from quintain.sandboxes.fork.instance import ForkSandbox
from quintain.sandboxes.fork.template import LiveTemplate
from quintain.sandboxes.fork.zygote import Zygote
from quintain.sandboxes.runtime import Interpreter, choose_interpreter, ensure_runtime

_log = logging.getLogger(__name__)
_FAILURE_MEMORY_S = 30.0
_DEATH_MEMORY_S = 2.0
_Made = TypeVar("_Made")


class ForkProvider:
    """Sandboxes by fork: in namespaces of their own inside bubblewrap, or restricted by Landlock.

    Args:
        cache: where the classes' interpreter environments are built.
        interpreter: the Python for them; the newest suitable one if None.
        level: full (namespaces) or reduced (Landlock, for hosts that refuse user namespaces).
        scratch: where state directories lie at the reduced level; the system's temporary directory if None.
        group_limits: what all its sandboxes may take together, where the host offers control groups.
        immortal_heap: share more memory between episodes, on interpreters where a self-test passes.
        warm_after: claims after which a template counts as hot and is replaced by a warmed one, built behind; 0: never.
        max_templates: templates kept; beyond that the least recently used is retired.
        max_template_bytes: memory that templates may take together, counted as what is theirs alone.
        build_timeout_s: time a payload has to load and warm.
        claim_timeout_s: time an episode has to be ready.
        keep_asked_s: how long a template is kept, over the bounds too, for whoever asked for it to claim.
        lull: returns when a process that stands by may be started; by default once processors are idle.
    """

    name = "fork"

    def __init__(
        self,
        cache: Path,
        interpreter: Interpreter | None = None,
        *,
        level: IsolationLevel = IsolationLevel.FULL,
        scratch: Path | None = None,
        group_limits: GroupLimits | None = None,
        immortal_heap: bool = True,
        warm_after: int = 8,
        max_templates: int = 64,
        max_template_bytes: int = 4 * 2**30,
        build_timeout_s: float = 180.0,
        claim_timeout_s: float = 10.0,
        keep_asked_s: float = 5.0,
        lull: Callable[[], Awaitable[None]] = idle_time,
    ) -> None:
        self.level = level
        self._cache = cache
        self._interpreter = interpreter
        self._scratch = scratch
        self._group_limits = group_limits
        self._group: ControlGroup | None = None
        self._immortal_heap = immortal_heap
        self._warm_after = warm_after
        self._max_templates = max_templates
        self._max_template_bytes = max_template_bytes
        self._build_timeout_s = build_timeout_s
        self._claim_timeout_s = claim_timeout_s
        self._keep_asked_s = keep_asked_s
        self._lull = lull
        self._zygotes: dict[str, asyncio.Task[Zygote]] = {}
        self._templates: OrderedDict[str, asyncio.Future[LiveTemplate]] = OrderedDict()
        self._asked: dict[str, float] = {}  # when a template was last asked for
        self._payloads: dict[str, JsonObject] = {}  # of templates that may yet be warmed
        self._failures: dict[str, tuple[float, TemplateError]] = {}
        self._warming: set[asyncio.Task[None]] = set()

    async def zygote(self, sandbox_class: SandboxClass) -> Zygote:
        """The class's zygote, started if it does not run.

        Raises:
            SandboxError: it cannot be started.
        """
        name = sandbox_class.name
        task = self._zygotes.get(name)
        if task is not None and task.done() and not ((zygote := _result(task)) and zygote.alive):
            await self._forget_class(name)
            task = self._zygotes.get(name)  # another caller may have started one meanwhile
        if task is None:
            task = self._zygotes[name] = asyncio.create_task(self._start_zygote(sandbox_class))
        return await asyncio.shield(task)

    async def _start_zygote(self, sandbox_class: SandboxClass) -> Zygote:
        if self._interpreter is None:
            self._interpreter = await asyncio.to_thread(choose_interpreter)
        if self._group is None and self._group_limits is not None:
            self._group = make_group(f"{id(self):x}", self._group_limits)
        runtime = await asyncio.to_thread(ensure_runtime, sandbox_class.lock, self._cache, self._interpreter)
        zygote = Zygote(sandbox_class, runtime, self.level, self._immortal_heap, self._scratch, self._group)
        await zygote.start()
        _log.info("zygote %s ready after %.0f ms, Python %s", sandbox_class.name, zygote.import_ms, self._interpreter)
        return zygote

    async def _forget_class(self, name: str) -> None:
        """A zygote that died took its templates with it."""
        zygote = _result(self._zygotes.pop(name))
        lost = [
            live for live in map(_result, self._templates.values()) if live and live.template.sandbox_class.name == name
        ]
        for live in lost:
            self._templates.pop(live.template.key)
        if zygote is not None:
            zygote.close()
        for live in lost:
            if live.keeps_state:
                live.retire()  # what its episodes have committed can still be read, until each is destroyed
            else:
                await live.close()

    async def template(
        self,
        sandbox_class: SandboxClass,
        key: str,
        payload: JsonObject,
        state: Sequence[StateFile] = (),
        *,
        warm: bool = False,
    ) -> Template:
        """Load a payload once; see `SandboxProvider.template`. Callers at the same time share one build.

        A payload that did not load is not tried again for a while: every request gets the same error.
        """
        zygote = await self.zygote(sandbox_class)
        found = self._templates.get(key)
        if found is not None and (live := _result(found)) is not None and not live.alive:
            self._forget(key)
            found = None
        if found is None or (found.done() and _result(found) is None):
            self._refuse_known_failure(key)
            found = self._templates[key] = asyncio.create_task(self._build(zygote, key, payload, state, warm))
        self._templates.move_to_end(key)
        self._asked[key] = time.monotonic()
        live = await asyncio.shield(found)
        self._retire_surplus()
        return live.template

    async def _build(
        self, zygote: Zygote, key: str, payload: JsonObject, state: Sequence[StateFile], warm: bool
    ) -> LiveTemplate:
        try:
            try:
                live = await self._load(zygote, key, payload, state, warm=warm)
            except (TemplateError, SandboxLost) as error:
                if not _by_death(error):
                    raise
                # killed from outside, perhaps; a payload that ends its own process will do so again
                zygote = await self.zygote(zygote.sandbox_class)
                live = await self._load(zygote, key, payload, state, warm=warm)
        except TemplateError as error:
            memory_s = _DEATH_MEMORY_S if _by_death(error) else _FAILURE_MEMORY_S
            self._failures[key] = (time.monotonic() + memory_s, error)
            raise
        if not warm:
            self._payloads[key] = payload
        return live

    async def _load(
        self, zygote: Zygote, key: str, payload: JsonObject, state: Sequence[StateFile], *, warm: bool
    ) -> LiveTemplate:
        return await LiveTemplate.build(zygote, key, payload, state, self._build_timeout_s, warm=warm, lull=self._lull)

    def _refuse_known_failure(self, key: str) -> None:
        until, error = self._failures.get(key, (0.0, None))
        if error is not None and time.monotonic() < until:
            raise TemplateError(str(error)) from error
        self._failures.pop(key, None)

    def _retire_surplus(self) -> None:
        """Let the least recently used templates go until number and memory are within bounds; the last one stays."""
        live = {key: one for key, found in self._templates.items() if (one := _result(found)) is not None}
        memory = sum(one.memory_bytes for one in live.values())
        recent = time.monotonic() - self._keep_asked_s
        for key in list(live)[:-1]:
            if self._asked.get(key, 0.0) > recent:
                continue  # somebody is about to claim from it
            if len(live) <= self._max_templates and memory <= self._max_template_bytes:
                return
            memory -= live.pop(key).memory_bytes
            self._forget(key)

    def _forget(self, key: str) -> None:
        self._payloads.pop(key, None)
        self._asked.pop(key, None)
        live = _result(self._templates.pop(key))
        if live is not None:
            live.retire()

    async def claim(
        self,
        template: Template,
        start: JsonObject,
        state: Sequence[StateFile],
        *,
        limits: SandboxLimits | None = None,
        read_only: bool = False,
    ) -> ForkSandbox:
        """A clean instance; see `SandboxProvider.claim`."""
        key = template.key
        found = self._templates.get(key)
        live = _result(found) if found is not None else None
        if live is None:
            raise SandboxLost(f"template {key} is not loaded; ask for it again")
        limits = limits or template.sandbox_class.limits
        try:
            sandbox = await live.fork(start, state, limits, read_only, self._claim_timeout_s)
        except SandboxLost as error:
            if self._templates.get(key) is found:
                self._forget(key)  # suspect: the next request builds a new one
            if isinstance(error.__cause__, TimeoutError):
                hung = TemplateError(f"episodes of this payload do not get ready: {error}")
                self._failures[key] = (time.monotonic() + _FAILURE_MEMORY_S, hung)
                await live.close()  # the other claims that wait for it need not
                raise hung from error
            raise
        if 0 < self._warm_after <= live.claims and key in self._payloads:
            payload = self._payloads.pop(key)
            warming = asyncio.create_task(self._warm(live, payload))
            self._warming.add(warming)
            warming.add_done_callback(self._warming.discard)
        return sandbox

    async def _warm(self, cold: LiveTemplate, payload: JsonObject) -> None:
        """Put a warmed template in the place of one that has proved to be hot. Episodes of the old one live on."""
        key = cold.template.key
        try:
            zygote = await self.zygote(cold.template.sandbox_class)
            warm = await self._load(zygote, key, payload, (), warm=True)
        except SandboxError as error:
            _log.warning("a hot template could not be warmed and stays as it is: %s", error)
            return
        found = self._templates.get(key)
        if found is None or _result(found) is not cold:
            await warm.close()
            return
        warm.template = replace(cold.template, description=warm.template.description, build_ms=warm.template.build_ms)
        place: asyncio.Future[LiveTemplate] = asyncio.get_running_loop().create_future()
        place.set_result(warm)
        self._templates[key] = place
        cold.retire()

    async def stand_down(self) -> None:
        """End what stands by for claims to come; see `KeepsStandbys`."""
        live = list(filter(None, map(_result, self._templates.values())))
        await asyncio.gather(*(one.stand_down() for one in live))

    async def close(self) -> None:
        """End every zygote and all below it; see `SandboxProvider.close`."""
        tasks: list[asyncio.Future[Any]] = [*self._warming, *self._templates.values(), *self._zygotes.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for live in filter(None, map(_result, self._templates.values())):
            await live.close()
        for zygote in filter(None, map(_result, self._zygotes.values())):
            zygote.close()
        self._templates.clear()
        self._zygotes.clear()
        if self._group is not None:
            await asyncio.to_thread(self._group.remove)
            self._group = None


def _by_death(error: SandboxError) -> bool:
    """Whether a payload did not load because a process went away, and not for a reason that it gave."""
    return isinstance(error, SandboxLost) or isinstance(error.__cause__, SandboxLost)


def _result(task: "asyncio.Future[_Made]") -> _Made | None:
    """What a finished task made, or None if it failed or was cancelled."""
    if not task.done() or task.cancelled() or task.exception() is not None:
        return None
    return task.result()
