"""Records out of a store, as files that others read."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from quintain.artifacts import LocalArtifactStore
from quintain.errors import StoreError, UsageError
from quintain.records.columns import whole
from quintain.records.form import read_record
from quintain.records.queries import Queries
from quintain.records.states import blobs_of
from quintain.records.store import Store

Format = Literal["jsonl", "parquet"]

_NEEDED: Final = frozenset({"digest", "record", "blobs"})


def export(
    store: Store,
    sql: str,
    target: Path,
    kind: Format,
    progress: Callable[[int], None] = lambda _: None,
    states: Path | None = None,
) -> int:
    """Write what a question chooses to a file, which appears whole or not at all; how many rows.

    Args:
        sql: one SELECT. JSON Lines needs its columns `digest`, `record` and `blobs`, and has a whole record per line,
            large texts in place. Parquet has the columns as they are.
        progress: told how many rows were written.
        states: a directory that gets the states which the records name, by digest, before the file appears. Then
            Parquet needs the three columns too.

    Raises:
        UsageError: the question cannot be answered, or lacks a column.
        StoreError, ArtifactError, RecordUnreadable: the store is damaged, or the file cannot be written.
    """
    queries = Queries(store)
    scratch = target.with_name(f".{target.name}.new")
    try:
        batches = queries.arrow(sql)
        if (kind == "jsonl" or states is not None) and (missing := _NEEDED - set(batches.schema.names)):
            what = "JSON Lines needs" if states is None else "states need"
            raise UsageError(f"{what} the columns {', '.join(sorted(missing))} too; or export Parquet without states")
        if states is not None:
            batches = _with_states(store, batches, LocalArtifactStore(states))
        written = (_jsonl if kind == "jsonl" else _parquet)(store, batches, scratch, progress)
        scratch.replace(target)
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror or error}; name another file") from error
    finally:
        scratch.unlink(missing_ok=True)
        queries.close()
    return written


def _with_states(store: Store, batches: "pa.RecordBatchReader", states: LocalArtifactStore) -> "pa.RecordBatchReader":
    """The same batches; the states of each one's records are copied before it is handed on."""

    def copied() -> Iterator["pa.RecordBatch"]:
        for batch in batches:
            for row in batch.select(sorted(_NEEDED)).to_pylist():
                for blob in blobs_of(read_record(whole(row["record"], row["blobs"], store.blobs))):
                    if not states.has(blob.digest):
                        states.put(store.blobs.get(blob.digest))
            yield batch

    return pa.RecordBatchReader.from_batches(batches.schema, copied())


def _jsonl(store: Store, batches: "pa.RecordBatchReader", target: Path, progress: Callable[[int], None]) -> int:
    written = 0
    with target.open("w", encoding="ascii") as file:
        for batch in batches:
            for row in batch.select(sorted(_NEEDED)).to_pylist():
                document = json.loads(whole(row["record"], row["blobs"], store.blobs))
                file.write(json.dumps({"digest": row["digest"], "record": document}) + "\n")
                written += 1
            progress(written)
    return written


def _parquet(_store: Store, batches: "pa.RecordBatchReader", target: Path, progress: Callable[[int], None]) -> int:
    written = 0
    with pq.ParquetWriter(target, batches.schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            written += batch.num_rows
            progress(written)
    return written
