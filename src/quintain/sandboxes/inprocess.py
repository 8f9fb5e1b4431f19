"""A provider without isolation: the kind runs in this process. A fake for tests and for looking inside.

It keeps the contract of `quintain.sandboxes.base` (its own copy of the state per instance, time limits, size
limits, snapshots of a dead instance), so the rooms above can be tested without bubblewrap. A kind that raises
`SystemExit` dies as a process would that called `os._exit`. Never run code you do not trust in it.
"""

import asyncio
import contextlib
import importlib.util
import itertools
import json
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from quintain.errors import (
    CallTimeout,
    ResultTooLarge,
    SandboxError,
    SandboxLost,
    TemplateError,
)
from quintain.sandboxes.base import (
    IsolationLevel,
    JsonObject,
    SandboxClass,
    SandboxLimits,
    StateFile,
    Template,
)

MAX_ANSWER_BYTES: Final = 16 * 2**20
LOAD_TIMEOUT_S: Final = 60.0


class InProcessProvider:
    """Kinds in this process, each instance with a directory of its own under `root` (default: a temporary one)."""

    def __init__(self, root: Path | None = None) -> None:
        self._owns_root = root is None
        self._root = Path(tempfile.mkdtemp(prefix="quintain_inprocess_")) if root is None else root
        self._numbers = itertools.count(1)
        self._templates: dict[str, tuple[Template, JsonObject]] = {}
        self._sandboxes: set[InProcessSandbox] = set()
        self._closed = False

    @property
    def name(self) -> str:
        """`inprocess`."""
        return "inprocess"

    @property
    def level(self) -> IsolationLevel:
        """Always none."""
        return IsolationLevel.NONE

    @property
    def live(self) -> int:
        """How many instances are claimed and not yet destroyed."""
        return len(self._sandboxes)

    async def template(
        self,
        sandbox_class: SandboxClass,
        key: str,
        payload: JsonObject,
        state: Sequence[StateFile] = (),
        *,
        warm: bool = False,
    ) -> Template:
        """Load a payload once; see `SandboxProvider.template`."""
        self._check_open()
        if key in self._templates:
            return self._templates[key][0]
        started = time.perf_counter()
        root = self._directory("template")
        try:
            _place(state, root)
            kind = _kind_of(sandbox_class)
            description = await _in_thread(lambda: kind.load(_copied(payload), str(root)), LOAD_TIMEOUT_S)
            files = {path.name: path.read_bytes() for path in sorted(root.iterdir()) if path.is_file()}
            template = Template(
                key=key,
                sandbox_class=sandbox_class,
                description=_copied(description),
                state=files,
                build_ms={"load": (time.perf_counter() - started) * 1000},
            )
        except Exception as error:
            raise TemplateError(f"class {sandbox_class.name} did not load the payload: {error!r}") from error
        finally:
            shutil.rmtree(root, ignore_errors=True)
        self._templates[key] = (template, _copied(payload))
        return template

    async def claim(
        self,
        template: Template,
        start: JsonObject,
        state: Sequence[StateFile],
        *,
        limits: SandboxLimits | None = None,
        read_only: bool = False,
    ) -> "InProcessSandbox":
        """A fresh kind over its own copy of the state; see `SandboxProvider.claim`. Limits are not enforced."""
        self._check_open()
        if template.key not in self._templates:
            raise SandboxError(f"no template {template.key[:80]!r} in this provider; call template() first")
        payload = self._templates[template.key][1]
        started = time.perf_counter()
        root = self._directory("episode")
        try:
            _place(state, root)
            kind = _kind_of(template.sandbox_class)
            await _in_thread(lambda: kind.load(_copied(payload), str(root)), LOAD_TIMEOUT_S)
            await _in_thread(lambda: kind.begin(_copied(start)), LOAD_TIMEOUT_S)
        except BaseException as error:
            shutil.rmtree(root, ignore_errors=True)
            if isinstance(error, Exception):
                raise SandboxError(f"class {template.sandbox_class.name} did not begin: {error!r}") from error
            raise
        if read_only:
            for path in root.iterdir():
                path.chmod(stat.S_IRUSR)
        segments = {"claim": (time.perf_counter() - started) * 1000}
        sandbox = InProcessSandbox(kind, root, segments, self._sandboxes.discard)
        self._sandboxes.add(sandbox)
        return sandbox

    async def close(self) -> None:
        """Destroy every instance and forget every template."""
        self._closed = True
        for sandbox in list(self._sandboxes):
            await sandbox.destroy()
        self._templates.clear()
        if self._owns_root:
            shutil.rmtree(self._root, ignore_errors=True)

    def _directory(self, what: str) -> Path:
        path = self._root / f"{what}-{next(self._numbers)}"
        path.mkdir(mode=0o700, parents=True)
        return path

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxError("the in-process provider is closed; make a new one")


