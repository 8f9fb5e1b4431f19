"""What happens in a run, as one JSON object a line: in the run directory's `events.jsonl`, and on stdout with `--json`.

Each has `event` and `at` (seconds since 1970, UTC). The events named `finished` are a run's memory too: each is written
after its record was acknowledged, so an attempt that has one is never played again.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from quintain.errors import SpoolUnavailable

JsonObject = dict[str, Any]
Listener = Callable[[JsonObject], object]


class RunEvent(StrEnum):
    """Which kinds there are."""

    BEGUN = "begun"
    STARTED = "started"
    RETRIED = "retried"
    FINISHED = "finished"
    PRESSURE = "pressure"
    CONCURRENCY = "concurrency"
    REPAIRED = "repaired"
    INTERRUPTED = "interrupted"
    ENDED = "ended"


FIELDS: Final[dict[RunEvent, str]] = {
    RunEvent.BEGUN: "A process works on the plan: `plan`, its digest; `run`, as ledger and records name it; `items`, "
    "all attempts; `done`, those that have a record already",
    RunEvent.STARTED: "An attempt began: `item`",
    RunEvent.RETRIED: "Something of it is tried again: `item`, `failure`",
    RunEvent.FINISHED: "Its record is durable: `outcome`, the record in short, with `record_digest`; `done`, `items`",
    RunEvent.PRESSURE: "No attempt is begun, because of `pressure`: `spool_full`, `memory_short` or "
    "`verifier_backlog`; null when that is over",
    RunEvent.CONCURRENCY: "An `endpoint` may now be sent `limit` requests at a time",
    RunEvent.REPAIRED: "Something in the run directory was found damaged: `what`",
    RunEvent.INTERRUPTED: "A signal ended the run: `done`, `items`",
    RunEvent.ENDED: "Every attempt has a record: `report`",
}
"""What each tells."""


class EventLog:
    """Appends events to a file and hands them to whoever listens."""

    def __init__(self, path: Path, listener: Listener = lambda _: None, now: Callable[[], float] = time.time) -> None:
        """Opens the file; a last line that was not wholly written is cut off.

        Raises:
            SpoolUnavailable: it cannot be written.
        """
        self.repaired: list[str] = []
        """What was damaged, and is mended."""
        self._listener = listener
        self._now = now
        self._path = path
        try:
            self._file = path.open("ab")
            if cut := _cut_torn_tail(path):
                self.repaired.append(f"{cut} bytes of an event that was not wholly written, cut off")
        except OSError as error:
            raise _unwritable(path, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def tell(self, event: RunEvent, **fields: Any) -> None:
        """Append an event. It outlives the process, and is on disk with the next record's flush at the latest.

        Raises:
            SpoolUnavailable: it cannot be written.
        """
        document = {"event": event.value, "at": self._now(), **fields}
        try:
            self._file.write(json.dumps(document).encode("ascii") + b"\n")
            self._file.flush()
        except OSError as error:
            raise _unwritable(self._path, error) from error
        self._listener(document)


def read_events(path: Path) -> Iterator[JsonObject]:
    """The events of a file; lines that are none are passed over."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                document = json.loads(line)
            except ValueError:
                continue
            if isinstance(document, dict) and "event" in document:
                yield document


def _cut_torn_tail(path: Path) -> int:
    """Cut off what follows the last line break; how many bytes."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        keep, at = 0, size
        while at > 0 and keep == 0:
            begin = max(0, at - 65_536)
            file.seek(begin)
            found = file.read(at - begin).rfind(b"\n")
            keep, at = (begin + found + 1 if found >= 0 else 0), begin
        if keep < size:
            file.truncate(keep)
            os.fsync(file.fileno())
    return size - keep


def _unwritable(path: Path, error: OSError) -> SpoolUnavailable:
    return SpoolUnavailable(f"{path} cannot be written: {error.strerror or error}; make room, and run it again")
