"""`quintain tasks`: the task registry; what may be trained on, what is held out, and who changed that."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from quintain.cli import options
from quintain.errors import PoolError
from quintain.tasks import TaskSource, UnitedSource
from quintain.tasks.manifest import PoolManifest
from quintain.tasks.pools import Pool, read_task, task_id
from quintain.tasks.registry import ImportReport, TaskRegistry

app = typer.Typer(
    help="Import tasks into pools, look at pools, and move tasks between them.",
    no_args_is_help=True,
    add_completion=False,
)

Registry = Annotated[
    Path | None,
    typer.Option("--registry", help="The registry's folder. Default: $QUINTAIN_REGISTRY, or the user's own."),
]
By = Annotated[
    str | None, typer.Option("--by", help="Who does it, for the journal. Default: the name of the logged-in user.")
]
Why = Annotated[str, typer.Option("--why", help="The reason, for the journal.")]
Milestone = Annotated[
    str | None, typer.Option("--milestone", help="What blind tasks are opened for. It is counted and logged.")
]
Revise = Annotated[bool, typer.Option("--revise", help="Change a frozen pool on purpose; --why must say why.")]

_DIGEST_SHOWN = 19


@app.command("import")
def import_tasks(
    names: Annotated[list[str] | None, typer.Argument(help="Scenarios; all if none is named.")] = None,
    pool: Annotated[Pool, typer.Option(help="Pool for new tasks; known ones stay where they are.")] = Pool.TRAIN,
    awm_data: options.AwmData = None,
    pack: options.Packs = None,
    registry: Registry = None,
    by: By = None,
    why: Why = "",
    revise: Revise = False,
    as_json: options.AsJson = False,
) -> None:
    """Read the tasks of datasets and packs into the registry, which is made at the first import."""
    settings = options.settings_with(data_dir=awm_data, packs=pack, registry_dir=registry)
    with options.open_source(settings) as source, options.progress_bar() as progress:
        bar = progress.add_task("reading tasks", total=None)
        kept = TaskRegistry.create(settings.registry_dir)
        reports = [
            kept.import_tasks(
                part,
                pool,
                by=options.user() if by is None else by,
                why=why,
                scenarios=of,
                revise=revise,
                progress=lambda done, total: progress.update(bar, completed=done, total=total),
            )
            for part, of in _parts(source, names)
        ]
    report = _joined(reports)
    _tell_repairs(kept)
    if as_json:
        options.print_json(_import_document(report, pool))
        return
    changed, absent = len(report.changed), len(report.absent)
    options.console.print(f"{len(report.added)} new in {pool}, {changed} changed, {report.unchanged} as they were")
    for task, parts in report.changed.items():
        options.console.print(options.plain(f"{task}: other {', '.join(parts)}", "yellow"))
    if absent:
        options.console.print(options.plain(f"no longer in this dataset: {', '.join(report.absent)}", "yellow"))
    for one in report.unusable:
        options.console.print(options.plain(f"{one.task} was not imported: {one.why}", "red"))


@app.command("list")
def list_tasks(
    pool: Annotated[list[Pool] | None, typer.Option(help="Only this pool; may be repeated.")] = None,
    version: Annotated[int | None, typer.Option(min=1, help="An older version of the one pool that is named.")] = None,
    milestone: Milestone = None,
    registry: Registry = None,
    by: By = None,
    why: Why = "",
    as_json: options.AsJson = False,
) -> None:
    """List the tasks of pools. Blind ones only if that pool is named, and a milestone: this opens it."""
    kept = _open(registry)
    chosen = pool or [Pool.TRAIN, Pool.DEV, Pool.REGRESSION]
    if version is not None and (len(chosen) != 1 or chosen == [Pool.BLIND]):
        raise PoolError("--version is about one pool that is not blind; name it with --pool")
    manifests = [_manifest(kept, one, version, milestone, by, why) for one in dict.fromkeys(chosen)]
    _tell_repairs(kept)
    if as_json:
        options.print_json([one.model_dump(mode="json") | {"digest": one.digest} for one in manifests])
        return
    table = Table("pool", options.name_column("task"), options.name_column("digest"))
    for manifest in manifests:
        for entry in manifest.entries:
            table.add_row(manifest.pool, options.plain(entry.task), _short(entry.digest))
    options.console.print(table)
    options.console.print(f"{sum(len(one.entries) for one in manifests)} tasks")


@app.command("show")
def show_task(
    task: Annotated[str, typer.Argument(help="A task, as SCENARIO/INDEX.")],
    milestone: Milestone = None,
    registry: Registry = None,
    by: By = None,
    why: Why = "",
    as_json: options.AsJson = False,
) -> None:
    """Show a task: its pool, its digests, where it came from and all that happened to it."""
    kept = _open(registry)
    (name,) = _named([task], kept, whole=False)
    provenance, imported = kept.provenance(name)
    pool = kept.pool_of(name)
    assert pool is not None  # it has provenance
    entry = _manifest(kept, pool, None, milestone, by, why).by_task[name]
    trail = [step.model_dump(mode="json") for step in kept.trail(name)]
    _tell_repairs(kept)
    document = entry.model_dump(mode="json") | {
        "pool": pool.value,
        "provenance": provenance.model_dump(mode="json")
        | {"imported_at": imported.model_dump(mode="json")["at"], "imported_by": imported.by},
        "trail": trail,
    }
    if as_json:
        options.print_json(document)
        return
    facts = Table("", options.name_column(""), show_header=False)
    shown = {key: value for key, value in document.items() if key not in ("provenance", "trail", "scenario")}
    for key, value in (shown | document["provenance"]).items():
        facts.add_row(key, options.plain("" if value is None else str(value)))
    steps = Table("when", "by", "what", "from", "to", "why")
    for step in trail:
        row = (step["at"], step["by"], step["kind"], step["source"] or "", step["target"], step["why"])
        steps.add_row(*(options.plain(cell) for cell in row))
    options.console.print(facts, steps)


@app.command("pools")
def show_pools(registry: Registry = None, as_json: options.AsJson = False) -> None:
    """Show the pools: how many tasks, which version of the manifest, and every opening of the blind pool."""
    kept = _open(registry)
    kept.check()
    openings = [record.model_dump(mode="json") for record in kept.openings]
    if as_json:
        pools = [
            {
                "pool": pool.value,
                "tasks": len(kept.tasks(pool)),
                "versions": [one.model_dump(mode="json") for one in kept.versions(pool)],
            }
            for pool in Pool
        ]
        options.print_json({"pools": pools, "frozen": kept.frozen, "openings": openings})
        return
    table = Table("pool", "tasks", "version", "", options.name_column("manifest"))
    for pool in Pool:
        versions = kept.versions(pool)
        digest = _short(versions[-1].manifest) if versions else ""
        state = "frozen" if pool is Pool.REGRESSION and kept.frozen else ""
        table.add_row(pool, str(len(kept.tasks(pool))), str(len(versions)), state, digest)
    options.console.print(table)
    options.console.print(f"blind was opened {len(openings)} times")
    for one in openings:
        line = f"{one['at']} by {one['by']} for {one['event']['milestone']}"
        options.console.print(options.plain(f"{line}: {one['why']}" if one["why"] else line))


@app.command("move")
def move_tasks(
    tasks: Annotated[list[str], typer.Argument(help="Tasks as SCENARIO/INDEX, or SCENARIO for all of its tasks.")],
    to: Annotated[Pool, typer.Option("--to", help="The pool they move to.")],
    why: Annotated[str, typer.Option("--why", help="The reason, for the journal.")],
    milestone: Milestone = None,
    revise: Revise = False,
    registry: Registry = None,
    by: By = None,
    as_json: options.AsJson = False,
) -> None:
    """Move tasks to another pool, all or none. From dev to train there is no way back."""
    kept = _open(registry)
    moving = _named(tasks, kept)
    record = kept.move(moving, to, by=options.user() if by is None else by, why=why, milestone=milestone, revise=revise)
    _tell_repairs(kept)
    if as_json:
        options.print_json(record.model_dump(mode="json"))
        return
    versions = ", ".join(f"{pool} is at version {new.version}" for pool, new in record.versions.items())
    options.console.print(f"{len(moving)} tasks moved to {to}; {versions}")


@app.command("freeze")
def freeze(registry: Registry = None, by: By = None, why: Why = "", as_json: options.AsJson = False) -> None:
    """Freeze the regression pool as it is. From then on, changing it takes --revise and a reason."""
    kept = _open(registry)
    manifest = kept.freeze(by=options.user() if by is None else by, why=why)
    _tell_repairs(kept)
    version = len(kept.versions(Pool.REGRESSION))
    if as_json:
        options.print_json({"version": version, "manifest": manifest.digest, "tasks": len(manifest.entries)})
    else:
        options.console.print(f"regression is frozen at version {version}: {len(manifest.entries)} tasks")


def _open(registry: Path | None) -> TaskRegistry:
    return TaskRegistry.open(options.settings_with(registry_dir=registry).registry_dir)


def _manifest(
    kept: TaskRegistry, pool: Pool, version: int | None, milestone: str | None, by: str | None, why: str
) -> PoolManifest:
    if pool is not Pool.BLIND:
        return kept.manifest(pool, version)
    if milestone is None:
        raise PoolError("what is asked for is blind; showing it opens the pool: state the --milestone it is for")
    return kept.open_blind(milestone=milestone, by=options.user() if by is None else by, why=why)


def _named(written: Iterable[str], kept: TaskRegistry, *, whole: bool = True) -> list[str]:
    """Ids of the tasks that people wrote, whole scenarios spelt out.

    Raises:
        PoolError: one names no task, or a scenario of which none is registered.
    """
    found: list[str] = []
    every = [task for pool in Pool for task in kept.tasks(pool)]
    for one in written:
        scenario, index = read_task(one)
        if index is not None:
            found.append(task_id(scenario, index))
            continue
        if not whole:
            raise PoolError(f"{one[:200]!r} names no task; write SCENARIO/INDEX")
        held = [task for task in every if task.rpartition("/")[0] == scenario]
        if not held:
            raise PoolError(f"no task of {scenario} is registered; import its dataset, or see which there are")
        found += held
    return list(dict.fromkeys(found))


def _parts(source: TaskSource, names: list[str] | None) -> list[tuple[TaskSource, list[str] | None]]:
    """The sources that were united, each with those of the scenarios named that it has; None for all of them.

    Raises:
        UnknownTaskError: a scenario is in none.
    """
    if not isinstance(source, UnitedSource):
        return [(source, names or None)]
    if not names:
        return [(part, None) for part in source.parts]
    holders = [(source.part_of(name), name) for name in names]
    found = [(part, [name for holder, name in holders if holder is part]) for part in source.parts]
    return [(part, of) for part, of in found if of]


def _joined(reports: list[ImportReport]) -> ImportReport:
    records = [one.record for one in reports if one.record is not None]
    return ImportReport(
        record=records[-1] if records else None,
        added=tuple(task for one in reports for task in one.added),
        changed={task: parts for one in reports for task, parts in one.changed.items()},
        unchanged=sum(one.unchanged for one in reports),
        absent=tuple(task for one in reports for task in one.absent),
        unusable=tuple(task for one in reports for task in one.unusable),
    )


def _import_document(report: ImportReport, pool: Pool) -> dict[str, Any]:
    return {
        "pool": pool.value,
        "added": list(report.added),
        "changed": {task: list(parts) for task, parts in report.changed.items()},
        "unchanged": report.unchanged,
        "absent": list(report.absent),
        "unusable": [{"task": one.task, "why": one.why} for one in report.unusable],
        "sequence": report.record.sequence if report.record is not None else None,
    }


def _tell_repairs(kept: TaskRegistry) -> None:
    for repair in kept.repaired:
        typer.echo(f"quintain: {repair}", err=True)


def _short(digest: str) -> str:
    return digest[:_DIGEST_SHOWN]
