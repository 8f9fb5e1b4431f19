"""The ledger: every try of an episode is scored once, whatever is sent twice, killed or raced.

SQLAlchemy and Alembic take half a second to import, so they are imported when a ledger is opened.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from quintain.records.base import AttemptKey, Committed, ScoreKey, Submission

if TYPE_CHECKING:
    from quintain.records.book import Book
    from quintain.records.database import Database
    from quintain.records.reader import Reader
    from quintain.records.writer import Writer

LOCK_TIMEOUT_S: Final = 30.0
"""How long a ledger waits for another process's lock."""

_PAGE: Final = 500
_T = TypeVar("_T")


class Ledger:
    """The scores of all episodes, in a database that several processes may share.

    `async with await Ledger.open(path) as ledger` closes it at the end.
    """

    def __init__(self, database: "Database", reader: "Reader", writer: "Writer") -> None:
        """Use `open`."""
        self._database = database
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, location: str | Path, *, lock_timeout_s: float = LOCK_TIMEOUT_S) -> "Ledger":
        """Open a ledger, made first where there is none; an older one is migrated. Runs in a thread.

        Args:
            location: a SQLite file, or any SQLAlchemy URL.
            lock_timeout_s: how long to wait for another process's lock on a SQLite file.

        Raises:
            LedgerUnreadable: it is damaged, not a ledger, or of a newer version; it is left as it is.
            LedgerUnavailable: it cannot be read or written now.
            UsageError: the location is no file and no usable URL.
        """

        def opened() -> "Ledger":
            from quintain.records.database import Database
            from quintain.records.reader import Reader
            from quintain.records.writer import Writer

            database = Database.open(location, lock_timeout_s)
            return cls(database, Reader(database), Writer(database))

        return await asyncio.to_thread(opened)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Commit what is waiting, then close. Idempotent."""

        def closed() -> None:
            self._writer.close()
            self._database.close()

        await asyncio.to_thread(closed)

    async def submit(self, submission: Submission) -> Committed:
        """Log a verdict; the first certain one of its key holds the key for ever. Returns once that is durable.

        Submitting again after an error, or without having heard of the outcome, is safe: nothing counts twice. It
        is committed even if the caller is cancelled.

        Raises:
            LedgerError: the ledger cannot be written, or was closed.
        """
        return await self._write(lambda book: book.submit(submission), submission.key.tried)

    async def next_attempt(self, episode_id: str, model_digest: str) -> int:
        """A number that no other try of this model at this episode has, or will have: 0 for the first.

        Raises:
            LedgerError: the ledger cannot be written, or was closed.
            UsageError: a trainer gave the last number there is.
        """
        return await self._write(lambda book: book.next_attempt(episode_id, model_digest))

    async def claim_attempt(self, episode_id: str, model_digest: str, attempt: int) -> None:
        """Record a number that a trainer gave, so that `next_attempt` goes past it. A second time changes nothing.

        Raises:
            LedgerError: the ledger cannot be written, or was closed.
        """
        tried = AttemptKey(episode_id=episode_id, model_digest=model_digest, attempt=attempt)
        await self._write(lambda book: book.claim(tried))

    async def score(self, key: ScoreKey) -> Submission | None:
        """What holds a key: its first certain verdict; None while there is none.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        return await asyncio.to_thread(self._reader.score, key)

    async def episode_score(self, episode_id: str, model_digest: str, attempt: int) -> Submission | None:
        """A try's reward: its first certain verdict in whichever mode; None while there is none.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        tried = AttemptKey(episode_id=episode_id, model_digest=model_digest, attempt=attempt)
        return await asyncio.to_thread(self._reader.episode_score, tried)

    async def submissions(self, key: ScoreKey) -> tuple[Submission, ...]:
        """The log of a key: everything that was submitted for it, in order, the uncertain and the late included.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        return await asyncio.to_thread(self._reader.submissions, key)

    async def scores(
        self, *, rewards: bool = False, episode_id: str | None = None, model_digest: str | None = None
    ) -> AsyncIterator[Submission]:
        """Every score, in the order in which they were committed; a long one holds nobody up.

        Args:
            rewards: only those that are a try's reward.
            episode_id: only those of this episode.
            model_digest: only those of this model.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        asked = functools.partial(
            self._reader.page, size=_PAGE, rewards=rewards, episode_id=episode_id, model_digest=model_digest
        )
        last = 0
        while page := await asyncio.to_thread(asked, last):
            for _, entry in page:
                yield entry
            last = page[-1][0]

    async def _write(self, do: "Callable[[Book], _T]", touches: AttemptKey | None = None) -> _T:
        return await asyncio.wrap_future(self._writer.put(do, touches))
