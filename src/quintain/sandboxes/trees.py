"""Directory trees as deterministic tar files: whole, or as what differs from another.

A tar is sorted by path, without times, with one owner; file modes and symbolic links are kept, links are never
followed. A tar of changes has a global header that names the tar it goes over by digest (QUINTAIN.base), what was
removed (QUINTAIN.removed) and what could not be kept (QUINTAIN.left_out): special files, and what is over the bounds.
A tree is read through a descriptor of its root while nothing in it runs; it is untrusted.
"""

import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, Literal

BASE, REMOVED, LEFT_OUT = "QUINTAIN.base", "QUINTAIN.removed", "QUINTAIN.left_out"

ROOT: Final = "."
"""The tree itself, first entry of every tar."""

MAX_DEPTH: Final = 64
"""Deepest folder of a tree that is kept."""

MAX_ENTRIES: Final = 40_000
"""Most files, folders and links of a tree that are kept."""

MAX_PATH: Final = 1024
"""Longest path within a tree that is kept, in bytes."""

_MAX_TOLD = 100
_CHUNK = 2**20
_OWNER = 1000
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TAR_FORMAT: Final = tarfile.PAX_FORMAT


@dataclass(frozen=True)
class TreeEntry:
    """One entry: `told` is a file's digest or a link's target, empty for a folder; `size` is of a file, in bytes."""

    kind: Literal["file", "folder", "link"]
    mode: int
    told: str = ""
    size: int = 0


Manifest = Mapping[str, TreeEntry]
"""A tree's entries by path."""


@dataclass(frozen=True)
class BaseTree:
    """A whole tree that was kept: the digest of its tar, and what it holds."""

    digest: str
    manifest: Manifest


@dataclass
class Changes:
    """What differs between two trees; `left_out` says what could not be kept, and why."""

    changed: dict[str, TreeEntry] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def tar_of(files: Mapping[str, tuple[int, bytes]], links: Mapping[str, str] | None = None) -> tuple[bytes, Manifest]:
    """A whole tree of files, each with its mode and content, as a tar; folders are made where paths need them."""
    links = links or {}
    manifest: dict[str, TreeEntry] = {}
    for path in (*files, *links):
        parts = path.split("/")
        for depth in range(1, len(parts)):
            manifest["/".join(parts[:depth])] = TreeEntry("folder", 0o755)
    for path, (mode, data) in files.items():
        manifest[path] = TreeEntry("file", mode, _digest(data), len(data))
    manifest |= {path: TreeEntry("link", 0o777, target) for path, target in links.items()}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=_TAR_FORMAT) as archive:
        archive.addfile(_info(ROOT, TreeEntry("folder", 0o700)))
        for path, entry in sorted(manifest.items()):
            archive.addfile(_info(path, entry), io.BytesIO(files[path][1]) if entry.kind == "file" else None)
    return out.getvalue(), manifest


def manifest_of(tar: bytes) -> Manifest:
    """What a whole tree's tar holds.

    Raises:
        tarfile.TarError, ValueError: it is none that this platform writes.
    """
    manifest: dict[str, TreeEntry] = {}
    with tarfile.open(fileobj=io.BytesIO(tar), mode="r:", errors="surrogateescape") as archive:
        for member in archive:
            if member.isreg():
                source = archive.extractfile(member)
                assert source is not None
                manifest[member.name] = TreeEntry("file", member.mode, _digest(source.read()), member.size)
            elif member.issym():
                manifest[member.name] = TreeEntry("link", 0o777, member.linkname)
            elif member.name == ROOT:
                continue
            elif member.isdir():
                manifest[member.name] = TreeEntry("folder", member.mode)
            else:
                raise ValueError(f"{member.name!r} is neither file, folder nor symbolic link")
    return manifest


def pack_changes(root_fd: int, name: str, target: Path, base: BaseTree | None, max_bytes: int) -> Changes:
    """Write what differs between a folder of a directory and a base tree as a tar; the whole where there is no base.

    Args:
        root_fd: of the directory, which may be a sandbox's: nothing in it is followed, and nothing may run in it.
        max_bytes: most content that is kept; what is over is left out.

    Raises:
        OSError: the tree cannot be read, or the tar not be written.
    """
    changes = Changes()
    tree = os.open(name, _DIRECTORY, dir_fd=root_fd)
    try:
        found = _Walk(tree, max_bytes).entries(changes)
        before = base.manifest if base is not None else {}
        changes.changed = {path: entry for path, entry in sorted(found.items()) if before.get(path) != entry}
        changes.removed = sorted(path for path in before if path not in found)
        headers = {}
        if base is not None:
            headers = {BASE: base.digest, REMOVED: json.dumps(changes.removed)}
        if changes.left_out:
            headers[LEFT_OUT] = json.dumps(changes.left_out)
        with tarfile.open(
            target, "w", format=_TAR_FORMAT, pax_headers=headers, errors="surrogateescape", dereference=False
        ) as archive:
            archive.addfile(_info(ROOT, TreeEntry("folder", 0o700)))  # a tar with headers alone cannot be read
            for path, entry in changes.changed.items():
                if entry.kind == "file":
                    with _opened(tree, path) as source:
                        archive.addfile(_info(path, entry), source)
                else:
                    archive.addfile(_info(path, entry))
    finally:
        os.close(tree)
    return changes


