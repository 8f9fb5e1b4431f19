"""The state directory's files: kept in memory while something is tried, and put back."""

import hashlib
import os
from collections.abc import Iterator

_DATABASE_SUFFIXES = ("", "-wal", "-shm", "-journal")


class StateFiles:
    """The regular files below one directory, by path relative to it."""

    def __init__(self, root: str, database: str = "") -> None:
        self._root = os.path.abspath(root)
        self._database = database

    def take(self) -> dict[str, bytes]:
        """The files as they are."""
        files = {}
        for name in self._names():
            with open(self._path(name), "rb") as file:
                files[name] = file.read()
        return files

    def restore(self, files: dict[str, bytes]) -> None:
        """Put the files back; others are removed, unchanged ones are left alone."""
        now = self.take()
        for name in now.keys() - files.keys():
            os.remove(self._path(name))
        for name, content in files.items():
            if now.get(name) != content:
                os.makedirs(os.path.dirname(self._path(name)), exist_ok=True)
                with open(self._path(name), "wb") as file:
                    file.write(content)

    def digests(self) -> dict[str, str]:
        """The digest of each file."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.take().items()}

    def others(self) -> set[str]:
        """Files and folders beside the database and its side files."""
        own = {self._database + suffix for suffix in _DATABASE_SUFFIXES}
        found: set[str] = set()
        for folder, folders, names in os.walk(self._root):
            found.update(os.path.relpath(os.path.join(folder, name), self._root) for name in (*folders, *names))
        return found - own

    def _names(self) -> Iterator[str]:
        for folder, _, names in os.walk(self._root):
            for name in sorted(names):
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    yield os.path.relpath(path, self._root)

    def _path(self, name: str) -> str:
        return os.path.join(self._root, name)
