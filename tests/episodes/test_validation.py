"""Validation over the toy world: what episodes leave behind, what they change unasked, and failures of the platform."""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from quintain.contracts.identity import digest_of
from quintain.episodes.validation import (
    Extent,
    ScenarioResult,
    Status,
    TaskResult,
    ValidationReport,
    quarantine_entries,
    validate,
)
from quintain.episodes.validation.leftovers import Footprint
from quintain.errors import SandboxError
from quintain.sandboxes.base import JsonObject, SandboxLimits, StateFile, Template
from quintain.sandboxes.inprocess import InProcessProvider, InProcessSandbox
from quintain.tasks.base import Solution, ToolCall
from quintain.tasks.quarantine import Reason
from toy import KINDS, ToySource, ToyWorld

QUICK = Extent(tasks=frozenset({0}), repeats=2, at_once=1, settle_s=0.3, read_timeout_s=0.2)


class Solved(ToySource):
    """The toy source with a solution to its first task, and tools that do nothing odd."""

    def payload(self, name: str) -> dict[str, Any]:
        payload = super().payload(name)
        return payload | {"code": "plain"} if payload["scenario"] == "toy_notes_1" else payload

    def solution(self, name: str, task_idx: int, seed: int = 0) -> Solution | None:
        calls = (ToolCall(name="add_note", arguments={"text": "buy milk"}),)
        return (
            Solution(calls=calls, final_answer="42")
            if (name, task_idx) == ("toy_notes_1", 0)
            else super().solution(name, task_idx, seed)
        )


async def validated(
    world: ToyWorld, *names: str, extent: Extent = QUICK, source: ToySource | None = None
) -> dict[str, ScenarioResult]:
    rooms = replace(world.rooms, source=source or Solved())
    return {result.scenario: result async for result in validate(rooms, names, extent)}


def reasons(result: ScenarioResult | TaskResult) -> set[Reason]:
    return {finding.reason for finding in result.findings}


