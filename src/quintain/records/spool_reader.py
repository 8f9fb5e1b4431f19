"""Reading a spool: what every writer appended, from where it was last acknowledged, past whatever is damaged.

One reader has a spool at a time. What it hands out and is not acknowledged is handed out again by the next reader; so
whoever takes records knows them again by their digest.
"""

import fcntl
import logging
import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from quintain.errors import RecordError, SpoolUnavailable, StoreBusy
from quintain.records import frames
from quintain.records.spool import NOT_WRITERS, QUARANTINE, RETAINED, acknowledged, flush_directory
from quintain.records.states import spool_states

WAIT_S: Final = 10.0
"""How long who takes a spool's records waits for a run that looks for what it has done."""

_ABANDONED_S: Final = 60.0
_LOOK_S: Final = 0.05
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, order=True)
class Position:
    """A place behind a frame: the writer's directory, the segment's number, the offset in bytes."""

    writer: str
    segment: int
    offset: int


@dataclass(frozen=True)
class Delivery:
    """A payload that was appended; `position` is behind it."""

    position: Position
    payload: bytes


@dataclass(frozen=True)
class Damage:
    """Bytes of a segment that were no whole frame, and the file in which they are kept."""

    position: Position
    size_bytes: int
    torn_tail: bool
    kept: Path


