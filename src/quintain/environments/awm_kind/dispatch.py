"""Calls of tools, each a request to the application in this process."""

import asyncio
import contextlib
import os
from typing import Any

from inside.capture import Output
from starlette.convertors import PathConvertor, StringConvertor

from .answers import answer, failure
from .app import Scenario
from .asgi import HttpResponse, exchange
from .explain import explained
from .request import SLASH, InvalidArgumentsError, build
from .tools import Operation


def keep_slashes() -> None:
    """Give path arguments their slashes back once a request is routed."""

    def convert(self: Any, value: str) -> str:
        return value.replace(SLASH, "/")

    for convertor in (StringConvertor, PathConvertor):
        convertor.convert = convert  # type: ignore[method-assign]


class Loop:
    """The process's event loop, made when first needed: a loop does not cross a fork."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owner = 0

    def get(self) -> asyncio.AbstractEventLoop:
        """The loop of this process."""
        if self._loop is None or self._loop.is_closed() or self._owner != os.getpid():
            self._loop = asyncio.new_event_loop()
            self._owner = os.getpid()
            asyncio.set_event_loop(self._loop)
        return self._loop

    def busy(self) -> bool:
        """Whether calls left tasks in the loop."""
        loop = self._loop
        return loop is not None and not loop.is_closed() and bool(asyncio.all_tasks(loop))

    def close(self) -> None:
        """End what still runs in the loop, threads of its executor included, and the loop."""
        loop = self._loop
        if loop is None or loop.is_closed() or self._owner != os.getpid():
            return
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(BaseException):
            loop.run_until_complete(asyncio.wait(tasks, timeout=1) if tasks else asyncio.sleep(0))
            loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        asyncio.set_event_loop(None)
        self._loop = None


class Dispatcher:
    """Calls a scenario's tools. Nothing that a tool raises gets out."""

    def __init__(self, scenario: Scenario, operations: dict[str, Operation], loop: Loop, output: Output) -> None:
        self._scenario = scenario
        self._operations = operations
        self._loop = loop
        self._output = output

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer of one call, without its log."""
        operation = self._operations.get(tool)
        if operation is None:
            return failure("tool_not_found", f"there is no tool {tool!r}")
        if not isinstance(arguments, dict):
            return failure("invalid_args", f"the arguments of {tool} must be an object")
        try:
            request = build(operation, arguments)
        except InvalidArgumentsError as error:
            return failure("invalid_args", f"the arguments of {tool} cannot be sent: {error}")
        response = HttpResponse()
        try:
            response = self._loop.get().run_until_complete(exchange(self._scenario.app, request, self._scenario.state))
        except BaseException as error:  # SystemExit and the like stop the loop and come out here
            response.error = error
            self._loop.close()
        if response.error is not None and not response.too_large:
            self._output.write(explained(response.error))
        return answer(tool, response)
