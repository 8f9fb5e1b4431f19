"""Every SQLite connection of the process goes to the episode's own database, whatever file the code names.

The connection class itself is replaced, so that `sqlite3.connect`, SQLAlchemy's engines and custom factories are all
covered, and no source is patched. In-memory databases are left alone.
"""

import contextlib
import gc
import os
import sqlite3
import weakref
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote

from inside.clock import Clock
from inside.seeds import Seeds

from .sqlfunctions import SqlFunctions

_KEPT_PRAGMAS = ("foreign_keys", "recursive_triggers", "synchronous", "busy_timeout")
_KEPT_ATTRIBUTES = ("isolation_level", "row_factory", "text_factory")
_URI_POSITION = 6
"""Place of `uri` among the positional arguments that follow the database."""


@dataclass
class _Suspended:
    """What a connection that code still holds needs in order to come back."""

    target: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    pragmas: dict[str, int] = field(default_factory=dict)


class Connections:
    """The process's SQLite connections. Between calls that fork, none of them may hold a file: `suspend` them."""

    def __init__(self, path: str, clock: Clock, seeds: Seeds) -> None:
        self.path = path
        self._plain = sqlite3.Connection
        self._functions = SqlFunctions(clock, seeds, lambda path: self._plain(path, check_same_thread=False))
        self._open: weakref.WeakKeyDictionary[Any, _Suspended] = weakref.WeakKeyDictionary()
        self._pooled: weakref.WeakSet[Any] = weakref.WeakSet()
        self._suspended: list[Any] = []

    def install(self) -> None:
        """Replace `sqlite3.Connection` and `sqlite3.connect`, and watch SQLAlchemy's pools."""
        from sqlalchemy import event
        from sqlalchemy.pool import Pool

        replacement = _connection_class(self, self._plain)

        def connect(database: Any, *args: Any, **kwargs: Any) -> Any:
            if len(args) < _URI_POSITION - 1:
                kwargs.setdefault("factory", replacement)
            return _original(database, *args, **kwargs)

        _original = sqlite3.connect
        for module in (sqlite3, sqlite3.dbapi2):
            vars(module).update(Connection=replacement, connect=connect)
        event.listen(Pool, "connect", lambda _, record: self._pooled.add(record))

    def target(self, database: Any, uri: bool) -> str | None:
        """Where a connection to `database` really goes; None for one without a file."""
        name = os.fsdecode(database)
        if name in ("", ":memory:"):
            return None
        if not (uri and name.startswith("file:")):
            return self.path
        address, _, query = name.removeprefix("file:").partition("#")[0].partition("?")
        if address in ("", ":memory:") or "memory" in parse_qs(query).get("mode", ()):
            return None
        return f"file:{quote(self.path)}" + (f"?{query}" if query else "")

    def opened(self, connection: sqlite3.Connection, target: str | None, args: Any, kwargs: Any) -> None:
        """Give a fresh connection the episode's functions and, if it has a file, remember it."""
        connection.execute("PRAGMA trusted_schema=ON")  # defaults and indexes may use the replaced functions
        self._functions.install(connection)
        if target is not None:
            self._open[connection] = _Suspended(target, args, kwargs)

    def suspend(self) -> None:
        """Let go of the file: idle pooled connections are closed, those that code still holds wait for `resume`."""
        self._close_idle()
        if self._holding():
            gc.collect()  # sessions that failed calls left behind
            self._close_idle()
        for connection in self._holding():
            kept = self._open[connection]
            with contextlib.suppress(sqlite3.Error):
                connection.commit()
            kept.attributes = {name: getattr(connection, name) for name in _KEPT_ATTRIBUTES}
            for name in _KEPT_PRAGMAS:
                with contextlib.suppress(sqlite3.Error):
                    kept.pragmas[name] = self._plain.execute(connection, f"PRAGMA {name}").fetchone()[0]
            self._plain.__init__(connection, ":memory:", check_same_thread=False)
            self._suspended.append(connection)

    def resume(self) -> None:
        """Open the waiting connections again, on the file that is there now."""
        for connection in self._suspended:
            kept = self._open[connection]
            self._plain.__init__(connection, kept.target, *kept.args, **kept.kwargs)
            self.opened(connection, kept.target, kept.args, kept.kwargs)
            for name, value in kept.pragmas.items():
                connection.execute(f"PRAGMA {name}={value}")
            for name, value in kept.attributes.items():
                setattr(connection, name, value)
        self._suspended.clear()

    def unsaved(self) -> str | None:
        """Says what open connections hold that is not in the database's file, None if nothing."""
        for connection in self._holding():
            try:
                if connection.in_transaction:
                    return "a change is not committed"
                if self._plain.execute(connection, "SELECT 1 FROM sqlite_temp_master LIMIT 1").fetchone():
                    return "there are temporary tables"
            except sqlite3.Error as error:
                return f"a connection cannot be looked into: {error}"
        return None

    def _close_idle(self) -> None:
        for record in list(self._pooled):
            if record.dbapi_connection in self._open and not record.in_use:
                record.invalidate()

    def _holding(self) -> list[Any]:
        return [one for one in list(self._open) if one not in self._suspended and _is_open(one)]


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.total_changes  # noqa: B018 - raises when closed, in any thread
    except sqlite3.ProgrammingError:
        return False
    return True


def _connection_class(connections: Connections, plain: type[sqlite3.Connection]) -> type[sqlite3.Connection]:
    class Connection(plain):  # type: ignore[misc,valid-type]
        def __init__(self, database: Any, *args: Any, **kwargs: Any) -> None:
            uri = bool(args[_URI_POSITION] if len(args) > _URI_POSITION else kwargs.get("uri"))
            target = connections.target(database, uri)
            super().__init__(database if target is None else target, *args, **kwargs)
            connections.opened(self, target, args, kwargs)

    Connection.__module__ = "sqlite3"
    Connection.__qualname__ = "Connection"
    return Connection
