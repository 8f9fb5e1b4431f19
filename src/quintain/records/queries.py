"""Questions to a store in SQL, by DuckDB over the trajectory table; nothing can be changed by them.

Views: `trajectories` (one row per try, its record's), `all_records` (every record that was accepted), `steps` (one row
per step of `trajectories`), `scores` (the ledger's log). DuckDB gets Arrow data and no access to files or the network:
its own Delta extension would want a download, and a question needs none of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]

from quintain.errors import StoreError, UsageError
from quintain.records.store import Store

_VIEWS: Final = (
    """
    CREATE VIEW trajectories AS SELECT * FROM all_records
    QUALIFY episode_id IS NULL
    OR row_number() OVER (PARTITION BY episode_id, model_digest, attempt ORDER BY synthesized, number) = 1
    """,
    """
    CREATE VIEW steps AS SELECT digest, episode_id, scenario, task_idx, model_digest, attempt, step.*
    FROM (SELECT *, unnest(steps) AS step FROM trajectories)
    """,
)
_SCORES: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("episode_id", pa.string()),
        ("model_digest", pa.string()),
        ("attempt", pa.int64()),
        ("verifier_digest", pa.string()),
        ("mode", pa.string()),
        ("certain", pa.bool_()),
        ("reward_type", pa.string()),
        ("word", pa.string()),
        ("reason", pa.string()),
        ("failure_owner", pa.string()),
        ("contract_digest", pa.string()),
        ("reward", pa.float64()),
        ("submitted_at", pa.float64()),
        ("run", pa.string()),
        ("is_reward", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Answer:
    """What a question came to: names of columns, and rows; `more` says that rows beyond the limit were left out."""

    columns: Sequence[str]
    rows: Sequence[tuple[Any, ...]]
    more: bool


class Queries:
    """Questions to an open store. Close it when done."""

    def __init__(self, store: Store) -> None:
        """Raises StoreError: the trajectory table cannot be read."""
        self._store = store
        self._connection = duckdb.connect(":memory:", config={"python_enable_replacements": "false"})
        self._connection.register("all_records", store.trajectories.dataset())
        for view in _VIEWS:
            self._connection.execute(view)
        self._has_scores = self._locked = False

    def close(self) -> None:
        """Forget everything."""
        self._connection.close()

    def ask(self, sql: str, limit: int | None = None) -> Answer:
        """The answer to one SELECT.

        Args:
            limit: most rows of it; None for all.

        Raises:
            UsageError: it is no single SELECT, or DuckDB refuses it.
            StoreError: the table cannot be read.
        """
        self._allow(sql)
        try:
            cursor = self._connection.execute(sql)
            names = [column[0] for column in cursor.description or ()]
            rows = cursor.fetchall() if limit is None else cursor.fetchmany(limit + 1)
        except duckdb.Error as error:
            raise _refused(error) from error
        more = limit is not None and len(rows) > limit
        return Answer(names, rows[:limit] if more else rows, more)

    def arrow(self, sql: str) -> "pa.RecordBatchReader":
        """The answer to one SELECT, as Arrow batches.

        Raises:
            UsageError: it is no single SELECT, or DuckDB refuses it.
        """
        self._allow(sql)
        try:
            return self._connection.sql(sql).to_arrow_reader(1024)
        except duckdb.Error as error:
            raise _refused(error) from error

    def _allow(self, sql: str) -> None:
        """See that it is one SELECT, that what it asks of is there, and that it can reach nothing else."""
        try:
            statements = self._connection.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise UsageError(f"ask one SELECT, not {' '.join(sql.split())[:80]!r}")
            if "scores" in sql.lower() and not self._has_scores:
                self._register_scores()
            if not self._locked:
                self._connection.execute("SET enable_external_access = false")
                self._connection.execute("SET lock_configuration = true")
                self._locked = True
        except duckdb.Error as error:
            raise _refused(error) from error

    def _register_scores(self) -> None:
        rows = [{name: row[name] for name in _SCORES.names} for row in self._store.index.scores()]
        self._connection.register("scores", pa.Table.from_pylist(rows, schema=_SCORES))
        self._has_scores = True


def _refused(error: duckdb.Error) -> UsageError | StoreError:
    said = str(error).strip()
    if isinstance(error, duckdb.IOException):
        return StoreError(f"the trajectory table cannot be read: {' '.join(said.split())[:300]}")
    return UsageError(f"the question cannot be answered: {' '.join(said.split())[:500]}")
