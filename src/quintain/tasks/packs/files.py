"""The files of a pack's folder, read within bounds; links that lead out of it are refused."""

import base64
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from quintain.contracts.identity import sha256
from quintain.errors import DatasetError

MAX_FILES: Final = 5_000
"""Most files of a pack."""

MAX_PACK_BYTES: Final = 64 * 2**20
"""Largest pack, in bytes of all its files together."""

LEFT_OUT: Final = frozenset({"__pycache__", ".git", ".DS_Store"})
"""What others leave in folders; no part of a pack."""


class PackFiles:
    """Every file of a pack, read once: path within it, with slashes, and content."""

    def __init__(self, folder: Path) -> None:
        """Reads them.

        Raises:
            DatasetError: the folder cannot be read, or holds too much or a link out of it.
        """
        self.folder = folder
        self._content: dict[str, bytes] = {}
        total = 0
        try:
            root = folder.resolve(strict=True)
            for path in _walk(root, root):
                name = path.relative_to(root).as_posix()
                size = path.stat().st_size
                total += size
                if total > MAX_PACK_BYTES or len(self._content) >= MAX_FILES:
                    raise DatasetError(
                        f"{folder} holds over {MAX_FILES} files or {MAX_PACK_BYTES} bytes at {name}; keep less"
                    )
                self._content[name] = path.read_bytes()
        except OSError as error:
            raise DatasetError(
                f"{error.filename or folder} cannot be read ({error.strerror or error}); name a pack's folder"
            ) from error
        except RuntimeError as error:  # what Python before 3.13 says of a loop
            raise DatasetError(f"{folder} is a link that leads back to itself; name a pack's folder") from error

    def __contains__(self, name: str) -> bool:
        return name in self._content

    def __getitem__(self, name: str) -> bytes:
        return self._content[name]

    def under(self, folder: str) -> dict[str, bytes]:
        """The files of one of its folders, by their path within that."""
        prefix = f"{folder}/"
        return {name.removeprefix(prefix): data for name, data in self._content.items() if name.startswith(prefix)}

    @property
    def folders(self) -> list[str]:
        """Its folders that hold an environment.yaml, sorted."""
        return sorted(
            name.split("/")[0] for name in self._content if name.count("/") == 1 and name.endswith("/environment.yaml")
        )

    @property
    def digests(self) -> dict[str, str]:
        """Digest of every file."""
        return {name: sha256(data) for name, data in self._content.items()}


def as_json(data: bytes) -> Any:
    """A file's content as a payload carries it: its text, or `{"base64": …}` where it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _walk(folder: Path, root: Path) -> Iterator[Path]:
    for name in sorted(os.listdir(folder)):
        path = folder / name
        if name in LEFT_OUT:
            continue
        if path.is_symlink():
            target = _target(path)
            if not target.is_relative_to(root) or not target.is_file():
                raise DatasetError(f"{path} is a link out of the pack or to no file; put the file itself there")
            yield path
        elif path.is_dir():
            yield from _walk(path, root)
        elif path.is_file():
            yield path
        else:
            raise DatasetError(f"{path} is no plain file; take it out of the pack")


def _target(link: Path) -> Path:
    try:
        return link.resolve(strict=True)
    except (RuntimeError, OSError) as error:  # a loop is a RuntimeError before Python 3.13
        if isinstance(error, RuntimeError) or error.errno == errno.ELOOP:
            raise DatasetError(f"{link} is a link that leads back to itself; put the file itself there") from error
        return link.resolve()  # it leads to nothing, which the caller says
