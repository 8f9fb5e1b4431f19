"""`quintain import`: task suites that others wrote, made into packs."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from quintain.cli import options
from quintain.episodes.assembly import Assembly, open_rooms
from quintain.episodes.base import Rooms
from quintain.episodes.plainly import play
from quintain.errors import DatasetError
from quintain.tasks import PackSource
from quintain.tasks.importers import BfclPack, BfclPackage, Category, read_entries
from quintain.tasks.importers.bfcl_pack import BfclEnvironment, reference_calls, start_of

app = typer.Typer(help="Make packs of task suites that others wrote.", no_args_is_help=True, add_completion=False)


@app.callback()
def _group() -> None:
    """Keeps the commands' names, however many there are."""


@app.command("bfcl")
def import_bfcl(
    into: Annotated[Path, typer.Option("--into", help="The pack's folder, which must not be there yet.")],
    package: Annotated[
        Path | None,
        typer.Option("--from", help="Folder of the package bfcl-eval, unpacked. Default: as it is installed here."),
    ] = None,
    category: Annotated[
        list[Category] | None, typer.Option("--category", help="May be repeated. Default: all four.")
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option("--task", help="Only the entry of this id, as multi_turn_base_0; may be repeated."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Import the multi-turn categories of the Berkeley Function Calling Leaderboard.

    What a task's reference comes to is computed by playing it in a sandbox.
    """
    found = BfclPackage.at(package)
    only = None if task is None else frozenset(task)
    entries = [entry for one in category or list(Category) for entry in read_entries(found, one, only)]
    if only is not None and (missing := sorted(only - {entry.name for entry in entries})):
        raise DatasetError(f"there is no entry {missing[0]!r} in the categories named; correct the id")
    settings = options.settings_with()
    pack = BfclPack(found, entries)
    options.run(written(pack, into, options.assembly(settings)))
    told = {"folder": str(into), "environments": len(pack.environments), "tasks": len(entries)}
    if as_json:
        options.print_json(told)
    else:
        options.console.print(f"{told['tasks']} tasks of {told['environments']} environments in {into}", soft_wrap=True)


async def written(pack: BfclPack, into: Path, assembly: Assembly) -> None:
    """Write a pack, with what its references come to on this host; nothing of it is left where that fails."""
    pack.write(into)
    try:
        with PackSource.open(into) as source, options.progress_bar() as progress:
            bar = progress.add_task("playing references", total=sum(len(one.entries) for one in pack.environments))
            async with open_rooms(source, assembly) as rooms:
                options.tell_shortfall(rooms)
                for one in pack.environments:
                    pack.expect(into, one, await _played(rooms, one, lambda: progress.advance(bar)))
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)
        raise


async def _played(rooms: Rooms, one: BfclEnvironment, advance: Callable[[], None]) -> list[dict[str, Any]]:
    """The final states of the references, played with nothing withheld."""
    source, states = rooms.source, []
    scenario = source.scenario(one.folder)
    digest = source.payload_digest(scenario.name)
    prepared = await rooms.kind(scenario.kind).prepare(digest, lambda: source.payload(scenario.name))
    for entry in one.entries:
        start = start_of(entry, withhold=False)
        states.append((await play(prepared, start, reference_calls(entry), scratch=rooms.scratch)).state)
        advance()
    return states
