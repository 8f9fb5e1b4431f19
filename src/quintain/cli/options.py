"""Options that several commands share, each defined once, and what commands have in common."""

import asyncio
import getpass
import json
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Column
from rich.text import Text

from quintain.contracts.untrusted import printable
from quintain.errors import PoolError, RegistryError, SettingsError
from quintain.sandboxes.base import IsolationLevel
from quintain.server.settings import Settings, load_settings
from quintain.tasks import AwmDataset, OpenSource, TaskSource, open_named, shipped_packs, united
from quintain.tasks.pools import Pool, task_id
from quintain.tasks.quarantine_file import read_quarantine
from quintain.tasks.quarantined import QuarantinedSource
from quintain.tasks.registry import TaskRegistry

if TYPE_CHECKING:  # all that plays, which commands that only read do without
    from quintain.episodes.assembly import Assembly
    from quintain.episodes.base import Rooms
    from quintain.verifiers import JudgeSettings

Made = TypeVar("Made")

AwmData = Annotated[
    Path | None,
    typer.Option("--awm-data", help="Folder with the Agent World Model dataset. Default: $AWM_DATA_DIR, or none."),
]
Packs = Annotated[
    list[str] | None,
    typer.Option(
        "--pack",
        help="A pack, by a shipped one's name or its folder; may be repeated. Default: $QUINTAIN_PACKS, or all shipped "
        "ones where no dataset is named.",
    ),
]
Milestone = Annotated[str | None, typer.Option("--milestone", help="What blind tasks are opened for; it is logged.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Isolation = Annotated[
    IsolationLevel | None,
    typer.Option("--isolation", help="Lowest isolation level accepted. Default: full; reduced inside a container."),
]

console = Console()
errors = Console(stderr=True)


def settings_with(**given: Any) -> Settings:
    """Settings from the environment, those options given on the command line replacing them."""
    return load_settings(**{name: value for name, value in given.items() if value is not None})


def open_source(settings: Settings) -> OpenSource:
    """The dataset and the packs that the settings name, as one; all shipped packs where they name neither.

    Raises:
        DatasetError: one of them does not open, or two have a scenario of one name.
    """
    packs = settings.packs or (() if settings.data_dir is not None else shipped_packs())
    openers: list[Callable[[], OpenSource]] = [partial(open_named, name) for name in dict.fromkeys(packs)]
    if settings.data_dir is not None:
        openers.insert(0, partial(_dataset, settings.data_dir, cache_of(settings) / "indexes"))
    return united(openers)


def cache_of(settings: Settings) -> Path:
    """The cache's folder, made if it is not there.

    Raises:
        SettingsError: it cannot be made.
    """
    try:
        settings.cache_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"QUINTAIN_CACHE_DIR: {settings.cache_dir} cannot be made: {error.strerror or error}; name another folder"
        ) from error
    return settings.cache_dir


def _dataset(folder: Path, indexes: Path) -> AwmDataset:
    """A dataset, indexed at its first use with a progress bar."""
    with progress_bar() as progress:
        bar = progress.add_task(f"indexing {folder}", total=None)

        def show(file: str, done: int, total: int) -> None:
            progress.update(bar, description=f"indexing {file}", completed=done, total=total)

        return AwmDataset.open(folder, indexes, show)


def without_quarantined(settings: Settings, source: TaskSource) -> TaskSource:
    """What is served without the tasks that the quarantine list names, where the settings name one.

    What of the list applies, and what of it does not because it is about other datasets, is told on standard error.

    Raises:
        QuarantineError: the list is absent, malformed, or names what the dataset does not hold.
    """
    path = settings.quarantine
    if path is None:
        return source
    served = QuarantinedSource(source, read_quarantine(path), str(path))
    whole = sum(entry.task_idx is None for entry in served.entries)
    told = f"in quarantine: {whole} scenarios, {len(served.entries) - whole} tasks"
    if served.others:
        digests = dict.fromkeys(source.dataset_of(one.name) for one in source.scenarios())
        told += f"; about other datasets than {', '.join(digests)}, and not applied: {len(served.others)} entries"
    typer.echo(f"quintain: {printable(str(path))}: {told}", err=True)
    return served


