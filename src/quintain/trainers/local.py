"""Episodes of a trainer in the trainer's own process."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from quintain.agents.base import UNANSWERED, Observation, observed
from quintain.contracts.reward import awm_contract
from quintain.contracts.terminal import TerminalReason
from quintain.contracts.tools import Tool
from quintain.contracts.verification import VerifyPolicy
from quintain.episodes import Episode, EpisodeRequest, Rooms
from quintain.episodes.assembly import Assembly, open_rooms
from quintain.errors import Owner, QuintainError, UsageError
from quintain.rollout.plan import PlannedTask
from quintain.tasks import open_pack
from quintain.tasks.base import TaskSource
from quintain.tasks.pooled import PooledSource
from quintain.trainers.base import EpisodeSession, EpisodeSettings, JsonObject, OpenPlatform, Score


@dataclass(frozen=True)
class LocalPlatform:
    """This process: rooms of its own, opened for the trainer alone."""

    assembly: Assembly
    source: TaskSource | None = None
    """Where the tasks come from; None: the shipped pack."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[OpenPlatform]:
        """See `Platform.opened`; raises what `open_rooms` does."""
        source = self.source
        if source is None:
            with open_pack() as pack:
                async with LocalPlatform(self.assembly, pack).opened() as opened:
                    yield opened
            return
        async with open_rooms(source, self.assembly) as rooms, playing_in(rooms) as local:
            yield local


@asynccontextmanager
async def playing_in(rooms: Rooms) -> AsyncIterator[OpenPlatform]:
    """Rooms that are open already, as a platform."""
    local = _Local(rooms)
    try:
        yield local
    finally:
        await asyncio.gather(*(session.close() for session in local.sessions), return_exceptions=True)


class _Local:
    def __init__(self, rooms: Rooms) -> None:
        self.sessions = list[_LocalSession]()
        self._rooms = rooms

    async def tasks(self) -> Mapping[str, Mapping[int, str]]:
        source = self._rooms.source
        found = await asyncio.to_thread(source.scenarios)
        seen = {one.name: source.indices(one.name) for one in found} if isinstance(source, PooledSource) else {}
        return {
            one.name: {
                index: text for index, text in enumerate(one.tasks) if text and index in seen.get(one.name, (index,))
            }
            for one in found
        }

    async def tools(self, task: PlannedTask) -> Sequence[Tool]:
        request = EpisodeRequest(scenario=task.scenario, task_idx=task.task_idx, model_digest="unknown:trainer")
        episode = Episode(self._rooms, request)
        await episode.start()
        try:
            return tuple(episode.list_tools())
        finally:
            await episode.finish()

    def session(self, settings: EpisodeSettings) -> EpisodeSession:
        session = _LocalSession(self._rooms, settings)
        self.sessions.append(session)
        return session


class _LocalSession:
    def __init__(self, rooms: Rooms, settings: EpisodeSettings) -> None:
        self._rooms = rooms
        self._settings = settings
        self._episode: Episode | None = None
        self._closing = asyncio.Lock()
        self.identity: JsonObject = {}

    async def begin(self, task: PlannedTask, model_digest: str) -> None:
        await self.close()
        request = EpisodeRequest(
            scenario=task.scenario,
            task_idx=task.task_idx,
            seed=task.seed,
            model_digest=model_digest,
            contract=awm_contract(self._settings.reward_config),
            verify=VerifyPolicy.FINAL_ONLY,
        )
        episode = Episode(self._rooms, request)
        await episode.start()
        self._episode = episode
        if not episode.verifiable(self._settings.verifier):
            await self.close()
            mode = self._settings.verifier
            raise UsageError(f"task {task.task_idx} of {task.scenario} has no {mode} verifier; leave it out")
        self.identity = {name: episode.identity[name] for name in ("episode_id", "attempt", "model_digest")}

    async def call(self, name: str, arguments: JsonObject) -> tuple[Observation, bool]:
        if self._episode is None:
            return Observation(text=UNANSWERED, failed=True), True
        try:
            outcome = await self._episode.call(name, arguments, self._settings.call_timeout_s)
        except QuintainError:
            return Observation(text=UNANSWERED, failed=True), True
        return observed(outcome), outcome.owner is Owner.INFRASTRUCTURE

    async def score(self, final_answer: str | None, truncated: bool = False) -> Score:
        episode, self._episode = self._episode, None
        if episode is None:
            return Score(None, None, Owner.INFRASTRUCTURE, "the episode had ended before it was verified")
        reason = TerminalReason.MAX_STEPS if truncated else TerminalReason.DONE
        try:
            scored = await episode.verify(self._settings.verifier, final_answer)
            record = await episode.finish(reason=reason)
        except QuintainError as error:
            await episode.abort(TerminalReason.PLATFORM_FAILED, error.owner)
            return Score(None, None, error.owner, str(error))
        except BaseException:
            await asyncio.shield(episode.abort(TerminalReason.CANCELLED))
            raise
        if record.reward_valid:
            return Score(record.reward, record.reward_type)
        kind = record.reward_type or scored.verdict.reward_type
        return Score(None, kind, record.failure_owner or scored.owner, scored.verdict.reason)

    async def close(self) -> None:
        async with self._closing:  # whoever comes second waits for the first
            episode, self._episode = self._episode, None
            if episode is not None:
                await episode.abort(TerminalReason.CANCELLED)
