"""The tools that read and write files: read, write, edit and search."""

import fnmatch
import os
import re
import select
import signal
import stat
import time
from collections.abc import Iterator
from typing import Any

from .answers import Refusal

WORKSPACE = "/workspace"
MAX_READ_CHARS = 64 * 1024
"""Characters that one read gives."""

MAX_EDITED_BYTES = 8 * 2**20
"""Largest file that is read or edited."""

MAX_MATCHES = 200
"""Lines that one search gives."""

SEARCH_SECONDS = 20.0
_MAX_SEARCHED_BYTES = 2 * 2**20
_MAX_LINE = 300
_ROOTS = (WORKSPACE, "/tmp")


def read(arguments: dict[str, Any]) -> str:
    """Lines of a file, from `offset` (1 is the first) on, at most `limit`."""
    text = _text(located(arguments["path"]), arguments["path"])
    lines = text.splitlines(keepends=True)
    first = arguments.get("offset", 1)
    if first > max(len(lines), 1):
        raise Refusal(f"{arguments['path']} has {len(lines)} lines; offset {first} is after its end")
    chosen, size = [], 0
    for line in lines[first - 1 : first - 1 + arguments.get("limit", 2000)]:
        size += len(line)
        if size > MAX_READ_CHARS and chosen:
            break
        chosen.append(line[:MAX_READ_CHARS])
    last = first - 1 + len(chosen)
    shown = "".join(chosen)
    if last >= len(lines) and first == 1:
        return shown
    gap = "" if not shown or shown.endswith("\n") else "\n"
    return f"{shown}{gap}[lines {first} to {last} of {len(lines)}]"


def write(arguments: dict[str, Any]) -> str:
    """Write a file; folders that its path needs are made."""
    path, data = located(arguments["path"]), arguments["content"].encode("utf-8", "surrogatepass")
    existed = os.path.exists(path)
    _stored(path, arguments["path"], data)
    return f"{'replaced' if existed else 'made'} {arguments['path']}, {len(data)} bytes"


def edit(arguments: dict[str, Any]) -> str:
    """Replace a text that stands in the file once, or everywhere if asked to."""
    named, old, new = arguments["path"], arguments["old"], arguments["new"]
    path = located(named)
    text = _text(path, named)
    count = text.count(old) if old else 0
    if not count:
        raise Refusal(f"{named} does not hold the text to be replaced; read it and give the text exactly as it stands")
    if old == new:
        raise Refusal("old and new are the same; nothing would change")
    if count > 1 and not arguments.get("all", False):
        raise Refusal(f"the text stands {count} times in {named}; give more of its surroundings, or all=true")
    _stored(path, named, text.replace(old, new).encode("utf-8", "surrogateescape"))
    return f"replaced {count} {'place' if count == 1 else 'places'} in {named}"


def search(arguments: dict[str, Any]) -> str:
    """Lines that a regular expression matches, in a process of its own: an expression may never come to an end."""
    try:
        pattern = re.compile(arguments["pattern"])
    except (re.error, OverflowError, RecursionError) as error:
        raise Refusal(f"{arguments['pattern'][:200]!r} is no regular expression: {error}") from error
    top = located(arguments.get("path", "."))
    if not os.path.exists(top):
        raise Refusal(f"{arguments.get('path')} does not exist")
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(ours)
            with open(theirs, "wb") as pipe:
                for line in _matches(pattern, top, arguments.get("glob")):
                    pipe.write(line.encode("utf-8", "replace") + b"\n")
        finally:
            os._exit(0)
    os.close(theirs)
    found, whole = _taken(ours, time.monotonic() + SEARCH_SECONDS)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    lines = found.decode("utf-8", "replace").splitlines()
    notes = []
    if len(lines) > MAX_MATCHES:
        notes.append(f"[over {MAX_MATCHES} lines match; these are the first]")
    if not whole:
        notes.append(f"[stopped after {SEARCH_SECONDS:g} s; search less, or with a simpler expression]")
    return "\n".join([*lines[:MAX_MATCHES], *notes]) or "no line matches"


def located(path: str) -> str:
    """Where a path leads, links followed.

    Raises:
        Refusal: out of the workspace and /tmp.
    """
    if "\0" in path:
        raise Refusal("a path holds no NUL")
    real = os.path.realpath(os.path.join(WORKSPACE, path))
    if not any(real == root or real.startswith(f"{root}/") for root in _ROOTS):
        raise Refusal(f"{path} is outside of {' and '.join(_ROOTS)}")
    return real


def _text(path: str, named: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Refusal(f"{named} cannot be read: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise Refusal(f"{named} is a folder; list it with bash")
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_EDITED_BYTES:
            raise Refusal(f"{named} is no plain file of at most {MAX_EDITED_BYTES} bytes; use bash")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_EDITED_BYTES).decode("utf-8", "surrogateescape")
    finally:
        os.close(descriptor)


def _stored(path: str, named: str, data: bytes) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
        with open(descriptor, "wb") as file:
            file.write(data)
    except OSError as error:
        raise Refusal(f"{named} cannot be written: {error.strerror}") from error


def _matches(pattern: re.Pattern[str], top: str, glob: str | None) -> Iterator[str]:
    left = MAX_MATCHES + 1
    for path in _files(top):
        shown = os.path.relpath(path, WORKSPACE) if path.startswith(f"{WORKSPACE}/") else path
        if glob is not None and not fnmatch.fnmatch(shown, glob) and not fnmatch.fnmatch(os.path.basename(path), glob):
            continue
        try:
            if not stat.S_ISREG(os.stat(path).st_mode) or os.path.getsize(path) > _MAX_SEARCHED_BYTES:
                continue
            with open(path, "rb") as file:
                data = file.read(_MAX_SEARCHED_BYTES)
        except OSError:
            continue
        if b"\0" in data:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            if pattern.search(line):
                yield f"{shown}:{number}: {line[:_MAX_LINE]}"
                left -= 1
                if not left:
                    return


def _files(top: str) -> Iterator[str]:
    if not os.path.isdir(top):
        yield top
        return
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if name != ".git")
        yield from (os.path.join(folder, name) for name in sorted(names))


def _taken(pipe: int, deadline: float) -> tuple[bytes, bool]:
    """What comes out of a pipe until its end, and whether that came in time."""
    found = bytearray()
    with open(pipe, "rb", buffering=0) as file:
        while (left := deadline - time.monotonic()) > 0:
            if select.select([file], [], [], left)[0]:
                data = file.read(2**16)
                if not data:
                    return bytes(found), True
                found += data
    return bytes(found), False
