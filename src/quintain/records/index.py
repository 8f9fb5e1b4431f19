"""The index of records, in the ledger's database: what was accepted, which is a try's, what is still to be stored.

One transaction accepts a batch: index row, link to the score, outbox entry. A digest is accepted once and a try has one
record; primary keys see to both, whoever writes at the same time.
"""

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from quintain.contracts.record import EpisodeRecord
from quintain.contracts.terminal import TerminalReason
from quintain.errors import RecordUnreadable
from quintain.records.base import MAX_ATTEMPT, AttemptKey, Submission
from quintain.records.book import entry_of
from quintain.records.database import Database, explained, unavailable_when_refused
from quintain.records.recorder import Sealed
from quintain.records.schema import attempt_record, episode_score, outbox, record, submission

LOST: Final = str(TerminalReason.RECORD_LOST)
"""Terminal reason of the record that recovery makes for a score whose own record never came."""

_TRY: Final = ("episode_id", "model_digest", "attempt")
_OF_RECORD: Final = (*_TRY, "verifier_digest", "environment_class_id", "scenario", "task_idx", "seed",
                     "terminal_reason", "reward_type", "reward", "reward_valid")  # fmt: skip
_CHUNK: Final = 250


@dataclass(frozen=True)
class Arrival:
    """A record that arrived: sealed, parsed, and compressed as the outbox keeps it."""

    sealed: Sealed
    record: EpisodeRecord
    packed: bytes

    @property
    def digest(self) -> str:
        """The record's digest."""
        return self.sealed.envelope.digest

    @property
    def tried(self) -> AttemptKey | None:
        """The try it is of; None where the episode failed before it had an identity."""
        one = self.record
        if one.episode_id is None or one.attempt > MAX_ATTEMPT:
            return None
        return AttemptKey.model_construct(episode_id=one.episode_id, model_digest=one.model_digest, attempt=one.attempt)


@dataclass(frozen=True)
class Entry:
    """A record as it was accepted: what the trajectory table adds to the record itself."""

    number: int
    accepted_at: float
    day: str