def registry_in_force(settings: Settings) -> TaskRegistry | None:
    """The task registry by which tasks are served, None where there is none; how many tasks it has is told.

    Raises:
        RegistryError: it is damaged; or a setting speaks of pools or names a registry, and there is none.
    """
    root = settings.registry_dir
    if not TaskRegistry.exists(root):
        if settings.model_fields_set & {"registry_dir", "tokens", "token_pools"}:
            raise RegistryError(f"there is no task registry at {root}; make one with `quintain tasks import`")
        return None
    registry = TaskRegistry.open(root)
    held = ", ".join(f"{pool} {len(registry.tasks(pool))}" for pool in Pool)
    typer.echo(f"quintain: tasks are served by pool ({printable(str(root))}: {held})", err=True)
    return registry


def open_blind(settings: Settings, tasks: Iterable[tuple[str, int]], milestone: str | None, why: str) -> None:
    """Count and log an opening of the blind pool, if any of these tasks (scenario, index) is in it.

    Raises:
        PoolError: one is, and no milestone is stated.
        RegistryError: the registry is damaged, or the opening cannot be logged.
    """
    if not TaskRegistry.exists(settings.registry_dir):
        return
    registry = TaskRegistry.open(settings.registry_dir)
    blind = [task for task in (task_id(*one) for one in tasks) if registry.pool_of(task) is Pool.BLIND]
    if not blind:
        return
    if milestone is None:
        raise PoolError(
            f"{blind[0]} is blind; state with --milestone what it is opened for, which is counted and logged"
        )
    registry.open_blind(milestone=milestone, by=user(), why=why)


def user() -> str:
    """Who runs this command, as far as the host knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def progress_bar() -> Progress:
    """A progress bar on standard error that goes when the work is done; nothing where that is no terminal."""
    return Progress(console=errors, transient=True, disable=not errors.is_terminal)


def download(settings: Settings) -> Path:
    """The dataset's folder in the cache, downloaded if it is not there yet."""
    from quintain.tasks.hub import download as fetch

    with errors.status("downloading the dataset"):
        return fetch(cache_of(settings) / "datasets", settings.data_revision or "main")


def assembly(settings: Settings) -> "Assembly":
    """How the rooms are put together under these settings."""
    from quintain.episodes.assembly import Assembly

    return Assembly(
        cache=cache_of(settings),
        accepted=settings.isolation,
        python=settings.runtime_python,
        immortal_heap=settings.immortal_heap,
        warm_after=settings.warm_after,
        max_templates=settings.max_templates,
        max_starting=settings.max_starting,
        max_queued=settings.max_queued,
        queue_timeout_s=settings.queue_timeout_s,
        min_free_memory_bytes=settings.min_free_memory_bytes,
        start_timeout_s=settings.ready_timeout_s,
        restart_timeout_s=settings.retry_ready_timeout_s,
        verify_timeout_s=settings.verify_timeout_s,
        judge=judge(settings),
        scratch=settings.scratch_dir,
    )


def judge(settings: Settings) -> "JudgeSettings":
    """The judge that the settings name.

    Raises:
        UsageError: a value is unusable.
    """
    from quintain.verifiers import JudgeSettings

    key = settings.llm_api_key
    return JudgeSettings.read(
        base_url=settings.llm_base_url, api_key=key and key.get_secret_value(), model=settings.llm_model
    )


@asynccontextmanager
async def rooms_of(settings: Settings) -> AsyncIterator["Rooms"]:
    """The rooms for commands that play episodes themselves."""
    from quintain.episodes.assembly import open_rooms

    with open_source(settings) as source:
        async with open_rooms(source, assembly(settings)) as rooms:
            tell_shortfall(rooms)
            yield rooms


def tell_shortfall(rooms: "Rooms") -> None:
    """Say on standard error where isolation is weaker than the strongest, and why: one line."""
    if rooms.shortfall:
        level = rooms.provider.level
        typer.echo(f"quintain: isolation is {level}; {printable(rooms.shortfall)}; see `quintain doctor`", err=True)


def run(main: Coroutine[Any, Any, Made]) -> Made:
    """Run a command's coroutine on the event loop the server uses too."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def name_column(title: str) -> Column:
    """A table column whose entries are names: never broken over lines."""
    return Column(title, no_wrap=True, overflow="fold")


def plain(text: str, style: str = "") -> Text:
    """Text that others may have written, as it is: no markup in it counts and no terminal obeys it."""
    return Text(printable(text), style)


def print_json(value: Any) -> None:
    """One JSON document on a line of its own, in ASCII."""
    typer.echo(json.dumps(value))
