"""The scratch directory: everything temporary of one run of the platform lies in it, so that nothing outlives a run.

A run is a server, or a command that plays episodes. Its directory, `quintain-run-*`, is locked for as long as the
process lives; the kernel lets go of the lock however it ends. Whoever opens a scratch directory first removes those
whose lock is free. A symbolic link at the top of one names something outside it that must go with it.
"""

import fcntl
import logging
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from quintain.errors import SandboxError

PREFIX = "quintain-run-"
_LOCK = "lock"
_REMOVAL_TRIES = 20
_REMOVAL_PAUSE_S = 0.05
_log = logging.getLogger(__name__)


class Scratch:
    """The scratch directory of this run. Use as a context manager; at its end the directory is gone."""

    def __init__(self, path: Path, lock: IO[bytes]) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def open(cls, parent: Path | None = None) -> "Scratch":
        """Sweep what dead runs left under `parent` (default: the system's temporary directory), make a new one.

        Raises:
            SandboxError: nothing can be written there.
        """
        parent = Path(tempfile.gettempdir()) if parent is None else parent
        try:
            parent.mkdir(parents=True, exist_ok=True)
            swept = sweep(parent)
            if swept:
                _log.warning("removed what %d killed runs had left in %s", swept, parent)
            while True:
                path = parent / (PREFIX + secrets.token_hex(6))
                path.mkdir()
                lock = _locked(path, wait=True)
                if lock is not None:
                    path.chmod(0o711)  # other users, as which zygotes run, may pass through and not look around
                    return cls(path, lock)
        except OSError as error:
            raise SandboxError(
                f"cannot make a scratch directory in {parent} ({error.strerror}); free space there, or name another "
                "with QUINTAIN_SCRATCH_DIR"
            ) from error

    def close(self) -> None:
        """Remove the directory. Idempotent."""
        if not self._lock.closed:
            _remove_run(self.path)
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def sweep(parent: Path) -> int:
    """Remove the scratch directories of runs that have ended without doing so; how many that were."""
    swept = 0
    for path in sorted(parent.glob(PREFIX + "*")):
        if not _is_ours(path):
            continue
        lock = _locked(path, wait=False)
        if lock is not None:
            with lock:
                dead = path.with_name(f"{PREFIX}dead-{secrets.token_hex(6)}")
                path.rename(dead)  # or a run that has just made it, and waits for the lock, could go on in it
                _remove_run(dead)
            swept += 1
    return swept


@contextmanager
def provisional(scratch: Path, target: Path) -> Iterator[Path]:
    """A new directory anywhere, mode 0700, that stays only if the block completes.

    If this process is killed within the block, the next sweep removes it.
    """
    marker = scratch / f"{target.name}-{secrets.token_hex(4)}"
    marker.symlink_to(target.absolute())
    try:
        target.mkdir(mode=0o700, parents=True)
        yield target
    except BaseException:
        remove(target)
        raise
    finally:
        marker.unlink()


def remove(path: Path) -> None:
    """Remove a directory and all in it, whatever its modes. What cannot be removed is logged, not forgotten."""
    for _ in range(_REMOVAL_TRIES):
        shutil.rmtree(path, ignore_errors=True)
        if not os.path.lexists(path):
            return
        _open_up(path)
        time.sleep(_REMOVAL_PAUSE_S)  # processes of the run may be ending still
    _log.error("%s cannot be removed; look at what is in it", path)


@contextmanager
def folder(scratch: Path, prefix: str) -> Iterator[Path]:
    """A new directory for plain files, removed at the end; several times sooner than `shutil.rmtree` would."""
    made = Path(tempfile.mkdtemp(prefix=prefix, dir=scratch))
    try:
        yield made
    finally:
        try:
            for file in made.iterdir():
                file.unlink()
            made.rmdir()
        except OSError:
            shutil.rmtree(made, ignore_errors=True)


def _remove_run(path: Path) -> None:
    for entry in path.iterdir():
        if entry.is_symlink():
            remove(entry.readlink())
    remove(path)


def _locked(path: Path, *, wait: bool) -> IO[bytes] | None:
    """The lock of a scratch directory, held; None if another process has it, or has removed the directory."""
    try:
        lock = (path / _LOCK).open("wb")
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if os.path.samestat(os.fstat(lock.fileno()), (path / _LOCK).stat()):
            return lock
    except OSError:
        pass  # held, or swept between opening and locking
    lock.close()
    return None


def _is_ours(path: Path) -> bool:
    """Whether it is a directory that this user made: others could have put anything under such a name."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _open_up(path: Path) -> None:
    """Make every directory of a tree passable for its owner; links are not followed."""
    _open_one(str(path))
    for folder, names, _ in os.walk(path):
        for name in names:
            _open_one(os.path.join(folder, name))


def _open_one(folder: str) -> None:
    try:
        handle = os.open(folder, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)
    except OSError:
        pass  # another user's
    finally:
        os.close(handle)