class Index:
    """The index in an open database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def where(self) -> str:
        """Names the database in messages."""
        return self._database.where

    def accept(self, arrivals: Sequence[Arrival], now: float | None = None) -> dict[str, Entry]:
        """Accept what is new of a batch, in one transaction; the entries of what was new, by digest.

        Raises:
            LedgerError: nothing of the batch was accepted, or it is not known; accepting it again is safe.
            RecordUnreadable: there is a record among them that the database cannot hold; nothing was accepted.
        """
        now = time.time() if now is None else now
        day = datetime.fromtimestamp(now, UTC).date().isoformat()
        arrived = {arrival.digest: arrival for arrival in arrivals}
        with _refusals(self.where), self._database.write() as connection:
            for known in _chosen(connection, record.c.digest, list(arrived)):
                del arrived[known]
            last = connection.execute(sa.select(sa.func.max(record.c.number))).scalar() or 0
            entries = {digest: Entry(number, now, day) for number, digest in enumerate(arrived, last + 1)}
            if not entries:
                return {}
            tries = {arrival.tried: arrival for arrival in reversed(arrived.values()) if arrival.tried is not None}
            scores = _by_try(connection, episode_score, episode_score.c.submission_id, list(tries))
            connection.execute(
                record.insert(),
                [
                    _row(one, entries[one.digest], scores.get(one.tried) if one.tried else None)
                    for one in arrived.values()
                ],
            )
            self._hold(connection, tries)
            connection.execute(
                outbox.insert(), [{"digest": one.digest, "payload": one.packed} for one in arrived.values()]
            )
        return entries

    def _hold(self, connection: sa.Connection, tries: Mapping[AttemptKey, Arrival]) -> None:
        """Give each try its record, unless it has one; what recovery made gives way."""
        held = _by_try(connection, attempt_record, attempt_record.c.digest, list(tries))
        lost = select_lost(connection, list(held.values()))
        fresh = [_key(tried) | {"digest": one.digest} for tried, one in tries.items() if tried not in held]
        if fresh:
            connection.execute(attempt_record.insert(), fresh)
        for tried, digest in held.items():
            if digest in lost and not synthesized(tries[tried].record):
                condition = sa.and_(*(attempt_record.c[name] == getattr(tried, name) for name in _TRY))
                connection.execute(attempt_record.update().where(condition).values(digest=tries[tried].digest))

    def waiting(self, limit: int, limit_bytes: int) -> list[tuple[str, Entry, bytes]]:
        """What is next in the outbox: digest, entry and packed payload, in the order of acceptance."""
        query = (
            sa.select(record.c.digest, record.c.number, record.c.accepted_at, record.c.day, outbox.c.payload)
            .join(outbox, outbox.c.digest == record.c.digest)
            .order_by(record.c.number)
            .limit(limit)
        )
        found: list[tuple[str, Entry, bytes]] = []
        size = 0
        with self._database.read() as connection:
            for digest, number, accepted_at, day, payload in connection.execute(query):
                found.append((digest, Entry(number, accepted_at, day), payload))
                size += len(payload)
                if size >= limit_bytes:
                    break
        return found

    def packed(self, digest: str) -> bytes | None:
        """A record's entry in the outbox."""
        with self._database.read() as connection:
            data = connection.execute(sa.select(outbox.c.payload).where(outbox.c.digest == digest)).scalar()
        return None if data is None else bytes(data)

    def stored(self, digests: Iterable[str]) -> None:
        """These are in the trajectory table for good: take them out of the outbox.

        Raises:
            LedgerError: they may still be in it; saying so again is safe.
        """
        if gone := [{"one": digest} for digest in digests]:
            with unavailable_when_refused(self.where), self._database.write() as connection:
                connection.execute(outbox.delete().where(outbox.c.digest == sa.bindparam("one")), gone)

    def restore(self, row: Mapping[str, Any]) -> None:
        """Index a record again that the trajectory table has and the index does not.

        Raises:
            LedgerError: it is not indexed.
        """
        with unavailable_when_refused(self.where), self._database.write() as connection:
            made = dict(row)
            if connection.execute(sa.select(record.c.number).where(record.c.number == made["number"])).first():
                made["number"] = connection.execute(sa.select(sa.func.max(record.c.number))).scalar_one() + 1
            if made["episode_id"] is not None:
                tried = AttemptKey(**{name: made[name] for name in _TRY})
                scored = _by_try(connection, episode_score, episode_score.c.submission_id, [tried])
                made["submission_id"] = scored.get(tried)
            connection.execute(record.insert(), made)
            if made["episode_id"] is not None and not _by_try(
                connection, attempt_record, attempt_record.c.digest, [tried]
            ):
                connection.execute(attempt_record.insert(), _key(tried) | {"digest": made["digest"]})

    def forget(self, digests: Sequence[str]) -> None:
        """Take records out of the index, so that they can be accepted again."""
        if not digests:
            return
        with unavailable_when_refused(self.where), self._database.write() as connection:
            for table in (outbox, attempt_record, record):
                connection.execute(table.delete().where(table.c.digest == sa.bindparam("one")),
                                   [{"one": digest} for digest in digests])  # fmt: skip

    def known(self, digests: Sequence[str]) -> set[str]:
        """Which of these are in the index."""
        with self._database.read() as connection:
            return set(_chosen(connection, record.c.digest, digests))

    def rows(self, after: int = 0, limit: int = 1000) -> list[dict[str, Any]]:
        """The index, a page at a time, in the order of acceptance; `waiting` says whether a row is in the outbox.

        Args:
            after: the number of the last row of the page before.
        """
        query = (
            sa.select(record, outbox.c.digest.is_not(None).label("waiting"),
                      attempt_record.c.digest.is_not(None).label("of_try"))
            .join(outbox, outbox.c.digest == record.c.digest, isouter=True)
            .join(attempt_record, attempt_record.c.digest == record.c.digest, isouter=True)
            .where(record.c.number > after).order_by(record.c.number).limit(limit)
        )  # fmt: skip
        with self._database.read() as connection:
            return [dict(row._mapping) for row in connection.execute(query)]

    def all_rows(self) -> Iterator[dict[str, Any]]:
        """Every row of the index."""
        last = 0
        while page := self.rows(last):
            yield from page
            last = page[-1]["number"]

    def find(self, beginning: str, limit: int = 10) -> list[dict[str, Any]]:
        """Rows whose digest or episode id begins so."""
        start = beginning if beginning.startswith("sha256:") else f"sha256:{beginning}"
        query = sa.select(record).where(
            record.c.digest.startswith(start, autoescape=True) | record.c.episode_id.startswith(start, autoescape=True)
        )
        with self._database.read() as connection:
            return [dict(row._mapping) for row in connection.execute(query.order_by(record.c.number).limit(limit))]

    def unrecorded(self, before: float, limit: int = 500) -> list[tuple[Submission, dict[str, Any] | None]]:
        """Rewards of tries that have no record, and what another record of the same episode says of it.

        Args:
            before: only those submitted before then, in seconds since 1970.
        """
        same = sa.and_(*(attempt_record.c[name] == episode_score.c[name] for name in _TRY))
        query = (
            sa.select(submission)
            .join(episode_score, episode_score.c.submission_id == submission.c.id)
            .where(submission.c.submitted_at < before, ~sa.exists().where(same))
            .order_by(submission.c.id).limit(limit)
        )  # fmt: skip
        with self._database.read() as connection:
            found = [entry_of(row) for row in connection.execute(query)]
            known: dict[str, dict[str, Any]] = {}
            for episode_id in {entry.key.episode_id for entry in found}:
                like = sa.select(record).where(record.c.episode_id == episode_id, ~record.c.synthesized).limit(1)
                if (row := connection.execute(like).first()) is not None:
                    known[episode_id] = dict(row._mapping)
        return [(entry, known.get(entry.key.episode_id)) for entry in found]

    def counts(self) -> dict[str, int]:
        """How much there is of what."""
        with self._database.read() as connection:
            tables = {"records": record, "tries": attempt_record, "waiting": outbox, "scored tries": episode_score}
            found = {
                name: int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar() or 0)
                for name, table in tables.items()
            }
            size = connection.execute(sa.select(sa.func.sum(record.c.size_bytes))).scalar()
        return found | {"bytes": int(size or 0)}

    def redactions(self) -> dict[str, int]:
        """How many secrets were taken out of all records, by kind."""
        total: dict[str, int] = {}
        with self._database.read() as connection:
            for (text,) in connection.execute(sa.select(record.c.redactions).where(record.c.redactions != "{}")):
                for kind, count in json.loads(text).items():
                    total[kind] = total.get(kind, 0) + count
        return total

    def scores(self) -> list[dict[str, Any]]:
        """The log of submissions, with whether each is its try's reward."""
        query = sa.select(submission, episode_score.c.submission_id.is_not(None).label("is_reward")).join(
            episode_score, episode_score.c.submission_id == submission.c.id, isouter=True
        )
        with self._database.read() as connection:
            return [dict(row._mapping) for row in connection.execute(query.order_by(submission.c.id))]


