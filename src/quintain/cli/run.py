"""`quintain run`: agents against tasks, until every attempt has a record; after a kill it goes on where it was."""

import asyncio
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quintain.cli import INTERRUPTED, options, run_store
from quintain.contracts.documents import from_json, from_yaml
from quintain.contracts.untrusted import printable
from quintain.errors import UsageError
from quintain.server.settings import Settings, data_home
from quintain.tasks.base import TaskSource
from quintain.tasks.pooled import PooledSource, PoolScope
from quintain.tasks.pools import Pool

if TYPE_CHECKING:
    from quintain.rollout import EventLog, Outcome, RolloutPlan, RunDirectory
    from quintain.rollout.directory import Found
    from quintain.rollout.report import RunReport

JsonObject = dict[str, Any]

_DEFAULT_NOISE = 0.2


class AgentKind(StrEnum):
    """Who plays."""

    REFERENCE = "reference"
    NOISY = "noisy"
    RANDOM = "random"
    CHAT = "chat"
    TEXT = "text"


PlanFile = Annotated[Path | None, typer.Argument(help="A plan, as YAML or JSON. Without one, options make it.")]
RunDir = Annotated[
    Path | None,
    typer.Option("--run-dir", help="The run's directory, in which it goes on after a kill. Default: by the plan."),
]
Scenarios = Annotated[
    list[str] | None, typer.Option("--scenarios", help="SCENARIO or SCENARIO/TASK; may be repeated. Default: all.")
]
Tasks = Annotated[
    int | None,
    typer.Option("--tasks", min=1, help="Draw so many of them by --seed, evenly over scenarios. Default: all."),
]
Attempts = Annotated[int | None, typer.Option(min=1, help="Attempts at each task. Default: 1.")]
AgentOption = Annotated[AgentKind | None, typer.Option("--agent", help="Who plays. Default: reference.")]
Noise = Annotated[float | None, typer.Option(min=0, max=1, help="How often the noisy agent errs. Default: 0.2.")]
BaseUrl = Annotated[str | None, typer.Option(help="The model's endpoint, for chat and text.")]
Model = Annotated[str | None, typer.Option(help="The model's name there.")]
ApiKeyEnv = Annotated[str | None, typer.Option(help="The variable that holds the endpoint's key.")]
Seed = Annotated[
    int | None, typer.Option(min=0, help="Seed of episodes, of agents that draw, and of --tasks. Default: 0.")
]
MaxSteps = Annotated[int | None, typer.Option(min=1, help="Most tool calls of an attempt. Default: 30.")]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Most tokens that a model writes in one. Default: any.")]
WallTime = Annotated[float | None, typer.Option(min=0.001, help="Most seconds of an attempt. Default: 900.")]
Concurrency = Annotated[int | None, typer.Option(min=1, help="Most attempts at a time. Default: the plan's, or 16.")]
KeepStates = Annotated[
    bool, typer.Option("--keep-states", help="Keep initial and final states too, for replay and reverify; unredacted.")
]
SpoolSize = Annotated[int, typer.Option(min=1, help="MiB of records not yet ingested from which none is begun.")]
Ingest = Annotated[
    bool, typer.Option("--ingest", help="Bring the records into a store in the run's directory when it has ended.")
]
Pools = Annotated[
    list[Pool] | None,
    typer.Option("--pool", help="Pool whose tasks may be played, where there is a registry. Default: train."),
]


@dataclass(frozen=True)
class _Asked:
    """What the options say of a plan; None where they say nothing."""

    scenarios: list[str] | None
    tasks: int | None
    attempts: int | None
    agent: AgentKind | None
    noise: float | None
    base_url: str | None
    model: str | None
    api_key_env: str | None
    seed: int | None
    max_steps: int | None
    max_tokens: int | None
    wall_time: float | None

    @property
    def anything(self) -> bool:
        """Whether they say anything."""
        return any(value not in (None, []) for value in vars(self).values())


