"""Pools over the wire: two tokens, a real WebSocket and /mcp, and what each can list, reset and attach to."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from quintain.tasks.pools import Pool
from quintain.tasks.registry import TaskRegistry
from toy import VERIFIERS, ToySource

TOY = "toy_notes_1"
TRAIN, DEV, BLIND = "trainer-0123456789", "nightly-0123456789", "release-0123456789"


@pytest.fixture
def registry(tmp_path: Path) -> TaskRegistry:
    """Of the notes' tasks, 1 and 3 in train, 2 in blind, the others in dev; bare_2 in train; the rest nowhere."""
    made = TaskRegistry.create(tmp_path / "registry")
    made.import_tasks(ToySource(), Pool.DEV, by="ann", scenarios=[TOY])
    made.import_tasks(ToySource(), Pool.TRAIN, by="ann", scenarios=["bare_2"])
    made.move([f"{TOY}/1", f"{TOY}/3"], Pool.TRAIN, by="ann", why="x")
    return made


@pytest.fixture
def live(serving: Callable[..., AbstractContextManager[Any]], registry: TaskRegistry, tmp_path: Path) -> Iterator[Any]:
    tokens = [
        {"name": "nightly", "token": DEV, "pools": ["dev"]},
        {"name": "release", "token": BLIND, "pools": ["blind"], "milestone": "release 1"},
    ]
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"schema_version": 1, "tokens": tokens}))
    with serving(tasks=registry, token=SecretStr(TRAIN), tokens=file) as running:
        yield running


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def client(live: Any, token: str, query: str = "") -> Any:
    return live.client(query, additional_headers=bearer(token))


def rpc(live: Any, token: str, method: str, **params: Any) -> Any:
    live.headers = bearer(token)
    return live.rpc(method, params)


def listing(session: Any) -> Any:
    return session.step("__list_scenarios__")["observation"]


def refusal(session: Any, **data: Any) -> str:
    observation = session.reset(**data)["observation"]
    assert observation["reward_type"] == "reset_error", observation
    assert observation.get("metadata", {}) == {}
    return str(observation["error"])


def test_each_token_lists_its_own_pools_and_indices_stay(live: Any) -> None:
    texts = [f"Do what verifier {name} looks for." for name in VERIFIERS]
    with client(live, TRAIN) as session:
        told = listing(session)
        assert told["total"] == 2
        assert {one["name"]: one["tasks"] for one in told["scenarios"]} == {
            TOY: ["", texts[1], "", texts[3]],
            "bare_2": ["Nothing to be done."],
        }
        assert told["metadata"] == {"task_indices": {TOY: [1, 3]}}
        for index in (1, 3):
            assert session.reset(scenario=TOY, task_idx=index)["observation"]["task"] == texts[index]
    with client(live, DEV) as session:
        (notes,) = listing(session)["scenarios"]
        assert notes["num_tasks"] == len(texts)
        assert notes["tasks"] == [text if index not in (1, 3) else "" for index, text in enumerate(texts)]
        assert session.reset(scenario=TOY, task_idx=0)["observation"]["task"] == texts[0]


def test_no_reset_leads_out_of_the_pools_and_no_refusal_names_one(live: Any) -> None:
    with client(live, TRAIN) as session:
        told = [
            refusal(session, scenario=scenario, task_idx=index, **more)
            for scenario, index in (
                (TOY, 0),
                ("Toy Notes 1", 2),
                ("TOY-NOTES_1", 7),
                ("broken_3", 0),
                ("reserved_4", None),
            )
            for more in ({}, {"task": "Something else."}, {"seed": 3, "attempt": 1, "model_digest": "mine"})
        ]
        assert all("this token" in one and "(train)" in one for one in told)
        assert not any(pool in one for one in told for pool in ("dev", "regression", "blind"))
        beyond = refusal(session, scenario=TOY, task_idx=99)
        assert beyond == refusal(session, scenario=TOY, task_idx=0).replace("no task 0 ", "no task 99 ")
        assert session.reset(scenario=TOY)["observation"]["reward_type"] == "reset_ok", "one of its tasks is seen"
    with client(live, DEV) as session:
        assert "no task 1 in toy_notes_1 that nightly may see (dev)" in refusal(session, scenario=TOY, task_idx=1)
        assert "no scenario 'bare_2'" in refusal(session, scenario="bare_2")
    live.wait_for(lambda: live.world.provider.live == 0)


