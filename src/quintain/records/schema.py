"""The tables of the ledger, whose rows are only ever added, and of the index of records, at the newest revision.

Nothing here is peculiar to one database. What may be there once is a primary key, so that two writers who know
nothing of each other cannot both be first.
"""

from typing import Any, Final

import sqlalchemy as sa

REVISION: Final = "0002"
"""The newest migration in `migrations/versions`."""

metadata: Final = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)

_DIGEST = sa.String(71)
# SQLite numbers rows by itself only if their key is of the type INTEGER, which holds 64 bits there
_ROW = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _try_columns(*, primary_key: bool) -> list[sa.Column[Any]]:
    return [
        sa.Column("episode_id", _DIGEST, primary_key=primary_key, nullable=False),
        sa.Column("model_digest", sa.String(512), primary_key=primary_key, nullable=False),
        sa.Column("attempt", sa.BigInteger(), primary_key=primary_key, nullable=False, autoincrement=False),
    ]


def _of_attempt() -> sa.ForeignKeyConstraint:
    columns = ["episode_id", "model_digest", "attempt"]
    return sa.ForeignKeyConstraint(columns, [f"attempt.{name}" for name in columns])


attempt: Final = sa.Table(
    "attempt",
    metadata,
    *_try_columns(primary_key=True),
    sa.Column("origin", sa.String(16), nullable=False),
)
"""Every attempt number in use; `origin` is allocated, claimed (a trainer gave it) or submitted."""

submission: Final = sa.Table(
    "submission",
    metadata,
    sa.Column("id", _ROW, primary_key=True, autoincrement=True),
    *_try_columns(primary_key=False),
    sa.Column("verifier_digest", _DIGEST, nullable=False),
    sa.Column("schema_version", sa.Integer(), nullable=False),
    sa.Column("mode", sa.String(32), nullable=False),
    sa.Column("certain", sa.Boolean(), nullable=False),
    sa.Column("reward_type", sa.String(64), nullable=False),
    sa.Column("word", sa.String(200)),
    sa.Column("value", sa.Text()),
    sa.Column("value_digest", _DIGEST),
    sa.Column("value_size", sa.BigInteger()),
    sa.Column("reason", sa.Text()),
    sa.Column("failure_owner", sa.String(16)),
    sa.Column("contract_digest", _DIGEST),
    sa.Column("reward", sa.Double()),
    sa.Column("submitted_at", sa.Double(), nullable=False),
    sa.Column("run", sa.String(200), nullable=False),
    _of_attempt(),
    sa.Index(None, "episode_id", "model_digest", "attempt"),
)
"""The log: every submission in the order in which they were committed."""

score: Final = sa.Table(
    "score",
    metadata,
    *_try_columns(primary_key=True),
    sa.Column("verifier_digest", _DIGEST, primary_key=True),
    sa.Column("submission_id", _ROW, sa.ForeignKey("submission.id"), nullable=False, unique=True),
)
"""Which submission holds a score key."""

episode_score: Final = sa.Table(
    "episode_score",
    metadata,
    *_try_columns(primary_key=True),
    sa.Column("submission_id", _ROW, sa.ForeignKey("submission.id"), nullable=False, unique=True),
)
"""Which submission is the reward of a try: the first certain one, whichever verifier gave it."""

record: Final = sa.Table(
    "record",
    metadata,
    sa.Column("digest", _DIGEST, primary_key=True),
    sa.Column("number", sa.BigInteger(), nullable=False, unique=True),
    sa.Column("episode_id", _DIGEST),
    sa.Column("model_digest", sa.String(512), nullable=False),
    sa.Column("attempt", sa.BigInteger(), nullable=False),
    sa.Column("verifier_digest", _DIGEST),
    sa.Column("submission_id", _ROW, sa.ForeignKey("submission.id")),
    sa.Column("environment_class_id", _DIGEST),
    sa.Column("scenario", sa.Text(), nullable=False),
    sa.Column("task_idx", sa.BigInteger()),
    sa.Column("seed", sa.BigInteger(), nullable=False),
    sa.Column("terminal_reason", sa.Text(), nullable=False),
    sa.Column("failure_owner", sa.String(16)),
    sa.Column("reward_type", sa.String(64)),
    sa.Column("reward", sa.Double()),
    sa.Column("reward_valid", sa.Boolean(), nullable=False),
    sa.Column("steps", sa.Integer(), nullable=False),
    sa.Column("size_bytes", sa.BigInteger(), nullable=False),
    sa.Column("synthesized", sa.Boolean(), nullable=False),
    sa.Column("redactions", sa.Text(), nullable=False),
    sa.Column("run", sa.String(200), nullable=False),
    sa.Column("recorded_at", sa.Double(), nullable=False),
    sa.Column("accepted_at", sa.Double(), nullable=False),
    sa.Column("day", sa.String(10), nullable=False),
    sa.Index(None, "episode_id", "model_digest", "attempt"),
)
"""The index: every record that was accepted, in the order of `number`; `submission_id` links its try's reward."""

attempt_record: Final = sa.Table(
    "attempt_record",
    metadata,
    *_try_columns(primary_key=True),
    sa.Column("digest", _DIGEST, sa.ForeignKey("record.digest"), nullable=False, unique=True),
)
"""Which record is a try's: the first that its worker sent; one that recovery made gives way to it."""

outbox: Final = sa.Table(
    "outbox",
    metadata,
    sa.Column("digest", _DIGEST, sa.ForeignKey("record.digest"), primary_key=True),
    sa.Column("payload", sa.LargeBinary(), nullable=False),
)
"""Records that are not in the trajectory table yet, or are not known to be: envelope and record, zstandard."""
