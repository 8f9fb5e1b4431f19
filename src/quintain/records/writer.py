"""The one thread that writes to a ledger: what waits together is committed together."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from sqlalchemy import exc

from quintain.errors import LedgerError, QuintainError
from quintain.records.base import AttemptKey
from quintain.records.book import Book
from quintain.records.database import Database, explained

MAX_BATCH: Final = 256
"""How many pieces of work one transaction may hold; other processes wait no longer than it takes."""

_MAX_UNSCORED: Final = 512
_TRIES: Final = 100
_RACES: Final = frozenset({"40001", "40P01"})
"""SQLSTATE of a transaction that lost against another one: serialization failure, deadlock."""

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True)
class _Work:
    """One piece of work, and the future of who waits for it."""

    do: Callable[[Book], Any]
    touches: AttemptKey | None
    outcome: Future[Any] = field(default_factory=Future)


class Writer:
    """Writes to one database from one thread. A result is there only once it is durable."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._closed = False
        self._said = ""
        self._unscored: OrderedDict[AttemptKey, None] = OrderedDict()
        # a daemon: work that nobody was told of may be lost with the process, as when it is killed
        self._thread = threading.Thread(target=self._run, name="quintain-ledger", daemon=True)
        self._thread.start()

    def put(self, do: Callable[[Book], _T], touches: AttemptKey | None = None) -> Future[_T]:
        """Have something written.

        Args:
            do: called with the book of a transaction, again if that has to be repeated; its result is the future's.
            touches: the try it is about, where that is known beforehand.

        Raises:
            LedgerError: the ledger was closed.
        """
        work = _Work(do, touches)
        work.outcome.set_running_or_notify_cancel()  # from now on it cannot be cancelled: a verdict given is frozen
        with self._gate:
            if self._closed:
                raise LedgerError(f"{self._database.where} was closed; open it again")
            self._queue.put(work)
        return work.outcome

    def close(self) -> None:
        """Write what is waiting, then end. Idempotent; waits for the thread."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            batch, more = [first], True
            while more and len(batch) < MAX_BATCH:
                try:
                    work = self._queue.get_nowait()
                except Empty:
                    break
                if work is None:
                    self._queue.put(None)  # the last there is: seen again once this batch is settled
                    more = False
                else:
                    batch.append(work)
            self._settle(batch)

    def _settle(self, batch: Sequence[_Work]) -> None:
        """Give every piece of work its outcome. One that cannot be written is found by halving."""
        try:
            results = self._commit(batch)
        except BaseException as error:
            where = self._database.where
            whole = error if isinstance(error, LedgerError) else explained(error, where)
            if whole is None and len(batch) > 1:
                middle = len(batch) // 2
                self._settle(batch[:middle])
                self._settle(batch[middle:])
                return
            told = whole or (error if isinstance(error, QuintainError) else _refused(error, where))
            if str(told) != self._said:  # once, not for every entry while a disk is full
                self._said = str(told)
                _LOG.error("not committed: %s", told)
            for work in batch:
                work.outcome.set_exception(told)
        else:
            self._said = ""
            for work, result in zip(batch, results, strict=True):
                work.outcome.set_result(result)

    def _commit(self, batch: Sequence[_Work]) -> list[Any]:
        """One transaction, done again when another process was faster."""
        for left in reversed(range(_TRIES)):
            try:
                with self._database.write() as connection:
                    book = Book(connection, self._unscored if left == _TRIES - 1 else ())
                    book.lock(work.touches for work in batch if work.touches is not None)
                    results = [work.do(book) for work in batch]
            except exc.DBAPIError as error:
                if not left or not _lost_a_race(error):
                    raise
            else:
                self._note(book)
                return results
        raise AssertionError("unreachable")

    def _note(self, book: Book) -> None:
        """Remember which tries nobody can have submitted for: those numbered here, until somebody does."""
        for tried in book.touched:
            self._unscored.pop(tried, None)
        self._unscored.update(dict.fromkeys(book.allocated))
        while len(self._unscored) > _MAX_UNSCORED:
            self._unscored.popitem(last=False)


def _refused(error: BaseException, where: str) -> LedgerError:
    refused = LedgerError(f"{where} cannot hold this entry: {error}")
    refused.__cause__ = error
    return refused


def _lost_a_race(error: exc.DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    return isinstance(error, exc.IntegrityError) or state in _RACES
