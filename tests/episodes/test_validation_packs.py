"""Validation of packs: with many seeds, against attempts that are no solutions, and what is told without playing."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quintain.contracts.tools import CallToolAction
from quintain.environments import mock
from quintain.episodes.validation import Extent, ScenarioResult, Status, TaskResult, validate
from quintain.episodes.validation.spoiling import Spoiling, spoilt
from quintain.errors import Owner
from quintain.sandboxes.base import StateFile
from quintain.tasks import PackSource
from quintain.tasks.base import Verifier
from quintain.tasks.quarantine import Reason
from quintain.verifiers import CodeVerifier, Judge, JudgedVerifier
from quintain.verifiers.code import Returned
from quintain.verifiers.trace import action_trace
from quintain.verifiers.verifier_kind.code import run

TILL = """
kind: mock
title: Till
state: {price: 1, paid: 0, at: ""}
tools:
  - {name: look, description: Tells the price.}
  - name: pay
    input_schema: {type: object, properties: {amount: {type: integer}}, required: [amount], additionalProperties: false}
rules:
  - {tool: look, then: {result: "${state.price}"}}
  - {tool: pay, then: {result: Paid., set: {paid: "${arguments.amount}"}}}
"""
TIMED = TILL.replace("set: {", 'set: {at: "${now}", ')

TASK = """
- name: pay
  variables: {price: {integer: [1, 1000000]}}
  text: Pay ${price}.
  start: {price: "${price}"}
  solution: [{tool: look}, {tool: pay, arguments: {amount: "${price}"}}]
  answer: Paid.
  verify: verify_paid
"""
EXACT = """
def verify_paid(initial_state, final_state, variables):
    return {"result": "complete" if final_state["paid"] == variables["price"] else "others"}
"""
LAX = """
def verify_paid(final_state):
    return {"result": "complete" if final_state["paid"] else "others"}
"""
READ = """
- name: read
  variables: {price: {integer: [1, 1000000]}}
  text: What is the price?
  start: {price: "${price}"}
  solution: [{tool: look}]
  answer: "${price}"
  verify: verify_read
"""


class Unconfined(CodeVerifier):
    """Runs verifiers' code in this process: tests wrote it."""

    async def run(
        self,
        verifier: Verifier,
        initial: Sequence[StateFile],
        final: Sequence[StateFile],
        final_answer: str | None,
        **more: Any,
    ) -> Returned:
        states = [json.loads(files[0].path.read_bytes()) for files in (initial, final)]
        inputs = {"initial_state": states[0], "final_state": states[1], "final_answer": final_answer}
        extra = {"trace": action_trace(more.get("steps") or ()), "variables": more.get("variables") or {}}
        try:
            return Returned(run(verifier.code, verifier.function, inputs, extra))
        except Exception as error:
            return Returned(problem=str(error), owner=Owner.VERIFIER)


Validated = Callable[..., Any]


@pytest.fixture
def validated(open_world: Callable[..., Any], tmp_path: Path) -> Validated:
    """Validate the one scenario of a pack with these files in `till/`."""

    async def validated(files: Mapping[str, str], **extent: Any) -> ScenarioResult:
        whole = {"pack.yaml": "apiVersion: quintain.dev/v1alpha1\nkind: Pack\nname: desk\ntitle: Desk\n"}
        whole |= {f"till/{name}": text for name, text in files.items()}
        for name, text in whole.items():
            path = tmp_path / "pack" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        async with open_world() as world:
            verifier = JudgedVerifier(Unconfined(world.provider, world.verifier_class), Judge())
            kinds = {mock.KIND: mock.mock_kind(world.store, world.scratch)}
            source = PackSource.open(tmp_path / "pack")
            rooms = replace(world.rooms, source=source, kinds=kinds, verifier=verifier)
            asked = Extent(**({"repeats": 2, "at_once": 1, "settle_s": 0.3, "seeds": 3} | extent))
            (result,) = [one async for one in validate(rooms, ["till"], asked)]
        return result

    return validated


