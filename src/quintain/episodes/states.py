"""The states of one episode, kept by digest: what it began with, what it was scored on, and what it ended with."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from quintain.artifacts import ArtifactStore
from quintain.contracts.record import KeptStates, StateBlob
from quintain.environments.base import Environment
from quintain.errors import ArtifactError, SandboxError
from quintain.sandboxes.base import StateFile
from quintain.sandboxes.scratch import folder

_MAX_PROBLEM: Final = 500
_LOG = logging.getLogger(__name__)

State = tuple[StateBlob, ...]


class StateKeeper:
    """Keeps an episode's states, where they are kept. That it cannot is told in the record, and ends no episode."""

    def __init__(self, store: ArtifactStore | None, scratch: Path) -> None:
        """`store` is where they go; None: they are not kept."""
        self._store = store
        self._scratch = scratch
        self._initial: State | None = None
        self._final: State | None = None
        self._scored: State | None = None
        self._scored_after = 0
        self._problem: str | None = None

    @property
    def kept(self) -> KeptStates | None:
        """What a record tells of them; None where they are not kept."""
        if self._store is None:
            return None
        final = self._final
        scored = None if self._scored == final else self._scored
        return KeptStates(initial=self._initial, final=final, scored=scored, problem=self._problem)

    async def scored(self, state: Sequence[StateFile], calls: int) -> None:
        """The state on which a certain verdict was given, after so many calls. Of several the last counts."""
        if self._store is not None:
            self._scored, self._scored_after = await self._put(state), calls

    async def ended(self, environment: Environment, calls: int) -> None:
        """The environment ends, after so many calls; it is still there."""
        if self._store is None:
            return
        try:
            self._initial = await self._put(environment.initial)
            if self._scored is not None and self._scored_after == calls:
                self._final = self._scored  # nothing was done since
                return
            with folder(self._scratch, "quintain_state_") as copies:
                self._final = await self._put(await environment.snapshot(copies))
        except (SandboxError, ArtifactError, OSError) as error:
            self._failed(error)

    async def _put(self, state: Sequence[StateFile]) -> State | None:
        store = self._store
        assert store is not None

        def put() -> State:
            kept = []
            for file in state:
                data = file.path.read_bytes()
                kept.append(StateBlob(name=file.name, digest=store.put(data), size_bytes=len(data)))
            return tuple(kept)

        try:
            return await asyncio.to_thread(put)
        except (ArtifactError, OSError) as error:
            self._failed(error)
            return None

    def _failed(self, error: Exception) -> None:
        _LOG.error("a state was not kept: %s", error)
        self._problem = f"{type(error).__name__}: {error}"[:_MAX_PROBLEM]