async def test_a_sound_task(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        found = (await validated(world, "toy_notes_1"))["toy_notes_1"]
    assert (found.status, found.boots, found.findings, found.obstacle) == (Status.SOUND, True, (), None)
    (task,) = found.tasks
    assert (task.task_idx, task.status, task.noop, task.solution) == (0, Status.SOUND, "incomplete", "complete")
    assert task.verifier_digest is not None
    assert 0 < task.duration_ms <= found.duration_ms


async def test_reads_that_hang_fail_or_die_are_no_difference(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        found = (await validated(world, "toy_notes_1", source=ToySource()))["toy_notes_1"]
    assert found.tools == 11, "the odd tools are not there"
    assert (found.status, found.findings) == (Status.UNPROVEN, ())


async def test_each_verifier_that_gives_no_verdict_is_told(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        extent = replace(QUICK, tasks=frozenset({0, 1, 2, 3, 7}), repeats=1)
        found = (await validated(world, "toy_notes_1", extent=extent))["toy_notes_1"]
    told = {task.task_idx: (task.status, reasons(task)) for task in found.tasks}
    crash = (Status.UNSOUND, {Reason.VERIFIER_UNCERTAIN})
    assert told == {0: (Status.SOUND, set()), 1: crash, 2: crash, 3: (Status.UNPROVEN, set()), 7: crash}
    assert found.status is Status.UNSOUND
    assert [task.missing for task in found.tasks] == [(), *[("solution",)] * 4]


async def test_results_come_in_the_order_asked_for(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        found = await validated(world, "bare_2", "broken_3", "toy_notes_1", extent=replace(QUICK, at_once=2))
    assert list(found) == ["bare_2", "broken_3", "toy_notes_1"]
    assert found["bare_2"].status is Status.UNPROVEN
    assert found["bare_2"].tasks[0].missing == ("verifier", "solution")
    assert (found["broken_3"].boots, reasons(found["broken_3"])) == (False, {Reason.DOES_NOT_BOOT})
    assert found["broken_3"].tasks == ()


async def test_what_an_episode_changes_unasked_is_found(tmp_path: Path) -> None:
    provider = InProcessProvider(tmp_path / "instances")
    world = ToyWorld(tmp_path, provider)
    world.templates.sandbox_class = replace(world.toy_class, kind=KINDS / "restless")
    found = (await validated(world, "toy_notes_1", extent=replace(QUICK, tasks=frozenset({3}))))["toy_notes_1"]
    await provider.close()
    assert reasons(found.tasks[0]) == {Reason.NOOP_CHANGES_STATE}
    assert world.leftovers == []


class Leaky(InProcessProvider):
    """Destroys sandboxes, and leaves something each time."""

    def __init__(self, root: Path, leak: Callable[[], object]) -> None:
        super().__init__(root)
        self._leak = leak

    async def claim(
        self,
        template: Template,
        start: JsonObject,
        state: Sequence[StateFile],
        *,
        limits: SandboxLimits | None = None,
        read_only: bool = False,
    ) -> InProcessSandbox:
        if not read_only:  # an episode's, not a verifier's
            self._leak()
        return await super().claim(template, start, state, limits=limits, read_only=read_only)


@pytest.fixture
def leaks(tmp_path: Path) -> Iterator[dict[str, Callable[[], object]]]:
    """Ways to leave something, all of it taken back in the end."""
    for thread in threading.enumerate():
        if thread.name == "quintain-inprocess":  # of a call that an earlier test gave up: it holds descriptors still
            thread.join(20)
    processes: list[subprocess.Popen[bytes]] = []
    descriptors: list[int] = []
    files: list[Path] = []

    def file() -> None:
        files.append(tmp_path / "scratch" / f"left-{len(files)}")
        files[-1].touch()

    yield {
        "files": file,
        "processes": lambda: processes.append(subprocess.Popen(["sleep", "60"])),
        "descriptors": lambda: descriptors.append(os.open("/dev/null", os.O_RDONLY)),
    }
    for descriptor in descriptors:
        os.close(descriptor)
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.parametrize("kind", ["files", "processes", "descriptors"])
async def test_what_is_left_behind_is_found(tmp_path: Path, leaks: dict[str, Callable[[], object]], kind: str) -> None:
    provider = Leaky(tmp_path / "instances", leaks[kind])
    found = (await validated(ToyWorld(tmp_path, provider), "toy_notes_1"))["toy_notes_1"]
    await provider.close()
    (task,) = found.tasks
    assert reasons(task) == {Reason.LEFT_BEHIND}
    assert task.findings[0].detail.startswith(f"{kind}: 1 ")
    assert found.status is Status.UNSOUND


async def test_what_is_opened_once_and_kept_is_no_leftover(tmp_path: Path) -> None:
    opened: list[int] = []
    claims = 0

    def open_once() -> None:
        nonlocal claims
        claims += 1
        if claims == 6:  # in the plays that are counted; before them there were three reads, a no-op and a solution
            opened.append(os.open("/dev/null", os.O_RDONLY))

    provider = Leaky(tmp_path / "instances", open_once)
    found = (await validated(ToyWorld(tmp_path, provider), "toy_notes_1"))["toy_notes_1"]
    await provider.close()
    assert claims > 6, "nothing was opened, so nothing is shown"
    assert opened
    os.close(opened[0])
    assert found.status is Status.SOUND


class Failing(InProcessProvider):
    """Starts nothing after a number of instances."""

    def __init__(self, root: Path, after: int) -> None:
        super().__init__(root)
        self._left = after

    async def claim(self, *args: Any, **more: Any) -> InProcessSandbox:
        self._left -= 1
        if self._left < 0:
            raise SandboxError("the host is out of something")
        return await super().claim(*args, **more)


@pytest.mark.parametrize("after", [0, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12])
async def test_what_the_platform_fails_at_is_held_against_no_task(tmp_path: Path, after: int) -> None:
    provider = Failing(tmp_path / "instances", after)
    found = (await validated(ToyWorld(tmp_path, provider), "toy_notes_1"))["toy_notes_1"]
    await provider.close()
    assert found.status is Status.UNDECIDED
    assert found.findings == ()
    assert all(task.findings == () for task in found.tasks)
    told = [found.obstacle, *(task.obstacle for task in found.tasks)]
    assert any("out of something" in text for text in told if text)
    assert quarantine_entries(report(found))[0] == ()
    _, cleared = quarantine_entries(report(found))
    assert (("toy_notes_1", None) in cleared) is (found.obstacle is None)
    assert (("toy_notes_1", 0) in cleared) is (found.tasks[0].obstacle is None)


def report(*results: ScenarioResult) -> ValidationReport:
    return ValidationReport(
        dataset_digest=digest_of({"toy": 1}), versions={}, started_at=datetime.now(UTC), duration_s=1.0, seed=0,
        repeats=2, scenarios=results,
    )  # fmt: skip


async def test_a_report_becomes_entries_and_is_read_again(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        extent = replace(QUICK, tasks=frozenset({0, 1}))
        found = await validated(world, "broken_3", "toy_notes_1", extent=extent)
    made = report(*found.values())
    assert ValidationReport.model_validate_json(made.model_dump_json()) == made
    entries, cleared = quarantine_entries(made, datetime(2026, 3, 1, tzinfo=UTC))
    assert [(entry.place, entry.reasons) for entry in entries] == [
        (("broken_3", None), (Reason.DOES_NOT_BOOT,)),
        (("toy_notes_1", 1), (Reason.VERIFIER_UNCERTAIN,)),
    ]
    assert {entry.dataset_digest for entry in entries} == {made.dataset_digest}
    assert entries[1].verifier_digest == found["toy_notes_1"].tasks[1].verifier_digest
    assert cleared == {("toy_notes_1", None), ("toy_notes_1", 0)}
    assert made.counts == {Status.SOUND: 1, Status.UNSOUND: 1}
    assert made.reasons == {Reason.DOES_NOT_BOOT: 1, Reason.VERIFIER_UNCERTAIN: 1}
    assert not made.passed


def footprint(**fields: Any) -> Footprint:
    plain: dict[str, Any] = {"processes": {"python": 1, "q-zygote": 2}, "grouped": 4, "files": {"scratch": 3}}
    return Footprint(**(plain | {"mounts": {1: 20, 7: 5}, "descriptors": {1: 30, 7: 9}} | fields))


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({}, {}),
        ({"processes": {"python": 1}, "grouped": 0, "files": {}, "mounts": {}, "descriptors": {}}, {}),
        ({"processes": {"python": 1, "q-zygote": 2, "sh": 1}}, {"processes": "1 of sh"}),
        ({"processes": {"python": 1, "q-zygote": 4}}, {"processes": "2 of q-zygote"}),
        ({"grouped": 6}, {"control group": "2 more in it"}),
        ({"files": {"scratch": 3, "scratch/t*": 1}}, {"files": "1 in scratch/t*"}),
        ({"mounts": {1: 20, 7: 8}}, {"mounts": "3 of process 7"}),
        ({"descriptors": {1: 31, 7: 8}}, {"descriptors": "1 of process 1"}),
        ({"mounts": {9: 500}, "descriptors": {9: 500}}, {}),  # of a process that came since: it is counted itself
    ],
)
def test_what_there_is_more_of(now: dict[str, Any], told: dict[str, str]) -> None:
    assert footprint(**now).more_than(footprint()) == told


def test_a_footprint_is_of_this_process_and_all_below_it(tmp_path: Path) -> None:
    ignored = tmp_path / "mine"
    before = Footprint.now(tmp_path, ignored)
    (tmp_path / "t12" / "e3").mkdir(parents=True)
    (tmp_path / "t12" / "e3" / "left").touch()
    (ignored / "kept").mkdir(parents=True)
    with subprocess.Popen(["sh", "-c", "sleep 60 & trap 'kill $!' TERM; echo; wait"], stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()
        children = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()
        while Path(f"/proc/{children[0]}/comm").read_text() != "sleep\n":
            time.sleep(0.01)  # forked already, and about to become it
        found = Footprint.now(tmp_path, ignored).more_than(before)
        shell.terminate()  # and its child with it: the trap ends both
    assert found["processes"] == "1 of sh, 1 of sleep"
    assert found["files"] == "1 in scratch, 1 in scratch/t*, 1 in scratch/t*/e*"
    assert found["descriptors"] == f"1 of process {os.getpid()}"
    assert "mounts" not in found
