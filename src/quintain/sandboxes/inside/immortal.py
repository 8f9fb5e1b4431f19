"""An immortal heap: reference counts that are never written again, so that forked processes share their pages.

A third of the memory that a forked episode has for itself is pages copied only because a count in them was written.
Everything reachable when a template has settled gets the count that PEP 683 gives to immortal objects; the
interpreter then leaves it alone. CPython 3.12 and newer, 64-bit, with its lock; elsewhere nothing is done.
"""

import ctypes
import gc
import sys
from types import CodeType
from typing import Any

_OLDEST, _NEWEST_TRIED = (3, 12), (3, 13)
_PARTS_OF_CODE = (
    "co_consts", "co_names", "co_exceptiontable", "co_linetable", "co_filename", "co_name", "co_qualname",
)  # fmt: skip


def supported() -> bool:
    """Whether this interpreter knows immortal objects in the way tried here; found by trying it on some."""
    if sys.implementation.name != "cpython" or not _OLDEST <= sys.version_info[:2] <= _NEWEST_TRIED:
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return False
    return _marks_hold()


def make_immortal() -> int:
    """Mark what can be reached from the collector's lists and is not marked yet; returns how many objects that was.

    What was frozen (`gc.freeze`) is in no list and is not looked at again.
    """
    mark, at, count_of = _mark(), ctypes.c_uint64.from_address, sys.getrefcount
    seen: set[int] = set()
    seen.add(id(seen))  # or it would be kept for ever, with a number for every object
    reached: list[Any] = gc.get_objects()
    while reached:
        fresh = {number: one for one in reached if count_of(one) != mark and (number := id(one)) not in seen}
        for number in fresh:
            at(number).value = mark  # now, while it is held: what dies later would leave its memory to others
        seen.update(fresh)
        reached = gc.get_referents(*fresh.values())
        for one in fresh.values():
            if type(one) is CodeType:  # no container to the collector
                reached += [getattr(one, part) for part in _PARTS_OF_CODE]
    return len(seen)


def _count(address: int) -> ctypes.c_uint64:
    return ctypes.c_uint64.from_address(address)


def _mark() -> int:
    """The count of an object that is immortal from the start."""
    return _count(id(None)).value


def _marks_hold() -> bool:
    """Whether marked objects of several types keep their mark, and work, when they are used and dropped."""
    trial: list[Any] = [object(), {"key": "value"}, "text not interned", (1, "x"), lambda: 1]
    mark = _mark()
    numbers = [id(one) for one in (trial, *trial)]
    for number in numbers:
        _count(number).value = mark
    copies = [list(trial) for _ in range(100)]
    del copies
    gc.collect()
    return all(_count(number).value == mark for number in numbers) and trial[1]["key"] == "value" and trial[4]() == 1
