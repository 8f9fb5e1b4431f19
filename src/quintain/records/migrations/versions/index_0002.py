"""The index of records, which record is a try's, and the outbox of the trajectory table."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_DIGEST = sa.String(71)
_ROW = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TRY = ["episode_id", "model_digest", "attempt"]


def upgrade() -> None:
    """Make the three tables."""
    op.create_table(
        "record",
        sa.Column("digest", _DIGEST, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("episode_id", _DIGEST),
        sa.Column("model_digest", sa.String(512), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("verifier_digest", _DIGEST),
        sa.Column("submission_id", _ROW),
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
        sa.PrimaryKeyConstraint("digest", name="pk_record"),
        sa.ForeignKeyConstraint(["submission_id"], ["submission.id"], name="fk_record_submission_id"),
        sa.UniqueConstraint("number", name="uq_record_number"),
    )
    op.create_index("ix_record_episode_id", "record", _TRY)
    op.create_table(
        "attempt_record",
        sa.Column("episode_id", _DIGEST, nullable=False),
        sa.Column("model_digest", sa.String(512), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("digest", _DIGEST, nullable=False),
        sa.PrimaryKeyConstraint(*_TRY, name="pk_attempt_record"),
        sa.ForeignKeyConstraint(["digest"], ["record.digest"], name="fk_attempt_record_digest"),
        sa.UniqueConstraint("digest", name="uq_attempt_record_digest"),
    )
    op.create_table(
        "outbox",
        sa.Column("digest", _DIGEST, nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_outbox"),
        sa.ForeignKeyConstraint(["digest"], ["record.digest"], name="fk_outbox_digest"),
    )
