"""The shipped sql verifiers in the real verifier sandbox, within whole episodes, before a judge on loopback."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from quintain.episodes import Rooms
from quintain.episodes.assembly import Assembly, open_rooms
from quintain.episodes.base import EpisodeRequest
from quintain.episodes.episode import Episode
from quintain.tasks import AwmDataset, open_pack
from quintain.verifiers.judged import JudgedVerifier
from verifiers.judge_bench import KEY, Bench, open_bench
from verifiers.judge_server import Asked, answer, says

pytestmark = [
    pytest.mark.xdist_group("judged-pack"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def pack() -> Iterator[AwmDataset]:
    with open_pack() as source:
        yield source


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rooms(pack: AwmDataset, runtime_cache: Path) -> AsyncIterator[Rooms]:
    async with open_rooms(pack, Assembly(cache=runtime_cache.parent, warm_after=8)) as opened:
        yield opened


def judged_tasks() -> list[tuple[str, int]]:
    with open_pack() as source:
        return [
            (scenario.name, index)
            for scenario in source.scenarios()
            for index in range(len(scenario.tasks))
            if source.verifier(scenario.name, index, "sql") is not None
        ]


def in_process(source: AwmDataset, name: str, index: int, folder: Path) -> Any:
    """What the function returns on the files kept of the episode; the pack's code is our own."""
    verifier = source.verifier(name, index, "sql")
    assert verifier is not None
    scope: dict[str, Any] = {"sqlite3": sqlite3}
    exec(verifier.code, scope)
    return scope[verifier.function_name](str(folder / f"{name}_initial.db"), str(folder / f"{name}.db"))


async def played(rooms: Rooms, bench: Bench, name: str, index: int, folder: Path, *, solve: bool) -> tuple[Any, Asked]:
    """An episode with or without its reference solution, verified in sql mode and kept; its verdict and question."""
    solution = rooms.source.solution(name, index)
    assert solution is not None
    assert isinstance(rooms.verifier, JudgedVerifier)
    judged = replace(rooms, verifier=JudgedVerifier(rooms.verifier.code, bench.judge, bench.settings()))
    episode = Episode(judged, EpisodeRequest(scenario=name, task_idx=index, model_digest="reference"))
    await episode.start()
    for call in solution.calls if solve else ():
        await episode.call(call.name, call.arguments)
    verdict = (await episode.verify("sql", solution.final_answer if solve else None)).verdict
    await asyncio.to_thread(folder.mkdir)
    record = await episode.finish(folder)
    assert KEY not in record.model_dump_json()
    assert record.steps[-1].evidence == verdict.evidence
    return verdict, bench.server.asked[-1]


@pytest.mark.parametrize(("name", "index"), judged_tasks())
async def test_the_judge_sees_what_the_databases_hold(
    rooms: Rooms, pack: AwmDataset, name: str, index: int, tmp_path: Path
) -> None:
    async with open_bench() as bench:
        bench.server.then(says(answer("complete", 0.9, "as asked")), says(answer("incomplete", 0.9, "nothing done")))
        done, solved = await played(rooms, bench, name, index, tmp_path / "done", solve=True)
        undone, idle = await played(rooms, bench, name, index, tmp_path / "undone", solve=False)
    for verdict, asked, folder in ((done, solved, "done"), (undone, idle, "undone")):
        assert asked.data["evidence"] == verdict.evidence == in_process(pack, name, index, tmp_path / folder)
        assert asked.task["success_criteria"]
        assert asked.task["failure_criteria"]
    assert (done.reward_type, undone.reward_type) == ("complete", "incomplete"), (done.reason, undone.reason)
    assert (solved.data["evidence"], solved.data["final_answer"]) != (
        idle.data["evidence"],
        idle.data["final_answer"],
    )
