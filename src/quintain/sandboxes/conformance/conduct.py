"""Checks of conduct: calls, state, death and leftovers. Every provider must pass them, isolated or not."""

import asyncio
import time
from pathlib import Path

from quintain.errors import CallTimeout, ResultTooLarge, SandboxLost, TemplateError
from quintain.sandboxes.base import IsolationLevel, StateFile
from quintain.sandboxes.conformance.bench import Bench, Check, HasProcess, Violation, require, running, value_of


async def answers_in_order(bench: Bench) -> None:
    """One request, one answer, with any JSON inside."""
    async with bench.sandbox() as sandbox:
        for value in (1, "text", None, [1.5, {"deep": ["\u2028", "\U0001f3aa", "\udc00"]}]):
            found = await value_of(sandbox, "echo", value=value)
            require(found == value, f"echo of {value!r} came back as {found!r}")
        require(await value_of(sandbox, "count") == 5, "calls were lost or repeated")
        require(await value_of(sandbox, "started_with") == {"seed": 7}, "begin was not given what claim was")


async def failing_payload_is_an_error(bench: Bench) -> None:
    """A payload that raises while loading is a TemplateError that says why."""
    try:
        await bench.provider.template(bench.plain, "conformance:failing", {"fail": "no such table: lances"})
    except TemplateError as error:
        require("no such table: lances" in str(error), f"the error hides the reason: {error}")
    else:
        raise Violation("a payload that raises was loaded")


async def state_is_private(bench: Bench) -> None:
    """Two instances of one template do not see each other's state, nor does a later one."""
    async with bench.sandbox() as one, bench.sandbox() as two:
        await value_of(one, "write_state", content="one was here")
        found = await value_of(two, "read_state")
        require(found == "initial", f"another instance's state is {found!r}")
    async with bench.sandbox() as later:
        found = await value_of(later, "read_state")
        require(found == "initial", f"a later instance's state is {found!r}")
        require(await value_of(later, "count") == 2, "a later instance remembers calls of an earlier one")


async def snapshot_copies_state(bench: Bench) -> None:
    """A snapshot holds the state files asked for that exist, follows no links, and the instance goes on."""
    into = Path(bench.materialise({"marker": b""})[0].path).parent
    async with bench.sandbox() as sandbox:
        await value_of(sandbox, "write_state", content="changed")
        await value_of(sandbox, "link_state", name="link", target="/etc/hostname")
        files = await sandbox.snapshot(["state.txt", "link", "absent"], into)
        require([file.name for file in files] == ["state.txt"], f"the snapshot holds {[f.name for f in files]}")
        require(files[0].path.read_text() == "changed", "the snapshot is not the state")
        require(await value_of(sandbox, "echo", value=1) == 1, "the instance did not go on after its snapshot")


async def death_is_noticed(bench: Bench) -> None:
    """A process that leaves without answering is an error at once; its state can still be read, then is gone."""
    into = Path(bench.materialise({"marker": b""})[0].path).parent
    async with bench.sandbox() as sandbox:
        await value_of(sandbox, "write_state", content="last words")
        started = time.monotonic()
        how = "leave_softly" if bench.provider.level is IsolationLevel.NONE else "leave"
        try:
            await sandbox.call({"probe": how, "arguments": {}}, 10)
        except SandboxLost:
            require(time.monotonic() - started < 5, "the death was noticed only by the timeout")
        else:
            raise Violation("a process that left answered")
        require(not sandbox.alive, "a dead instance says it is alive")
        files = await sandbox.snapshot(["state.txt"], into)
        require(files[0].path.read_text() == "last words", "the state did not outlive the process")
    try:
        await sandbox.snapshot(["state.txt"], into)
    except SandboxLost:
        return
    raise Violation("the state outlived destroy")


async def state_can_be_carried_over(bench: Bench) -> None:
    """A claim with the state of an earlier instance continues from it."""
    path = bench.materialise({"state.txt": b"carried"})[0].path
    async with bench.sandbox(state=[StateFile("state.txt", path)]) as sandbox:
        require(await value_of(sandbox, "read_state") == "carried", "the state given was not placed")


async def late_answers_are_cut_off(bench: Bench) -> None:
    """A call over its time is CallTimeout, in bounded time; a sibling answers meanwhile."""
    async with bench.sandbox() as slow, bench.sandbox() as sibling:
        started = time.monotonic()
        call = asyncio.ensure_future(slow.call({"probe": "sleep", "arguments": {"seconds": 30}}, 0.5))
        require(await value_of(sibling, "echo", value="here") == "here", "a sibling did not answer meanwhile")
        try:
            await call
        except CallTimeout:
            require(time.monotonic() - started < 5, "the timeout came late")
        else:
            raise Violation("a late answer was taken")
        require(not slow.alive, "an instance that timed out must not be used again")


async def large_answers_are_refused(bench: Bench) -> None:
    """An answer over the provider's limit is ResultTooLarge, and nothing else suffers."""
    async with bench.sandbox(limits=None) as sandbox, bench.sandbox() as sibling:
        require(len(await value_of(sandbox, "large", size=5 * 2**20)) == 5 * 2**20, "5 MB were not carried")
        try:
            await sandbox.call({"probe": "large", "arguments": {"size": 80 * 2**20}}, 10)
        except (ResultTooLarge, SandboxLost):
            pass
        else:
            raise Violation("an answer of 80 MB was taken")
        require(await value_of(sibling, "echo", value=2) == 2, "a sibling suffered")


async def destroy_leaves_nothing(bench: Bench) -> None:
    """After destroy the process is gone; destroying twice is harmless."""
    async with bench.sandbox() as sandbox:
        pid = sandbox.pid if isinstance(sandbox, HasProcess) else None
        await sandbox.destroy()
        await sandbox.destroy()
        require(not sandbox.alive, "a destroyed instance says it is alive")
        require(pid is None or not running(pid), f"process {pid} is still there after destroy")


CHECKS = tuple(
    Check(run.__name__, "conduct", IsolationLevel.NONE, run)
    for run in (
        answers_in_order,
        failing_payload_is_an_error,
        state_is_private,
        snapshot_copies_state,
        death_is_noticed,
        state_can_be_carried_over,
        late_answers_are_cut_off,
        large_answers_are_refused,
        destroy_leaves_nothing,
    )
)
