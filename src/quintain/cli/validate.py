"""`quintain validate`: prove by replay that a dataset's tasks are sound, and keep a list of those that are not."""

import os
import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from quintain.cli import options
from quintain.contracts.identity import MAX_SEED
from quintain.episodes.base import Rooms
from quintain.episodes.validation import (
    Extent,
    ScenarioResult,
    Status,
    TaskResult,
    ValidationReport,
    quarantine_entries,
    validate,
)
from quintain.errors import SettingsError, UnknownTaskError
from quintain.server.settings import Settings
from quintain.tasks import is_pack, normalised
from quintain.tasks.quarantine import Entry, Place, QuarantineList
from quintain.tasks.quarantine_file import format_of, read_quarantine, replace_file, update_quarantine

MAX_SEEDS = 1000

_COLOURS = {Status.SOUND: "green", Status.UNPROVEN: "yellow", Status.UNDECIDED: "magenta", Status.UNSOUND: "red"}


def validate_command(
    names: Annotated[
        list[str] | None, typer.Argument(help="Packs, by name or folder, and scenarios; all if none is named.")
    ] = None,
    awm_data: options.AwmData = None,
    pack: options.Packs = None,
    task: Annotated[
        list[int] | None, typer.Option(min=0, help="Only the task of this index, in each scenario; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="The first seed that tasks are played with.")] = 0,
    seeds: Annotated[
        int, typer.Option(min=1, max=MAX_SEEDS, help="With how many seeds each task is played.")
    ] = Extent.seeds,
    random: Annotated[
        int,
        typer.Option(
            min=0,
            help="How many attempts each task must withstand: random calls, and its solution spoilt. None of them may "
            "be complete, unless it ends as the solution does.",
        ),
    ] = Extent.random,
    repeats: Annotated[
        int, typer.Option(min=1, help="How often each verifier is run anew on the same states.")
    ] = Extent.repeats,
    at_once: Annotated[int, typer.Option(min=1, help="Scenarios validated at a time.")] = Extent.at_once,
    report: Annotated[Path | None, typer.Option(help="File to write the report to, as --json prints it.")] = None,
    quarantine: Annotated[
        Path | None,
        typer.Option(help="Quarantine list (.yaml or .json) to put unsound tasks on; it is made if it is not there."),
    ] = None,
    release: Annotated[
        bool, typer.Option("--release", help="Take tasks that pass now off that list. Those put there by hand stay.")
    ] = False,
    isolation: options.Isolation = None,
    as_json: options.AsJson = False,
) -> None:
    """Prove by replay that tasks are sound. Exits with 1 if any is not, or if the platform failed."""
    _refuse_what_cannot_be_written(report, quarantine, release)
    if seed + seeds - 1 > MAX_SEED:
        raise SettingsError(f"--seed {seed} and the {seeds - 1} after it are over {MAX_SEED}, the last seed there is")
    named = names or []
    packs = [name for name in named if is_pack(name)]
    every = (*(pack or ()), *packs) or None
    settings = options.settings_with(data_dir=awm_data, packs=every, isolation=isolation, warm_after=0)
    extent = Extent(frozenset(task) if task else None, repeats, seed, seeds, random, at_once)
    made = options.run(_validated(settings, [name for name in named if name not in packs], extent))
    if report is not None:
        _write_report(report, made)
    if as_json:
        options.print_json(made.model_dump(mode="json"))
    else:
        _print(made)
    if quarantine is not None:
        _keep(quarantine, made, release)
    if not made.passed:
        raise typer.Exit(1)


def _refuse_what_cannot_be_written(report: Path | None, quarantine: Path | None, release: bool) -> None:
    """Before an hour of work, not after it."""
    if release and quarantine is None:
        raise SettingsError("--release takes tasks off a quarantine list; name the list with --quarantine")
    for path in filter(None, (report, quarantine)):
        if not os.access(path.resolve().parent, os.W_OK | os.X_OK):
            raise SettingsError(f"{path} cannot be written: {path.resolve().parent} is no folder to write in")
    if quarantine is not None:
        format_of(quarantine)
        if quarantine.exists():
            read_quarantine(quarantine)


async def _validated(settings: Settings, names: list[str], extent: Extent) -> ValidationReport:
    started, began = datetime.now(UTC), time.monotonic()
    results: list[ScenarioResult] = []
    async with options.rooms_of(settings) as rooms:
        chosen = _chosen(rooms, names, extent)
        with options.progress_bar() as progress:
            bar = progress.add_task("validating", total=len(chosen))
            async for result in validate(rooms, chosen, extent):
                results.append(result)
                progress.advance(bar)
        level, source = rooms.provider.level, rooms.source
        of = {normalised(name): source.dataset_of(name) for name in chosen}
        return ValidationReport(
            dataset_digest=source.dataset_digest,
            datasets={name: digest for name, digest in of.items() if digest != source.dataset_digest},
            versions={**rooms.versions, "isolation": str(level)},
            started_at=started,
            duration_s=time.monotonic() - began,
            seed=extent.seed,
            seeds=extent.seeds,
            repeats=extent.repeats,
            random=extent.random,
            scenarios=tuple(results),
        )


def _chosen(rooms: Rooms, names: list[str], extent: Extent) -> list[str]:
    """The scenarios to validate; those named must have every task asked for, of the others those that do."""
    if names:
        chosen = list(dict.fromkeys(_named(rooms, name) for name in names))
        for name in chosen:
            for index in extent.tasks or ():
                rooms.source.task(name, index)
        return chosen
    wanted = extent.tasks
    every = rooms.source.scenarios()
    found = [one.name for one in every if wanted is None or any(index < len(one.tasks) for index in wanted)]
    if not found and every:
        most = max(len(one.tasks) for one in every)
        has = f"the one with most has tasks 0 to {most - 1}" if most else "none has any"
        raise UnknownTaskError(f"no scenario has a task {', '.join(map(str, sorted(wanted or ())))}; {has}")
    return found


def _named(rooms: Rooms, name: str) -> str:
    """A scenario's own name.

    Raises:
        UnknownTaskError: there is none of that name, and no pack either.
    """
    try:
        return rooms.source.scenario(name).name
    except UnknownTaskError as error:
        folder = (
            "the folder of that name is no pack" if Path(name).is_dir() else "there is no folder of that name either"
        )
        raise UnknownTaskError(f"{error}; {folder}") from error


def _write_report(path: Path, made: ValidationReport) -> None:
    try:
        replace_file(path.resolve(), (made.model_dump_json(indent=2) + "\n").encode())
    except OSError as error:
        raise SettingsError(f"the report cannot be written to {path}: {error.strerror or error}") from error


def _keep(path: Path, made: ValidationReport, release: bool) -> None:
    entries, cleared = quarantine_entries(made)
    before = len(read_quarantine(path).entries) if path.exists() else 0
    after = update_quarantine(path, lambda known: _merged(known, made, entries, cleared, release))
    typer.echo(f"quintain: {path} holds {len(after.entries)} entries; it held {before}", err=True)


def _merged(
    known: QuarantineList, made: ValidationReport, entries: Sequence[Entry], cleared: Collection[Place], release: bool
) -> QuarantineList:
    for digest in dict.fromkeys((made.dataset_digest, *made.datasets.values())):
        of = {place for place in cleared if made.datasets.get(place[0], made.dataset_digest) == digest}
        found = [entry for entry in entries if entry.dataset_digest == digest]
        known = known.merged(found, digest, of, release=release)
    return known


def _print(made: ValidationReport) -> None:
    table = Table(options.name_column("scenario"), box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for name in ("tools", "warm", "boot ms", "bad data", "no-op", "solved", *(["others"] if made.random else [])):
        table.add_column(name, no_wrap=" " not in name)
    table.add_column("verdict", no_wrap=True)
    for result in made.scenarios:
        table.add_row(*_row(result, made))
    options.console.print(table)
    for result in made.scenarios:
        _print_problems(result.scenario, result)
        for task in result.tasks:
            _print_problems(f"{result.scenario} task {task.task_idx}", task)
    options.console.print("bad data: rows missing or unreadable, SQL that fails, foreign keys that lead nowhere")
    if made.random:
        options.console.print("others: attempts that are not the solution; those that end as it does are not counted")
        if notes := sum(len(task.notes) for one in made.scenarios for task in one.tasks):
            options.console.print(
                f"solutions have {notes} calls without which they are complete too; --json names them"
            )
    told = ", ".join(f"{made.counts[status]} {status}" for status in Status if made.counts[status])
    passed = sum(one.status in (Status.SOUND, Status.UNPROVEN) for one in made.scenarios)
    by = "" if made.seeds == 1 else f", each with {made.seeds} seeds"
    options.console.print(f"{passed} of {len(made.scenarios)} scenarios pass; tasks: {told or 'none'}{by}")


def _row(result: ScenarioResult, made: ValidationReport) -> list[str | Text]:
    noops = [one for task in result.tasks if "verifier" not in task.missing for one in task.seeds]
    solved = [one for task in result.tasks if not task.missing for one in task.seeds]
    trials = [task.trials for task in result.tasks if task.trials is not None]
    others = sum(one.tried - one.alike for one in trials)
    row: list[str | Text] = [
        options.plain(result.scenario),
        str(result.tools) if result.boots else "[red]does not boot[/]",
        "yes" if result.warm else "no",
        f"{result.boot_ms:.0f}",
        str(result.failed_statements + result.foreign_key_violations + result.data_problems),
        f"{sum(one.noop not in ('complete', None) for one in noops)}/{len(noops)}",
        f"{sum(one.solution == 'complete' for one in solved)}/{len(solved)}",
    ]
    if made.random:
        row.append(f"{others - sum(one.complete for one in trials)}/{others}")
    return [*row, f"[{_COLOURS[result.status]}]{result.status}[/]"]


def _print_problems(where: str, result: ScenarioResult | TaskResult) -> None:
    problems = [(f"{finding.reason}: {finding.detail}", "red") for finding in result.findings]
    problems += [(f"undecided: {result.obstacle}", "red")] if result.obstacle is not None else []
    problems += [(f"warning: {one}", "yellow") for one in result.warnings]
    for problem, colour in problems:
        shown = options.plain(where, colour).append(": ", "default").append(options.plain(problem, "default"))
        options.console.print(shown, soft_wrap=True)
