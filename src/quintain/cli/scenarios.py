"""`quintain scenarios`: what a dataset holds."""

from typing import Annotated

import typer
from rich.table import Table

from quintain.cli import options

app = typer.Typer(
    help="List scenarios, show one, or download the published dataset.", no_args_is_help=True, add_completion=False
)
Name = Annotated[str, typer.Argument(help="A scenario's name, in any spelling.")]


@app.command("list")
def list_scenarios(
    awm_data: options.AwmData = None, pack: options.Packs = None, as_json: options.AsJson = False
) -> None:
    """List every scenario with its kind of environment and its number of tasks and verifiers."""
    with options.open_source(options.settings_with(data_dir=awm_data, packs=pack)) as source:
        kinds = {scenario.name: scenario.kind for scenario in source.scenarios()}
        reports = [source.report(name) for name in kinds]
        if as_json:
            options.print_json(
                [report.model_dump(mode="json") | {"kind": kinds[report.scenario]} for report in reports]
            )
            return
        counts = ("tasks", "code verifiers", "sql verifiers", "solutions", "bad rows")
        table = Table(options.name_column("scenario"), options.name_column("kind"), *counts)
        for report in reports:
            table.add_row(
                options.plain(report.scenario),
                options.plain(kinds[report.scenario]),
                str(report.tasks),
                str(report.verifiers.get("code", 0)),
                str(report.verifiers.get("sql", 0)),
                str(report.solutions),
                str(len(report.problems)),
            )
        options.console.print(table)
        options.console.print(f"{len(reports)} scenarios, dataset {source.dataset_digest}")
        for problem in source.problems:
            options.console.print(options.plain(str(problem), "yellow"))


@app.command("download")
def download_dataset(as_json: options.AsJson = False) -> None:
    """Download the published dataset into the cache, at the revision set, and print its folder."""
    folder = options.download(options.settings_with())
    if as_json:
        options.print_json({"folder": str(folder)})
    else:
        typer.echo(folder)


@app.command("show")
def show_scenario(
    name: Name,
    awm_data: options.AwmData = None,
    pack: options.Packs = None,
    milestone: options.Milestone = None,
    as_json: options.AsJson = False,
) -> None:
    """Show one scenario: its description, its tasks, and what is wrong with its data.

    Where a seed varies a task, its text is shown as it is for all seeds, with `${...}` for what is filled in.
    """
    settings = options.settings_with(data_dir=awm_data, packs=pack)
    with options.open_source(settings) as source:
        scenario = source.scenario(name)
        tasks = [(scenario.name, index) for index in range(len(scenario.tasks))]
        options.open_blind(settings, tasks, milestone, "shown")
        report = source.report(scenario.name)
        refs = [source.task(scenario.name, index) for index in range(len(scenario.tasks))]
        if as_json:
            about = [{"difficulty": ref.difficulty, "tags": list(ref.tags)} for ref in refs]
            shown = scenario.model_dump(mode="json") | {"task_labels": about, "report": report.model_dump(mode="json")}
            options.print_json(shown)
            return
        options.console.print(options.plain(f"{scenario.name} ({scenario.kind})", "bold"))
        options.console.print(options.plain(f"{scenario.description}\n"))
        labelled = any(ref.difficulty or ref.tags for ref in refs)
        table = Table("", "task", *(("difficulty", "tags") if labelled else ()), "verifiers", "solution")
        for index, (task, ref) in enumerate(zip(scenario.tasks, refs, strict=True)):
            labels = (str(ref.difficulty or ""), options.plain(", ".join(ref.tags))) if labelled else ()
            solved = "yes" if source.solution(scenario.name, index) else ""
            table.add_row(str(index), options.plain(task), *labels, ", ".join(ref.verifiers), solved)
        options.console.print(table)
        for problem in report.problems:
            options.console.print(options.plain(str(problem), "yellow"))
