"""Many sessions against an AWM server, and how long it took to answer. Start `quintain serve` first.

    python examples/stress_test.py --scale 1024 --concurrency 64 \\
        --min-turns 3 --max-turns 20 --think-min 3 --think-max 30

Each session resets a random task, calls tools that read, with arguments made from their schemas, thinks between two
calls, verifies, and is done. It speaks plain OpenEnv over WebSocket, so it runs against any AWM server; it needs
`websockets` and `rich` and nothing else. Ctrl-C prints what is known so far. Exit status 1: something went wrong.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

Json = dict[str, Any]

KINDS = ("connect", "reset", "list_tools", "step", "verify", "done")
FINE = ("reset_ok", "list_tools", "tool_call_ok", "complete", "incomplete", "others", "no_verifier", "episode_done")
SCENARIOS_OWN = "server_error (500 by the scenario's code)"
TOOLS_OWN = ("tool_error", "invalid_args", SCENARIOS_OWN)
"""What random calls meet: things that are not there, arguments that are refused or not thought of."""
READS = ("get", "list", "search", "find", "view", "show", "check", "count", "read", "lookup", "fetch", "browse")
ANSWER_TIMEOUT_S = 300.0


class Failure(Exception):
    """The session cannot go on; the text is the kind of error."""


class Report:
    """What was measured."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.latencies: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self.answers: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.sessions = self.peak_sessions = self.completed = self.ended = 0
        self.memory_mib: dict[str, float] = {}
        self.began = time.perf_counter()

    def answered(self, kind: str, began: float, observation: Json) -> None:
        """An answer came, whatever it says."""
        reward_type = observation.get("reward_type") or kind
        if reward_type == "server_error" and "500" in (observation.get("error") or ""):
            reward_type = SCENARIOS_OWN  # its process is well, and other arguments would have been
        self.latencies[kind].append((time.perf_counter() - began) * 1e3)
        self.answers[f"{kind}: {reward_type}"] += 1
        if reward_type not in (*FINE, *TOOLS_OWN):
            self.errors[f"{kind}: {reward_type}"] += 1

    def opened(self, number: int) -> None:
        """So many more sessions are open."""
        self.sessions += number
        self.peak_sessions = max(self.peak_sessions, self.sessions)

    def print(self, console: Console) -> None:
        """Tables of latencies, answers and errors."""
        seconds = time.perf_counter() - self.began
        table = Table("", "count", "p50 ms", "p95 ms", "p99 ms", "max ms", title="latency")
        for kind, values in self.latencies.items():
            if ordered := sorted(values):
                marks = [ordered[min(int(len(ordered) * part), len(ordered) - 1)] for part in (0.5, 0.95, 0.99, 1.0)]
                table.add_row(kind, str(len(ordered)), *(f"{mark:.1f}" for mark in marks))
        console.print(table)
        found = Table("answer", "count", title="answers")
        for name, count in sorted(self.answers.items()):
            found.add_row(name, str(count))
        console.print(found)
        wrong = Table("error", "count", title="errors")
        for name, count in self.errors.most_common():
            wrong.add_row(name, str(count))
        console.print(wrong if self.errors else "no errors")
        steps = len(self.latencies["step"])
        console.print(
            f"{self.completed} of {self.total} episodes in {seconds:.1f} s, {self.completed / seconds:.2f} episodes/s, "
            f"{steps / seconds:.1f} steps/s, at most {self.peak_sessions} sessions at a time"
        )
        for name, mib in self.memory_mib.items():
            console.print(f"{name}: at most {mib:.0f} MiB")


class Session:
    """One connection, whose answers are timed."""

    def __init__(self, socket: ClientConnection, report: Report) -> None:
        self._socket = socket
        self._report = report

    async def ask(self, kind: str, message: Json) -> Json:
        """The observation that answers a message."""
        began = time.perf_counter()
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            with suppress(ConnectionClosed):  # a server that refuses a session says why before it hangs up
                await self._socket.send(json.dumps(message))
            answer = json.loads(await self._socket.recv())
        if answer.get("type") == "error":
            raise Failure(f"{kind}: {answer['data'].get('code')}")
        observation: Json = answer["data"].get("observation") or {}
        self._report.answered(kind, began, observation)
        return observation

    async def call(self, kind: str, tool: str, arguments: Json) -> Json:
        """Call a tool."""
        action = {"type": "call_tool", "tool_name": tool, "arguments": arguments}
        return await self.ask(kind, {"type": "step", "data": action})


