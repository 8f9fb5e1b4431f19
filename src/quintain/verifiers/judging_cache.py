"""Judgments by the digest of what was asked: the latest in memory and, given a directory, all of them there."""

import asyncio
import contextlib
import json
import logging
import os
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from quintain.artifacts.local import remove_abandoned
from quintain.contracts.identity import Digest
from quintain.verifiers.judging import Judgment, json_digest

KEEP: Final = 4096
"""Judgments kept in memory."""

_MAX_ENTRY_BYTES = 64 * 1024
_LOG = logging.getLogger(__name__)


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    key: Digest
    judgment: Judgment
    digest: Digest

    @classmethod
    def of(cls, key: str, judgment: Judgment) -> "_Entry":
        return cls(key=key, judgment=judgment, digest=json_digest([key, judgment.model_dump(mode="json")]))


class JudgmentCache:
    """Layout on disk: `<directory>/<2 hex>/<64 hex>.json`, each file written whole or not at all.

    What cannot be read or written is logged and does without; a cache never fails a verification.
    """

    def __init__(self, directory: Path | None = None, *, keep: int = KEEP) -> None:
        self._directory = directory
        self._keep = keep
        self._latest: OrderedDict[str, Judgment] = OrderedDict()

    async def get(self, key: str) -> Judgment | None:
        """The judgment under a key, or None."""
        if key in self._latest:
            self._latest.move_to_end(key)
            return self._latest[key]
        if self._directory is None:
            return None
        found = await asyncio.to_thread(self._read, self._file(self._directory, key), key)
        if found is not None:
            self._remember(key, found)
        return found

    async def put(self, key: str, judgment: Judgment) -> None:
        """Keep a judgment under a key."""
        self._remember(key, judgment)
        if self._directory is not None:
            await asyncio.to_thread(self._write, self._file(self._directory, key), _Entry.of(key, judgment))

    def _remember(self, key: str, judgment: Judgment) -> None:
        self._latest[key] = judgment
        self._latest.move_to_end(key)
        while len(self._latest) > self._keep:
            self._latest.popitem(last=False)

    @staticmethod
    def _file(directory: Path, key: str) -> Path:
        name = key.removeprefix("sha256:")
        return directory / name[:2] / f"{name}.json"

    @staticmethod
    def _read(file: Path, key: str) -> Judgment | None:
        try:
            with file.open("rb") as opened:
                text = opened.read(_MAX_ENTRY_BYTES + 1)
            entry = _Entry.model_validate_json(text)
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            _LOG.warning("a kept judgment is ignored, %s cannot be read: %s", file, type(error).__name__)
            return None
        if entry != _Entry.of(key, entry.judgment):
            _LOG.warning("a kept judgment is ignored, %s is not what was written there", file)
            return None
        return entry.judgment

    @staticmethod
    def _write(file: Path, entry: _Entry) -> None:
        scratch = None
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            remove_abandoned(path for path in file.parent.iterdir() if path.name.startswith("."))
            handle, scratch = tempfile.mkstemp(dir=file.parent, prefix=".")
            with os.fdopen(handle, "w", encoding="ascii") as opened:
                opened.write(json.dumps(entry.model_dump(mode="json")))
            os.replace(scratch, file)
        except OSError as error:
            _LOG.warning("a judgment was not kept, %s cannot be written: %s", file, error.strerror or error)
            if scratch is not None:
                with contextlib.suppress(OSError):
                    os.unlink(scratch)
