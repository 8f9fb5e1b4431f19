"""The rules of the ledger, within one transaction: who is first, and which attempt is next."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import sqlalchemy as sa

from quintain.contracts.record import Omitted
from quintain.errors import UsageError
from quintain.records.base import MAX_ATTEMPT, AttemptKey, Committed, ScoreKey, Submission
from quintain.records.schema import attempt, episode_score, score, submission

_PLAIN: Final = ("schema_version", "mode", "certain", "reward_type", "word", "reason", "failure_owner",
                 "contract_digest", "reward", "submitted_at", "run")  # fmt: skip

# made once: to build a statement costs more than to run it
_NUMBER, _LOG, _HOLD, _PAY = attempt.insert(), submission.insert(), score.insert(), episode_score.insert()


@dataclass
class _Standing:
    """What is decided about one try: who holds which key, by verifier, and which of them is the reward."""

    scores: dict[str, Submission] = field(default_factory=dict)
    reward: Submission | None = None
    assumed: bool = False
    """Whether nothing was looked up."""


class Book:
    """The ledger as one transaction sees it. Use it for that transaction alone."""

    def __init__(self, connection: sa.Connection, unscored: Collection[AttemptKey] = ()) -> None:
        """`unscored` are tries of which nothing is looked up, because hardly anybody can have submitted for them.

        If another process has all the same, the primary keys refuse a certain verdict; an uncertain one, which no key
        refuses, is answered only after a look.
        """
        self._connection = connection
        self._unscored = unscored
        self.allocated: list[AttemptKey] = []
        """Tries that were numbered in this transaction."""
        self._standings: dict[AttemptKey, _Standing] = {}

    def lock(self, tries: Iterable[AttemptKey]) -> None:
        """Hold these tries until the transaction ends, in an order that no two transactions can be at odds about."""
        for tried in sorted(set(tries), key=lambda one: (one.episode_id, one.model_digest, one.attempt)):
            self._standing(tried)

    def submit(self, submitted: Submission) -> Committed:
        """Log a submission; if it is certain and its key is free, it takes the key."""
        key = submitted.key
        standing = self._standing(key.tried)
        if standing.assumed and standing.reward is None and not submitted.certain:
            standing = self._standings[key.tried] = self._found(key.tried, "submitted")
        row = self._connection.execute(_LOG, _row(submitted)).inserted_primary_key
        assert row is not None
        first = submitted.certain and key.verifier_digest not in standing.scores
        if first:
            self._connection.execute(_HOLD, key.model_dump() | {"submission_id": row[0]})
            standing.scores[key.verifier_digest] = submitted
            if standing.reward is None:
                self._connection.execute(_PAY, key.tried.model_dump() | {"submission_id": row[0]})
                standing.reward = submitted
        return Committed(entry=standing.scores.get(key.verifier_digest), first=first, episode_score=standing.reward)

    def next_attempt(self, episode_id: str, model_digest: str) -> int:
        """Take the number after the largest in use.

        Raises:
            UsageError: a trainer gave the largest number there is.
        """
        used = sa.select(sa.func.max(attempt.c.attempt)).where(
            attempt.c.episode_id == episode_id, attempt.c.model_digest == model_digest
        )
        largest = self._connection.execute(used).scalar()
        number = 0 if largest is None else int(largest) + 1
        if number > MAX_ATTEMPT:
            raise UsageError(f"attempt {largest} of model {model_digest[:80]!r} is the last there is; name the attempt")
        tried = AttemptKey(episode_id=episode_id, model_digest=model_digest, attempt=number)
        self._connection.execute(_NUMBER, tried.model_dump() | {"origin": "allocated"})
        self._standings[tried] = _Standing()
        self.allocated.append(tried)
        return number

    @property
    def touched(self) -> Iterable[AttemptKey]:
        """Tries that this transaction was about."""
        return self._standings.keys()

    def claim(self, tried: AttemptKey) -> None:
        """Record that a try's number is in use."""
        self._standing(tried, "claimed")

    def _standing(self, tried: AttemptKey, origin: Literal["claimed", "submitted"] = "submitted") -> _Standing:
        known = self._standings.get(tried)
        if known is None:
            known = _Standing(assumed=True) if tried in self._unscored else self._found(tried, origin)
            self._standings[tried] = known
        return known

    def _found(self, tried: AttemptKey, origin: Literal["claimed", "submitted"]) -> _Standing:
        # the row is locked where a database locks rows, so nothing below changes until the transaction ends
        there = self._connection.execute(sa.select(attempt.c.origin).where(being(attempt, tried)).with_for_update())
        if there.first() is not None:
            return self._load(tried)
        self._connection.execute(_NUMBER, tried.model_dump() | {"origin": origin})
        return _Standing()

    def _load(self, tried: AttemptKey) -> _Standing:
        reward = self._connection.execute(sa.select(episode_score.c.submission_id).where(being(episode_score, tried)))
        reward_id = reward.scalar()
        standing = _Standing()
        for row in self._connection.execute(held().where(being(score, tried))):
            entry = entry_of(row)
            standing.scores[entry.key.verifier_digest] = entry
            if row.id == reward_id:
                standing.reward = entry
        return standing


def held() -> sa.Select[Any]:
    """The submissions that hold a score key."""
    return sa.select(submission).join(score, score.c.submission_id == submission.c.id)


def rewarded() -> sa.Select[Any]:
    """The submissions that are the reward of a try."""
    return sa.select(submission).join(episode_score, episode_score.c.submission_id == submission.c.id)


def being(table: sa.Table, tried: AttemptKey) -> sa.ColumnElement[bool]:
    """The condition that a row is about this try, or this score key."""
    return sa.and_(*(table.c[name] == getattr(tried, name) for name in type(tried).model_fields))


def entry_of(row: sa.Row[Any]) -> Submission:
    """A submission as it was given."""
    columns = row._mapping
    omitted = None
    if columns["value_digest"] is not None:
        omitted = Omitted(digest=columns["value_digest"], size_bytes=columns["value_size"])
    return Submission(
        key=ScoreKey.model_validate({name: columns[name] for name in ScoreKey.model_fields}),
        value=None if columns["value"] is None else json.loads(columns["value"]),
        value_omitted=omitted,
        **{name: columns[name] for name in _PLAIN},
    )


def _row(submitted: Submission) -> dict[str, Any]:
    value, omitted = submitted.value, submitted.value_omitted
    return {
        **submitted.key.model_dump(),
        **{name: getattr(submitted, name) for name in _PLAIN},
        "value": None if value is None else json.dumps(value, separators=(",", ":"), allow_nan=False),
        "value_digest": omitted.digest if omitted else None,
        "value_size": omitted.size_bytes if omitted else None,
    }