def run(
    plan: PlanFile = None,
    run_dir: RunDir = None,
    scenarios: Scenarios = None,
    tasks: Tasks = None,
    attempts: Attempts = None,
    agent: AgentOption = None,
    noise: Noise = None,
    base_url: BaseUrl = None,
    model: Model = None,
    api_key_env: ApiKeyEnv = None,
    seed: Seed = None,
    max_steps: MaxSteps = None,
    max_tokens: MaxTokens = None,
    wall_time: WallTime = None,
    concurrency: Concurrency = None,
    spool_size: SpoolSize = 4096,
    keep_states: KeepStates = False,
    ingest: Ingest = False,
    pool: Pools = None,
    milestone: options.Milestone = None,
    awm_data: options.AwmData = None,
    pack: options.Packs = None,
    isolation: options.Isolation = None,
    as_json: options.AsJson = False,
) -> None:
    """Play every attempt of a plan, score it and keep its record; or go on with a run that was interrupted."""
    asked = _Asked(
        scenarios, tasks, attempts, agent, noise, base_url, model, api_key_env, seed, max_steps, max_tokens, wall_time
    )
    if plan is not None and asked.anything:
        raise UsageError("a plan says all there is to do; leave out the plan, or the options that make one")
    if ingest and not run_store.store_is_here():
        raise UsageError(f"--ingest: {run_store.NEEDED}")
    settings = options.settings_with(data_dir=awm_data, packs=pack, isolation=isolation)
    options.cache_of(settings)  # before the run's directory is made
    with options.open_source(settings) as everything:
        source = _in_pools(settings, options.without_quarantined(settings, everything), pool, milestone)
        given = None if plan is None else _read(plan)
        kept = run_dir is not None and (run_dir / "plan.json").exists()
        if given is None and (asked.anything or not kept):
            given = _planned(asked, source)
        if given is not None and keep_states:
            given = given.model_copy(update={"keep_states": True})  # in the directory too: whoever goes on keeps them
        work = RunWork(settings, source, concurrency, spool_size * 2**20, as_json, keep_states)
        status = work.go(run_dir, given, then_ingest=ingest)
    if status:
        raise typer.Exit(status)


@dataclass(frozen=True)
class Worked:
    """What came of a run, and whether a signal ended it before it was done."""

    report: "RunReport"
    outcomes: "dict[str, Outcome]"
    """By item."""
    interrupted: bool


