"""One attempt to get out, and how it must end."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal

Role = Literal["tool", "verifier", "load"]
Level = Literal["full", "reduced"]
Ending = Literal["answers", "raises", "lost", "timeout", "any"]

ROLES: Final[tuple[Role, ...]] = ("tool", "verifier", "load")
PREFIX: Final = "quintain-canary-"
HOST_FILE: Final = frozenset({"ENOENT", "EACCES"})
"""A file of the host: not there at level full, refused at level reduced."""
READ_ONLY: Final = frozenset({"EROFS", "EACCES", "ENOENT"})
"""A place that takes no writes: a read-only mount at level full, refused or absent at level reduced."""
REFUSED: Final = frozenset({"EPERM"})
NOTHING: Final = frozenset({"nothing"})


def token(label: str) -> str:
    """A secret to be planted under this name and looked for inside."""
    return PREFIX + sha256(label.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Escape:
    """One attempt.

    `code` defines `attempt(told)`, which runs inside and returns a word for each way it tried: the name of an errno or
    an exception, `nothing`, or what it GOT. Every word must be one of `words`. `reason` says why it must fail.
    """

    name: str
    area: str
    reason: str
    code: str
    words: frozenset[str] = frozenset()
    verifier: frozenset[str] | None = None
    """Words where it runs as a verifier, if they are others."""
    reduced: frozenset[str] | None = None
    """Words at level reduced, if they are others."""
    ending: Ending = "answers"
    """How the call ends: it answers with words, raises, loses its process, runs into its time, or any of these."""
    roles: tuple[Role, ...] = ROLES
    levels: tuple[Level, ...] = ("full", "reduced")
    destructive: bool = False
    """It would do harm if its limit did not hold, so that the limits are looked at in the same process first."""
    complete: bool = False
    """As a tool: it does what the task asks, by a way of its own, which is worth as much as any other."""
    uncertain: bool = False
    """As a tool: the verifier cannot read what it left, and says so."""

    def allowed(self, role: Role, level: Level) -> frozenset[str]:
        """Every word that may come back."""
        if level == "reduced" and self.reduced is not None:
            return self.reduced
        return self.verifier if role == "verifier" and self.verifier is not None else self.words