async def play(session: Session, options: argparse.Namespace, scenarios: list[Json], dice: random.Random) -> None:
    """One episode, from reset to done."""
    scenario = dice.choice(scenarios)
    task: Json = {"scenario": scenario["name"]}
    if scenario.get("num_tasks"):
        task["task_idx"] = dice.randrange(scenario["num_tasks"])
    begun = await session.ask("reset", {"type": "reset", "data": task})
    if begun.get("reward_type") != "reset_ok":
        return
    tools = (await session.ask("list_tools", {"type": "step", "data": {"type": "list_tools"}})).get("tools", [])
    reading = [tool for tool in tools if tool["name"].lower().startswith(READS)] or tools
    for _ in range(dice.randint(options.min_turns, options.max_turns)):
        await asyncio.sleep(dice.uniform(options.think_min, options.think_max))
        if reading:
            tool = dice.choice(reading)
            await session.call("step", tool["name"], made_up(tool.get("input_schema") or {}, dice))
    if "task_idx" in task:
        await session.call("verify", "verify", {"verifier_mode": "code"})
    await session.call("done", "done", {})


def made_up(schema: Json, dice: random.Random) -> Json:
    """Arguments that fit a tool's schema: the required ones, and some of the others."""
    known = schema.get("$defs") or schema.get("definitions") or {}
    required = schema.get("required", [])
    properties = schema.get("properties", {})
    return {
        name: value(one, known, dice) for name, one in properties.items() if name in required or dice.random() < 0.2
    }


def value(schema: Json, known: Json, dice: random.Random, depth: int = 0) -> Any:
    """Something that fits a schema."""
    if "$ref" in schema:
        schema = known.get(schema["$ref"].rpartition("/")[2], {})
    for choice in ("anyOf", "oneOf", "allOf"):
        if options := [one for one in schema.get(choice, []) if one.get("type") != "null"]:
            return value(
                {**options[0], **({"default": schema["default"]} if schema.get("default") else {})}, known, dice
            )
    if schema.get("default") is not None:
        return schema["default"]
    if schema.get("enum"):
        return dice.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type", "string")
    if kind in ("integer", "number"):
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
        return dice.randint(int(low), int(min(schema.get("maximum", low + 2), low + 2)))
    if kind == "boolean":
        return dice.random() < 0.5
    if kind == "array":
        count = max(schema.get("minItems", 1), 1) if depth < 3 else 0
        return [value(schema.get("items", {}), known, dice, depth + 1) for _ in range(count)]
    if kind == "object":
        inner = schema.get("properties", {}) if depth < 3 else {}
        return {
            name: value(inner[name], known, dice, depth + 1) for name in schema.get("required", []) if name in inner
        }
    formats = {"date": "2026-02-10", "date-time": "2026-02-10T09:00:00", "time": "09:00:00", "email": "a@example.org"}
    word = formats.get(schema.get("format", ""), dice.choice("abcdefghij") * max(schema.get("minLength", 1), 1))
    return word[: schema.get("maxLength", len(word))]


async def work(url: str, options: argparse.Namespace, report: Report, show: Callable[[], None]) -> None:
    """All episodes, at most `concurrency` at a time."""
    scenarios = await known_scenarios(url, options)
    numbers = iter(range(options.scale))
    workers = [
        client(url, options, scenarios, numbers, report, show) for _ in range(min(options.concurrency, options.scale))
    ]
    watching = asyncio.create_task(watch_memory(options.server_pid, report))
    try:
        await asyncio.gather(*workers)
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def client(
    url: str,
    options: argparse.Namespace,
    scenarios: list[Json],
    numbers: Iterator[int],
    report: Report,
    show: Callable[[], None],
) -> None:
    """One episode after another, each over a connection of its own."""
    for number in numbers:
        dice = random.Random(f"{options.seed}:{number}")
        try:
            began = time.perf_counter()
            async with opened(url, options) as socket:
                report.latencies["connect"].append((time.perf_counter() - began) * 1e3)
                report.opened(1)
                try:
                    await play(Session(socket, report), options, scenarios, dice)
                    report.completed += 1
                finally:
                    report.opened(-1)
        except Failure as failure:
            report.errors[str(failure)] += 1
        except Exception as error:  # whatever breaks a session is counted, and the others go on
            report.errors[f"session broke: {type(error).__name__}: {error}"[:120]] += 1
        report.ended += 1
        show()


