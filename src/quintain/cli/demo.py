"""`quintain demo`: the whole loop on the shipped packs: sample, play, verify, record, store, report."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from quintain.cli import INTERRUPTED, options, run_store
from quintain.cli.run import RunWork, Worked
from quintain.errors import UsageError
from quintain.server.settings import Settings
from quintain.tasks.base import TaskSource
from quintain.tasks.shipped import AWM, open_named, shipped_packs
from quintain.tasks.united import united

if TYPE_CHECKING:
    from quintain.agents.fake_replies import Solver
    from quintain.rollout import RolloutPlan

Keep = Annotated[
    Path | None,
    typer.Option("--keep", help="Directory for the run and its store, new or empty. Default: a temporary one."),
]
Tasks = Annotated[
    int | None, typer.Option(min=1, help="Draw so many, evenly over scenarios. Default: 20 of AWM's, 10 of the yard's.")
]
Attempts = Annotated[int, typer.Option(min=1, help="Attempts of each agent at each task.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of episodes, of agents that draw, and of --tasks.")]

_NOISE: Final = (10, 40)
"""Per cent of calls at which the noisy agents err."""

_OF_AWM: Final = 20
_OF_OTHERS: Final = 10
"""How many tasks are drawn of the Agent World Model sample, and of the other packs together."""

_EXAMPLE: Final = "my-demo"


@dataclass(frozen=True)
class Reference:
    """What the reference solutions came to."""

    tasks: int
    complete_tasks: int
    attempts: int
    complete: int


def demo(
    keep: Keep = None,
    tasks: Tasks = None,
    attempts: Attempts = 4,
    seed: Seed = 0,
    as_json: options.AsJson = False,
    isolation: options.Isolation = None,
) -> None:
    """Play the shipped tasks with five agents, store every record, report. Exits with 1 if the platform failed."""
    began = time.perf_counter()
    settings = options.settings_with(isolation=isolation)
    options.cache_of(settings)
    with _folder(keep) as folder, united([partial(open_named, name) for name in shipped_packs()]) as pack:
        done = options.run(_played(settings, pack, folder, (tasks, attempts, seed)))
        if done.interrupted:
            typer.echo("quintain: interrupted", err=True)
            raise typer.Exit(INTERRUPTED)
        stored = None
        if run_store.store_is_here():
            stored = run_store.ingest(folder, [one.record_digest for one in done.outcomes.values()])
        reference, seconds = reference_of(done), time.perf_counter() - began
        faults = problems(done, reference, stored)
        if as_json:
            options.print_json(
                {
                    "report": done.report.model_dump(mode="json"),
                    "reference": asdict(reference),
                    "stored": None if stored is None else asdict(stored),
                    "kept": None if keep is None else str(keep),
                    "seconds": round(seconds, 3),
                    "problems": faults,
                }
            )
        else:
            _print(done, reference, stored, keep, seconds, settings)
    for fault in faults:
        typer.echo(f"quintain: {fault}", err=True)
    if faults:
        raise typer.Exit(1)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Where the run and its store are; gone afterwards unless it is to be kept.

    Raises:
        UsageError: it cannot be made, or there is something in it.
    """
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="quintain_demo_") as folder:
            yield Path(folder)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        filled = any(keep.iterdir())
    except OSError as error:
        raise UsageError(f"{keep} cannot be made: {error.strerror or error}; name another directory") from error
    if filled:
        raise UsageError(f"there is something in {keep}; name a directory that is new or empty")
    yield keep


async def _played(settings: Settings, pack: TaskSource, folder: Path, asked: tuple[int | None, int, int]) -> Worked:
    """Play the demo's plan in a folder, a scripted model listening at a port of this process meanwhile."""
    from quintain.agents.fake_endpoint import FakeEndpoint
    from quintain.rollout import RunDirectory

    async with FakeEndpoint(_model(pack, asked[-1])) as endpoint:
        plan = _plan(pack, endpoint.url, *asked)
        options.errors.print(
            f"{len(plan.tasks)} tasks x {len(plan.agents)} agents x {plan.attempts} attempts = {plan.size} episodes",
            soft_wrap=True,
        )
        with RunDirectory.open(folder, plan) as directory:
            return await RunWork(settings, pack).work(directory)


