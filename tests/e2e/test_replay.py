"""Shipped tasks replay in real sandboxes, whoever played them; `make soak` plays them all."""

import json
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.serving import CACHE, run
from quintain.agents import RandomAgent, ReferenceAgent
from quintain.artifacts import LocalArtifactStore
from quintain.contracts.record import EpisodeRecord
from quintain.contracts.tools import CallToolAction
from quintain.episodes import Agent, Episode, EpisodeRequest, Rooms
from quintain.episodes.assembly import Assembly, open_rooms
from quintain.episodes.recorded import Recorded
from quintain.episodes.replay import Replayer, StateStatus, Status
from quintain.records.form import read_record
from quintain.records.recorder import seal
from quintain.records.redaction import Redactor
from quintain.tasks.shipped import open_pack

FEW = [("outdoor_marketplace_1", 0), ("parcel_desk_1", 1), ("vet_clinic_1", 0)]


@asynccontextmanager
async def pack_rooms(states: LocalArtifactStore) -> AsyncIterator[Rooms]:
    with open_pack() as source:
        async with open_rooms(source, Assembly(cache=CACHE)) as rooms:
            yield replace(rooms, states=states)


async def recorded(rooms: Rooms, agent: Agent, scenario: str, task_idx: int, seed: int = 0) -> EpisodeRecord:
    """What a worker would send of an agent's episode."""
    request = EpisodeRequest(scenario=scenario, task_idx=task_idx, seed=seed, model_digest=f"m{random.random()}")
    return read_record(seal(await Episode(rooms, request).play(agent), Redactor(), "test").data)


def reference(rooms: Rooms, scenario: str, task_idx: int) -> ReferenceAgent:
    known = rooms.source.solution(scenario, task_idx)
    assert known is not None
    calls = [CallToolAction(tool_name=call.name, arguments=call.arguments) for call in known.calls]
    return ReferenceAgent(calls, known.final_answer)


async def test_solutions_and_random_calls_replay_and_another_state_is_told_by_its_tables(tmp_path: Path) -> None:
    states = LocalArtifactStore(tmp_path / "states")
    async with pack_rooms(states) as rooms:
        replayer = Replayer(rooms)
        records = [await recorded(rooms, reference(rooms, *task), *task, seed=5) for task in FEW]
        records += [await recorded(rooms, RandomAgent(1, f"e{place}"), *task) for place, task in enumerate(FEW)]
        assert [record.reward for record in records[:3]] == [1.0] * 3
        for record in records:
            replay = await replayer.replay(Recorded("it", record, (states,)))
            assert (replay.status, replay.state) == (Status.IDENTICAL, StateStatus.SAME), replay
        one, idle = records[0], await recorded(rooms, ReferenceAgent([], ""), *FEW[0])
        mixed = one.model_copy(update={"states": idle.states})
        replay = await replayer.replay(Recorded("it", mixed, (states,)))
        assert (replay.status, replay.state) == (Status.DIFFERENT, StateStatus.DIFFERENT)
        assert replay.difference is not None
        assert "cart_items: 1 rows added" in replay.difference.replayed


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_stored_episodes_of_mixed_agents_all_replay(tmp_path: Path) -> None:
    """Size: QUINTAIN_SOAK_REPLAYS, the attempts of each of four agents at each shipped task; 2 make 264 episodes."""
    attempts = int(os.environ.get("QUINTAIN_SOAK_REPLAYS", "2"))
    with open_pack() as source:
        tasks = [(one.name, index) for one in source.scenarios() for index in range(len(one.tasks))]
    plan: dict[str, Any] = {
        "tasks": [
            {"scenario": name, "task_idx": index, "seed": place % 7} for place, (name, index) in enumerate(tasks)
        ],
        "attempts": attempts,
        "keep_states": True,
        "agents": [
            {"kind": "reference"},
            {"kind": "noisy", "rates": {"wrong_tool": 0.2, "wrong_argument": 0.2, "early_stop": 0.05, "loop": 0.1}},
            {"kind": "random", "name": "few", "min_steps": 1, "max_steps": 8},
            {"kind": "random", "name": "many", "seed": 1, "min_steps": 10, "max_steps": 25},
        ],
    }  # fmt: skip
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = run(
        ["run", str(tmp_path / "plan.json"), "--run-dir", str(tmp_path / "run"), "--json"], tmp_path, timeout_s=900
    )
    assert done.returncode == 0, done.stderr
    places = {"QUINTAIN_STORE": str(tmp_path / "store"), "QUINTAIN_LEDGER": str(tmp_path / "run" / "ledger.db")}
    done = run(["store", "ingest", "--once", "--spool", str(tmp_path / "run" / "spool")], tmp_path, **places)
    assert done.returncode == 0, done.stderr
    assert run(["store", "verify"], tmp_path, **places).returncode == 0
    size = len(tasks) * len(plan["agents"]) * attempts
    done = run(["replay", "--where", "true", "--json"], tmp_path, timeout_s=900, **places)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    print(lines[-1], "median ms:", sorted(one["duration_ms"] for one in lines[:-1])[size // 2])
    assert [one for one in lines[:-1] if one["status"] != "identical" or one["state"] != "same"] == []
    assert (done.returncode, lines[-1]) == (0, {"event": "summary", "records": size, "identical": size})
    done = run(["reverify", "--all", "--json"], tmp_path, timeout_s=900, **places)
    outcomes = Counter(json.loads(line).get("outcome") for line in done.stdout.splitlines())
    assert outcomes["unchanged"] == size