class _Walk:
    """One pass over a tree, within bounds."""

    def __init__(self, tree: int, max_bytes: int) -> None:
        self._tree = tree
        self._bytes_left = max_bytes
        self._found: dict[str, TreeEntry] = {}
        self._untold = 0

    def entries(self, changes: Changes) -> Manifest:
        self._folder(self._tree, "", 0, changes)
        if self._untold:
            changes.left_out.append(f"and {self._untold} more")
        return self._found

    def _folder(self, folder: int, prefix: str, depth: int, changes: Changes) -> None:
        for name in sorted(os.listdir(folder)):
            path = prefix + name
            if len(self._found) >= MAX_ENTRIES:
                self._leave_out(changes, path, f"over {MAX_ENTRIES} entries")
            elif depth >= MAX_DEPTH or len(os.fsencode(path)) > MAX_PATH:
                self._leave_out(changes, path, f"deeper than {MAX_DEPTH} folders or {MAX_PATH} bytes of path")
            else:
                self._entry(folder, name, path, depth, changes)

    def _entry(self, folder: int, name: str, path: str, depth: int, changes: Changes) -> None:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        mode = stat.S_IMODE(status.st_mode) & 0o777
        if stat.S_ISDIR(status.st_mode):
            self._found[path] = TreeEntry("folder", mode)
            with _readable(folder, name, status.st_mode, _DIRECTORY) as inner:
                self._folder(inner, f"{path}/", depth + 1, changes)
        elif stat.S_ISLNK(status.st_mode):
            self._found[path] = TreeEntry("link", 0o777, os.readlink(name, dir_fd=folder))
        elif not stat.S_ISREG(status.st_mode):
            self._leave_out(changes, path, "no file, folder or symbolic link")
        elif status.st_size > self._bytes_left:
            self._leave_out(changes, path, f"{status.st_size} bytes, over what is left of the bound")
        else:
            self._bytes_left -= status.st_size
            with _readable(folder, name, status.st_mode, _FILE) as file:
                self._found[path] = TreeEntry("file", mode, _digest_of(file), status.st_size)

    def _leave_out(self, changes: Changes, path: str, why: str) -> None:
        if len(changes.left_out) < _MAX_TOLD:
            changes.left_out.append(f"{path.encode(errors='replace').decode()[:300]}: {why}")
        else:
            self._untold += 1


@contextmanager
def _readable(folder: int, name: str, mode: int, flags: int) -> Iterator[int]:
    """A descriptor of an entry, though its owner may not read it; then its mode is lent, and given back."""
    lent: int | None = None
    try:
        descriptor = os.open(name, flags, dir_fd=folder)
    except PermissionError:
        lent = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        os.chmod(f"/proc/self/fd/{lent}", stat.S_IMODE(mode) | 0o700)
        descriptor = os.open(name, flags, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
        if lent is not None:
            os.chmod(f"/proc/self/fd/{lent}", stat.S_IMODE(mode))
            os.close(lent)


@contextmanager
def _opened(tree: int, path: str) -> Iterator[BinaryIO]:
    """A file of a tree, by its path, following nothing."""
    *folders, name = path.split("/")
    at = os.dup(tree)
    try:
        for folder in folders:
            with _readable(at, folder, os.stat(folder, dir_fd=at, follow_symlinks=False).st_mode, _DIRECTORY) as inner:
                os.dup2(inner, at, inheritable=False)
        mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
        with _readable(at, name, mode, _FILE) as descriptor, open(os.dup(descriptor), "rb") as file:
            yield file
    finally:
        os.close(at)


def _info(path: str, entry: TreeEntry) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.mode, info.uid, info.gid, info.mtime = entry.mode, _OWNER, _OWNER, 0
    if entry.kind == "file":
        info.size = entry.size
    elif entry.kind == "link":
        info.type, info.linkname = tarfile.SYMTYPE, entry.told
    else:
        info.type = tarfile.DIRTYPE
    return info


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _digest_of(descriptor: int) -> str:
    digest = hashlib.sha256()
    offset = 0
    while data := os.pread(descriptor, _CHUNK, offset):
        digest.update(data)
        offset += len(data)
    return f"sha256:{digest.hexdigest()}"
