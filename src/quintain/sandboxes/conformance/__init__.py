"""The conformance suite: what every sandbox provider must do, as checks that third parties can run too."""

from quintain.sandboxes.conformance.bench import Bench, Check, Violation, probe_class
from quintain.sandboxes.conformance.suite import CHECKS, applicable

__all__ = ["CHECKS", "Bench", "Check", "Violation", "applicable", "probe_class"]
