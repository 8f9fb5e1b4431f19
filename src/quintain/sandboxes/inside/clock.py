"""The episode's clock: it stands still during a call and moves one second per call."""

import os
import time
from datetime import UTC, datetime

import time_machine  # type: ignore[import-not-found]  # of the classes that use it


class Clock:
    """Replaces the process's wall clock, in Python and (through `text`) in SQL. Time zone: UTC."""

    def __init__(self, epoch: str) -> None:
        self._epoch = int(datetime.fromisoformat(epoch).astimezone(UTC).timestamp())
        self._traveller = time_machine.travel(self._epoch, tick=False)
        self._moved: time_machine.Traveller | None = None
        self._readings = 0
        self.text = _text(self._epoch)
        """Now, as SQLite writes it: `2026-02-10 00:00:00`."""

    def start(self) -> None:
        """Stop the wall clock at the epoch, for good."""
        os.environ["TZ"] = "UTC"
        time.tzset()
        self._moved = self._traveller.start()
        time.perf_counter = self._stopwatch
        time.perf_counter_ns = self._stopwatch_ns

    def move(self, seconds: int) -> None:
        """Stand at `seconds` after the epoch."""
        now = self._epoch + seconds
        if self._moved is not None:
            self._moved.move_to(now)
        self._readings = 0
        self.text = _text(now)

    # Elapsed times end up in answers ("took 0.8 ms"), so the stopwatch counts its readings: one microsecond each.
    # The monotonic clock stays real; timeouts and the event loop live by it, and its value means nothing to anyone.
    def _stopwatch_ns(self) -> int:
        self._readings += 1
        return self._readings * 1000

    def _stopwatch(self) -> float:
        return self._stopwatch_ns() / 1e9


def _text(timestamp: int) -> str:
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M:%S")
