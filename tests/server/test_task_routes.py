"""OpenEnv's task routes: as it was recorded of OpenEnv 0.10, and only what a token may see."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from live import serving as serving_over
from quintain.server import task_routes
from quintain.tasks.pools import Pool
from quintain.tasks.quarantine import Entry, QuarantineList, Reason
from quintain.tasks.quarantined import QuarantinedSource
from quintain.tasks.registry import TaskRegistry
from toy import VERIFIERS, ToySource, ToyWorld

TOY = "toy_notes_1"
TRAIN, RELEASE = "trainer-0123456789", "release-0123456789"
ENV = "AWMEnvironment"
EVERY = [*[f"{TOY}/{index}" for index in range(len(VERIFIERS))], "bare_2/0", "broken_3/0"]


def ids(live: Any, path: str, **body: Any) -> list[str]:
    return [one["id"] for one in live.post(f"/{ENV}/{path}", body).json()["tasks"]]


# Method, path and body, and the answer, of an OpenEnv 0.10 server with an environment `Echo` of two tasks.
RECORDED = [
    ("GET", "splits", None, '[{"name":"train","type":"train"},{"name":"test","type":"test"}]'),
    ("POST", "tasks", {"split": "train"}, '{"tasks":[{"id":0,"q":"a"},{"id":1,"q":"b"}],"env_name":"Echo"}'),
    ("POST", "num_tasks", {"split": "train"}, '{"num_tasks":2}'),
    ("POST", "task", {"split": "train", "index": 1}, '{"task":{"id":1,"q":"b"}}'),
    ("POST", "task_range", {"split": "train", "start": 0, "stop": 1}, '{"tasks":[{"id":0,"q":"a"}]}'),
    ("POST", "task", {"split": "train", "index": 99}, '{"detail":"Invalid task index"}'),
]


@pytest.mark.parametrize(("method", "path", "body", "answer"), RECORDED, ids=lambda part: str(part)[:24])
def test_answers_have_the_recorded_form(live: Any, method: str, path: str, body: Any, answer: str) -> None:
    response = live.get(f"/{ENV}/{path}") if method == "GET" else live.post(f"/{ENV}/{path}", body)
    recorded, told = json.loads(answer), response.json()
    assert response.headers["content-type"] == "application/json"
    if "detail" in recorded:
        assert (response.status_code, told) == (400, recorded)
        return
    assert response.status_code == 200
    if isinstance(recorded, list):
        assert told == [{"name": "train", "type": "train"}]
        return
    assert list(told) == list(recorded)
    assert {name: type(value) for name, value in told.items()} == {
        name: type(value) for name, value in recorded.items()
    }
    assert told.get("env_name", ENV) == ENV


def test_what_a_task_is_told_by_begins_it(live: Any) -> None:
    assert live.get("/list_environments").json() == [ENV]
    assert live.post(f"/{ENV}/num_tasks", {"split": "train"}).json() == {"num_tasks": len(EVERY)}
    told = live.post(f"/{ENV.lower()}/task", {"split": "train", "index": 3}).json()["task"]
    text = f"Do what verifier {list(VERIFIERS)[3]} looks for."
    assert told == {
        "id": f"{TOY}/3", "index": 3, "scenario": TOY, "task_idx": 3, "task": text,
        "kind": "database", "difficulty": None, "tags": [], "verifiers": ["code"],
        "dataset": live.world.source.dataset_digest, "varies_by_seed": False,
        "reset": {"scenario": TOY, "task_idx": 3, "seed": 0},
        "task_id": f"{TOY}/3", "task_name": f"{TOY}/3",
        "instruction": text,
    }  # fmt: skip
    with live.client() as session:
        observation = session.reset(**told["reset"])["observation"]
        assert (observation["reward_type"], observation["task"]) == ("reset_ok", told["task"])


def test_ranges_are_slices(live: Any) -> None:
    def ranged(**bounds: Any) -> list[str]:
        return ids(live, "task_range", split="train", **bounds)

    assert ids(live, "tasks", split="train") == ranged() == EVERY
    assert ranged(start=8) == EVERY[8:]
    assert ranged(stop=2) == EVERY[:2]
    assert ranged(start=-2, stop=None) == EVERY[-2:]
    assert ranged(start=5, stop=5) == ranged(start=50) == []


def test_answers_are_bounded(live: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_routes, "MAX_LISTED", 4)
    assert ids(live, "tasks", split="train") == EVERY[:4]
    assert ids(live, "task_range", split="train", start=3) == EVERY[3:7]
    assert live.post(f"/{ENV}/num_tasks", {"split": "train"}).json() == {"num_tasks": len(EVERY)}


@pytest.mark.parametrize(
    ("path", "body", "status", "detail"),
    [
        ("AWMEnvironment/tasks", {"split": "dev"}, 400, "no split is called 'dev'; there are train"),
        ("AWMEnvironment/task", {"split": "train", "index": -1}, 400, "Invalid task index"),
        ("Echo/tasks", {"split": "train"}, 404, "unknown environment 'Echo'"),
        ("AWMEnvironment/task", {"split": "train"}, 422, ["body", "index"]),
        ("AWMEnvironment/task", {"split": "train", "index": True}, 422, ["body", "index"]),
        ("AWMEnvironment/task", {"split": "train", "index": "1"}, 422, ["body", "index"]),
        ("AWMEnvironment/task", {"split": "train", "index": 1.0}, 422, ["body", "index"]),
        ("AWMEnvironment/task_range", {"split": "train", "start": True}, 422, ["body", "start"]),
        ("AWMEnvironment/task_range", {"split": "train", "stop": "2"}, 422, ["body", "stop"]),
        ("AWMEnvironment/tasks", {"split": "train", "page": 2}, 422, ["body", "page"]),
        ("AWMEnvironment/tasks", [], 422, ["body"]),
        ("AWMEnvironment/tasks", "{", 422, None),
        ("AWMEnvironment/tasks", json.dumps({"split": "x" * 70_000}), 413, None),
    ],
)
def test_what_is_refused(live: Any, path: str, body: Any, status: int, detail: Any) -> None:
    response = live.post(f"/{path}", body)
    told = response.json()["detail"]
    assert response.status_code == status, told
    assert (told[0]["loc"] if isinstance(detail, list) else told) == (told if detail is None else detail)


@pytest.fixture
def pooled(serving: Callable[..., AbstractContextManager[Any]], tmp_path: Path) -> Iterator[Any]:
    """Of the notes' tasks, 1 and 3 are in train, the others in dev; bare_2 is in train, broken_3 in blind."""
    registry = TaskRegistry.create(tmp_path / "registry")
    registry.import_tasks(ToySource(), Pool.DEV, by="ann", scenarios=[TOY])
    registry.import_tasks(ToySource(), Pool.TRAIN, by="ann", scenarios=["bare_2"])
    registry.move([f"{TOY}/1", f"{TOY}/3"], Pool.TRAIN, by="ann", why="x")
    registry.import_tasks(ToySource(), Pool.BLIND, by="ann", scenarios=["broken_3"])
    tokens = [{"name": "release", "token": RELEASE, "pools": ["dev", "blind"], "milestone": "release 1"}]
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"schema_version": 1, "tokens": tokens}))
    with serving(tasks=registry, token=SecretStr(TRAIN), tokens=file) as running:
        running.tasks = registry
        yield running


