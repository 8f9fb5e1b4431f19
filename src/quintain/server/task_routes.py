"""OpenEnv 0.10's task routes: what there is to reset, listed by pool. They only tell; tasks are begun by `reset`.

A split is a pool that the client may see; without a task registry there is one, `train`, of everything. A task's index
is its place in the split, and moves when the pool changes; `reset` in its specification is what begins it.
Bodies and answers are those of OpenEnv 0.10's `HTTPEnvServer` (Task API).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, StrictInt, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quintain.errors import QuintainError, UsageError
from quintain.server.http import json_response
from quintain.server.messages import JsonObject, parse_json
from quintain.server.scopes import ScopedRooms, scope_of
from quintain.tasks import TaskSource
from quintain.tasks.over import SourceOver
from quintain.tasks.pooled import PooledSource
from quintain.tasks.pools import Pool
from quintain.tasks.quarantined import QuarantinedSource

ENV_NAME: Final = "AWMEnvironment"
"""The name of the environment, as `/metadata` has it; paths may spell it in any case."""

MAX_LISTED: Final = 1000
"""Most tasks in one answer; `num_tasks` tells how many there are, and a range goes on from there."""

MAX_BODY_BYTES: Final = 64 * 1024

_TYPES: Final = {Pool.TRAIN: "train", Pool.BLIND: "test"}
"""What OpenEnv calls a split of a pool; those that are not here are validation."""

Place = tuple[str, int]
Asked = TypeVar("Asked", bound="OfSplit")


class OfSplit(BaseModel):
    """The body of tasks and num_tasks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    split: str


class OneTask(OfSplit):
    """The body of task."""

    index: StrictInt


class TaskRange(OfSplit):
    """The body of task_range: bounds as of a slice."""

    start: StrictInt | None = None
    stop: StrictInt | None = None


class Refused(Exception):
    """An answer that is no answer: its status, and OpenEnv's `detail`."""

    def __init__(self, status: int, detail: object) -> None:
        super().__init__(str(detail))
        self.status = status
        self.detail = detail


def task_routes() -> list[BaseRoute]:
    """The routes, as values."""
    return [
        Route("/list_environments", list_environments, methods=["GET"]),
        Route("/{env_name}/splits", list_splits, methods=["GET"]),
        Route("/{env_name}/tasks", list_tasks, methods=["POST"]),
        Route("/{env_name}/num_tasks", num_tasks, methods=["POST"]),
        Route("/{env_name}/task", get_task, methods=["POST"]),
        Route("/{env_name}/task_range", get_task_range, methods=["POST"]),
    ]


async def list_environments(_request: Request) -> Response:
    """GET /list_environments."""
    return json_response([ENV_NAME])


async def list_splits(request: Request) -> Response:
    """GET /{env_name}/splits: the pools that the client may see."""

    async def answer() -> object:
        pools = _scoped(request).pools(scope_of(request))
        return [{"name": str(pool), "type": _TYPES.get(pool, "validation")} for pool in pools]

    return await _answered(request, answer)


async def list_tasks(request: Request) -> Response:
    """POST /{env_name}/tasks: the tasks of a split, at most the first thousand."""

    async def answer() -> object:
        split = await _split(request, (await _body(request, OfSplit)).split)
        return {"tasks": await split.specifications(range(len(split.places))[:MAX_LISTED]), "env_name": ENV_NAME}

    return await _answered(request, answer)


async def num_tasks(request: Request) -> Response:
    """POST /{env_name}/num_tasks: how many tasks a split has."""

    async def answer() -> object:
        return {"num_tasks": len((await _split(request, (await _body(request, OfSplit)).split)).places)}

    return await _answered(request, answer)


async def get_task(request: Request) -> Response:
    """POST /{env_name}/task: one task of a split."""

    async def answer() -> object:
        asked = await _body(request, OneTask)
        split = await _split(request, asked.split)
        if not 0 <= asked.index < len(split.places):
            raise Refused(400, "Invalid task index")
        (told,) = await split.specifications(range(asked.index, asked.index + 1))
        return {"task": told}

    return await _answered(request, answer)