def _plan(pack: TaskSource, url: str, tasks: int | None, attempts: int, seed: int) -> "RolloutPlan":
    """Five agents, some of which must fail.

    Raises:
        UsageError: there are not so many tasks.
    """
    from quintain.rollout import RolloutPlan
    from quintain.rollout.plan import drawn

    if tasks is not None:
        chosen = drawn(_tasks(pack), tasks, seed)
    else:
        with open_named(AWM) as awm:
            of_awm = _tasks(awm)
        others = [one for one in _tasks(pack) if one not in of_awm]
        chosen = [*drawn(of_awm, _OF_AWM, seed), *drawn(others, _OF_OTHERS, seed)]
    noisy = [
        {
            "kind": "noisy",
            "name": f"noisy-{percent}",
            "seed": seed,
            "rates": dict.fromkeys(("wrong_tool", "wrong_argument", "early_stop", "loop"), percent / 400),
        }
        for percent in _NOISE
    ]
    document = {
        "tasks": [{"scenario": name, "task_idx": index, "seed": seed} for name, index in chosen],
        "attempts": attempts,
        "agents": [
            {"kind": "reference"},
            *noisy,
            {"kind": "random", "seed": seed},
            {"kind": "chat", "endpoint": {"base_url": url, "model": "scripted"}},
        ],
        "concurrency": min(16, 3 * (os.cpu_count() or 1)),
    }
    return RolloutPlan.checked(document, "the demo's plan")


def _tasks(pack: TaskSource) -> list[tuple[str, int]]:
    return [(one.name, index) for one in pack.scenarios() for index in range(len(one.tasks))]


def _model(pack: TaskSource, seed: int) -> "Solver":
    """A scripted model that knows the solution of every other task, and says of the rest that it does not."""
    from quintain.agents.fake_replies import Solution, Solver

    known: dict[str, Solution] = {}
    for name, index in _tasks(pack)[::2]:
        text, solution = pack.task(name, index, seed).text, pack.solution(name, index, seed)
        assert text is not None, "a shipped task has a text"
        assert solution is not None, "a shipped task has a solution"
        calls = tuple((call.name, call.arguments) for call in solution.calls)
        known[text.strip()] = Solution(calls=calls, final_answer=solution.final_answer)
    return Solver(known)


def reference_of(done: Worked) -> Reference:
    from quintain.rollout.outcome import Fate

    played = [one for one in done.outcomes.values() if one.agent == "reference"]
    failed = {(one.scenario, one.task_idx) for one in played if one.fate is not Fate.SOLVED}
    tasks = {(one.scenario, one.task_idx) for one in played}
    complete = sum(one.fate is Fate.SOLVED for one in played)
    return Reference(len(tasks), len(tasks) - len(failed), len(played), complete)


def problems(done: Worked, reference: Reference, stored: run_store.Ingested | None) -> list[str]:
    """What of the platform failed. That agents fail is what they are there for."""
    from quintain.rollout.outcome import Fate

    report, found = done.report, []
    if reference.complete < reference.attempts:
        found.append(f"{reference.attempts - reference.complete} attempts of reference solutions are not complete")
    if report.done < report.items:
        found.append(f"{report.items - report.done} attempts have no record")
    for fate in (Fate.ENVIRONMENT, Fate.VERIFIER, Fate.INFRASTRUCTURE):
        if count := report.fates.get(fate, 0):
            found.append(f"{count} attempts failed by the {fate}")
    if count := report.fates.get(Fate.UNSCORED, 0):
        found.append(f"{count} attempts were not scored")
    if stored is not None and stored.incomplete:
        found.append(
            stored.problem or f"not all records are in the store: {stored.refused} refused, {stored.missing} missing"
        )
    return found


def _print(
    done: Worked,
    reference: Reference,
    stored: run_store.Ingested | None,
    keep: Path | None,
    seconds: float,
    settings: Settings,
) -> None:
    from quintain.cli.report_view import print_report

    print_report(done.report)
    console = options.console
    console.print("\n[bold]where the records went[/]")
    if stored is None:
        console.print(options.plain(f"  spool only: {run_store.NEEDED}", "yellow"), soft_wrap=True)
    else:
        run_store.print_ingested(stored, temporary=keep is None)
    whole = reference.complete_tasks == reference.tasks
    told = f"{reference.complete_tasks} of {reference.tasks} reference solutions complete"
    console.print(
        f"[bold {'green' if whole else 'red'}]{told}[/], {reference.complete} of {reference.attempts} attempts; "
        f"all of it took {seconds:.1f} s",
        soft_wrap=True,
    )
    if keep is None:
        console.print("nothing of it was kept; to keep it, and ask about the records:")
    else:
        console.print(options.plain(f"kept in {keep}; to ask about the records:"), soft_wrap=True)
    if stored is not None:
        if settings.data_dir is not None or settings.packs:  # whose tasks the demo does not play
            settings = settings.model_copy(update={"data_dir": None, "packs": tuple(shipped_packs())})
        commands = run_store.next_commands(keep or _EXAMPLE, settings)
        run_store.print_commands(commands if keep else [f"quintain demo --keep {_EXAMPLE}", *commands])