def test_a_token_sees_the_tasks_of_its_pools(pooled: Any) -> None:
    assert pooled.get(f"/{ENV}/splits").status_code == 401
    pooled.headers = {"Authorization": f"Bearer {TRAIN}"}
    assert pooled.get(f"/{ENV}/splits").json() == [{"name": "train", "type": "train"}]
    assert ids(pooled, "tasks", split="train") == [f"{TOY}/1", f"{TOY}/3", "bare_2/0"]
    assert pooled.post(f"/{ENV}/task", {"split": "train", "index": 1}).json()["task"]["task_idx"] == 3
    for split in ("dev", "blind", "regression", "nowhere"):
        response = pooled.post(f"/{ENV}/num_tasks", {"split": split})
        assert (response.status_code, response.json()["detail"]) == (
            400,
            f"no split is called '{split}'; there are train",
        )
    pooled.tasks.move([f"{TOY}/0"], Pool.TRAIN, by="ann", why="x")
    assert ids(pooled, "tasks", split="train")[0] == f"{TOY}/0", "it follows the registry"


def test_blind_is_opened_only_when_it_is_listed(pooled: Any) -> None:
    pooled.headers = {"Authorization": f"Bearer {RELEASE}"}
    assert pooled.get(f"/{ENV}/splits").json() == [
        {"name": "dev", "type": "validation"},
        {"name": "blind", "type": "test"},
    ]
    assert pooled.post(f"/{ENV}/num_tasks", {"split": "dev"}).json() == {"num_tasks": len(VERIFIERS) - 2}
    assert pooled.tasks.openings == ()
    assert ids(pooled, "tasks", split="blind") == ["broken_3/0"]
    assert len(pooled.tasks.openings) == 1
    assert ids(pooled, "task_range", split="blind", start=0) == ["broken_3/0"]
    assert len(pooled.tasks.openings) == 1


def test_tasks_in_quarantine_are_left_out(make_world: Callable[..., ToyWorld], tmp_path: Path) -> None:
    world = make_world()
    places = [(TOY, 1), ("broken_3", None)]
    entries = [
        Entry(scenario=name, task_idx=index, reasons=(Reason.BY_HAND,), dataset_digest=world.source.dataset_digest,
              found_at=datetime.now(UTC))
        for name, index in places
    ]  # fmt: skip
    listed = QuarantineList(schema_version=1, entries=tuple(entries))
    world.rooms = replace(world.rooms, source=QuarantinedSource(world.source, listed))
    with serving_over(world, tmp_path / "kept") as live:
        assert ids(live, "tasks", split="train") == [one for one in EVERY if one not in (f"{TOY}/1", "broken_3/0")]