async def get_task_range(request: Request) -> Response:
    """POST /{env_name}/task_range: tasks of a split, by bounds as of a slice, at most a thousand."""

    async def answer() -> object:
        asked = await _body(request, TaskRange)
        split = await _split(request, asked.split)
        wanted = range(len(split.places))[asked.start : asked.stop]
        return {"tasks": await split.specifications(wanted[:MAX_LISTED])}

    return await _answered(request, answer)


@dataclass(frozen=True)
class Split:
    """The tasks of a pool, in the dataset's order, as its client sees them."""

    source: TaskSource
    places: Sequence[Place]

    async def specifications(self, indices: range) -> list[JsonObject]:
        """What is told of the tasks at these indices."""
        return await asyncio.to_thread(lambda: [self._specification(index) for index in indices])

    def _specification(self, index: int) -> JsonObject:
        scenario, task_idx = self.places[index]
        task = self.source.task(scenario, task_idx)
        name = f"{scenario}/{task_idx}"
        return {
            "id": name,
            "index": index,
            "scenario": scenario,
            "task_idx": task_idx,
            "task": task.text,
            "kind": task.kind,
            "difficulty": task.difficulty,
            "tags": list(task.tags),
            "verifiers": list(task.verifiers),
            "dataset": self.source.dataset_of(scenario),
            "varies_by_seed": self.source.template(scenario, task_idx) is not None,
            "reset": {"scenario": scenario, "task_idx": task_idx, "seed": 0},
            # as openenv's own typed client of these routes reads a task
            "task_id": name,
            "task_name": name,
            "instruction": task.text or "",
        }


async def _split(request: Request, name: str) -> Split:
    """The split of that name, if the client may see it."""
    scoped, scope = _scoped(request), scope_of(request)
    pool = next((one for one in scoped.pools(scope) if str(one) == name), None)
    if pool is None:
        there = ", ".join(scoped.pools(scope))
        raise Refused(400, f"no split is called {name[:100]!r}; there are {there or 'none'}")
    source = scoped.of_pool(scope, pool).source
    return Split(source, await asyncio.to_thread(lambda: list(_places(source))))


def _places(source: TaskSource) -> Iterator[Place]:
    """The tasks that may be played."""
    held = _quarantine(source)
    for scenario in source.scenarios():
        seen = source.indices(scenario.name) if isinstance(source, PooledSource) else range(len(scenario.tasks))
        for index in seen:
            if index < len(scenario.tasks) and (held is None or held.quarantined(scenario.name, index) is None):
                yield scenario.name, index


def _quarantine(source: TaskSource) -> QuarantinedSource | None:
    while isinstance(source, SourceOver):
        if isinstance(source, QuarantinedSource):
            return source
        source = source.beneath
    return None


async def _answered(request: Request, answer: Callable[[], Awaitable[object]]) -> Response:
    named: str = request.path_params["env_name"]
    if named.lower() != ENV_NAME.lower():
        return json_response({"detail": f"unknown environment {named!r}"}, status=404)
    try:
        return json_response(await answer())
    except Refused as error:
        return json_response({"detail": error.detail}, status=error.status)
    except UsageError as error:
        return json_response({"detail": str(error)}, status=400)
    except QuintainError as error:
        return json_response({"detail": str(error)}, status=503)


async def _body(request: Request, model: type[Asked]) -> Asked:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise Refused(413, f"the body is over {MAX_BODY_BYTES} bytes; send less")
    try:
        return model.model_validate(parse_json(bytes(body)))
    except ValueError as error:
        if not isinstance(error, ValidationError):
            raise Refused(422, f"the body is no JSON: {error}") from None
        wrong = error.errors(include_url=False, include_context=False, include_input=False)
        raise Refused(422, [{**item, "loc": ["body", *item["loc"]]} for item in wrong]) from None


def _scoped(request: Request) -> ScopedRooms:
    scoped: ScopedRooms = request.app.state.scoped
    return scoped