@dataclass(frozen=True)
class RunWork:
    """One process that works on a run."""

    settings: Settings
    source: TaskSource
    concurrency: int | None = None
    spool_bytes: int = 4096 * 2**20
    as_json: bool = False
    """Print every event."""
    keep_states: bool = False
    """Keep the states, whatever the plan says."""

    def go(self, run_dir: Path | None, given: "RolloutPlan | None", *, then_ingest: bool = False) -> int:
        """Work on it until it is done, or a signal comes, and say what came of it; the exit status."""
        from quintain.rollout import RunDirectory

        if run_dir is None:
            assert given is not None  # without a directory there is always a plan
            run_dir = data_home() / "runs" / given.digest.removeprefix("sha256:")[:16]
        with RunDirectory.open(run_dir, given) as directory:
            done = options.run(self.work(directory))
        if done.interrupted:
            typer.echo(
                f"quintain: interrupted; {done.report.done} of {done.report.items} attempts have a record; "
                f"go on with: quintain run --run-dir {printable(shlex.quote(str(run_dir)))}",
                err=True,
            )
            return INTERRUPTED
        return self._told(run_dir, done, then_ingest)

    def _told(self, run_dir: Path, done: Worked, then_ingest: bool) -> int:
        """Say what came of a run that is done; the exit status."""
        from quintain.cli.report_view import print_report

        found = None
        if then_ingest:
            found = run_store.ingest(run_dir, [one.record_digest for one in done.outcomes.values()])
        if not self.as_json:
            print_report(done.report)
            options.console.print()
            if found is None:
                options.console.print(options.plain(f"records: {run_dir}/spool; to ask about them:"), soft_wrap=True)
                commands = run_store.ingest_commands(run_dir, self.settings)
            else:
                run_store.print_ingested(found)
                commands = run_store.next_commands(run_dir, self.settings)
            run_store.print_commands(commands)
        elif found is not None:
            options.print_json({"event": "ingested", **asdict(found)})
        return 1 if found is not None and found.incomplete else 0

    async def work(self, directory: "RunDirectory") -> Worked:
        """Work on a run in an open directory until it is done, or a signal comes.

        Raises:
            UsageError: a task of the plan is not there, or cannot be played by its agents.
            QuintainError: the platform cannot play here, or records cannot be kept.
        """
        from quintain.cli.run_view import Progressing
        from quintain.rollout import EventLog, RunEvent
        from quintain.rollout.casting import check
        from quintain.rollout.engine import in_order
        from quintain.rollout.report import report

        plan = directory.plan
        if self.concurrency is not None:
            plan = plan.model_copy(update={"concurrency": self.concurrency})
        if self.keep_states:
            plan = plan.model_copy(update={"keep_states": True})
        await asyncio.to_thread(check, plan, self.source)
        went_before, found = directory.ledger.exists(), await asyncio.to_thread(directory.found)
        outcomes, interrupted = found.outcomes, False
        logged = [one for one in outcomes.values() if one not in found.unlogged]
        with (
            Progressing(plan.size, logged, self.as_json) as shown,
            EventLog(directory.events, shown) as log,
            _cancelled_by_sigterm(),
        ):
            for what in (*found.repaired, *log.repaired):
                log.tell(RunEvent.REPAIRED, what=what)
            for one in found.unlogged:
                log.tell(RunEvent.FINISHED, outcome=one.model_dump(mode="json"), done=len(outcomes), items=plan.size)
            directory.settle()
            try:
                await self._play(directory, plan, log, found, went_before)
            except asyncio.CancelledError:
                interrupted = True
                log.tell(RunEvent.INTERRUPTED, done=len(outcomes), items=plan.size)
            directory.settle()
            made = report(plan, in_order(plan, outcomes))
            if not interrupted:
                log.tell(RunEvent.ENDED, report=made.model_dump(mode="json"))
        return Worked(made, outcomes, interrupted)

    async def _play(
        self,
        directory: "RunDirectory",
        plan: "RolloutPlan",
        log: "EventLog",
        found: "Found",
        went_before: bool,
    ) -> None:
        from quintain.episodes.assembly import open_rooms
        from quintain.records.recorder import Recorder
        from quintain.records.redaction import Redactor
        from quintain.records.spool import Spool
        from quintain.records.states import spool_states
        from quintain.rollout import PlanCasting, Rollout, RunEvent
        from quintain.rollout.casting import credentials

        if len(found.outcomes) == plan.size:
            return
        judge_key = self.settings.llm_api_key
        keys = [*credentials(plan), *([judge_key.get_secret_value()] if judge_key else [])]
        assembly = replace(options.assembly(self.settings), ledger=directory.ledger)
        async with open_rooms(self.source, assembly) as rooms:
            options.tell_shortfall(rooms)
            if plan.keep_states:
                rooms = replace(rooms, states=spool_states(directory.spool))
            spool = await asyncio.to_thread(
                lambda: Spool.open(directory.spool, name="run", max_bytes=self.spool_bytes, retained=True)
            )
            try:

                def told(endpoint: str, limit: int) -> None:
                    log.tell(RunEvent.CONCURRENCY, endpoint=endpoint, limit=limit)

                async with PlanCasting.open(plan, self.source, told) as casting:
                    sink = Recorder(spool, Redactor(keys), rooms.run)
                    await Rollout(
                        plan, rooms, casting, sink, log.tell, found.outcomes, interrupted=went_before, begun=found.begun
                    ).run()
            finally:
                await asyncio.to_thread(spool.close)


