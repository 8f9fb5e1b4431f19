"""The artifact store on a local directory.

Layout: `<root>/sha256/<2 hex>/<2 hex>/<64 hex>`, files read-only; `<root>/tmp` holds what is being written.
A blob appears under its name whole or not at all, so any number of processes may share one root.
"""

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from quintain.contracts.identity import sha256
from quintain.errors import ArtifactCorrupt, ArtifactError, ArtifactMissing, DescriptorError

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ABANDONED_S = 3600.0
_Signature = tuple[int, int, int, int]


class LocalArtifactStore:
    """An `ArtifactStore` on a directory, which is made when the first blob is stored."""

    def __init__(self, root: Path, *, fsync: bool = False) -> None:
        """`fsync` makes `put` return only when the blob would survive a power cut, whoever has written it."""
        self._root = root
        self._fsync = fsync
        self._named: set[Path] = set()
        self._verified: dict[str, _Signature] = {}

    def put(self, data: bytes) -> str:
        """Store bytes and return their digest; a damaged blob of that digest is replaced."""
        digest = sha256(data)
        target = self._file(digest)
        try:
            if not _holds(target, data):
                self._write(target, data)
            elif self._fsync:
                _flush(target)  # another process may have put it there this moment, and not be done
            if self._fsync:
                self._flush_names(target.parent)
        except OSError as error:
            raise ArtifactError(
                f"cannot store {len(data)} bytes as {target}: {error.strerror or error}; "
                "free space there or give the store another directory"
            ) from error
        return digest

    def get(self, digest: str) -> bytes:
        """The bytes under a digest, verified on every read."""
        target = self._file(digest)
        data = self._read(digest, target)
        if sha256(data) != digest:
            raise self._corrupt(digest, target)
        return data

    def path(self, digest: str) -> Path:
        """The blob's file; verified once, and again whenever the file is not the one verified."""
        target = self._file(digest)
        try:
            with target.open("rb") as file:
                signature = _signature(file.fileno())
                if self._verified.get(digest) != signature:
                    if "sha256:" + hashlib.file_digest(file, "sha256").hexdigest() != digest:
                        raise self._corrupt(digest, target)
                    self._verified[digest] = signature
        except OSError as error:
            raise self._unreadable(digest, target, error) from error
        return target

    def has(self, digest: str) -> bool:
        """Whether a blob is stored under the digest. Does not read it."""
        return self._file(digest).is_file()

    def damaged(self, digest: str) -> bytes:
        """What is stored under a digest, whether or not it has it."""
        return self._read(digest, self._file(digest))

    def remove(self, digest: str) -> None:
        """Have it no longer; nothing if it is not there.

        Raises:
            ArtifactError: it cannot be removed.
        """
        try:
            self._file(digest).unlink(missing_ok=True)
        except OSError as error:
            raise ArtifactError(f"cannot remove {self._file(digest)}: {error.strerror or error}") from error

    def _file(self, digest: str) -> Path:
        # The pattern also keeps a digest from naming a path outside the root.
        if not _DIGEST.fullmatch(digest):
            raise DescriptorError(f"not a digest: {digest[:100]!r}; expected sha256:<64 lower-case hex digits>")
        name = digest.removeprefix("sha256:")
        return self._root / "sha256" / name[:2] / name[2:4] / name

    def _read(self, digest: str, target: Path) -> bytes:
        try:
            return target.read_bytes()
        except OSError as error:
            raise self._unreadable(digest, target, error) from error

    def _write(self, target: Path, data: bytes) -> None:
        """Temp file, rename. Two writers of one blob rename equal files, so it does not matter who is last."""
        scratch = self._root / "tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        remove_abandoned(scratch.iterdir())
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=scratch, prefix=target.name[:12] + ".")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), 0o444)
                if self._fsync:
                    os.fsync(file.fileno())
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _flush_names(self, folder: Path) -> None:
        """Have the name of a blob in a directory on disk, and those of the directories above, which only come once."""
        _flush(folder)
        while folder not in self._named:
            _flush(folder.parent)
            self._named.add(folder)
            if folder == self._root:
                break
            folder = folder.parent

    def _unreadable(self, digest: str, target: Path, error: OSError) -> ArtifactError:
        if isinstance(error, FileNotFoundError):
            return ArtifactMissing(f"no blob {digest} in {self._root}; store it again from its source")
        return ArtifactError(f"cannot read {target}: {error.strerror or error}; check the file and its permissions")

    def _corrupt(self, digest: str, target: Path) -> ArtifactCorrupt:
        return ArtifactCorrupt(f"{target} does not hold {digest}; delete the file and store the blob again")


def remove_abandoned(files: Iterable[Path]) -> None:
    """Remove files that nobody has written to for an hour: writers that were killed have left them."""
    for file in files:
        try:
            if time.time() - file.stat().st_mtime > _ABANDONED_S:
                file.unlink()
        except OSError:
            continue  # renamed, or removed by another


def _holds(target: Path, data: bytes) -> bool:
    try:
        return target.stat().st_size == len(data) and target.read_bytes() == data
    except FileNotFoundError:
        return False


def _signature(descriptor: int) -> _Signature:
    status = os.fstat(descriptor)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
