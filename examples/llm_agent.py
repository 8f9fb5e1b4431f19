"""A language model plays tasks of a Quintain server. Start `quintain serve` first, and have an endpoint for the model.

    export MODEL_KEY=...
    python examples/llm_agent.py --base-url https://model.example/v1 --model some-model --key-env MODEL_KEY \\
        --scenario outdoor_marketplace_1 --tasks 0-4

The model acts over the agent plane of each episode, where there are its tools and nothing else; this program, which the
model cannot reach, resets, verifies and ends over the control plane. Any endpoint with OpenAI's /chat/completions will
do. Exit status 1: an attempt has no valid score.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from websockets.exceptions import WebSocketException

from quintain.agents import AgentLimits, ChatAgent, PatientCompleter, Retries, TextConventionAgent
from quintain.agents.endpoint import ChatClient, ChatSettings
from quintain.agents.plane import AgentPlaneTools
from quintain.clients.wire import WireError, WireSession
from quintain.errors import QuintainError, UsageError

Json = dict[str, Any]
Agent = ChatAgent | TextConventionAgent


async def attempt(options: argparse.Namespace, client: ChatClient, scenario: str, task_idx: int) -> Json:
    """One task, from reset to done: what came of it."""
    row: Json = {"scenario": scenario, "task_idx": task_idx, "steps": 0, "reward": None, "reward_type": None}
    began = time.perf_counter()
    agent: Agent | None = None
    try:
        async with WireSession(options.url, token=options.token) as session:
            digest = client.settings.model_digest
            reset = await session.reset(scenario=scenario, task_idx=task_idx, seed=options.seed, model_digest=digest)
            begun = reset["observation"]
            if begun.get("reward_type") != "reset_ok":
                raise UsageError(f"the server does not begin the task: {begun.get('error')}")
            agent = made(options, client, begun["task"])
            async with AgentPlaneTools(options.url + begun["metadata"]["agent_plane"]["path"]) as tools:
                row["steps"] = await tools.play(agent)
            row |= await scored(session, agent.final_answer)
            await session.call("done")
    except (QuintainError, WireError, WebSocketException, OSError) as error:
        row["error"] = f"{type(error).__name__}: {error}"
    return row | told(agent) | {"seconds": round(time.perf_counter() - began, 2)}


def made(options: argparse.Namespace, client: ChatClient, task: str) -> Agent:
    """An agent for one episode."""
    limits = AgentLimits(
        max_steps=options.max_steps, max_turn_tokens=options.max_turn_tokens, max_total_tokens=options.max_tokens
    )
    patient = PatientCompleter(client, Retries(attempts=options.retries + 1))
    prompt = None if options.system_prompt is None else options.system_prompt.read_text(encoding="utf-8")
    kind = ChatAgent if options.convention == "native" else TextConventionAgent
    return kind(patient, task, limits=limits, system_prompt=prompt)


async def scored(session: WireSession, final_answer: str | None) -> Json:
    """The code verifier's verdict. A reward that says nothing of the agent is left out."""
    arguments = {"verifier_mode": "code"} | ({} if final_answer is None else {"final_answer": final_answer})
    verified = await session.call("verify", arguments)
    observation = verified["observation"]
    valid = observation.get("metadata", {}).get("reward_valid", True)
    found = {"reward_type": observation.get("reward_type"), "reward": verified["reward"] if valid else None}
    return found if valid else found | {"error": observation.get("error") or "the score is not valid"}


def told(agent: Agent | None) -> Json:
    """What an agent tells of itself."""
    if agent is None:
        return {"turns": 0, "prompt_tokens": None, "completion_tokens": None, "ended": None}
    counts = {
        name: [value for turn in agent.turns if (value := getattr(turn.usage, name)) is not None]
        for name in ("prompt_tokens", "completion_tokens")
    }
    return {
        "turns": len(agent.turns),
        **{name: sum(values) if values else None for name, values in counts.items()},
        "ended": agent.ending.reason.value if agent.ending is not None else None,
        "turn_records": [turn.model_dump(mode="json") for turn in agent.turns],
    }


async def play(options: argparse.Namespace, settings: ChatSettings, tasks: Sequence[tuple[str, int]]) -> list[Json]:
    """All tasks, some at a time; the rows in the order of the tasks."""
    room = asyncio.Semaphore(options.concurrency)
    with progress(len(tasks)) as bar:
        show = shower(bar)
        async with ChatClient(settings) as client:

            async def one(scenario: str, task_idx: int) -> Json:
                async with room:
                    row = await attempt(options, client, scenario, task_idx)
                show(row)
                return row

            return list(await asyncio.gather(*(one(*task) for task in tasks)))


def progress(total: int) -> Progress:
    """A progress bar on standard error."""
    bar = Progress(
        TextColumn("attempts"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[solved]} complete, {task.fields[failed]} without a score"),
        console=Console(stderr=True),
    )  # fmt: skip
    bar.add_task("", total=total, solved=0, failed=0)
    return bar


def shower(bar: Progress) -> Callable[[Json], None]:
    """What brings a bar up to date with a row."""
    counts = {"solved": 0, "failed": 0}

    def show(row: Json) -> None:
        counts["solved"] += row["reward_type"] == "complete"
        counts["failed"] += row["reward"] is None
        bar.update(bar.task_ids[0], advance=1, **counts)

    return show