@contextmanager
def _refusals(where: str) -> Iterator[None]:
    try:
        yield
    except (exc.SQLAlchemyError, sqlite3.Error, OSError) as error:
        if (told := explained(error, where)) is not None:
            raise told from error
        raise RecordUnreadable(f"{where} cannot hold a record: {' '.join(str(error).split())[:300]}") from error
    except (OverflowError, UnicodeError) as error:
        raise RecordUnreadable(f"{where} cannot hold a record: {error}") from error


def synthesized(one: EpisodeRecord) -> bool:
    """Whether recovery made it."""
    return one.terminal_reason == LOST


def select_lost(connection: sa.Connection, digests: Sequence[str]) -> set[str]:
    """Which of these recovery made."""
    return set(_chosen(connection, record.c.digest, digests, record.c.synthesized))


def index_row(sealed: Sealed, one: EpisodeRecord, entry: Entry, submission_id: int | None) -> dict[str, Any]:
    """A record's row of the index."""
    return {
        **{name: getattr(one, name) for name in _OF_RECORD},
        "digest": sealed.envelope.digest,
        "number": entry.number,
        "submission_id": submission_id,
        "failure_owner": None if one.failure_owner is None else str(one.failure_owner),
        "steps": len(one.steps),
        "size_bytes": len(sealed.data),
        "synthesized": synthesized(one),
        "redactions": json.dumps(sealed.envelope.redactions, sort_keys=True),
        "run": sealed.envelope.run,
        "recorded_at": sealed.envelope.recorded_at,
        "accepted_at": entry.accepted_at,
        "day": entry.day,
    }


def _row(arrival: Arrival, entry: Entry, submission_id: int | None) -> dict[str, Any]:
    return index_row(arrival.sealed, arrival.record, entry, submission_id)


def _key(tried: AttemptKey) -> dict[str, Any]:
    return {name: getattr(tried, name) for name in _TRY}


def _chosen(
    connection: sa.Connection, column: sa.Column[Any], values: Sequence[str], *also: sa.ColumnElement[bool]
) -> Iterator[str]:
    for start in range(0, len(values), _CHUNK):
        query = sa.select(column).where(column.in_(values[start : start + _CHUNK]), *also)
        yield from connection.execute(query).scalars().all()


def _by_try(
    connection: sa.Connection, table: sa.Table, column: sa.Column[Any], tries: Sequence[AttemptKey]
) -> dict[AttemptKey, Any]:
    """A column of the rows about these tries."""
    key = sa.tuple_(*(table.c[name] for name in _TRY))
    found: dict[AttemptKey, Any] = {}
    for start in range(0, len(tries), _CHUNK):
        values = [(one.episode_id, one.model_digest, one.attempt) for one in tries[start : start + _CHUNK]]
        for row in connection.execute(sa.select(*(table.c[name] for name in _TRY), column).where(key.in_(values))):
            tried = AttemptKey.model_construct(episode_id=row[0], model_digest=row[1], attempt=row[2])
            found[tried] = row[3]
    return found
