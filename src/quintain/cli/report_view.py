"""A run's report on one screen: pass rates and rewards, whose failures, and where the milliseconds went."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from quintain.cli import options
from quintain.contracts.lifecycle import Stage
from quintain.contracts.timing import NOT_STARTED, TTFI
from quintain.rollout.outcome import Fate
from quintain.rollout.report import Rate, RunReport

STYLES: Final = {
    Fate.SOLVED: "green",
    Fate.AGENT: "yellow",
    Fate.ENVIRONMENT: "red",
    Fate.VERIFIER: "red",
    Fate.INFRASTRUCTURE: "red",
    Fate.UNSCORED: "dim",
}

_STAGE_STYLES: Final = {Stage.RUNNING: "green", Stage.VERIFYING: "magenta", Stage.CLEANING: "dim"}
_TRACK: Final = 19
_BAR: Final = 40
_WIDE: Final = 72
_MARKS: Final = "█▓▒░▚·"
_TASKS_IN_A_ROW: Final = 10
_MOST_SCENARIOS: Final = 12
_MOST_AGENTS: Final = 12
_MOST_STARTS: Final = 3
_SMALL: Final = 0.02
"""Stages with less than this share of an attempt's time are told together."""


def print_report(report: RunReport) -> None:
    """Print the report for people."""
    options.console.print(report_view(report))


def report_view(report: RunReport) -> RenderableType:
    """The report for people, at most 80 columns wide."""
    parts: list[RenderableType] = [_head(report), "", _agents(report), "", _tasks(report), "", _fates(report)]
    if report.starts:
        parts += ["", _times(report)]
    return Group(*parts)


def _head(report: RunReport) -> RenderableType:
    scenarios = {name.rpartition("/")[0] for name in report.by_task}
    told = (
        f"{report.done} of {report.items} attempts: {_counted(len(report.by_task), 'task')} of "
        f"{_counted(len(scenarios), 'scenario')}, {_counted(len(report.by_agent), 'agent')}"
    )
    work = f"{report.calls} calls, {report.truncated} truncated, {report.retried} tried again"
    if report.tokens is not None:
        work += f", {report.tokens} tokens written"
    overall = report.overall
    line = Text("pass rate ")
    if overall.rate is None:
        return Group(told, work, line.append("unknown: nothing was scored", "yellow"))
    line.append(f"{overall.rate:.3f}", "bold").append(f" ({overall.low:.3f}-{overall.high:.3f})")
    if overall.mean_reward is not None:
        line.append(", mean reward ").append(f"{overall.mean_reward:.3f}", "bold")
    if overall.scored < overall.attempts:
        line.append(f", {overall.attempts - overall.scored} not scored", "red")
    worth = (
        f"intervals: 95 %, Wilson's, clustered by task; {overall.scored} tries are worth {overall.effective:.0f}"
        if len(report.by_task) > 1
        else "interval: 95 %, Wilson's; it speaks of this task alone"
    )
    return Group(told, work, line, Text(worth, "dim"))


def _counted(many: int, what: str) -> str:
    return f"{many} {what}" if many == 1 else f"{many} {what}s"


def _agents(report: RunReport) -> RenderableType:
    table = _table(
        options.name_column("agent"), _right("tries"), _right("solved"), _right("rate"), options.name_column("95 %"),
        Column("0" + " " * (_TRACK - 2) + "1", no_wrap=True), _right("reward"), _right("calls"),
    )  # fmt: skip
    for name, rate in list(report.by_agent.items())[:_MOST_AGENTS]:
        calls = report.calls_by_agent.get(name, 0) / rate.attempts
        interval = "" if rate.rate is None else f"{rate.low:.2f}-{rate.high:.2f}"
        table.add_row(
            options.plain(name), str(rate.attempts), str(rate.solved),
            "" if rate.rate is None else f"{rate.rate:.2f}", interval, _track(rate), _reward(rate), f"{calls:.1f}",
        )  # fmt: skip
    more = len(report.by_agent) - _MOST_AGENTS
    return Group(table, Text(f"and {_counted(more, 'agent')} more", "dim")) if more > 0 else table


def _track(rate: Rate) -> Text:
    """A rate and its interval on a line from 0 to 1."""
    if rate.rate is None:
        return Text("not scored", "dim")
    marks = [round(one * (_TRACK - 1)) for one in (rate.low, rate.rate, rate.high)]
    line = Text()
    for place in range(_TRACK):
        if place == marks[1]:
            line.append("●", "bold")
        elif marks[0] <= place <= marks[2]:
            line.append("━", "cyan")
        else:
            line.append("·", "dim")
    return line