async def chosen(options: argparse.Namespace) -> list[tuple[str, int]]:
    """The tasks to play: of the scenarios that were named, or of all."""
    async with WireSession(options.url, token=options.token) as session:
        found = (await session.call("__list_scenarios__"))["observation"].get("scenarios") or []
    counts = {one["name"]: int(one.get("num_tasks") or 0) for one in found}
    unknown = [name for name in options.scenario or [] if name not in counts]
    if unknown:
        raise UsageError(f"the server has no scenario {', '.join(unknown)}; it has {', '.join(sorted(counts))}")
    tasks = [
        (name, index)
        for name in options.scenario or counts
        for index in (range(counts[name]) if options.tasks is None else options.tasks)
        if index < counts[name]
    ]
    if not tasks:
        raise UsageError("the scenarios have no such tasks; look at --scenario and --tasks")
    return tasks[: options.limit]


def print_table(rows: Sequence[Json]) -> None:
    """The rows as a table, and how many tasks were done."""
    names = ("scenario", "task", "steps", "turns", "tokens in", "out", "ended", "verdict", "reward", "s")
    table = Table(*names, title="attempts")
    for row in rows:
        shown = [row["scenario"], row["task_idx"], row["steps"], row["turns"], row["prompt_tokens"]]
        shown += [row["completion_tokens"], row["ended"], row["reward_type"], row["reward"], row["seconds"]]
        table.add_row(*("-" if one is None else str(one) for one in shown))
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    for row in rows:
        if "error" in row:
            console.print(f"{row['scenario']} {row['task_idx']}: {row['error']}", markup=False)
    scores = [row["reward"] for row in rows if row["reward"] is not None]
    done = sum(row["reward_type"] == "complete" for row in rows)
    mean = f", mean reward {sum(scores) / len(scores):.2f}" if scores else ""
    console.print(f"{done} of {len(rows)} complete, {len(rows) - len(scores)} without a score{mean}")


def numbers(text: str) -> list[int]:
    """`0,2,5-8` -> [0, 2, 5, 6, 7, 8]."""
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--base-url", required=True, help="the model's endpoint, to which /chat/completions is appended")
    add("--model", required=True, help="what the endpoint calls the model")
    add("--key-env", metavar="NAME", help="environment variable with the endpoint's key")
    add("--convention", choices=("native", "text"), default="native", help="tool calls of the protocol, or in text")
    add("--system-prompt", type=Path, metavar="FILE", help="in place of the shipped one (text) or of none (native)")
    add("--stream", action="store_true", help="have answers streamed")
    add("--logprobs", action="store_true", help="ask for logprobs and token ids")
    add("--temperature", type=float)
    add("--scenario", action="append", help="play tasks of this one; may be repeated; default all")
    add("--tasks", type=numbers, help="indices such as 0,2,5-8; default all")
    add("--limit", type=int, help="play at most so many")
    add("--seed", type=int, default=0, help="of the episodes")
    add("--concurrency", type=int, default=4, help="attempts at a time")
    add("--max-steps", type=int, default=30, help="tool calls of one attempt")
    add("--max-turn-tokens", type=int, default=4096, help="tokens of one answer")
    add("--max-tokens", type=int, help="tokens of all answers of one attempt")
    add("--retries", type=int, default=4, help="further attempts at one answer of the endpoint")
    add("--timeout", type=float, default=300.0, help="seconds for one answer of the endpoint")
    add("--url", default=os.environ.get("AWM_BASE_URL", "http://localhost:8899"), help="the Quintain server")
    add("--token", default=os.environ.get("QUINTAIN_TOKEN"), help="its bearer token, where it wants one")
    add("--turns", type=Path, metavar="FILE", help="write every exchange with the model there, a line for each attempt")
    add("--json", action="store_true", help="print a line of JSON for each attempt, and no table")
    options = parser.parse_args()
    options.url = options.url.rstrip("/")
    if options.concurrency < 1 or options.retries < 0 or options.max_steps < 1:
        parser.error("concurrency and max-steps must be at least 1, retries at least 0")
    return options


def main() -> int:
    """Play, and print what came of it."""
    options = arguments()
    try:
        key = os.environ[options.key_env] if options.key_env else None
        settings = ChatSettings.read(
            base_url=options.base_url, api_key=key, model=options.model, stream=options.stream,
            logprobs=options.logprobs, token_ids=options.logprobs, temperature=options.temperature,
            timeout_s=options.timeout,
        )  # fmt: skip
        tasks = asyncio.run(chosen(options))
    except KeyError as error:
        print(f"--key-env names {error}, and there is no such environment variable; set it", file=sys.stderr)
        return 2
    except (UsageError, WireError) as error:
        print(error, file=sys.stderr)
        return 2
    except (OSError, WebSocketException) as error:
        print(f"cannot reach {options.url}: {error}; start a server, or name one with --url", file=sys.stderr)
        return 2
    rows = []
    with suppress(KeyboardInterrupt):
        rows = asyncio.run(play(options, settings, tasks))
    if not rows:
        return 130
    if options.turns is not None:
        options.turns.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for row in rows:
        row.pop("turn_records", None)
        if options.json:
            print(json.dumps(row))
    if not options.json:
        print_table(rows)
    return int(any(row["reward"] is None for row in rows))


if __name__ == "__main__":
    sys.exit(main())
