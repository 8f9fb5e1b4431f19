"""Playing environments in process, for tests."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from quintain.artifacts import LocalArtifactStore
from quintain.environments.base import ToolOutcome
from quintain.environments.inprocess import InProcessEnvironment, InProcessKind, ReadyMachine
from quintain.errors import Owner

JsonObject = dict[str, Any]
Action = tuple[str, JsonObject]

EPOCH = "2026-02-10T00:00:00Z"


def payload(document: str | JsonObject, scenario: str = "played") -> JsonObject:
    """A payload as a pack gives it; the document may be YAML."""
    read = yaml.safe_load(document) if isinstance(document, str) else document
    return {"scenario": scenario, "kind": read["kind"], "epoch": EPOCH, "environment": read, "files": {}}


class Player:
    """One episode of a document."""

    def __init__(self, environment: InProcessEnvironment, root: Path) -> None:
        self.environment = environment
        self._root = root
        self._copies = 0

    async def call(self, name: str, timeout_s: float = 30.0, /, **arguments: Any) -> ToolOutcome:
        """One call."""
        return await self.environment.call(name, arguments, timeout_s)

    async def text(self, name: str, /, **arguments: Any) -> str:
        """The result of a call that must succeed."""
        outcome = await self.call(name, **arguments)
        assert outcome.status == "ok", outcome
        assert outcome.owner is None
        assert outcome.text is not None
        return outcome.text

    async def file(self) -> bytes:
        """The state's file as it is now."""
        self._copies += 1
        into = self._root / f"copy{self._copies}"
        into.mkdir()
        (file,) = await self.environment.snapshot(into)
        assert (file.name, list(into.iterdir())) == ("state.json", [file.path])
        return file.path.read_bytes()

    async def state(self) -> JsonObject:
        """The state as it is now."""
        return dict(json.loads(await self.file()))


@asynccontextmanager
async def playing(
    make: Callable[[LocalArtifactStore, Path], InProcessKind],
    document: str | JsonObject,
    root: Path,
    seed: int = 0,
    start: JsonObject | None = None,
) -> AsyncIterator[Player]:
    """An episode that is closed again and must have left nothing in its scratch directory."""
    scratch = root / "scratch"
    scratch.mkdir(exist_ok=True)
    kind = make(LocalArtifactStore(root / "artifacts"), scratch)
    prepared = await kind.prepare("any", lambda: payload(document))
    environment = prepared.environment()
    await environment.reset(seed, start)
    try:
        yield Player(environment, root)
    finally:
        await environment.close()
    assert list(scratch.iterdir()) == []


async def played(
    ready: ReadyMachine, actions: Sequence[Action], root: Path, seed: int, start: JsonObject | None = None
) -> tuple[list[JsonObject], bytes]:
    """What some calls come to, but for how long they take, and the state after them. None is the platform's fault."""
    environment = ready.environment()
    await environment.reset(seed, start)
    outcomes = [await environment.call(name, arguments, 5.0) for name, arguments in actions]
    assert all(one.owner is not Owner.INFRASTRUCTURE for one in outcomes)
    assert all((one.text is None) != (one.error is None) for one in outcomes)
    (file,) = await environment.snapshot(root)
    await environment.close()
    return [one.model_dump(exclude={"duration_ms"}) for one in outcomes], file.path.read_bytes()
