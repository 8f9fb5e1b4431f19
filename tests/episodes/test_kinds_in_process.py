"""Mocks and simulators of a pack, as episodes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from quintain.environments import mock, simulator
from quintain.episodes import Episode, EpisodeRequest, Rooms
from quintain.tasks.packs import PackSource

PACK: Mapping[str, str] = {
    "pack.yaml": "apiVersion: quintain.dev/v1alpha1\nkind: Pack\nname: desk\ntitle: Desk\n",
    "till/environment.yaml": """
kind: mock
title: Till
state: {price: 1, paid: false}
tools:
  - {name: pay, input_schema: {type: object, properties: {amount: {type: integer}}, required: [amount]}}
rules:
  - {tool: pay, when: {arguments: {amount: "${state.price}"}}, then: {result: "Paid at ${now}.", set: {paid: true}}}
""",
    "till/tasks.yaml": """
- name: pay
  variables: {price: {integer: [1, 1000000]}}
  text: Pay ${price}.
  start: {price: "${price}"}
  solution: [{tool: pay, arguments: {amount: "${price}"}}]
  answer: Paid.
  verify: verify_paid
""",
    "till/verifier.py": "def verify_paid(final_state):\n    return {'result': 'complete'}\n",
    "call/environment.yaml": """
kind: simulator
title: Call
states: {open: {}, closed: {terminal: true}}
initial: open
tools: [{name: close}]
transitions: [{tool: close, from: open, to: closed, result: Closed.}]
counterpart: {opening: "Hello.", moods: {calm: {}, silent: {weight: 0, opening: ""}}}
""",
    "call/tasks.yaml": """
- name: close
  text: Answer the call.
  start: {counterpart: silent}
  solution: [{tool: respond, arguments: {message: Hello}}, {tool: close}]
  verify: verify_closed
""",
    "call/verifier.py": "def verify_closed(final_state):\n    return {'result': 'complete'}\n",
}


def opened(root: Path, rooms: Rooms, store: Any) -> Rooms:
    for name, text in PACK.items():
        path = root / "pack" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    kinds = {
        mock.KIND: mock.mock_kind(store, rooms.scratch),
        simulator.KIND: simulator.simulator_kind(store, rooms.scratch),
    }
    return replace(rooms, source=PackSource.open(root / "pack"), kinds=kinds)


async def steps(rooms: Rooms, scenario: str, seed: int) -> Sequence[tuple[str, Any, Any]]:
    episode = Episode(rooms, EpisodeRequest(scenario=scenario, task_idx=0, seed=seed, model_digest="a"))
    solution = rooms.source.solution(scenario, 0, seed)
    assert solution is not None
    await episode.start()
    assert episode.state_file == "state.json"
    for call in solution.calls:
        await episode.call(call.name, call.arguments)
    reason = "environment_ended" if episode.done else "done"
    record = await episode.finish()
    assert (record.start_kind, record.terminal_reason, record.failure_owner) == ("in_process", reason, None)
    return [(step.reward_type, step.result, step.error) for step in record.steps]


async def test_a_tasks_start_and_solution_fit_each_other_for_every_seed(
    open_world: Callable[..., Any], tmp_path: Path
) -> None:
    async with open_world() as world:
        rooms = opened(tmp_path, world.rooms, world.store)
        for seed in (0, 1, 2**53 - 1):
            assert await steps(rooms, "till", seed) == [("tool_call_ok", "Paid at 2026-02-10T00:00:01Z.", None)]
        assert await steps(rooms, "call", 0) == [("tool_call_ok", "", None), ("tool_call_ok", "Closed.", None)]


async def test_what_is_kept_of_it_is_its_states(open_world: Callable[..., Any], tmp_path: Path) -> None:
    keep = tmp_path / "keep"
    keep.mkdir()
    async with open_world() as world:
        rooms = opened(tmp_path, world.rooms, world.store)
        episode = Episode(rooms, EpisodeRequest(scenario="till", task_idx=0, model_digest="a"))
        await episode.start()
        await episode.call("pay", {"amount": -1})
        await episode.finish(keep)
    assert b'"pay":1' in (keep / "state.json").read_bytes()
