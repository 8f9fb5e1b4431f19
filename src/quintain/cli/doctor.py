"""`quintain doctor`: what this host can isolate, and why not more."""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from quintain.cli import options
from quintain.sandboxes.doctor import HostReport, LevelReport, default_accepted_level, examine


def doctor(
    as_json: options.AsJson = False,
    isolation: Annotated[
        str | None, typer.Option("--require", help="Exit with 1 unless this level is reached: full or reduced.")
    ] = None,
) -> None:
    """Try every isolation level on this host, with the conformance suite, and say what holds."""
    settings = options.settings_with()
    if isolation is not None and isolation not in ("full", "reduced"):
        raise typer.BadParameter(f"{isolation!r} is no level; say full or reduced")
    with options.errors.status("starting sandboxes and trying what they let through"):
        report = options.run(examine(options.cache_of(settings) / "runtimes"))
    if as_json:
        options.print_json(_document(report))
    else:
        _print(report)
    required = isolation or str(settings.isolation or default_accepted_level())
    reached = {"none": 0, "reduced": 1, "full": 2}
    if reached[str(report.level)] < reached[required]:
        raise typer.Exit(1)


def _document(report: HostReport) -> dict[str, Any]:
    return {
        "level": str(report.level),
        "lost": report.lost,
        "facts": report.facts,
        "levels": [
            {
                "level": str(level.level),
                "reached": level.reached,
                "obstacle": level.obstacle,
                "checks": [asdict(check) for check in level.checks],
            }
            for level in report.levels
        ],
        "interpreters": [
            {"executable": str(one.executable), "version": str(one), "sqlite": one.sqlite_version}
            for one in report.interpreters
        ],
    }


def _print(report: HostReport) -> None:
    facts = Table("this host", "", box=None)
    for name, value in report.facts.items():
        facts.add_row(name, options.plain(value))
    for one in report.interpreters:
        facts.add_row("interpreter for class runtimes", f"Python {one}, SQLite {one.sqlite_version}")
    options.console.print(facts)
    for level in report.levels:
        _print_level(level)
    options.console.print(f"\nisolation level reached: [bold]{report.level}[/]")
    for sentence in report.lost:
        options.console.print(options.plain(f"  not given here: {sentence}"))


def _print_level(level: LevelReport) -> None:
    table = Table("", "area", "what must hold", title=f"level {level.level}", title_justify="left")
    for check in level.checks:
        mark = "[green]holds[/]" if check.holds else "[red]broken[/]"
        meaning = options.plain(check.meaning)
        table.add_row(
            mark, check.area, meaning if check.holds else meaning.append(options.plain(f"\n{check.problem}", "red"))
        )
    options.console.print(table)
    if level.obstacle:
        said = options.plain(f"no sandbox at level {level.level}: ", "red")
        options.console.print(said.append(options.plain(level.obstacle, "default")))
