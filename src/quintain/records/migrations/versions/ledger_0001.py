"""Attempts, the log of submissions, scores and rewards."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_DIGEST = sa.String(71)
_ROW = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TRY = ["episode_id", "model_digest", "attempt"]


def _try_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("episode_id", _DIGEST, nullable=False),
        sa.Column("model_digest", sa.String(512), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False, autoincrement=False),
    ]


def upgrade() -> None:
    """Make the four tables."""
    op.create_table(
        "attempt",
        *_try_columns(),
        sa.Column("origin", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint(*_TRY, name="pk_attempt"),
    )
    op.create_table(
        "submission",
        sa.Column("id", _ROW, autoincrement=True, nullable=False),
        *_try_columns(),
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
        sa.PrimaryKeyConstraint("id", name="pk_submission"),
        sa.ForeignKeyConstraint(_TRY, [f"attempt.{name}" for name in _TRY], name="fk_submission_episode_id"),
    )
    op.create_index("ix_submission_episode_id", "submission", _TRY)
    for table, key in (("score", [*_TRY, "verifier_digest"]), ("episode_score", _TRY)):
        extra = [sa.Column("verifier_digest", _DIGEST, nullable=False)] if table == "score" else []
        op.create_table(
            table,
            *_try_columns(),
            *extra,
            sa.Column("submission_id", _ROW, nullable=False),
            sa.PrimaryKeyConstraint(*key, name=f"pk_{table}"),
            sa.ForeignKeyConstraint(["submission_id"], ["submission.id"], name=f"fk_{table}_submission_id"),
            sa.UniqueConstraint("submission_id", name=f"uq_{table}_submission_id"),
        )
