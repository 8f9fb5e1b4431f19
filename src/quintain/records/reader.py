"""What can be asked of a ledger without writing to it."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from quintain.records.base import AttemptKey, ScoreKey, Submission
from quintain.records.book import being, entry_of, held, rewarded
from quintain.records.database import Database
from quintain.records.schema import episode_score, score, submission


class Reader:
    """Reads one database, from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def score(self, key: ScoreKey) -> Submission | None:
        """What holds a key."""
        return next(iter(self._entries(held().where(being(score, key)))), None)

    def episode_score(self, tried: AttemptKey) -> Submission | None:
        """A try's reward."""
        return next(iter(self._entries(rewarded().where(being(episode_score, tried)))), None)

    def submissions(self, key: ScoreKey) -> tuple[Submission, ...]:
        """Everything submitted for a key, in the order of the log."""
        return tuple(self._entries(sa.select(submission).where(being(submission, key)).order_by(submission.c.id)))

    def page(
        self, after: int, size: int, *, rewards: bool, episode_id: str | None, model_digest: str | None
    ) -> list[tuple[int, Submission]]:
        """The next scores in the order of the log, each with its row's number; `after` is 0 for the first page."""
        query = rewarded() if rewards else held()
        if episode_id is not None:
            query = query.where(submission.c.episode_id == episode_id)
        if model_digest is not None:
            query = query.where(submission.c.model_digest == model_digest)
        query = query.where(submission.c.id > after).order_by(submission.c.id).limit(size)
        return [(row.id, entry_of(row)) for row in self._rows(query)]

    def _entries(self, query: sa.Select[Any]) -> list[Submission]:
        return [entry_of(row) for row in self._rows(query)]

    def _rows(self, query: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        with self._database.read() as connection:
            return connection.execute(query).all()
