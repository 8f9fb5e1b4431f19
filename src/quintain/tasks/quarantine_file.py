"""The file of a quarantine list: read whole, replaced whole, and left alone while nothing changes."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from quintain.errors import QuarantineError
from quintain.tasks.quarantine import Format, QuarantineList

FORMATS: Final[dict[str, Format]] = {".yaml": "yaml", ".yml": "yaml", ".json": "json"}
"""How a file is written, by the end of its name."""


def read_quarantine(path: Path) -> QuarantineList:
    """The list in a file.

    Raises:
        QuarantineError: there is no such file, or it holds no such list.
    """
    form = format_of(path)
    try:
        return QuarantineList.read(path.read_bytes(), form, str(path))
    except OSError as error:
        raise QuarantineError(f"the quarantine list {path} cannot be read: {error.strerror or error}") from error


def update_quarantine(path: Path, change: Callable[[QuarantineList], QuarantineList]) -> QuarantineList:
    """Replace the list in a file by what `change` makes of it, whole or not at all; one that is not there is empty.

    Nothing is written where nothing changes, so that what people wrote between the entries stays. Several processes may
    do so at once: one waits for the other.

    Raises:
        QuarantineError: the file holds no such list, or cannot be written.
    """
    form = format_of(path)
    target = path.resolve()  # a link stays one
    try:
        with _alone_in(target.parent):
            there = target.exists()
            before = QuarantineList.read(target.read_bytes(), form, str(path)) if there else QuarantineList.of()
            after = change(before)
            if after != before or not there:
                replace_file(target, after.written(form))
            return after
    except OSError as error:
        raise QuarantineError(f"the quarantine list {path} cannot be written: {error.strerror or error}") from error


def format_of(path: Path) -> Format:
    """How a file is written, by its name.

    Raises:
        QuarantineError: its name does not say.
    """
    form = FORMATS.get(path.suffix.lower())
    if form is None:
        raise QuarantineError(f"{path} does not say how it is written; name it so that it ends in .yaml or .json")
    return form


def replace_file(target: Path, data: bytes) -> None:
    """Put a file in the place of another, on disk before its name is; its mode stays.

    Raises:
        OSError: it cannot be written; the old one is untouched.
    """
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with fresh.open("wb") as file:
            if target.exists():
                os.fchmod(file.fileno(), target.stat().st_mode & 0o777)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
