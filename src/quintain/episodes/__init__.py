"""One episode's whole life: claim, reset, step, verify, record, destroy."""

from quintain.episodes.base import (
    Agent,
    EpisodeRequest,
    ResolvedTask,
    Rooms,
)
from quintain.episodes.episode import CALL_TIMEOUT_S, Episode
from quintain.episodes.scoring import Scored

__all__ = [
    "CALL_TIMEOUT_S",
    "Agent",
    "Episode",
    "EpisodeRequest",
    "ResolvedTask",
    "Rooms",
    "Scored",
]