class SpoolReader:
    """The one reader of a spool. Not to be used from several threads at once."""

    def __init__(self, root: Path, lock: int | None) -> None:
        """Use `open` or `beside`."""
        self.root = root
        self.states = spool_states(root)
        """The states that records of the spool name."""
        self.damages: list[Damage] = []
        """What was found damaged since it was opened."""
        self._lock = lock
        self._next: dict[str, tuple[int, int]] = {}

    @classmethod
    def open(cls, root: Path, wait_s: float = 0.0) -> Self:
        """Have the spool at `root`, which is made if it is not there.

        Args:
            wait_s: for so long another process may still read it, such as a run that looks for what it has done.

        Raises:
            StoreBusy: another process reads it.
            SpoolUnavailable: it cannot be read or written.
        """
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(root / "reader.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _refused(root, error) from error
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return cls(root, lock)
            except OSError as error:
                if time.monotonic() >= deadline:
                    os.close(lock)
                    raise StoreBusy(f"the spool {root} is read by another process; end that one first") from error
            time.sleep(_LOOK_S)

    @classmethod
    def beside(cls, root: Path) -> Self:
        """Look at the spool at `root` beside its reader: nothing is acknowledged, what is damaged is passed over."""
        return cls(root, None)

    def close(self) -> None:
        """Let another process have it. Idempotent."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def read(self, limit: int = 512, limit_bytes: int = 32 * 2**20) -> list[Delivery]:
        """What comes next, at most `limit` payloads and about `limit_bytes`; empty when all there is was handed out.

        Raises:
            SpoolUnavailable: it cannot be read, or what is damaged cannot be put aside.
        """
        found: list[Delivery] = []
        try:
            for folder in self._writers():
                with suppress(*((FileNotFoundError,) if self._lock is None else ())):  # its reader has just removed it
                    self._read_writer(folder, found, limit, limit_bytes)
        except OSError as error:
            raise _refused(self.root, error) from error
        return found

    def acknowledge(self, positions: Iterable[Position]) -> None:
        """These, and all before them of the same writers, need never be handed out again; whole segments are removed.

        Raises:
            SpoolUnavailable: that cannot be noted; they will be handed out again.
        """
        last: dict[str, Position] = {}
        for position in positions:
            last[position.writer] = max(position, last.get(position.writer, position))
        try:
            for writer, position in last.items():
                self._note(self.root / writer, position)
        except OSError as error:
            raise _refused(self.root, error) from error

    def rewind(self) -> None:
        """Hand out again what was not acknowledged."""
        self._next.clear()

    def rewind_wholly(self) -> None:
        """Hand out again all that is there, also what was acknowledged and retained."""
        self._next = {folder.name: (0, 0) for folder in self._folders()}

    def tidy(self) -> None:
        """Remove what is acknowledged of writers that have ended."""
        for folder in list(self._folders()):
            with suppress(OSError, RecordError):
                done = not _alive(folder) and acknowledged(folder) >= _end(folder)
                if done and not (folder / RETAINED).exists():
                    shutil.rmtree(folder)
                    self._next.pop(folder.name, None)
        for folder in self.root.glob(".*"):  # of writers that were killed while they made it
            with suppress(OSError):
                if folder.is_dir() and time.time() - folder.stat().st_mtime > _ABANDONED_S and not _alive(folder):
                    shutil.rmtree(folder)

    def _folders(self) -> Iterable[Path]:
        return _folders(self.root)

    def _writers(self) -> Iterable[Path]:
        # after the one that was read first last time, so that nobody waits for a busy one
        folders = list(self._folders())
        turn = int(time.monotonic() * 10) % len(folders) if folders else 0
        return folders[turn:] + folders[:turn]

    def _read_writer(self, folder: Path, found: list[Delivery], limit: int, limit_bytes: int) -> None:
        # looked at first: what was appended before its writer ended is then seen as well
        ended = not _alive(folder)
        segments = _segments(folder)
        number, offset = self._next.get(folder.name) or acknowledged(folder)
        size = sum(len(delivery.payload) for delivery in found)
        for segment in segments:
            if segment < number:
                continue
            if segment > number:
                number, offset = segment, 0
            last = segment == segments[-1]
            path = folder / f"{segment:08}.seg"
            descriptor = os.open(path, os.O_RDONLY)
            try:
                while len(found) < limit and size < limit_bytes:
                    here = frames.read(descriptor, offset)
                    if here is None:
                        break
                    if isinstance(here, frames.Frame):
                        found.append(Delivery(Position(folder.name, segment, here.end), here.payload))
                        size += len(here.payload)
                    elif here.last and last and not ended:
                        break  # still being written
                    elif self._lock is not None:
                        self._put_aside(path, segment, here)
                    offset = here.end
            finally:
                os.close(descriptor)
            self._next[folder.name] = number, offset
            if len(found) >= limit or size >= limit_bytes:
                return

    def _put_aside(self, path: Path, segment: int, gap: frames.Gap) -> None:
        """Keep what is no whole frame, and cut a torn tail off."""
        kept = self.root / QUARANTINE / f"{path.parent.name}-{segment:08}-{gap.start}.damaged"
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        with path.open("r+b") as file:
            file.seek(gap.start)
            data = file.read(gap.end - gap.start)
            with kept.open("wb") as copy:
                copy.write(data)
                copy.flush()
                os.fsync(copy.fileno())
            flush_directory(kept.parent)
            if gap.last:
                file.truncate(gap.start)
                os.fsync(file.fileno())
        damage = Damage(Position(path.parent.name, segment, gap.start), len(data), gap.last, kept)
        self.damages.append(damage)
        what = "ends in a record that was not wholly written" if gap.last else "is damaged"
        _LOG.warning("%s %s at byte %d: %d bytes kept in %s", path, what, gap.start, len(data), kept)

    def _note(self, folder: Path, position: Position) -> None:
        scratch = folder / "acknowledged.new"
        scratch.write_text(f"{position.segment} {position.offset}\n", "ascii")
        scratch.replace(folder / "acknowledged")
        # what was appended to the segment before may be too fresh for its worker to have noted it elsewhere
        kept = position.segment - (folder / RETAINED).exists()
        for segment in _segments(folder):
            if segment < kept:
                (folder / f"{segment:08}.seg").unlink()


def release(root: Path) -> None:
    """Let go of what is retained of writers that have ended, once what is in it is known elsewhere.

    Raises:
        SpoolUnavailable: it cannot be written.
    """
    try:
        for folder in _folders(root) if root.exists() else ():
            if not _alive(folder):
                (folder / RETAINED).unlink(missing_ok=True)
    except OSError as error:
        raise _refused(root, error) from error


def _folders(root: Path) -> list[Path]:
    """The writers' directories."""
    return sorted(
        folder
        for folder in root.iterdir()
        if folder.is_dir() and folder.name not in NOT_WRITERS and not folder.name.startswith(".")
    )


def _segments(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.seg"))


def _end(folder: Path) -> tuple[int, int]:
    """Behind the last byte."""
    for segment in reversed(_segments(folder)):
        if size := (folder / f"{segment:08}.seg").stat().st_size:
            return segment, size
    return 0, 0


def _alive(folder: Path) -> bool:
    """Whether the writer of a directory holds its lock. One that does not will never again."""
    # shared: two that look at the same moment must not take each other for the writer
    try:
        lock = os.open(folder / "lock", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(lock)


def _refused(root: Path, error: OSError) -> SpoolUnavailable:
    return SpoolUnavailable(
        f"the spool {root} cannot be read: {error.strerror or error}; see that it can be written too"
    )
