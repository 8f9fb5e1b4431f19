"""Holes in the heap, plugged before forking: a fork that fills one copies the page around it.

What a payload freed while it loaded leaves holes all over its memory. A forked episode allocates into them, here one,
there one, and for each the kernel copies a page. With the holes taken, an episode's objects lie together in pages of
its own: it needs a third of the memory, and its first call half the time. Nothing is done where the allocators do not
tell how many holes they have.
"""

import ctypes
import os
import re
import sys
from typing import Any

_ROW = re.compile(rb"^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*$", re.MULTILINE)  # class size pools used free
_BYTES_HEADER = sys.getsizeof(b"")
_LARGE = (65536, 32768, 16384, 8192, 4096, 2048, 1024, 768, 512, 384, 256, 192, 128, 96, 64, 48, 24)
_MOST = 200_000


class Plugs:
    """Allocations that do nothing but take room; they live as long as this object."""

    def __init__(self) -> None:
        self._small: list[list[bytes]] = []
        self._large = 0

    def fill(self) -> None:
        """Take the free blocks of Python's small-object pools, then the free chunks of the C library's heap."""
        for size, free in _free_blocks().items():
            if size > _BYTES_HEADER:
                self._small.append([bytes(size - _BYTES_HEADER) for _ in range(min(free, _MOST))])
        self._large = _fill_c_heap()


def _free_blocks() -> dict[int, int]:
    """Free blocks by size in the pools of the small-object allocator, as the interpreter itself reports them."""
    report = getattr(sys, "_debugmallocstats", None)
    if report is None:
        return {}
    reading, writing = os.pipe()  # holds the report, a few KiB, whole
    standard_error = os.dup(2)
    try:
        os.dup2(writing, 2)
        os.close(writing)
        report()
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)
    with open(reading, "rb") as file:
        text = file.read()
    return {int(row[1]): int(row[4]) for row in _ROW.findall(text) if int(row[1]) == 16 * (int(row[0]) + 1)}


class _HeapReport(ctypes.Structure):
    """struct mallinfo2, glibc 2.33 and newer."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
                     "keepcost")
    ]  # fmt: skip


def _fill_c_heap() -> int:
    """Allocate until only the end of the heap is free; returns how many chunks that took."""
    libc: Any = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return 0
    libc.mallinfo2.restype = _HeapReport
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    taken = 0
    for size in _LARGE:
        while taken < _MOST:
            before = libc.mallinfo2()
            if before.fordblks - before.keepcost < size:
                break
            chunk = libc.malloc(size)
            after = libc.mallinfo2()
            if after.keepcost < before.keepcost or after.arena > before.arena:
                libc.free(chunk)  # it came from the end: no hole of this size is left
                break
            taken += 1
    return taken