def pack(environment: str = TILL, tasks: str = TASK, verifier: str = EXACT) -> dict[str, str]:
    return {"environment.yaml": environment, "tasks.yaml": tasks, "verifier.py": verifier}


def reasons(result: ScenarioResult | TaskResult) -> list[Reason]:
    return [finding.reason for finding in result.findings]


@pytest.mark.parametrize("environment", [TILL, TIMED], ids=["plain", "timed"])
async def test_a_sound_task_and_the_call_that_it_does_not_need(validated: Validated, environment: str) -> None:
    result = await validated(pack(environment), seed=4, random=30)
    assert (result.status, result.findings, result.warnings, result.obstacle) == (Status.SOUND, (), (), None)
    (task,) = result.tasks
    assert [(one.seed, one.status, one.noop, one.solution) for one in task.seeds] == [
        (seed, "sound", "incomplete", "complete") for seed in (4, 5, 6)
    ]
    assert (task.noop, task.solution, task.warnings) == ("incomplete", "complete", ())
    assert task.notes == ("call 1 (look) is not needed",)
    assert task.trials is not None
    assert (task.trials.tried - task.trials.alike, task.trials.complete) == (30, 0)
    assert 0 < task.trials.alike < task.trials.tried


async def test_a_verifier_that_pays_for_something_else_is_found(validated: Validated) -> None:
    result = await validated(pack(verifier=LAX), random=30)
    (task,) = result.tasks
    assert (result.status, reasons(task)) == (Status.UNSOUND, [Reason.RANDOM_COMPLETE])
    assert task.trials is not None
    assert task.trials.complete >= 3
    assert "scored complete, and it does not end as the solution does; it did " in task.findings[0].detail
    assert "pay {" in task.findings[0].detail
    assert all(one.status is Status.SOUND for one in task.seeds), "replays alone do not show it"


async def test_where_nothing_changes_the_answer_is_what_counts(validated: Validated) -> None:
    looked = "def verify_read(trace):\n    return {'result': 'complete' if trace else 'others'}\n"
    result = await validated(pack(tasks=READ, verifier=looked), random=10)
    assert reasons(result.tasks[0]) == [Reason.RANDOM_COMPLETE]
    assert "answered None" in result.tasks[0].findings[0].detail


async def test_an_answer_that_is_right_is_a_solution_however_it_was_found(validated: Validated) -> None:
    said = "def verify_read(final_answer, variables):\n    return {'result': 'complete' if final_answer == "
    result = await validated(pack(tasks=READ, verifier=f"{said}str(variables['price']) else 'no'}}\n"), random=15)
    (task,) = result.tasks
    assert (result.status, task.notes) == (Status.SOUND, ("call 1 (look) is not needed",))


async def test_a_verifier_that_fails_on_what_others_leave_is_found(validated: Validated) -> None:
    brittle = EXACT.replace("    return", "    assert final_state['paid'] in (0, variables['price'])\n    return")
    result = await validated(pack(verifier=brittle), random=30)
    assert reasons(result.tasks[0]) == [Reason.VERIFIER_UNCERTAIN]
    assert "pay {" in result.tasks[0].findings[0].detail


async def test_one_seed_of_several_that_is_unsound_is_named(validated: Validated) -> None:
    source = TASK.replace("{integer: [1, 1000000]}", "{choice: [7, 8]}")
    odd = EXACT.replace("==", "== 7 ==")
    result = await validated(pack(tasks=source, verifier=odd), seeds=8)
    (task,) = result.tasks
    failing = [one.seed for one in task.seeds if one.solution != "complete"]
    assert 0 < len(failing) < 8
    assert (task.status, task.solution, task.noop) == (Status.UNSOUND, "incomplete", "incomplete")
    (finding,) = task.findings
    assert finding.reason is Reason.SOLUTION_NOT_COMPLETE
    assert finding.detail.startswith(f"{len(failing)} of 8 seeds; with {failing[0]}: the reference solution is scored")


