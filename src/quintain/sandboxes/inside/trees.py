"""Trees unpacked from the tar files in which the platform keeps them: whole ones, and changes over another.

A tar of changes names what was removed in a global header, QUINTAIN.removed, as JSON. Symbolic links are made last, so
that nothing is written through one.
"""

import json
import mmap
import os
import shutil
import tarfile

BASE, REMOVED = "QUINTAIN.base", "QUINTAIN.removed"


def unpack(target: str, tree: str, base: str | None = None) -> None:
    """Unpack a tar into a directory that exists; where it holds changes, over what `base` holds.

    Raises:
        OSError, tarfile.TarError, ValueError: it cannot be read or written; the directory is then not whole.
    """
    for path in (base, tree):
        if path is not None:
            with (
                open(path, "rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
                tarfile.open(fileobj=file, mode="r:", errors="surrogateescape") as archive,
            ):
                _apply(target, archive, content, empty=path == base or base is None)


def over(tree: str) -> bool:
    """Whether a tar holds changes over another."""
    with tarfile.open(tree, "r:", errors="surrogateescape") as archive:
        return BASE in archive.pax_headers


def _apply(target: str, archive: tarfile.TarFile, content: mmap.mmap, *, empty: bool) -> None:
    links, folders = [], []
    members = archive.getmembers()
    for name in json.loads(archive.pax_headers.get(REMOVED, "[]")):
        _remove(_within(target, name))
    for member in members:
        if member.name == ".":
            continue
        path = _within(target, member.name)
        if member.isdir():
            if empty or os.path.islink(path) or not os.path.isdir(path):
                _remove(path)
                os.mkdir(path)
            folders.append((path, member.mode))
            os.chmod(path, 0o700)
        elif member.issym():
            links.append((path, member.linkname))
        elif member.isreg():
            if not empty:
                _remove(path)
            with memoryview(content)[member.offset_data : member.offset_data + member.size] as data:
                _write(path, data, member.mode)
        else:
            raise ValueError(f"{member.name!r} is neither file, folder nor symbolic link")
    for path, destination in links:
        _remove(path)
        os.symlink(destination, path)
    for path, mode in reversed(folders):  # last: one may not be writable
        os.chmod(path, mode)


def _within(target: str, name: str) -> str:
    parts = name.split("/")
    if name.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{name!r} is no path within a tree")
    return os.path.join(target, *parts)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def _write(path: str, data: memoryview, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        written = 0
        while written < len(data):
            written += os.write(descriptor, data[written:])
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
