"""The spool: where a worker's records are durable before anything else knows of them.

`<root>/<writer>/` belongs to one writer, which holds a lock on `lock` in it for as long as it lives. It has segments,
`00000001.seg` and on, of frames (`frames.py`). A record is acknowledged once its frame and the names of segment and
directory have reached the disk; what waits together is written and flushed together. A segment in which anything went
wrong is never appended to again, so a reader never has to go back.
"""

import asyncio
import errno
import fcntl
import logging
import os
import re
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final
from uuid import uuid4

from quintain.errors import SpoolFull, SpoolUnavailable
from quintain.records.frames import MAX_PAYLOAD_BYTES, frame

MAX_BYTES: Final = 4 * 2**30
"""Bytes that are not acknowledged, of all writers together, from which a spool is full."""

SEGMENT_BYTES: Final = 64 * 2**20
"""Bytes after which a segment is closed and the next begun."""

RETAINED: Final = "retained"
"""File in the directory of a writer whose last segments stay, once they are acknowledged, until `release` is told."""

QUARANTINE: Final = "quarantine"
"""Directory, beside the writers', with what could not be read."""

STATES: Final = "states"
"""Directory, beside the writers', with the states that records name; see `states.py`."""

NOT_WRITERS: Final = frozenset({QUARANTINE, STATES})
"""Directories of a spool that belong to no writer."""

_BATCH: Final = 512
_BATCH_BYTES: Final = 16 * 2**20
_LOOK_S: Final = 0.2
_LOG = logging.getLogger(__name__)
_Work = tuple[bytes, Future[None]]


