"""What killed writers leave in a store and nothing refers to: blobs and states of records that never came into the
table, files of the table that no entry of its log names, files that were not wholly written.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from quintain.errors import StoreError
from quintain.records.store import Store

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def sweep(store: Store) -> int:
    """Remove what nothing refers to; how many files. The outbox must be empty, and the store open for writing.

    Blobs of rows that are in quarantine stay, as the rows do.

    Raises:
        StoreError: something cannot be read or removed; sweeping again goes on.
    """
    found = unreferenced(store)
    try:
        for file in found:
            file.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"{error.filename} cannot be removed: {error.strerror or error}") from error
    return len(found)


def unreferenced(store: Store) -> list[Path]:
    """The files of a store that nothing refers to, in order. While something is ingested, that may look so.

    Raises:
        StoreError: it cannot be read.
    """
    try:
        return sorted([*_blobs(store), *store.trajectories.unreferenced()])
    except OSError as error:
        raise StoreError(f"the store {store.root} cannot be read: {error.strerror or error}") from error


def _blobs(store: Store) -> Iterator[Path]:
    root = store.root / "blobs"
    files = [path for path in root.rglob("*") if path.is_file()]
    if not files:
        return
    used: set[str] = set()
    for row in store.trajectories.rows(["blobs", "record"]):
        used.update(blob["digest"] for blob in row["blobs"] or ())
        if '"states":' in row["record"]:
            kept = json.loads(row["record"]).get("states") or {}
            used.update(_DIGEST.findall(json.dumps(kept)))
    for file in store.quarantine.glob("row-*"):
        used.update(_DIGEST.findall(file.read_text(errors="replace")))
    yield from (file for file in files if f"sha256:{file.name}" not in used)
