"""When an episode may be verified, and what of it is told."""

from enum import StrEnum


class VerifyPolicy(StrEnum):
    """How an episode treats being verified. In each, the first certain verdict is its reward and stays it.

    Whatever it says, verifying is of the control plane; agents cannot.
    """

    CONTROL_ONLY = "control_only"
    """Verifying does not end the episode, and a second time in a mode tells the first verdict again."""
    FINAL_ONLY = "final_only"
    """The first certain verdict ends the episode."""
    OPEN = "open"
    """Every time tells how things stand, as OpenEnv's servers do; each time after the first certain one is a probe:
    recorded and counted as such."""
