"""Synchronous endpoints and dependencies run in the loop's own thread.

A server hands them to worker threads so that other requests go on meanwhile. Here there is one call at a time, and
the hand-overs and the new threads would cost three times as much as the call itself.
"""

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

import anyio.to_thread


def install() -> None:
    """Replace `anyio.to_thread.run_sync`, which all of them go through."""
    vars(anyio.to_thread).update(run_sync=_run_sync)


async def _run_sync(func: Callable[..., Any], *args: Any, **options: Any) -> Any:
    # To the code it looks like a worker thread: no loop runs, so that it may run one of its own.
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is None:
        return func(*args)
    asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        return contextvars.copy_context().run(func, *args)
    finally:
        asyncio._set_running_loop(loop)
        asyncio.tasks._enter_task(loop, task)