def _tasks(report: RunReport) -> RenderableType:
    """Mean rewards, a cell for each task, ten in a row."""
    scenarios: dict[str, dict[int, Rate]] = defaultdict(dict)
    for name, rate in report.by_task.items():
        scenario, _, number = name.rpartition("/")
        scenarios[scenario][int(number) if number.isdecimal() else 0] = rate
    chosen, title = list(scenarios), "mean reward by task"
    if len(chosen) > _MOST_SCENARIOS:
        chosen = sorted(chosen, key=lambda one: _mean(scenarios[one]))[:_MOST_SCENARIOS]
        title += f", of the {_MOST_SCENARIOS} of {len(scenarios)} scenarios in which it is least"
    most = max((number for one in chosen for number in scenarios[one]), default=0)
    columns = range(min(most + 1, _TASKS_IN_A_ROW))
    table = _table(_name("scenario"), *(_right(str(number)) for number in columns), gap=1)
    for scenario in chosen:
        for first, row in _rows(scenarios[scenario]):
            table.add_row(
                options.plain(scenario if first == 0 else f"  from {first}"),
                *(_cell(row.get(first + number)) for number in columns),
            )
    return Group(Text(title, "bold"), table)


def _rows(tasks: Mapping[int, Rate]) -> Iterator[tuple[int, Mapping[int, Rate]]]:
    for first in sorted({number - number % _TASKS_IN_A_ROW for number in tasks} | {0}):
        yield first, {number: rate for number, rate in tasks.items() if first <= number < first + _TASKS_IN_A_ROW}


def _cell(rate: Rate | None) -> Text:
    if rate is None:
        return Text("")
    if rate.mean_reward is None:
        return Text("-", "dim")
    style = "green" if rate.mean_reward >= 0.75 else "yellow" if rate.mean_reward >= 0.25 else "red"
    return Text(f"{rate.mean_reward:.2f}", style)


def _mean(tasks: Mapping[int, Rate]) -> float:
    rewards = [one.mean_reward for one in tasks.values() if one.mean_reward is not None]
    return sum(rewards) / len(rewards) if rewards else 2.0


def _fates(report: RunReport) -> RenderableType:
    """Solved, or whose failure; the platform's are told even where there are none."""
    counts = {fate: report.fates.get(fate, 0) for fate in Fate}
    if not counts[Fate.UNSCORED]:
        del counts[Fate.UNSCORED]
    told, bar, done = Text(), Text(), 0
    for (fate, count), mark in zip(counts.items(), _MARKS, strict=False):
        told.append(f"{mark} ", STYLES[fate]).append(f"{fate} {count}  ", STYLES[fate] if count else "dim")
        first = round(done / max(report.done, 1) * _WIDE)
        done += count
        bar.append(mark * (round(done / max(report.done, 1) * _WIDE) - first), STYLES[fate])
    ends = ", ".join(f"{reason} {count}" for reason, count in report.terminal_reasons.items())
    lines: list[RenderableType] = [Text("solved, or whose failure it was", "bold"), told, bar]
    lines.append(options.plain(f"ended by: {ends}", "dim"))
    lines += [options.plain(f"{count} failed by {cause}", "red") for cause, count in report.causes.items()]
    return Group(*lines)


def _times(report: RunReport) -> RenderableType:
    """For each start kind, its stages one after the other, as long as their medians."""
    kinds = [kind for kind in report.starts if kind != NOT_STARTED]
    table = _table(_name(""), _right(""), "", show_header=False)
    for kind in kinds[:_MOST_STARTS]:
        medians = {one.name: one.p50_ms for one in report.stages if one.start_kind == kind}
        whole, begin = sum(medians.values()) or 1.0, 0.0
        ttfi = next((one for one in report.ttfi if one.start_kind == kind), None)
        start = "" if ttfi is None else f", {TTFI} {ttfi.p50_ms:.0f} (95 % within {ttfi.p95_ms:.0f})"
        table.add_row(Text(kind, "cyan"), f"{whole:.1f}", f"{_counted(report.starts[kind], 'attempt')}{start}")
        for name, ms in _shown(medians):
            table.add_row(f"  {name}", f"{ms:.1f}", _bar(name, begin / whole, (begin + ms) / whole))
            begin += ms
    title = Text("where the time went", "bold").append(": the median milliseconds of each stage, by start kind", "dim")
    rest = [f"{kind} {report.starts[kind]}" for kind in kinds[_MOST_STARTS:]]
    return Group(title, table, *([Text(f"and {', '.join(rest)}", "dim")] if rest else []))


def _shown(medians: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Stages in the order of an episode's life, the short ones together at the end."""
    total, rest = sum(medians.values()), 0.0
    for stage in Stage:
        ms = medians.get(stage, 0.0)
        if ms >= _SMALL * total and ms > 0:
            yield stage, ms
        else:
            rest += ms
    if rest > 0:
        yield "the others", rest


def _bar(name: str, begin: float, end: float) -> Text:
    first, last = round(begin * _BAR), round(end * _BAR)
    style = next((style for stage, style in _STAGE_STYLES.items() if stage == name), "blue")
    return Text(" " * min(first, _BAR - 1)).append("█" * (last - first) or "▏", style)


def _reward(rate: Rate) -> str:
    return "" if rate.mean_reward is None else f"{rate.mean_reward:.3f}"


def _table(*columns: Column | str, show_header: bool = True, gap: int = 2) -> Table:
    return Table(*columns, box=None, show_header=show_header, header_style="dim", padding=(0, gap, 0, 0))


def _right(title: str) -> Column:
    return Column(title, justify="right", no_wrap=True)


def _name(title: str) -> Column:
    return Column(title, no_wrap=True, max_width=24)