def test_a_session_made_over_mcp_keeps_the_scope_of_its_token(live: Any) -> None:
    ours = rpc(live, DEV, "openenv/session/create")["result"]["session_id"]
    with client(live, TRAIN, f"?session_id={ours}") as stranger:
        told = stranger.receive()
        assert told["data"]["code"] == "SESSION_ERROR"
        assert "no session" in told["data"]["message"]
    for method in ("tools/list", "tools/call", "openenv/session/close"):
        answer = rpc(live, TRAIN, method, session_id=ours, name="list_notes")
        assert "no session" in answer["error"]["message"], answer
    with client(live, DEV, f"?session_id={ours}") as session:
        assert "no task 1" in refusal(session, scenario=TOY, task_idx=1)
        assert session.reset(scenario=TOY, task_idx=0)["observation"]["reward_type"] == "reset_ok"
        called = rpc(live, DEV, "tools/call", session_id=ours, name="__list_scenarios__")["result"]["data"]
        assert [one["name"] for one in called["scenarios"]] == [TOY]
        assert "no session" in rpc(live, TRAIN, "tools/list", session_id=ours)["error"]["message"]
        over = session.ask({"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}})
        assert over["data"]["result"]["tools"]
    ended = rpc(live, DEV, "openenv/session/close", session_id=ours)["result"]
    assert ended["closed"] or ended["closing"]  # its WebSocket may not have been told yet
    live.wait_for(lambda: len(live.registry) == 0)


def test_a_move_takes_effect_while_the_server_runs(live: Any, registry: TaskRegistry) -> None:
    with client(live, DEV) as session:
        assert session.reset(scenario=TOY, task_idx=4)["observation"]["reward_type"] == "reset_ok"
        TaskRegistry.open(registry.root).move([f"{TOY}/4"], Pool.TRAIN, by="bob", why="more")
        assert "no task 4" in refusal(session, scenario=TOY, task_idx=4)
        assert listing(session)["scenarios"][0]["tasks"][4] == ""
    with client(live, TRAIN) as session:
        assert session.reset(scenario=TOY, task_idx=4)["observation"]["reward_type"] == "reset_ok"


def test_blind_tasks_are_opened_by_whoever_first_sees_them(live: Any, registry: TaskRegistry) -> None:
    with client(live, BLIND) as session:
        assert listing(session)["total"] == 0
        assert registry.openings == ()
        registry.import_tasks(ToySource(), Pool.BLIND, by="ann", scenarios=["broken_3"])
        assert registry.openings == ()
        assert [one["name"] for one in listing(session)["scenarios"]] == ["broken_3"]
        assert "no scenario" in refusal(session, scenario=TOY, task_idx=0)
    with client(live, BLIND) as session:
        session.reset(scenario="broken_3", task_idx=0)
    (opening,) = registry.openings
    assert (opening.by, opening.event.milestone) == ("release", "release 1")  # type: ignore[union-attr]
    with client(live, TRAIN) as session:
        assert "no scenario" in refusal(session, scenario="broken_3", task_idx=0)


def test_the_statistics_name_no_scenario_of_others(live: Any) -> None:
    with client(live, DEV) as session:
        session.reset(scenario=TOY, task_idx=0)
        for token, named in ((DEV, {TOY: 1}), (TRAIN, {}), (BLIND, {})):
            live.headers = bearer(token)
            stats = live.get("/stats").json()
            assert (stats["total_sessions"], stats["scenarios"]) == (1, named)


def test_a_token_that_nobody_holds_and_none_at_all(live: Any) -> None:
    for headers in ({}, bearer("nobody-0123456789"), {"Authorization": f"Basic {DEV}"}):
        live.headers = headers
        assert live.get("/stats").status_code == 401
        assert live.post("/mcp", {}).status_code == 401


def test_without_a_token_on_loopback_the_pools_that_are_set_are_shown(
    serving: Callable[..., Any], registry: TaskRegistry
) -> None:
    with serving(tasks=registry) as live, live.client() as session:
        assert {one["name"] for one in listing(session)["scenarios"]} == {TOY, "bare_2"}
        assert "a client without a token may see (train)" in refusal(session, scenario=TOY, task_idx=0)


def test_without_a_registry_everyone_sees_everything(serving: Callable[..., Any]) -> None:
    with serving(token=SecretStr(TRAIN)) as live, client(live, TRAIN) as session:
        told = listing(session)
        assert told["total"] == 4
        assert "metadata" not in told
        assert session.reset(scenario=TOY, task_idx=0)["observation"]["reward_type"] == "reset_ok"


def test_a_registry_that_breaks_under_the_server_closes_it(live: Any, registry: TaskRegistry) -> None:
    journal = registry.root / "journal"
    with client(live, TRAIN) as session:
        whole = journal.read_bytes()
        journal.unlink()
        observation = session.reset(scenario=TOY, task_idx=1)["observation"]
        assert observation["reward_type"] == "reset_error"
        assert observation["metadata"] == {"failure_owner": "infrastructure"}
        assert str(registry.root) not in observation["error"]
        answer = session.ask({"type": "step", "data": {"type": "call_tool", "tool_name": "__list_scenarios__"}})
        assert answer["data"]["code"] == "EXECUTION_ERROR"
        assert str(registry.root) not in answer["data"]["message"]
        journal.write_bytes(whole)
        assert session.reset(scenario=TOY, task_idx=1)["observation"]["reward_type"] == "reset_ok"
