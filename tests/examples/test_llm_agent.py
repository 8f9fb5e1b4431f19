"""The example against a real server, with a model behind a real endpoint that knows some of the shipped tasks."""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quintain.agents.fake_endpoint import FakeEndpoint
from quintain.agents.fake_replies import Drops, Fails, Says, Solution, Solver
from quintain.tasks import open_pack
from served import ROOT, environment, served

SCRIPT = ROOT / "examples/llm_agent.py"
SCENARIO = "outdoor_marketplace_1"
KEY = "sk-canary-0f7d2c9a41b8"
KNOWN = (0, 1, 2, 3, 5)

pytestmark = pytest.mark.xdist_group("llm_agent")


@pytest.fixture(scope="module")
def url(runtime_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(runtime_cache.parent, tmp_path_factory.mktemp("llm_agent") / "server.log") as address:
        yield address


@pytest.fixture(scope="module")
def solver() -> Solver:
    """Knows some tasks, and of the others nothing."""
    solutions = {}
    with open_pack() as pack:
        for index in KNOWN:
            known, text = pack.solution(SCENARIO, index), pack.task(SCENARIO, index).text
            assert known is not None
            assert text is not None
            calls = tuple((call.name, call.arguments) for call in known.calls)
            solutions[text] = Solution(calls=calls, final_answer=known.final_answer)
    return Solver(solutions)


async def run(url: str, cache: Path, endpoint: str, *arguments: str, **variables: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, SCRIPT, "--base-url", endpoint, "--model", "fake-1", *arguments,
        env=environment(cache, AWM_BASE_URL=url, COLUMNS="160", **variables), cwd="/",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    printed, complaints = await asyncio.wait_for(process.communicate(), 100)
    assert process.returncode is not None
    return process.returncode, printed.decode(), complaints.decode()


def rows(printed: str) -> dict[int, dict[str, Any]]:
    return {row["task_idx"]: row for row in map(json.loads, printed.splitlines())}


@pytest.mark.parametrize(("convention", "stream"), [("native", False), ("native", True), ("text", True)])
async def test_it_solves_what_the_model_knows(
    url: str, runtime_cache: Path, solver: Solver, tmp_path: Path, convention: str, stream: bool
) -> None:
    turns = tmp_path / "turns.jsonl"
    more = ["--stream"] if stream else []
    async with FakeEndpoint(solver, api_key=KEY) as fake:
        code, printed, complaints = await run(
            url, runtime_cache.parent, fake.url, "--scenario", SCENARIO, "--tasks", "0-4", "--key-env", "MODEL_KEY",
            "--json", "--logprobs", "--convention", convention, "--turns", str(turns), *more, MODEL_KEY=KEY,
        )  # fmt: skip
    assert code == 0, printed + complaints
    found = rows(printed)
    assert {index: row["reward"] for index, row in found.items()} == {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0, 4: 0.1}
    assert {row["ended"] for row in found.values()} == {"finished"}
    assert [found[index]["steps"] for index in range(5)] == [2, 1, 1, 1, 0]
    assert all(row["completion_tokens"] > 0 for row in found.values())
    kept = [json.loads(line) for line in turns.read_text().splitlines()]
    assert all(turn["tokens"]["logprobs"] for row in kept for turn in row["turn_records"])
    assert KEY not in printed + complaints + turns.read_text()
    asked = json.dumps([one.body for one in fake.asked])
    assert "reward" not in asked
    assert "verify" not in asked


async def test_a_troubled_endpoint_is_borne(url: str, runtime_cache: Path, solver: Solver) -> None:
    trouble = [Fails(status=429, retry_after="0"), Drops(), Fails(status=503, retry_after="0"), Says(cut_after=1)]
    async with FakeEndpoint(solver, trouble) as fake:
        code, printed, complaints = await run(
            url, runtime_cache.parent, fake.url, "--scenario", SCENARIO, "--tasks", "0", "--stream"
        )
    assert code == 0, printed + complaints
    assert re.search(rf"{SCENARIO} +│ 0 +│ 2 .*finished +│ complete +│ 1.0", printed)
    assert "1 of 1 complete, 0 without a score, mean reward 1.00" in printed


async def test_an_endpoint_that_is_out_costs_no_reward(url: str, runtime_cache: Path) -> None:
    async with FakeEndpoint(lambda _: Fails(status=500, message="out of order")) as fake:
        code, printed, _ = await run(
            url, runtime_cache.parent, fake.url, "--scenario", SCENARIO, "--tasks", "0,1", "--retries", "0"
        )
    assert code == 1
    assert "2 without a score" in printed
    assert printed.count("EndpointUnavailable: the model's endpoint") == 2
    assert "out of order" in printed


async def test_limits_end_an_attempt_and_it_is_scored(url: str, runtime_cache: Path) -> None:
    async with FakeEndpoint(lambda _: Says(calls=(("get_profile", {}),))) as fake:
        code, printed, _ = await run(
            url, runtime_cache.parent, fake.url, "--scenario", SCENARIO, "--tasks", "0", "--max-steps", "3", "--json"
        )
    assert code == 0
    row = rows(printed)[0]
    assert (row["ended"], row["steps"], row["reward_type"]) == ("max_steps", 3, "incomplete")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--scenario", "nowhere_1"], "the server has no scenario nowhere_1"),
        (["--tasks", "99"], "no such tasks"),
        (["--key-env", "NOT_THERE"], "no such environment variable"),
        (["--base-url", "nowhere"], "base_url"),
        (["--url", "http://127.0.0.1:9"], "cannot reach http://127.0.0.1:9"),
    ],
)
async def test_a_mistake_is_one_line(url: str, runtime_cache: Path, arguments: list[str], said: str) -> None:
    code, _, complaints = await run(url, runtime_cache.parent, "http://127.0.0.1:9/v1", *arguments)
    assert code == 2
    assert said in complaints
    assert len(complaints.strip().splitlines()) == 1
