"""Clients for those who drive us. Each needs an extra, so each is imported from its own module or on first use."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quintain.clients.awm import AWMEnv, AWMObservation

__all__ = ["AWMEnv", "AWMObservation"]


def __getattr__(name: str) -> Any:
    """`quintain.clients.AWMEnv`, imported when it is asked for, because openenv is an extra."""
    if name in __all__:
        from quintain.clients import awm

        return getattr(awm, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
