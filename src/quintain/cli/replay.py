"""`quintain replay`: play recorded episodes again, and tell the first difference."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress

from quintain.cli import options
from quintain.cli.recorded import AtOnce, Given, Ledger, Names, RunDirs, StorePath, Where
from quintain.contracts.untrusted import printable
from quintain.errors import UsageError
from quintain.server.settings import Settings

if TYPE_CHECKING:
    from quintain.episodes.recorded import Recorded
    from quintain.episodes.replay import Replay

Anyway = Annotated[
    bool, typer.Option("--anyway", help="Play also what this host resolves otherwise than the record has it.")
]


def replay(
    records: Names = None,
    run_dir: RunDirs = None,
    where: Where = None,
    anyway: Anyway = False,
    store: StorePath = None,
    ledger: Ledger = None,
    awm_data: options.AwmData = None,
    pack: options.Packs = None,
    isolation: options.Isolation = None,
    concurrency: AtOnce = 4,
    as_json: options.AsJson = False,
) -> None:
    """Play recorded episodes again and tell the first difference. Exits with 0 if all are identical, else with 1."""
    settings = options.settings_with(data_dir=awm_data, packs=pack, isolation=isolation)
    given = Given(tuple(records or ()), tuple(run_dir or ()), where, store, ledger)
    with given.opened() as (recorded, known), options.progress_bar() as progress:
        done = options.run(_replayed(settings, recorded, known, anyway, concurrency, as_json, progress))
    if not done:
        raise UsageError("there is no record to replay; those of a run that were ingested are in the store")
    counts: dict[str, int] = {}
    for one in done:
        counts[one.status.value] = counts.get(one.status.value, 0) + 1
    told = ", ".join(f"{number} {status}" for status, number in sorted(counts.items())) or "none"
    if as_json:
        options.print_json({"event": "summary", "records": len(done), **counts})
    else:
        typer.echo(f"{len(done)} records replayed: {told}")
    if set(counts) != {"identical"}:
        raise typer.Exit(1)


async def _replayed(
    settings: Settings,
    recorded: "Iterator[Recorded]",
    known: int | None,
    anyway: bool,
    concurrency: int,
    as_json: bool,
    progress: Progress,
) -> "list[Replay]":
    from quintain.episodes.recorded import each
    from quintain.episodes.replay import Replayer
    from quintain.records.redaction import Redactor

    key = settings.llm_api_key
    redactor = Redactor([key.get_secret_value()] if key else [])
    done: list[Replay] = []
    async with options.rooms_of(settings) as rooms:
        bar = progress.add_task("replaying", total=known)
        replayer = Replayer(rooms, redactor, anyway=anyway)
        async for one in each(recorded, replayer.replay, concurrency):
            done.append(one)
            progress.update(bar, completed=len(done))
            if as_json:
                options.print_json({"event": "replay", **one.model_dump(mode="json")})
            elif one.status != "identical" or known == 1:
                _print(one)
    return done


def _print(one: "Replay") -> None:
    name = one.record if Path(one.record).exists() else one.record[:23]
    where = one.scenario if one.task_idx is None else f"{one.scenario}/{one.task_idx}"
    typer.echo(printable(f"{name} {where} seed {one.seed}: {one.status}, {one.steps} steps, final state {one.state}"))
    for mismatch in one.mismatches:
        typer.echo(printable(f"  {mismatch.name}: {mismatch.recorded} in the record, {mismatch.here} here"))
    if one.mismatches and one.status == "mismatched":
        typer.echo("  nothing was played; --anyway plays it all the same")
    if (found := one.difference) is not None:
        place = "the final state" if found.step is None else f"step {found.step}"
        typer.echo(printable(f"  first difference: {place}, {found.field}"))
        for side, value in (("recorded", found.recorded), ("replayed", found.replayed)):
            typer.echo(printable(f"    {side}: {value}"))
    for note in one.notes:
        typer.echo(printable(f"  {note}"))
