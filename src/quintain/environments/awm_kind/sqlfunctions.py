"""SQL functions that would read the host's clock or random source, replaced on a connection.

Date arithmetic stays SQLite's own: only the word `now`, or a missing time value, is replaced by the episode's time,
and the rest is evaluated by a private in-memory connection.
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from inside.clock import Clock
from inside.seeds import Seeds

_DATES = {"date": 0, "time": 0, "datetime": 0, "julianday": 0, "unixepoch": 0, "strftime": 1}
"""Date functions and where their time value stands among the arguments."""

_KEYWORDS = {"current_date": slice(0, 10), "current_time": slice(11, None), "current_timestamp": slice(None)}
"""The functions behind the keywords CURRENT_DATE and so on, as parts of a timestamp."""

_SUBSECONDS = ("subsec", "subsecond")


class SqlFunctions:
    """The replacements of one process, over one clock and one random source."""

    def __init__(self, clock: Clock, seeds: Seeds, connect: Callable[[str], sqlite3.Connection]) -> None:
        """`connect` opens a plain connection."""
        self._clock = clock
        self._seeds = seeds
        self._connect = connect
        self._private: tuple[int, sqlite3.Connection] | None = None
        known = {str(row[0]) for row in connect(":memory:").execute("SELECT name FROM pragma_function_list")}
        self._names = [name for name in _DATES if name in known]
        self._has_timediff = "timediff" in known

    def install(self, connection: sqlite3.Connection) -> None:
        """Replace the functions on a connection."""
        # Deterministic, so that an index, a CHECK or a generated column over date(column) goes on working.
        create = connection.create_function
        for name in self._names:
            create(name, -1, self._date_function(name), deterministic=True)
        for name, part in _KEYWORDS.items():
            create(name, 0, self._keyword(part), deterministic=True)
        if self._has_timediff:
            create("timediff", 2, self._timediff, deterministic=True)
        create("random", 0, self._seeds.sql_integer)
        create("randomblob", 1, self._seeds.sql_bytes)

    def _keyword(self, part: slice) -> Callable[[], str]:
        return lambda: self._clock.text[part]

    def _date_function(self, name: str) -> Callable[..., Any]:
        position = _DATES[name]

        def call(*arguments: Any) -> Any:
            if len(arguments) < position:
                return None
            before, value = arguments[:position], arguments[position : position + 1] or ("now",)
            return self._evaluate(name, (*before, *self._time_value(value[0]), *arguments[position + 1 :]))

        return call

    def _timediff(self, later: Any, earlier: Any) -> Any:
        return self._evaluate("timediff", (*self._time_value(later), *self._time_value(earlier)))

    def _time_value(self, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, str):
            return (value,)
        word = value.lower()
        if word == "now":
            return (self._clock.text,)
        return (self._clock.text, value) if word in _SUBSECONDS else (value,)

    def _evaluate(self, name: str, arguments: Sequence[Any]) -> Any:
        if self._private is None or self._private[0] != os.getpid():  # a connection does not cross a fork
            self._private = (os.getpid(), self._connect(":memory:"))
        marks = ",".join("?" * len(arguments))
        return self._private[1].execute(f"SELECT {name}({marks})", arguments).fetchone()[0]
