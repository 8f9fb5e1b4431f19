"""An episode's life: its stages, which may follow which, and when each was entered.

    accepted -> resolving -> artifact_ready -> queued -> admitted -> allocated -> injected -> first_command_ok
    -> running <-> verifying -> {completed, failed, timed_out, cancelled} -> cleaning -> deleted

Any stage before the end may fall to failed, timed_out or cancelled. Time to first instruction (TTFI) is
accepted -> first_command_ok; ready is never "the process is up". An episode whose verdict is uncertain has completed:
it came to its own end, and whose failure it is that it has no reward is told beside the stage.
"""

import logging
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict

from quintain.errors import LifecycleError


class Stage(StrEnum):
    """Where an episode is in its life."""

    ACCEPTED = "accepted"
    RESOLVING = "resolving"
    ARTIFACT_READY = "artifact_ready"
    QUEUED = "queued"
    ADMITTED = "admitted"
    ALLOCATED = "allocated"
    INJECTED = "injected"
    FIRST_COMMAND_OK = "first_command_ok"
    RUNNING = "running"
    VERIFYING = "verifying"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    CLEANING = "cleaning"
    DELETED = "deleted"


ENDS: Final = frozenset({Stage.COMPLETED, Stage.FAILED, Stage.TIMED_OUT, Stage.CANCELLED})
"""The four ways an episode ends; only cleaning follows."""

_BROKEN: Final = frozenset({Stage.FAILED, Stage.TIMED_OUT, Stage.CANCELLED})

TRANSITIONS: Final[dict[Stage, frozenset[Stage]]] = {
    Stage.ACCEPTED: frozenset({Stage.RESOLVING}) | _BROKEN,
    Stage.RESOLVING: frozenset({Stage.ARTIFACT_READY}) | _BROKEN,
    Stage.ARTIFACT_READY: frozenset({Stage.QUEUED}) | _BROKEN,
    Stage.QUEUED: frozenset({Stage.ADMITTED}) | _BROKEN,
    Stage.ADMITTED: frozenset({Stage.ALLOCATED}) | _BROKEN,
    Stage.ALLOCATED: frozenset({Stage.INJECTED}) | _BROKEN,
    Stage.INJECTED: frozenset({Stage.FIRST_COMMAND_OK}) | _BROKEN,
    Stage.FIRST_COMMAND_OK: frozenset({Stage.RUNNING}) | _BROKEN,
    Stage.RUNNING: frozenset({Stage.VERIFYING, Stage.COMPLETED}) | _BROKEN,
    Stage.VERIFYING: frozenset({Stage.RUNNING, Stage.COMPLETED}) | _BROKEN,
    **{end: frozenset({Stage.CLEANING}) for end in ENDS},
    Stage.CLEANING: frozenset({Stage.DELETED}),
    Stage.DELETED: frozenset(),
}
"""For each stage the stages that may follow it."""


class StageStamp(BaseModel):
    """When a stage was entered: `wall` in seconds since 1970 (UTC), `monotonic` in seconds of the host's clock."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: Stage
    wall: float
    monotonic: float


_LOG = logging.getLogger(__name__)


class Lifecycle:
    """The stages one episode has entered, in order, from accepted on. One that may not follow is never entered."""

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        refused: Callable[[Stage, Stage], object] = lambda _now, _wanted: None,
    ) -> None:
        """`refused` is told of each transition that was not allowed: the stage it is in, and the one wanted."""
        self._refused = refused
        self._wall = wall
        self._monotonic = monotonic
        self._stamps: list[StageStamp] = []
        self._stamp(Stage.ACCEPTED)

    @property
    def stage(self) -> Stage:
        """The stage entered last."""
        return self._stamps[-1].stage

    @property
    def stamps(self) -> tuple[StageStamp, ...]:
        """Every stage entered so far."""
        return tuple(self._stamps)

    @property
    def ended(self) -> bool:
        """Whether the episode is over (its cleaning may still be going on)."""
        return self.stage in ENDS or self.stage in (Stage.CLEANING, Stage.DELETED)

    def enter(self, *stages: Stage) -> None:
        """Enter stages one after the other; none of them, where one may not follow the one before it.

        Raises:
            LifecycleError: such a stage. It was logged and told, too.
        """
        now = self.stage
        for stage in stages:
            allowed = TRANSITIONS[now]
            if stage not in allowed:
                choices = ", ".join(sorted(allowed)) or "nothing"
                told = f"an episode in stage {now} cannot enter {stage}; it may enter {choices}"
                _LOG.error("an illegal transition was refused: %s", told)
                self._refused(now, stage)
                raise LifecycleError(told)
            now = stage
        for stage in stages:
            self._stamp(stage)

    def _stamp(self, stage: Stage) -> None:
        self._stamps.append(StageStamp(stage=stage, wall=self._wall(), monotonic=self._monotonic()))