class InProcessSandbox:
    """One kind object and its state directory."""

    def __init__(
        self,
        kind: Any,
        root: Path,
        segments: Mapping[str, float],
        on_destroy: Callable[["InProcessSandbox"], None],
    ) -> None:
        self._kind = kind
        self._root = root
        self._segments = segments
        self._on_destroy = on_destroy
        self._alive = True

    @property
    def alive(self) -> bool:
        """False after a timeout, a `SystemExit` in the kind, or `destroy`."""
        return self._alive

    @property
    def stood_by(self) -> bool:
        """Never: an instance is made when it is claimed."""
        return False

    @property
    def segments(self) -> Mapping[str, float]:
        """Milliseconds of the claim."""
        return self._segments

    async def call(self, request: JsonObject, timeout_s: float) -> JsonObject:
        """One request to the kind, in a thread; see `Sandbox.call`. A timed-out thread is abandoned, not killed."""
        if not self._alive:
            raise SandboxLost("the instance has ended; claim another")
        try:
            answer = await _in_thread(lambda: self._kind.call(_copied(request)), timeout_s)
            body = json.dumps(answer)
        except TimeoutError as error:
            self._alive = False
            raise CallTimeout(f"no answer within {timeout_s:g} s; the instance was ended") from error
        except asyncio.CancelledError:
            self._alive = False
            raise
        except (_Died, Exception) as error:
            self._alive = False
            raise SandboxLost(f"the instance ended without answering: {error!r}") from error
        if len(body) > MAX_ANSWER_BYTES:
            self._alive = False
            raise ResultTooLarge(f"an answer of {len(body)} bytes is over the limit of {MAX_ANSWER_BYTES}")
        parsed = json.loads(body)
        if not isinstance(parsed, dict):
            self._alive = False
            raise SandboxLost(f"the instance answered {type(parsed).__name__}, not an object")
        return parsed

    async def snapshot(self, names: Sequence[str], into: Path) -> list[StateFile]:
        """Copy state files; see `Sandbox.snapshot`."""
        if not self._root.is_dir():
            raise SandboxLost("the instance's state directory is gone; it was destroyed")
        copied = []
        for name in names:
            source = self._root / name
            if source.parent == self._root and source.is_file() and not source.is_symlink():
                shutil.copyfile(source, into / name)
                copied.append(StateFile(name, into / name))
        return copied

    async def destroy(self) -> None:
        """Forget the kind and remove its state. Idempotent."""
        self._alive = False
        self._kind = None
        shutil.rmtree(self._root, ignore_errors=True)
        self._on_destroy(self)


class _Died(Exception):
    """The kind raised SystemExit."""


def _place(state: Sequence[StateFile], root: Path) -> None:
    for file in state:
        shutil.copyfile(file.path, root / file.name)


def _copied(value: Any) -> Any:
    """What crosses a process boundary arrives as a copy; so it does here."""
    return json.loads(json.dumps(value))


_MODULE_NUMBERS = itertools.count(1)


def _kind_of(sandbox_class: SandboxClass) -> Any:
    """A new `Kind` from the class's package, imported under a name of its own so that instances do not mix."""
    name = f"_quintain_kind_{next(_MODULE_NUMBERS)}"
    folder = sandbox_class.kind
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None or not (folder / "kind.py").is_file():
        raise TemplateError(f"class {sandbox_class.name} has no kind module in {folder}")
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    try:
        spec.loader.exec_module(package)
        return importlib.import_module(f"{name}.kind").Kind()
    finally:
        for module in [module for module in sys.modules if module == name or module.startswith(f"{name}.")]:
            del sys.modules[module]


async def _in_thread(work: Callable[[], Any], timeout_s: float) -> Any:
    """Run blocking work in a daemon thread, which may outlive its time limit without holding up the exit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def run() -> None:
        try:
            outcome: tuple[Any, BaseException | None] = (work(), None)
        except SystemExit as error:
            outcome = (None, _Died(f"exit {error.code}"))
        except BaseException as error:
            outcome = (None, error)
        with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits any more
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, daemon=True, name="quintain-inprocess").start()
    return await asyncio.wait_for(future, timeout_s)
