"""Records on their way to be replayed or verified again, and what of a record says how."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from quintain.artifacts import ArtifactStore
from quintain.contracts.record import EpisodeRecord, StateBlob, StepRecord
from quintain.errors import ArtifactError, RecordUnreadable
from quintain.records.states import state_files
from quintain.sandboxes.base import StateFile

_CERTAIN: Final = frozenset({"complete", "incomplete", "agent_error"})
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Recorded:
    """A record, and where the states are that belong to it."""

    name: str
    """The record's digest, or the file it was read from."""
    record: EpisodeRecord
    states: Sequence[ArtifactStore] = ()
    """Where the states that it names are looked for."""
    folder: Path | None = None
    """A kept session's directory, which has its final state as files."""

    def files(self, state: Sequence[StateBlob]) -> list[StateFile]:
        """A kept state as files.

        Raises:
            ArtifactError: one is nowhere, or damaged.
            RecordUnreadable: the record names files that do not belong together.
        """
        refused: ArtifactError | None = None
        for store in self.states:
            try:
                return state_files(state, store)
            except ArtifactError as error:
                refused = error
        raise refused or RecordUnreadable(f"{self.name} names states, and nobody says where they are")


def scored_step(record: EpisodeRecord) -> StepRecord | None:
    """The verification that gave the record's reward: the first whose verdict was certain."""
    return next(
        (
            step
            for step in record.steps
            if step.action == "verify" and step.failure_owner is None and step.reward_type in _CERTAIN
        ),
        None,
    )


def argument(step: StepRecord, name: str) -> str | None:
    """A text among a step's arguments; None where there is none."""
    value = (step.arguments or {}).get(name)
    return value if isinstance(value, str) else None


async def each(
    recorded: Iterator[Recorded], do: Callable[[Recorded], Awaitable[_Result]], at_once: int
) -> AsyncIterator[_Result]:
    """What comes of each record, some at a time, as it comes. What `do` raises ends it all.

    Args:
        recorded: read in threads, one record at a time.
    """
    reading = asyncio.Lock()
    done: asyncio.Queue[_Result | None] = asyncio.Queue()

    async def work() -> None:
        while True:
            async with reading:
                one = await asyncio.to_thread(next, recorded, None)
            if one is None:
                return
            await done.put(await do(one))

    async def all_of_it() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(at_once):
                    group.create_task(work())
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        finally:
            done.put_nowait(None)

    working = asyncio.create_task(all_of_it())
    try:
        while (result := await done.get()) is not None:
            yield result
        await working
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
