"""Python environments in this very process, thousands in little time: for a process of its own, never for pytest's.

The inside half replaces clock, random sources and output for good. Where its interpreter has no time-machine the clock
stays as it is.
"""

import json
import os
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quintain.environments.base import EpisodeClass
from quintain.environments.python import PythonKind
from quintain.sandboxes.base import IsolationLevel, JsonObject, SandboxClass, SandboxLimits, StateFile, Template

CLASS = EpisodeClass(environment_class="python-v1", dependency_lock="cas://none", runtime="tests", policy="cas://none")


class OneProcess:
    """A provider whose instances are all of one object, begun anew; one template at a time."""

    def __init__(self, root: Path) -> None:
        self.name, self.level = "one-process", IsolationLevel.NONE
        self._root = root
        self._key: str | None = None
        self._kind: Any = None
        self._template: Template | None = None

    async def template(
        self,
        sandbox_class: SandboxClass,
        key: str,
        payload: JsonObject,
        state: Sequence[StateFile] = (),
        *,
        warm: bool = False,
    ) -> Template:
        """Load a payload, and forget the one before."""
        if self._template is None or self._key != key:
            self._key = key
            self._forget()
            self._kind = _kind(sandbox_class)
            described = json.loads(json.dumps(self._kind.load(payload, str(self._root))))
            self._template = Template(key, sandbox_class, described, {}, {"load": 0.0})
        return self._template

    async def claim(
        self,
        template: Template,
        start: JsonObject,
        state: Sequence[StateFile],
        *,
        limits: SandboxLimits | None = None,
        read_only: bool = False,
    ) -> "Instance":
        """The one instance; what was played in it before is forgotten when it begins."""
        assert template is self._template, "one template at a time"
        return Instance(self._kind)

    async def close(self) -> None:
        """Nothing is held."""

    def _forget(self) -> None:
        sys.meta_path[:] = [one for one in sys.meta_path if type(one).__name__ != "_Finder"]
        sys.path_importer_cache.clear()
        for name in [one for one in sys.modules if one.startswith(("bfcl_classes", "bfcl_tools", "bfcl_eval"))]:
            del sys.modules[name]


class Instance:
    """What a claim gives."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self.stood_by = False
        self.segments: Mapping[str, float] = {}

    async def call(self, request: JsonObject, timeout_s: float) -> JsonObject:
        """Answer at once, through JSON as a socket would have it."""
        return dict(json.loads(json.dumps(self._kind.call(json.loads(json.dumps(request))))))

    async def destroy(self) -> None:
        """Nothing is held."""


def _kind(sandbox_class: SandboxClass) -> Any:
    """A new object of what runs inside."""
    for folder in (sandbox_class.kind.parent, Path(sandbox_class.kind.parents[1]) / "sandboxes"):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    try:
        import time_machine  # noqa: F401
    except ImportError:
        sys.modules["time_machine"] = _still()
    from python_kind.kind import Kind  # type: ignore[import-not-found]

    made = Kind()
    made._output.install = lambda: None  # what this process prints is its own
    made._output.take = lambda: ""
    return made


def _still() -> types.ModuleType:
    module = types.ModuleType("time_machine")

    class Traveller:
        def start(self) -> "Traveller":
            return self

        def move_to(self, when: float) -> None:
            pass

    module.travel = lambda *given, **named: Traveller()  # type: ignore[attr-defined]
    module.Traveller = Traveller  # type: ignore[attr-defined]
    return module


def kind_in(root: Path) -> PythonKind:
    """The kind over such a provider. `root` is a folder for it, where the process will stand."""
    os.makedirs(root, exist_ok=True)
    provider: Any = OneProcess(root)
    return PythonKind(provider, CLASS, scratch=root)
