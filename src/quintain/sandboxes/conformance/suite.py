"""Every check, in the order of the report."""

from quintain.sandboxes.base import IsolationLevel
from quintain.sandboxes.conformance import conduct, confinement, exhaustion, separation
from quintain.sandboxes.conformance.bench import Check

CHECKS: tuple[Check, ...] = (*conduct.CHECKS, *confinement.CHECKS, *separation.CHECKS, *exhaustion.CHECKS)


def applicable(level: IsolationLevel) -> tuple[Check, ...]:
    """The checks that a provider of this level must pass."""
    return tuple(check for check in CHECKS if check.level.rank <= level.rank)
