"""Checks of limits: memory, processes, disk, processor, descriptors.

Each reads the limit first (harmless) and runs into it only if it is there; what runs is bounded in count as well.
"""

import time

from quintain.errors import CallTimeout, SandboxLost
from quintain.sandboxes.base import IsolationLevel
from quintain.sandboxes.conformance.bench import (
    LIMITS,
    Bench,
    Check,
    Violation,
    host_pid,
    refusal_of,
    require,
    running,
    value_of,
)


async def memory_is_bounded(bench: Bench) -> None:
    """Address space is limited; allocating past it is a MemoryError inside, and the instance goes on."""
    async with bench.sandbox() as sandbox:
        limit = (await value_of(sandbox, "limits"))["AS"]
        require(0 < limit < 8 * 2**30, f"the address space limit is {limit}")
        raised = await refusal_of(sandbox, "fill_memory", size=LIMITS.memory_bytes * 2)
        require(raised == "MemoryError", f"filling the memory ended with {raised}")
        require(await value_of(sandbox, "echo", value=1) == 1, "the instance did not go on")


async def threads_are_bounded(bench: Bench) -> None:
    """Threads end at the process limit, which counts inside the namespace; siblings have their own count."""
    async with bench.sandbox() as sandbox, bench.sandbox() as sibling:
        limit = (await value_of(sandbox, "limits"))["NPROC"]
        require(limit == LIMITS.pids, f"the process limit is {limit}")
        found = await value_of(sandbox, "start_threads", count=2 * LIMITS.pids)
        require(0 < found < LIMITS.pids, f"{found} threads ran under a limit of {LIMITS.pids}")
        again = await value_of(sibling, "start_threads", count=2 * LIMITS.pids)
        require(again == found, f"a sibling could run {again} threads, this one {found}")


async def processes_are_refused(bench: Bench) -> None:
    """A class whose policy has no processes starts none."""
    async with bench.sandbox() as sandbox:
        found = await value_of(sandbox, "start_processes", count=2)
        require(found == 0, f"{found} processes were started against the policy")


async def processes_are_bounded(bench: Bench) -> None:
    """A class that may start processes is bounded by the namespace's own count."""
    async with bench.sandbox(bench.forking) as sandbox:
        limit = (await value_of(sandbox, "limits"))["NPROC"]
        require(limit == LIMITS.pids, f"the process limit is {limit}")
        found = await value_of(sandbox, "start_processes", count=2 * LIMITS.pids)
        require(0 < found < LIMITS.pids, f"{found} processes ran under a limit of {LIMITS.pids}")


async def forking_without_end_is_stopped(bench: Bench) -> None:
    """A fork bomb ends with its call's time; every one of its processes goes with it; siblings answer."""
    await processes_are_bounded(bench)  # the harmless half: stop here if the limit does not hold
    async with bench.sandbox(bench.forking) as sandbox, bench.sandbox() as sibling:
        try:
            await sandbox.call({"probe": "fork_without_end", "arguments": {}}, 1.0)
        except (CallTimeout, SandboxLost):
            pass
        else:
            raise Violation("a fork bomb answered")
        require(await value_of(sibling, "echo", value=1) == 1, "a sibling did not answer")
        await sandbox.destroy()
        require(not running(host_pid(sandbox)), "the process survived")


async def strays_do_not_outlive_their_call(bench: Bench) -> None:
    """A process left behind by a call is ended, and the call says so."""
    await processes_are_bounded(bench)
    async with bench.sandbox(bench.forking) as sandbox:
        try:
            await value_of(sandbox, "leave_process")
        except SandboxLost:
            return
    raise Violation("a call could leave a process behind")


async def disk_is_bounded(bench: Bench) -> None:
    """The state directory has its own size; a full one is an OSError inside, and room can be made again."""
    async with bench.sandbox() as sandbox, bench.sandbox() as sibling:
        size = await value_of(sandbox, "disk_size")
        require(size == LIMITS.disk_bytes, f"the state directory's file system has {size} bytes")
        raised = await refusal_of(sandbox, "fill_disk", size=2 * LIMITS.disk_bytes)
        require(raised == "OSError", f"filling the disk ended with {raised}")
        require(await value_of(sibling, "write", path="/data/x") == "written", "a sibling's disk is full too")
        await value_of(sandbox, "unfill_disk")
        await value_of(sandbox, "write_state", content="room again")


async def endless_computing_is_stopped(bench: Bench) -> None:
    """A call that computes without end is cut off in time, and its process is gone."""
    async with bench.sandbox() as sandbox:
        started = time.monotonic()
        try:
            await sandbox.call({"probe": "spin", "arguments": {}}, 0.5)
        except CallTimeout:
            require(time.monotonic() - started < 5, "the timeout came late")
        else:
            raise Violation("an endless computation answered")
        await sandbox.destroy()
        require(not running(host_pid(sandbox)), "the process survived")


async def processor_time_is_bounded(bench: Bench) -> None:
    """CPU time over an instance's life is limited by the kernel, whatever the platform does."""
    async with bench.sandbox() as sandbox:
        limit = (await value_of(sandbox, "limits"))["CPU"]
        require(limit == LIMITS.cpu_seconds, f"the CPU time limit is {limit} s")


async def descriptors_are_bounded(bench: Bench) -> None:
    """Descriptors end at their limit; no core dumps."""
    async with bench.sandbox() as sandbox:
        limits = await value_of(sandbox, "limits")
        require(limits["NOFILE"] == LIMITS.open_files, f"the descriptor limit is {limits['NOFILE']}")
        require(limits["CORE"] == 0, "core dumps are allowed")
        found = await value_of(sandbox, "open_files", count=4 * LIMITS.open_files)
        require(found < LIMITS.open_files, f"{found} descriptors could be opened")


_REDUCED, _FULL = IsolationLevel.REDUCED, IsolationLevel.FULL
CHECKS = tuple(
    Check(run.__name__, "exhaustion", level, run, destructive)
    for run, level, destructive in (
        (memory_is_bounded, _REDUCED, True),
        (threads_are_bounded, _FULL, False),
        (processes_are_refused, _REDUCED, False),
        (processes_are_bounded, _FULL, False),
        (forking_without_end_is_stopped, _FULL, True),
        (strays_do_not_outlive_their_call, _FULL, True),
        (disk_is_bounded, _FULL, True),
        (endless_computing_is_stopped, _REDUCED, True),
        (processor_time_is_bounded, _REDUCED, False),
        (descriptors_are_bounded, _REDUCED, False),
    )
)
