"""`quintain reverify`: score stored episodes with the verifiers that their tasks have now."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress
from rich.table import Table

from quintain.cli import options
from quintain.cli.recorded import AtOnce, Given, Ledger, Names, RunDirs, StorePath, Where, ledger_of
from quintain.contracts.untrusted import printable
from quintain.errors import UsageError
from quintain.server.settings import Settings

if TYPE_CHECKING:
    from quintain.episodes.recorded import Recorded
    from quintain.episodes.reverify import Reverified


class Mode(StrEnum):
    """How a verdict is reached."""

    CODE = "code"
    SQL = "sql"
    HYBRID = "hybrid"


Everything = Annotated[bool, typer.Option("--all", help="Every try of the store.")]
ModeOption = Annotated[Mode, typer.Option("--mode", help="How the verdict is reached; sql and hybrid ask a judge.")]


def reverify(
    records: Names = None,
    everything: Everything = False,
    where: Where = None,
    run_dir: RunDirs = None,
    mode: ModeOption = Mode.CODE,
    store: StorePath = None,
    ledger: Ledger = None,
    awm_data: options.AwmData = None,
    pack: options.Packs = None,
    isolation: options.Isolation = None,
    concurrency: AtOnce = 4,
    as_json: options.AsJson = False,
) -> None:
    """Verify stored episodes, by their kept states, with the verifiers that their tasks have now; old scores stay."""
    if everything and where is not None:
        raise UsageError("--all and --where cannot both be; leave one out")
    settings = options.settings_with(data_dir=awm_data, packs=pack, isolation=isolation)
    given = Given(tuple(records or ()), tuple(run_dir or ()), "true" if everything else where, store, ledger)
    with given.opened() as (recorded, known), options.progress_bar() as progress:
        working = _reverified(settings, ledger_of(ledger), mode, recorded, known, concurrency, as_json, progress)
        done = options.run(working)
    outcomes = Counter(one.outcome.value for one in done)
    agreement = Counter((one.old or "none", one.new or "none") for one in done if one.outcome != "skipped")
    if as_json:
        told = [{"old": old, "new": new, "records": number} for (old, new), number in sorted(agreement.items())]
        options.print_json({"event": "summary", "records": len(done), **outcomes, "agreement": told})
        return
    words = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items())) or "none"
    typer.echo(f"{len(done)} records: {words}")
    if agreement:
        table = Table("old verdict", "new verdict", "records", "")
        for (old, new), number in sorted(agreement.items()):
            table.add_row(old, new, str(number), "" if "none" in (old, new) else "agree" if old == new else "differ")
        options.console.print(table)


async def _reverified(
    settings: Settings,
    ledger: str,
    mode: Mode,
    recorded: "Iterator[Recorded]",
    known: int | None,
    concurrency: int,
    as_json: bool,
    progress: Progress,
) -> "list[Reverified]":
    from quintain.episodes.assembly import open_rooms
    from quintain.episodes.recorded import each
    from quintain.episodes.reverify import Reverifier

    done: list[Reverified] = []
    assembly = replace(options.assembly(settings), ledger=ledger)
    with options.open_source(settings) as source:
        async with open_rooms(source, assembly) as rooms:
            options.tell_shortfall(rooms)
            bar = progress.add_task("verifying", total=known)
            async for one in each(recorded, Reverifier(rooms, mode.value).reverify, concurrency):
                done.append(one)
                progress.update(bar, completed=len(done))
                if as_json:
                    options.print_json({"event": "reverified", **one.model_dump(mode="json")})
                else:
                    _print(one)
    return done


def _print(one: "Reverified") -> None:
    where = one.scenario if one.task_idx is None else f"{one.scenario}/{one.task_idx}"
    verdicts = f"{one.old or 'none'} ({one.old_word}) -> {one.new or 'none'} ({one.new_word})"
    why = f"; {one.why}" if one.why else ""
    told = f"{one.record[:23]} {where}: {one.outcome}, {verdicts}, reward {one.reward}{why}"
    if one.outcome == "skipped":
        told = f"{one.record[:23]} {where}: skipped{why}"
    typer.echo(printable(told))
