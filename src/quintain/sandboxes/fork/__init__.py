"""The default provider: zygote, template and episode forks inside bubblewrap. Needs nothing but pip."""

from quintain.sandboxes.fork.provider import ForkProvider

__all__ = ["ForkProvider"]
