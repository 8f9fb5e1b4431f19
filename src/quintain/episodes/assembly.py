"""The rooms put together for this host: the isolation it reaches, its interpreter, its caches."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from quintain.artifacts import LocalArtifactStore
from quintain.environments import mcp, mock, simulator, workspace
from quintain.environments.awm import CLASS_NAME, awm_class
from quintain.environments.base import EnvironmentKind
from quintain.environments.database import DatabaseKind
from quintain.environments.identity import sandboxed_class
from quintain.environments.python.kind import CLASS_NAME as PYTHON_CLASS
from quintain.environments.python.kind import KIND as PYTHON
from quintain.environments.python.kind import PythonKind, python_class
from quintain.environments.templates import DatabaseTemplates
from quintain.episodes.admission import MAX_QUEUED, QUEUE_TIMEOUT_S, Admission
from quintain.episodes.base import Rooms
from quintain.episodes.memory import Memory
from quintain.errors import UsageError
from quintain.records import Ledger, MemoryLedger, ScoreLedger
from quintain.sandboxes.base import IsolationLevel, SandboxClass, SandboxProvider
from quintain.sandboxes.cgroups import GroupLimits
from quintain.sandboxes.disposal import Disposal
from quintain.sandboxes.doctor import LevelReport, default_accepted_level, reached_level, require_level
from quintain.sandboxes.fork import ForkProvider
from quintain.sandboxes.runtime import Interpreter, choose_interpreter, ensure_runtime
from quintain.sandboxes.scratch import Scratch
from quintain.tasks.base import DATABASE, TaskSource
from quintain.verifiers import CodeVerifier, Judge, JudgedVerifier, JudgeSettings, JudgmentCache
from quintain.verifiers.sandbox import verifier_class
from quintain.verifiers.workspace import WorkspaceTests

_MEMORY_SHARE = 0.9
_MAX_PROCESSES = 65_536
_GOING_AT_ONCE = 64
_MAX_WHY = 500


@dataclass(frozen=True)
class Assembly:
    """What to put together. `cache` keeps artifacts and class runtimes between runs."""

    cache: Path
    accepted: IsolationLevel | None = None
    """The lowest isolation level accepted; None: full, and reduced inside a container."""
    python: str | None = None
    """Interpreter for class runtimes; None: the newest suitable one on the host."""
    immortal_heap: bool = True
    warm_after: int = 8
    """Claims after which a scenario counts as hot and is warmed behind; 0 warms it before its first episode."""
    max_templates: int = 64
    max_starting: int = 16
    max_queued: int = MAX_QUEUED
    queue_timeout_s: float = QUEUE_TIMEOUT_S
    min_free_memory_bytes: int = 0
    """While less is left, no episode starts; 0 never looks."""
    start_timeout_s: float = 180.0
    restart_timeout_s: float = 30.0
    verify_timeout_s: float = 20.0
    ledger: str | Path | None = None
    """The ledger of scores: a SQLite file or an SQLAlchemy URL; None keeps it in memory."""
    judge: JudgeSettings = field(default_factory=JudgeSettings)
    """The judge of sql and hybrid verification where an episode brings none."""
    scratch: Path | None = None
    """Where this run's scratch directory is made; None: in the system's temporary directory."""
    ahead: bool = False
    """Whether sandboxes of databases are made ready before the first episode asks for one, if there are any."""


@asynccontextmanager
async def open_rooms(source: TaskSource, assembly: Assembly) -> AsyncIterator[Rooms]:
    """The rooms of episodes of all kinds, with sandboxes at the strongest level this host reaches; closed at the end.

    Raises:
        IsolationError: the host does not reach the accepted level.
        RuntimeBuildError: the class runtimes cannot be built.
        SandboxError: nothing can be written to the scratch directory.
        LedgerError, UsageError: the ledger cannot be opened.
    """
    with await asyncio.to_thread(Scratch.open, assembly.scratch) as scratch:
        async with _ledger(assembly.ledger) as ledger, _open_rooms(source, assembly, scratch.path, ledger) as rooms:
            yield rooms


@asynccontextmanager
async def _open_rooms(
    source: TaskSource, assembly: Assembly, scratch: Path, ledger: Awaitable[ScoreLedger]
) -> AsyncIterator[Rooms]:
    runtimes = assembly.cache / "runtimes"
    interpreter = await asyncio.to_thread(choose_interpreter, assembly.python)
    level, reports = await reached_level(runtimes, scratch, interpreter)
    require_level(level, assembly.accepted or default_accepted_level(), reports)
    provider = ForkProvider(
        runtimes,
        interpreter,
        level=level,
        scratch=scratch,
        group_limits=GroupLimits(_sandbox_memory(), _MAX_PROCESSES),
        immortal_heap=assembly.immortal_heap,
        warm_after=assembly.warm_after,
        max_templates=assembly.max_templates + 1,  # the verifier's is one too
        build_timeout_s=0.9 * assembly.start_timeout_s,  # sooner, so that a scenario's own slowness is told as such
    )
    sandbox_class = awm_class()
    verifiers = verifier_class(assembly.verify_timeout_s)
    disposal = Disposal(_GOING_AT_ONCE)
    judge = Judge(JudgmentCache(assembly.cache / "judgments"))
    starting: set[asyncio.Task[Any]] = set()
    try:
        databases = assembly.ahead and any(one.kind == DATABASE for one in source.scenarios())
        for one in (verifiers, sandbox_class) if databases else (verifiers,):
            await asyncio.to_thread(ensure_runtime, one.lock, runtimes, interpreter)
            starting.add(asyncio.create_task(provider.zygote(one)))  # behind: the first episode waits for it
        store = LocalArtifactStore(assembly.cache / "artifacts")
        yield Rooms(
            source=source,
            kinds=environment_kinds(provider, sandbox_class, interpreter, store, assembly, scratch, disposal),
            provider=provider,
            disposal=disposal,
            verifier=JudgedVerifier(
                CodeVerifier(
                    provider,
                    verifiers,
                    time_limit_s=assembly.verify_timeout_s,
                    disposal=disposal,
                    tests=WorkspaceTests(provider, workspace.workspace_class(), scratch=scratch, disposal=disposal),
                ),
                judge,
                assembly.judge,
            ),
            ledger=await ledger,
            run=uuid4().hex,
            admission=_admission(assembly),
            scratch=scratch,
            start_timeout_s=assembly.start_timeout_s,
            shortfall=_shortfall(reports),
        )
    finally:
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        await disposal.drain()
        await judge.aclose()
        await provider.close()


def _admission(assembly: Assembly) -> Admission:
    return Admission(
        assembly.max_starting,
        available=Memory().available,
        floor_bytes=assembly.min_free_memory_bytes,
        max_queued=assembly.max_queued,
        timeout_s=assembly.queue_timeout_s,
    )


def environment_kinds(
    provider: SandboxProvider,
    sandbox_class: SandboxClass,
    interpreter: Interpreter,
    store: LocalArtifactStore,
    assembly: Assembly,
    scratch: Path,
    disposal: Disposal,
) -> dict[str, EnvironmentKind]:
    """The kinds of environment of this host, by name."""
    templates = DatabaseTemplates(
        provider,
        sandbox_class,
        store,
        keep=assembly.max_templates,
        warm=assembly.warm_after == 0,
        disposal=disposal,
    )
    sqlite = interpreter.sqlite_version
    awm = sandboxed_class(CLASS_NAME, provider, sandbox_class, interpreter, store, sqlite=sqlite)
    own = sandboxed_class(PYTHON_CLASS, provider, python_class(), interpreter, store, sqlite=sqlite)
    servers = sandboxed_class(mcp.CLASS_NAME, provider, mcp.mcp_class(), interpreter, store, sqlite=sqlite)
    warm = assembly.warm_after == 0
    return {
        DATABASE: DatabaseKind(templates, awm, scratch, assembly.restart_timeout_s),
        mock.KIND: mock.mock_kind(store, scratch),
        simulator.KIND: simulator.simulator_kind(store, scratch),
        workspace.KIND: workspace.WorkspaceKind(
            provider,
            workspace.workspace_class(),
            store,
            interpreter,
            scratch=scratch,
            restart_timeout_s=assembly.restart_timeout_s,
            disposal=disposal,
        ),
        mcp.KIND: mcp.McpKind(provider, servers, scratch=scratch, keep=assembly.max_templates, disposal=disposal),
        PYTHON: PythonKind(provider, own, scratch=scratch, warm=warm, keep=assembly.max_templates, disposal=disposal),
    }


@asynccontextmanager
async def _ledger(location: str | Path | None) -> AsyncIterator[Awaitable[ScoreLedger]]:
    """The ledger, which opens while the host is looked at; closed at the end."""
    opening = asyncio.create_task(_opened(location))
    try:
        yield opening
    finally:
        (ledger,) = await asyncio.gather(opening, return_exceptions=True)
        if isinstance(ledger, Ledger):
            await ledger.close()


async def _opened(location: str | Path | None) -> Ledger | MemoryLedger:
    if location is None:
        return MemoryLedger()
    if "://" not in str(location):
        await asyncio.to_thread(_make_folder, Path(location).parent)
    return await Ledger.open(location)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the ledger's folder {folder} cannot be made ({error.strerror}); name another") from error


def _shortfall(reports: Sequence[LevelReport]) -> str:
    """What kept stronger levels from being reached; `reports` are of the levels tried, the one reached included."""
    return "; ".join(
        f"{report.level} was not reached: {' '.join(why.split())[:_MAX_WHY]}"
        for report in reports
        if not report.reached
        for why in [report.obstacle or ", ".join(f"{one.name} ({one.problem})" for one in report.checks if one.problem)]
    )


def _sandbox_memory() -> int:
    """What all sandboxes may take together: the host's memory but for the platform's share."""
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _MEMORY_SHARE)