class Spool:
    """One writer's part of a spool. Safe to use from any thread; close it when done."""

    def __init__(self, folder: Path, lock: int, *, max_bytes: int, segment_bytes: int) -> None:
        """Use `open`."""
        self.folder = folder
        self._lock = lock
        self._max_bytes = max_bytes
        self._segment_bytes = segment_bytes
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._closed = False
        self._segment: int | None = None
        self._number = 0
        self._size = 0
        self._looked = -_LOOK_S
        self._look_s = _LOOK_S
        self._held = 0
        self._thread = threading.Thread(target=self._run, name="quintain-spool", daemon=True)
        self._thread.start()

    @classmethod
    def open(
        cls,
        root: Path,
        *,
        name: str = "worker",
        max_bytes: int = MAX_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        retained: bool = False,
    ) -> "Spool":
        """A new writer's part of the spool at `root`, which is made if it is not there. Blocks for a few flushes.

        Args:
            name: says in the directory's name who writes; letters, digits, `-` and `_` of it are used.
            max_bytes: bytes of all writers, acknowledged ones not counted, from which the spool is full; twice as many
                are never exceeded.
            segment_bytes: bytes after which a new segment is begun, but no more than an eighth of `max_bytes`: of what
                was acknowledged, the segment that is written to stays on the disk.
            retained: the last two segments stay, whatever was acknowledged, until `spool_reader.release` is told. So a
                worker that was killed learns from them what of its work has a record.

        Raises:
            SpoolUnavailable: it cannot be written there.
        """
        called = re.sub(r"[^\w-]", "", name, flags=re.ASCII)[:40] or "worker"
        folder = root / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{called}-{uuid4().hex[:12]}"
        hidden = root / f".{folder.name}"
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            hidden.mkdir(mode=0o700)
            lock = os.open(hidden / "lock", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if retained:
                    (hidden / RETAINED).touch(0o600)
                flush_directory(hidden)
                hidden.rename(folder)  # a reader sees it only locked
                flush_directory(root)
            except BaseException:
                os.close(lock)
                raise
        except OSError as error:
            raise _refused(root, error) from error
        return cls(folder, lock, max_bytes=max_bytes, segment_bytes=min(segment_bytes, max(max_bytes // 8, 1)))

    @property
    def full(self) -> bool:
        """Whether nothing new should be begun, since what there is already takes all the space there may be.

        What runs may still append its record: a spool refuses only at twice its size.
        """
        return self._bytes() >= self._max_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes on disk of all writers, as looked at within the last moments."""
        return self._bytes()

    def append(self, payload: bytes) -> Future[None]:
        """Append a payload; the future is done once it would survive a power cut.

        The future may have:
            SpoolFull: the spool is at twice its size.
            SpoolUnavailable: it could not be written, or was closed. Appending it again is safe.
        """
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise SpoolUnavailable(f"a record of {len(payload)} bytes is over the {MAX_PAYLOAD_BYTES} a frame may have")
        outcome: Future[None] = Future()
        outcome.set_running_or_notify_cancel()  # what is on its way is written, whoever still waits
        with self._gate:
            if self._closed:
                raise SpoolUnavailable(f"the spool {self.folder} was closed; open another")
            self._queue.put((frame(payload), outcome))
        return outcome

    async def add(self, payload: bytes) -> None:
        """Append a payload, and return once that is durable; raises what `append`'s future may have."""
        await asyncio.wrap_future(self.append(payload))

    def close(self) -> None:
        """Write what is waiting, then give the directory to whoever reads it. Idempotent."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._thread.join()
        self._leave_segment()
        os.close(self._lock)

    def _run(self) -> None:
        more = True
        while more and (first := self._queue.get()) is not None:
            batch, size = [first], len(first[0])
            while more and len(batch) < _BATCH and size < _BATCH_BYTES:
                try:
                    work = self._queue.get_nowait()
                except Empty:
                    break
                if work is None:
                    more = False
                else:
                    batch.append(work)
                    size += len(work[0])
            self._write(batch, size)

    def _write(self, batch: list[_Work], size: int) -> None:
        try:
            self._make_room(size)
            self._put(b"".join(data for data, _ in batch))
        except OSError as error:
            self._leave_segment(cut=True)
            told: SpoolUnavailable = _refused(self.folder, error)
        except SpoolFull as error:
            told = error
        else:
            for _, outcome in batch:
                outcome.set_result(None)
            return
        _LOG.error("%d records not acknowledged: %s", len(batch), told)
        for _, outcome in batch:
            outcome.set_exception(told)

    def _make_room(self, size: int) -> None:
        if self._bytes(size) + size > 2 * self._max_bytes:
            raise SpoolFull(
                f"the spool {self.folder.parent} holds twice the {self._max_bytes} bytes it may; "
                "see that its records are ingested, or allow it more"
            )
        if self._segment is not None and self._size and self._size + size > self._segment_bytes:
            self._leave_segment()

    def _put(self, data: bytes) -> None:
        made = self._segment is None
        if self._segment is None:
            self._number += 1
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            self._segment = os.open(self.folder / segment_name(self._number), flags, 0o600)
            self._size = 0
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._segment, rest) :]
        os.fsync(self._segment)
        if made:
            flush_directory(self.folder)
        self._size += len(data)
        self._held += len(data)

    def _leave_segment(self, *, cut: bool = False) -> None:
        """Never write to this segment again. `cut` takes off what was not acknowledged, for a full disk's sake."""
        if self._segment is None:
            return
        if cut:
            with suppress(OSError):
                os.ftruncate(self._segment, self._size)
        with suppress(OSError):
            os.close(self._segment)
        self._segment = None

    def _bytes(self, more: int = 0) -> int:
        """Bytes of all writers that wait, as last looked at; again after a while, and before it is too much."""
        now = time.monotonic()
        if now - self._looked > self._look_s or self._held + more > 2 * self._max_bytes:
            self._held, self._looked = _bytes_in(self.folder.parent), now
            self._look_s = max(_LOOK_S, 20 * (time.monotonic() - now))  # many kept states take long to count
        return self._held


def segment_name(number: int) -> str:
    """File name of a segment, counted from 1."""
    return f"{number:08}.seg"


def flush_directory(folder: Path) -> None:
    """Have the names in a directory reach the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def acknowledged(folder: Path) -> tuple[int, int]:
    """Segment and offset up to which a writer's records were acknowledged."""
    try:
        segment, offset = (folder / "acknowledged").read_text("ascii").split()
        return int(segment), int(offset)
    except FileNotFoundError:
        return 0, 0
    except ValueError:
        return 0, 0  # torn by a power cut: from the beginning then, nothing counts twice


def _bytes_in(root: Path) -> int:
    """Bytes that are not acknowledged: what was is soon removed, but for the segment that is written to."""
    total = 0
    for folder in root.iterdir():
        if folder.name == STATES:
            total += _bytes_below(folder)
        elif folder.name not in NOT_WRITERS and folder.is_dir():
            done, offset = acknowledged(folder)
            for segment in folder.glob("*.seg"):
                with suppress(FileNotFoundError):  # acknowledged and removed
                    number = int(segment.stem)
                    if number >= done:
                        total += segment.stat().st_size - (offset if number == done else 0)
    return total


def _bytes_below(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # taken to the store and removed
                total += os.stat(os.path.join(place, name)).st_size
    return total


def _refused(where: Path, error: OSError) -> SpoolUnavailable:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = "its disk is full; make room" if full else f"{error.strerror or error}; see that it can be written"
    return SpoolUnavailable(f"the spool {where} cannot be written: {why} and append again")