def opened(url: str, options: argparse.Namespace) -> connect:
    """A connection. It is not pinged: a client as busy as this one would take the answer's delay for a death."""
    headers = {"Authorization": f"Bearer {options.token}"} if options.token else {}
    return connect(
        url, additional_headers=headers, compression=None, max_size=None, open_timeout=ANSWER_TIMEOUT_S,
        ping_interval=None, close_timeout=10, proxy=None,
    )  # fmt: skip


async def known_scenarios(url: str, options: argparse.Namespace) -> list[Json]:
    """What the server has, or those named on the command line."""
    report = Report(0)
    try:
        async with opened(url, options) as socket:
            listed = await Session(socket, report).call("step", "__list_scenarios__", {})
    except Failure as failure:
        raise SystemExit(f"{url} refuses to list its scenarios: {failure}") from failure
    found: list[Json] = listed.get("scenarios") or []
    if options.scenario:
        return [one for one in found if one["name"] in options.scenario] or [
            {"name": name} for name in options.scenario
        ]
    if not found:
        raise SystemExit(f"{url} lists no scenarios; name some with --scenario")
    return found


async def watch_memory(pid: int | None, report: Report) -> None:
    """Note the most memory that a local server and its processes take. Looking takes a twentieth of the time."""
    while pid is not None:
        began = time.perf_counter()
        for name, mib in (await asyncio.to_thread(memory, pid)).items():
            report.memory_mib[name] = max(report.memory_mib.get(name, 0.0), mib)
        await asyncio.sleep(max(1.0, 20 * (time.perf_counter() - began)))


def memory(pid: int) -> dict[str, float]:
    """Memory of a process, and of all processes below it, each shared page counted once among those that share it."""
    tree = [pid]
    for one in tree:
        with suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                tree += map(int, (task / "children").read_text().split())
    found = {one: proportional_mib(one) for one in tree}
    return {"memory of the server's process": found[pid], "memory of it and all below it": sum(found.values())}


def proportional_mib(pid: int) -> float:
    """A process's own pages and its share of the others; 0 when it is gone or may not be looked at."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default=os.environ.get("AWM_BASE_URL", "http://localhost:8899"), help="the server")
    parser.add_argument("--token", default=os.environ.get("QUINTAIN_TOKEN"), help="bearer token, where one is wanted")
    parser.add_argument("--scale", type=int, default=1024, help="episodes to play")
    parser.add_argument("--concurrency", type=int, default=64, help="sessions at a time")
    parser.add_argument("--min-turns", type=int, default=3)
    parser.add_argument("--max-turns", type=int, default=20)
    parser.add_argument("--think-min", type=float, default=3.0, help="seconds before a call, at least")
    parser.add_argument("--think-max", type=float, default=30.0, help="seconds before a call, at most")
    parser.add_argument("--seed", type=int, default=0, help="decides tasks, tools, arguments and think times")
    parser.add_argument("--scenario", action="append", help="play only this one; may be repeated")
    parser.add_argument("--server-pid", type=int, help="process of a local server, whose memory is watched")
    options = parser.parse_args()
    if options.min_turns > options.max_turns or options.think_min > options.think_max:
        parser.error("a minimum is over its maximum")
    if options.scale < 1 or options.concurrency < 1 or options.min_turns < 0 or options.think_min < 0:
        parser.error("scale and concurrency must be at least 1, turns and think times at least 0")
    return options


def websocket_url(base: str) -> str:
    """The address of `/ws` on a server."""
    parts = urlsplit(base.rstrip("/"))
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    return parts._replace(scheme=scheme, path=parts.path + "/ws").geturl()


def progress(report: Report, console: Console) -> tuple[Progress, Callable[[], None]]:
    """A progress bar, and what brings it up to date."""
    bar = Progress(
        TextColumn("episodes"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[sessions]} open, {task.fields[errors]} errors"), console=console,
    )  # fmt: skip
    task: TaskID = bar.add_task("", total=report.total, sessions=0, errors=0)

    def show() -> None:
        bar.update(task, completed=report.ended, sessions=report.sessions, errors=report.errors.total())

    return bar, show


def main() -> int:
    """Run, and print what was measured, however it ends."""
    options = arguments()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a descriptor for each session
    report = Report(options.scale)
    bar, show = progress(report, Console(stderr=True))
    status = 0
    try:
        with bar:
            asyncio.run(work(websocket_url(options.url), options, report, show))
    except KeyboardInterrupt:
        status = 130
    except OSError as error:
        print(f"cannot reach {options.url}: {error}; start a server, or name one with --url", file=sys.stderr)
        return 2
    report.print(Console(width=110))
    return status or int(bool(report.errors))


if __name__ == "__main__":
    sys.exit(main())
