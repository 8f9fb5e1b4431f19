"""Every episode of a server, however it ends: counted, and its record on its way to where records are kept."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from quintain.contracts.lifecycle import Lifecycle
from quintain.contracts.record import EpisodeRecord
from quintain.contracts.terminal import CALLED_OFF, Failure, TerminalReason
from quintain.episodes import Episode, EpisodeRequest, Rooms
from quintain.episodes.keeping import RecordKeeper
from quintain.errors import CapacityError, SettingsError, SpoolUnavailable
from quintain.records import Recorder, Redactor, Spool
from quintain.server.metrics import Metrics
from quintain.server.settings import Settings
from quintain.server.tokens import credentials

JsonObject = dict[str, Any]

_LOG = logging.getLogger(__name__)


class Recording:
    """Makes a server's episodes, and sees each of them to its record."""

    def __init__(self, metrics: Metrics | None = None, keeper: RecordKeeper | None = None) -> None:
        """`keeper` brings records to where they are kept; None keeps none."""
        self.metrics = metrics or Metrics()
        self._keeper = keeper
        self._open: set[Episode] = set()
        self._attributing: set[asyncio.Task[None]] = set()
        self._none_open = asyncio.Event()
        self._none_open.set()

    def episode(self, rooms: Rooms, request: EpisodeRequest) -> Episode:
        """A new episode, to be started at once; `drain` waits until it has ended.

        Raises:
            CapacityError: its record could not be kept, so it is not to begin.
        """
        obstacle = self._keeper.obstacle if self._keeper is not None else ""
        if obstacle:
            self.metrics.turned_away("records")
            raise CapacityError(obstacle)
        episode = Episode(rooms, request, lifecycle=Lifecycle(refused=self.metrics.refused), ended=self._ended)
        self._open.add(episode)
        self._none_open.clear()
        return episode

    async def drain(self, patience_s: float) -> None:
        """Wait until every record is kept, for so long at most. Call it when every session has ended."""
        try:
            async with asyncio.timeout(patience_s):
                await self._none_open.wait()
        except TimeoutError:
            _LOG.error("%d episodes did not end; they leave no record", len(self._open))
        await asyncio.gather(*self._attributing, return_exceptions=True)
        if self._keeper is not None:
            await self._keeper.drain(patience_s)

    def figures(self) -> JsonObject:
        """What `/stats` tells of it."""
        told = {"timings_ms": self.metrics.timings(), "counts": self.metrics.counts()}
        return told | {"records": self._keeper.figures() if self._keeper is not None else None}

    def gauges(self) -> dict[str, float]:
        """What `/metrics` tells of the records."""
        if self._keeper is None:
            return {}
        told = self._keeper.figures()
        return {
            "records_kept_total": told["kept"],
            "records_refused_total": told["refused"],
            "records_lost_total": told["lost"],
            "records_waiting": told["waiting"],
            **({"spool_bytes": told["spool_bytes"]} if told["spool_bytes"] is not None else {}),
            "spool_full": float(told["full"]),
            "admission_stopped": float(told["obstacle"] is not None),
        }

    def _ended(self, episode: Episode) -> None:
        try:
            self._record(episode)
        except Exception:  # the episode has ended all the same
            _LOG.exception("an episode of %s leaves no record", episode.request.scenario)
        self._open.discard(episode)
        if not self._open:
            self._none_open.set()

    def _record(self, episode: Episode) -> None:
        record = episode.record()
        self.metrics.ended(record)
        if isinstance(episode.error, CapacityError):
            self.metrics.turned_away("capacity")
        if self._keeper is None or not leaves_record(record):
            return
        if episode.error is None and record.failure_owner is None:
            self._keeper.keep(record, _credentials(episode))
            return
        task = asyncio.create_task(self._attributed(self._keeper, episode, record), name="attribute a failure")
        self._attributing.add(task)
        task.add_done_callback(self._attributing.discard)

    async def _attributed(self, keeper: RecordKeeper, episode: Episode, record: EpisodeRecord) -> None:
        """Keep the record of an episode with its failure."""
        try:
            record = await asyncio.to_thread(_with_failure, episode, record)
        except Exception:
            _LOG.exception("a failure could not be attributed; the record is kept without it")
        keeper.keep(record, _credentials(episode))


def leaves_record(record: EpisodeRecord) -> bool:
    """Whether a record is to be kept: of what got an identity, or would have but for a fault that is not the user's."""
    started = (TerminalReason.START_FAILED, TerminalReason.START_TIMEOUT)
    return record.episode_id is not None or record.terminal_reason in started


def _with_failure(episode: Episode, record: EpisodeRecord) -> EpisodeRecord:
    """The record with whose failure it was, and of what, as a rollout tells it."""
    from quintain.rollout.attempt import called_off, failure_of, remaining  # it brings what plays agents

    if episode.error is not None:
        failure: Failure | None = failure_of(episode.error, episode)
    elif record.terminal_reason in CALLED_OFF:
        failure = called_off(episode, TerminalReason(record.terminal_reason))
    else:
        failure = remaining(episode)
    return record.model_copy(update={"failure": failure})


def _credentials(episode: Episode) -> tuple[str, ...]:
    """What a reset gave that must not be kept."""
    judge = episode.request.judge
    key = judge.api_key if judge is not None else None
    return (key.get_secret_value(),) if key is not None else ()


@asynccontextmanager
async def open_recording(settings: Settings, run: str) -> AsyncIterator[Recording]:
    """What sees a server's episodes to their records, into the spool that the settings name.

    Several servers may name the same one: each writes to a directory of its own in it, and the size bounds them all.

    Args:
        run: names the run in the ledger and in the store.

    Raises:
        SettingsError: nothing can be written there.
    """
    if settings.spool_size_mib == 0:
        yield Recording()
        return
    limit = settings.spool_size_mib * 2**20
    try:
        spool = await asyncio.to_thread(lambda: Spool.open(settings.spool_dir, name="server", max_bytes=limit))
    except SpoolUnavailable as error:
        raise SettingsError(f"QUINTAIN_SPOOL: {error}; QUINTAIN_SPOOL_SIZE=0 keeps no records") from error
    own = credentials(settings)

    def sink_of(more: Collection[str]) -> Recorder:
        return Recorder(spool, Redactor([*own, *more]), run)

    try:
        yield Recording(keeper=RecordKeeper(sink_of, lambda: spool.held_bytes))
    finally:
        await asyncio.to_thread(spool.close)
