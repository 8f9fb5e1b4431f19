"""An event loop in a thread of its own, for a trainer that is not asynchronous."""

import asyncio
import concurrent.futures.thread  # noqa: F401 - what it does at exit comes after what is registered later, here
import threading
import weakref
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

from quintain.errors import LifecycleError

_T = TypeVar("_T")

_CLOSING_S: Final = 30.0


class BackgroundLoop:
    """Runs coroutines for threads that wait for them. What it holds open is closed in it, when it is closed."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._let_go = asyncio.Event()
        self._held: Future[None] | None = None
        self._closed = False
        # a daemon: at exit it must be there still, to close what it holds
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()
        _close_at_exit(self)

    @property
    def closed(self) -> bool:
        """Whether it takes no more work."""
        return self._closed

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Wait for a coroutine; an interrupted wait cancels it.

        Raises:
            LifecycleError: it was closed.
        """
        if self._closed:
            work.close()
            raise LifecycleError("this trainer's episodes are closed; make a new spec")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Have a coroutine run that nobody waits for; nothing happens when the loop was closed."""
        if self._closed:
            work.close()
        else:
            asyncio.run_coroutine_threadsafe(work, self._loop)

    def hold(self, context: AbstractAsyncContextManager[_T]) -> _T:
        """Enter a context, once, that is left when the loop is closed; raises what entering raises."""
        entered: Future[_T] = Future()
        self._held = asyncio.run_coroutine_threadsafe(self._hold(context, entered), self._loop)
        return entered.result()

    async def _hold(self, context: AbstractAsyncContextManager[_T], entered: "Future[_T]") -> None:
        try:
            async with context as value:
                entered.set_result(value)
                await self._let_go.wait()
        except BaseException as error:
            if entered.done():
                raise
            entered.set_exception(error)

    def close(self) -> None:
        """Leave what is held and end the thread. Idempotent; from within the loop's own thread it does not wait."""
        if self._closed:
            return
        self._closed = True
        self._loop.call_soon_threadsafe(self._let_go.set)
        if threading.current_thread() is self._thread:  # by the garbage collector
            self._stop_behind()
            return
        try:
            if self._held is not None:
                self._held.result(_CLOSING_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CLOSING_S)

    def _stop_behind(self) -> None:
        if self._held is None:
            self._loop.call_soon(self._loop.stop)
        else:
            self._held.add_done_callback(lambda _: self._loop.call_soon_threadsafe(self._loop.stop))

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            pending = asyncio.all_tasks(self._loop)
            for task in pending:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()


def _close_at_exit(loop: BackgroundLoop) -> None:
    """Close a loop, if it is there still, when the main thread has ended.

    `atexit` is too late: by then no executor takes work, and what is held needs one to let go. The way is the one by
    which `concurrent.futures` ends its executors; what is registered last is called first.
    """
    alive = weakref.ref(loop)

    def close() -> None:
        loop = alive()
        if loop is not None:
            loop.close()

    getattr(threading, "_register_atexit")(close)  # noqa: B009 - private, and there is no other way
