"""The files that are the state: those of the working directory that the document's patterns name."""

import base64
import glob
import json
import os
import stat
from typing import Any

MAX_STATE = 2 * 2**20
"""Bytes of all files together."""

MAX_FILES = 1000


class StateError(Exception):
    """The state cannot be told."""


def told(folder: str, patterns: list[str]) -> str:
    """`{"files": {path: text, or {"base64": ...}}}` as canonical JSON. Links and what is no plain file are left out."""
    found: dict[str, Any] = {}
    total = 0
    for pattern in patterns:
        for path in glob.iglob(pattern, root_dir=folder, recursive=True, include_hidden=True):
            place = os.path.join(folder, path)
            if path in found or not _plain(folder, place):
                continue
            with open(place, "rb") as file:
                data = file.read(MAX_STATE + 1)
            total += len(data)
            if total > MAX_STATE or len(found) >= MAX_FILES:
                raise StateError(f"state_files name over {MAX_STATE} bytes or {MAX_FILES} files, at {path}")
            found[path] = _content(data)
    return json.dumps({"files": found}, sort_keys=True, separators=(",", ":"))


def _plain(folder: str, place: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(place).st_mode) and os.path.realpath(place).startswith(f"{folder}/")
    except OSError:
        return False


def _content(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
