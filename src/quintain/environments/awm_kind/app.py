"""A scenario's code, loaded as it is, and the FastAPI application it makes."""

import asyncio
import linecache
import os
import sys
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI

_TAIL = 12
"""Lines of a traceback that an error message carries."""


class ScenarioError(Exception):
    """The scenario cannot be loaded; the message carries the last lines of its traceback."""


class Scenario:
    """Loaded code: its module, its application, and the state its start-up yielded."""

    def __init__(self, name: str, module: types.ModuleType, app: FastAPI) -> None:
        self.name = name
        self.module = module
        self.app = app
        self.state: dict[str, Any] = {}
        self._lifespan: Any = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the start-up handlers, once. They are never ended: the process is killed with its episode.

        Raises:
            ScenarioError: a handler failed.
        """
        # Held for good: a collected context would run the shutdown handlers.
        self._lifespan = self.app.router.lifespan_context(self.app)
        with _explained(self.name, "does not start"):
            self.state = dict(loop.run_until_complete(self._lifespan.__aenter__()) or {})


def load(name: str, code: str, root: str, database: str) -> Scenario:
    """Execute a scenario's code in a module of its own, with `root` as the working directory.

    Args:
        name: normalised scenario name.
        database: path of the episode's database, given to the code as `DATABASE_PATH`.

    Raises:
        ScenarioError: the code failed, or made no application or several.
    """
    filename = f"{name}.py"
    os.chdir(root)
    os.environ["DATABASE_PATH"] = f"sqlite:///{database}"
    sys.argv = [filename]
    module = types.ModuleType(f"scenario_{name}")
    module.__file__ = os.path.join(root, filename)
    for shown in (filename, module.__file__):  # there is no such file; tracebacks and `inspect` look here
        linecache.cache[shown] = (len(code), None, code.splitlines(keepends=True), shown)
    sys.modules[module.__name__] = module
    served = _disable_servers()
    with _explained(name, "does not load"):
        exec(compile(code, filename, "exec"), vars(module))
    return Scenario(name, module, _application(name, module, served))


def _disable_servers() -> list[Any]:
    """Make calls that would start a web server do nothing; returns the list of applications they are given."""
    import uvicorn

    served: list[Any] = []

    def run(app: Any, *args: Any, **kwargs: Any) -> None:
        served.append(app)

    def run_configured(self: uvicorn.Server, *args: Any, **kwargs: Any) -> None:
        served.append(self.config.app)

    async def serve(self: uvicorn.Server, *args: Any, **kwargs: Any) -> None:
        served.append(self.config.app)

    uvicorn.run = run
    uvicorn.Server.run = run_configured  # type: ignore[method-assign]
    uvicorn.Server.serve = serve  # type: ignore[method-assign]
    return served


@contextmanager
def _explained(name: str, what: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        lines = "".join(traceback.format_exception(error)).rstrip().splitlines()
        tail = "\n".join(lines[-_TAIL:])
        raise ScenarioError(f"scenario {name!r} {what}: {type(error).__name__}: {error}\n{tail}") from None


def _application(name: str, module: types.ModuleType, served: list[Any]) -> FastAPI:
    named = vars(module).get("app")
    if isinstance(named, FastAPI):
        return named
    for app in served:
        if isinstance(app, FastAPI):
            return app
    found = {key: value for key, value in vars(module).items() if isinstance(value, FastAPI)}
    if len({id(app) for app in found.values()}) == 1:
        return next(iter(found.values()))
    problem = f"makes several FastAPI applications ({', '.join(found)})" if found else "makes no FastAPI application"
    raise ScenarioError(f"scenario {name!r} {problem}; it needs one, by preference called app")