async def test_seeds_that_make_the_same_task_are_a_warning(validated: Validated) -> None:
    result = await validated(pack(tasks=TASK.replace("{integer: [1, 1000000]}", "{choice: [7]}")))
    (task,) = result.tasks
    assert (result.status, task.status) == (Status.SOUND, Status.SOUND)
    assert [warning.partition(";")[0] for warning in task.warnings] == [
        "3 seeds make 1 different tasks: seeds 0 and 1 and 2 have the same text and start"
    ]


async def test_a_task_without_variables_is_one_task_for_all_seeds(validated: Validated) -> None:
    fixed = TASK.replace("  variables: {price: {integer: [1, 1000000]}}\n", "").replace("${price}", "5")
    fixed = fixed.replace('"5"', "5")
    five = "def verify_paid(final_state):\n    return {'result': 'complete' if final_state['paid'] == 5 else 'no'}\n"
    result = await validated(pack(tasks=fixed, verifier=five))
    assert (result.status, result.tasks[0].warnings) == (Status.SOUND, ())


async def test_what_is_wrong_with_a_document_is_told_with_its_line(validated: Validated) -> None:
    wrong = TILL.replace("state.price", "state.prise").replace("tool: pay, then", "tool: pai, then")
    result = await validated(pack(wrong))
    assert (result.status, result.boots, result.tasks) == (Status.UNSOUND, False, ())
    assert reasons(result) == [Reason.DOES_NOT_BOOT] * len(result.findings)
    told = [finding.detail for finding in result.findings]
    assert any(one.startswith("till/environment.yaml:10: rules[0].then.result: ") for one in told), told
    assert any(one.startswith("till/environment.yaml:11: rules[1].tool: no tool is called 'pai'") for one in told), told


async def test_what_may_be_wrong_is_a_warning_and_no_more(validated: Validated) -> None:
    idle = TILL.replace("rules:", "  - {name: wait}\nrules:")
    result = await validated(pack(idle, TASK + "  forbidden_tools: [loook]\n"))
    assert result.status is Status.SOUND
    told = sorted(result.warnings)
    assert told[0].startswith("task 0 forbids loook, and there is no such tool")
    assert told[1].startswith("till/environment.yaml:9: tools[2]: ")
    assert len(told) == 2


CALLS = [CallToolAction(tool_name=f"t{n}", arguments={"x": n, "y": f"v{n}"}) for n in range(3)]


async def made(number: int) -> tuple[list[CallToolAction], str | None]:
    """The calls of an attempt, and its answer."""
    agent, calls = spoilt(CALLS, "done", number, "a/0/1").agent, []
    while (action := await agent.act([], None)) is not None:
        calls.append(action)
    return calls, agent.final_answer


async def test_attempts_take_turns_at_the_ways_and_at_the_calls() -> None:
    ways = list(Spoiling)
    dropped, cut, swapped = (ways.index(way) for way in (Spoiling.DROPPED, Spoiling.CUT, Spoiling.SWAPPED))
    count = len(ways)
    assert [(await made(dropped + count * n))[0] for n in range(3)] == [CALLS[1:], [CALLS[0], CALLS[2]], CALLS[:2]]
    assert [spoilt(CALLS, "done", dropped + count * n, "k").dropped for n in range(4)] == [0, 1, 2, 0]
    assert [(await made(cut + count * n))[0] for n in range(3)] == [CALLS[:2], CALLS[:1], []]
    exchanged, answer = await made(swapped)
    assert (answer, exchanged != CALLS) == ("done", True)
    values = sorted(str(value) for call in exchanged for value in call.arguments.values())
    assert values == sorted(str(value) for call in CALLS for value in call.arguments.values())
    assert [await made(number) for number in range(20)] == [await made(number) for number in range(20)]
