"""Kinds of environment that run in process, and their payloads made ready."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from quintain import __version__
from quintain.artifacts import ArtifactStore
from quintain.contracts.descriptor import Limits
from quintain.contracts.identity import canonical_json, cas_uri
from quintain.contracts.tools import Tool
from quintain.environments.base import EpisodeClass
from quintain.environments.inprocess.environment import InProcessEnvironment
from quintain.environments.inprocess.findings import Finding, summary
from quintain.environments.inprocess.machine import MAX_STATE_BYTES, STATE, Clock, Machine
from quintain.environments.inprocess.schemas import ArgumentCheck
from quintain.errors import TemplateError, UsageError

JsonObject = dict[str, Any]

_POLICY: Final[JsonObject] = {"schema": "quintain.dev/in-process-policy/v1", "code": False, "data": True}
"""No code of a payload runs: it is data that the platform reads."""

_KEEP: Final = 256


@dataclass(frozen=True)
class Payload:
    """A payload of a kind that runs in process."""

    scenario: str
    document: JsonObject
    """The environment's document."""
    clock: Clock

    @classmethod
    def of(cls, payload: JsonObject) -> "Payload":
        """Raises TemplateError where it is none."""
        scenario, document = payload.get("scenario"), payload.get("environment")
        if not isinstance(scenario, str) or not isinstance(document, dict):
            raise TemplateError("the payload names no scenario, or has no environment; it is none of a pack")
        return cls(scenario, document, Clock(payload.get("epoch", "")))


@dataclass(frozen=True)
class ReadyMachine:
    """A payload that was made ready; see `Prepared`."""

    machine: Machine
    checks: Mapping[str, ArgumentCheck]
    scratch: Path | None = None
    build_ms: Mapping[str, float] = field(default_factory=dict)
    state: str = STATE
    state_names: Sequence[str] = (STATE,)
    warm: bool = True
    code: str = ""

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools of every episode."""
        return self.machine.tools

    def environment(self) -> InProcessEnvironment:
        """A new environment, to be reset."""
        return InProcessEnvironment(self.machine, self.checks, scratch=self.scratch)


class InProcessKind:
    """One kind: what reads its payloads, and the last of them kept ready; see `EnvironmentKind`."""

    def __init__(
        self,
        name: str,
        check: Callable[[JsonObject], list[Finding]],
        machine: Callable[[Payload], Machine],
        store: ArtifactStore,
        *,
        scratch: Path | None = None,
        keep: int = _KEEP,
    ) -> None:
        """`check` tells what is wrong with a document; `machine` is given payloads of which nothing fatal was told."""
        self.episode_class = in_process_class(name, store)
        self._check = check
        self._machine = machine
        self._scratch = scratch
        self._keep = keep
        self._ready: OrderedDict[str, ReadyMachine] = OrderedDict()
        self._building: dict[str, asyncio.Lock] = {}

    async def prepare(self, payload_digest: str, payload: Callable[[], JsonObject]) -> ReadyMachine:
        """The payload of that digest, read and checked; `payload` is read only when it is not at hand.

        Raises:
            TemplateError: its document is not one of this kind; says all that is wrong, and where.
        """
        if (known := self._known(payload_digest)) is not None:
            return known
        lock = self._building.setdefault(payload_digest, asyncio.Lock())
        async with lock:
            if (known := self._known(payload_digest)) is not None:
                return known
            try:
                ready = await asyncio.to_thread(self._built, payload)
            finally:
                self._building.pop(payload_digest, None)
            self._ready[payload_digest] = replace(ready, build_ms={})
            while len(self._ready) > self._keep:
                self._ready.popitem(last=False)
            return ready

    def _known(self, digest: str) -> ReadyMachine | None:
        if (known := self._ready.get(digest)) is not None:
            self._ready.move_to_end(digest)
        return known

    def _built(self, read: Callable[[], JsonObject]) -> ReadyMachine:
        began = time.perf_counter()
        payload = Payload.of(read())
        if wrong := summary(self._check(payload.document)):
            raise TemplateError(f"scenario {payload.scenario!r} cannot be played: {wrong}")
        try:
            machine = self._machine(payload)
            machine.begin(0, {})
        except (UsageError, TemplateError) as error:
            raise TemplateError(f"scenario {payload.scenario!r} cannot be played: {error}") from error
        checks = {tool.name: ArgumentCheck(tool) for tool in machine.tools}
        ms = (time.perf_counter() - began) * 1000
        return ReadyMachine(machine, checks, self._scratch, {"load": ms})


def in_process_class(name: str, store: ArtifactStore) -> EpisodeClass:
    """The identity of a kind's episodes; its empty lock and its policy are stored, so that their references resolve."""
    return EpisodeClass(
        environment_class=f"{name}-v1",
        dependency_lock=cas_uri(store.put(b"")),
        runtime=f"inprocess quintain-{name}/1",
        policy=cas_uri(store.put(canonical_json(_POLICY))),
        limits=Limits(cpu="1", pids=1, disk=str(MAX_STATE_BYTES)),
        versions={"quintain": __version__, "cel": version("common-expression-language")},
    )
