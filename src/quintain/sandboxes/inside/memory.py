"""Memory arranged so that forked processes share it: nothing of it is written only because they run."""

import gc

from inside import holes, immortal


def arrange(immortal_heap: bool) -> holes.Plugs:
    """Collect garbage, let everything that is there count as permanent, plug the holes; keep what is returned.

    Args:
        immortal_heap: give every object that is there a reference count that is never written again.
    """
    gc.collect()
    if immortal_heap:
        immortal.make_immortal()
    plugs = holes.Plugs()
    plugs.fill()
    gc.freeze()
    return plugs