@contextmanager
def _cancelled_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the run as Ctrl-C does."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def _in_pools(settings: Settings, source: TaskSource, pools: list[Pool] | None, milestone: str | None) -> TaskSource:
    """The tasks of the pools that may be played, where a registry is in force."""
    registry = options.registry_in_force(settings)
    if registry is None:
        if pools or milestone is not None:
            raise UsageError(f"there are no pools: no task registry is at {settings.registry_dir}")
        return source
    return PooledSource(source, registry, PoolScope(frozenset(pools or [Pool.TRAIN]), options.user(), milestone))


def _read(path: Path) -> "RolloutPlan":
    """The plan of a file.

    Raises:
        UsageError: it cannot be read, or is no plan.
    """
    from quintain.rollout import RolloutPlan

    def mapping(text: str) -> JsonObject:
        document = (from_json if path.suffix == ".json" else from_yaml)(text)
        if not isinstance(document, dict):
            raise UsageError(
                f"the plan {path} is no mapping; it needs `tasks`, such as [{{scenario: NAME, task_idx: 0}}]"
            )
        return document

    try:
        return RolloutPlan.parse(mapping, path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the plan {path} cannot be read: {error}") from error


def _planned(asked: _Asked, source: TaskSource) -> "RolloutPlan":
    """The plan that the options make.

    Raises:
        UsageError: they make none.
    """
    from quintain.rollout import RolloutPlan
    from quintain.rollout.plan import drawn

    seed = asked.seed or 0
    tasks = list(_tasks(asked, source))
    if asked.tasks is not None:
        tasks = drawn(tasks, asked.tasks, seed)
    limits = {"max_steps": asked.max_steps, "max_tokens": asked.max_tokens, "wall_s": asked.wall_time}
    document = {
        "tasks": [{"scenario": name, "task_idx": index, "seed": seed} for name, index in tasks],
        "attempts": asked.attempts or 1,
        "agents": [_agent(asked, seed)],
        "limits": {name: value for name, value in limits.items() if value is not None},
    }
    return RolloutPlan.checked(document, "the options make no plan")


def _tasks(asked: _Asked, source: TaskSource) -> Iterator[tuple[str, int]]:
    for word in asked.scenarios or [one.name for one in source.scenarios()]:
        name, slash, number = word.rpartition("/")
        if slash:
            if not number.isdecimal():
                raise UsageError(f"{word!r} names no task; write SCENARIO/TASK, with the task's number")
            yield source.task(name, int(number)).scenario, int(number)
            continue
        scenario = source.scenario(word)
        yield from ((scenario.name, index) for index, text in enumerate(scenario.tasks) if text)


def _agent(asked: _Asked, seed: int) -> JsonObject:
    kind = asked.agent or AgentKind.REFERENCE
    of_models = {"--base-url": asked.base_url, "--model": asked.model, "--api-key-env": asked.api_key_env}
    if kind in (AgentKind.CHAT, AgentKind.TEXT):
        if asked.base_url is None or asked.model is None:
            raise UsageError(f"a {kind} agent needs --base-url and --model")
        told: JsonObject = {"kind": kind.value, "endpoint": {"base_url": asked.base_url, "model": asked.model}}
        return told if asked.api_key_env is None else told | {"api_key_env": asked.api_key_env}
    for name, value in of_models.items():
        if value is not None:
            raise UsageError(f"{name} is for the agents chat and text, not for {kind}")
    if asked.noise is not None and kind is not AgentKind.NOISY:
        raise UsageError(f"--noise is for the agent noisy, not for {kind}")
    if kind is AgentKind.NOISY:
        each = (_DEFAULT_NOISE if asked.noise is None else asked.noise) / 4
        rates = dict.fromkeys(("wrong_tool", "wrong_argument", "early_stop", "loop"), each)
        return {"kind": "noisy", "rates": rates, "seed": seed}
    return {"kind": "random", "seed": seed} if kind is AgentKind.RANDOM else {"kind": "reference"}
