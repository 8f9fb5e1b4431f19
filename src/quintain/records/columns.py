"""A record as a row of the trajectory table, and back.

`record` has the canonical JSON, which is the evidence; the other columns repeat of it what is asked for often. Texts
over `MAX_TEXT_BYTES` are blobs of the artifact store: `record` has null in their place, and `blobs` says where which
one belongs. Imports pyarrow, so only the store's side may import it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from quintain.artifacts import ArtifactStore
from quintain.contracts.identity import sha256
from quintain.contracts.record import EpisodeRecord, StepRecord
from quintain.errors import ArtifactCorrupt, ArtifactMissing, RecordUnreadable
from quintain.records.form import canonical
from quintain.records.index import Entry, synthesized
from quintain.records.recorder import Sealed

MAX_TEXT_BYTES: Final = 64 * 1024
"""Largest text, in UTF-8, that stays within a row."""

_TIME: Final = pa.timestamp("us", "UTC")
_STEP: Final = pa.struct(
    [
        ("index", pa.int32()),
        ("action", pa.string()),
        ("tool_name", pa.string()),
        ("reward_type", pa.string()),
        ("reward", pa.float64()),
        ("failure_owner", pa.string()),
        ("started", pa.float64()),
        ("duration_ms", pa.float64()),
    ]
)
_BLOB: Final = pa.struct([("pointer", pa.string()), ("digest", pa.string()), ("size_bytes", pa.int64())])
_PLAIN: Final = {
    "environment_class_id": pa.string(),
    "episode_id": pa.string(),
    "client_episode_id": pa.string(),
    "scenario": pa.string(),
    "task_idx": pa.int64(),
    "task_payload_digest": pa.string(),
    "dataset_digest": pa.string(),
    "verifier_digest": pa.string(),
    "task_policy_digest": pa.string(),
    "seed": pa.int64(),
    "attempt": pa.int64(),
    "model_digest": pa.string(),
    "terminal_reason": pa.string(),
    "truncated": pa.bool_(),
    "failure_owner": pa.string(),
    "environment_failures": pa.int64(),
    "hibernations": pa.int64(),
    "reward_type": pa.string(),
    "reward": pa.float64(),
    "reward_valid": pa.bool_(),
    "reward_contract_digest": pa.string(),
    "start_kind": pa.string(),
    "rollout_plan": pa.string(),
    "rollout_item": pa.string(),
}
SCHEMA: Final = pa.schema(
    [
        ("day", pa.string()),
        ("number", pa.int64()),
        ("digest", pa.string()),
        *_PLAIN.items(),
        ("verify_policy", pa.string()),
        ("schema_version", pa.int32()),
        ("ttfi_ms", pa.float64()),
        ("synthesized", pa.bool_()),
        ("run", pa.string()),
        ("recorded_at", _TIME),
        ("accepted_at", _TIME),
        ("redactions", pa.string()),
        ("steps", pa.list_(_STEP)),
        ("blobs", pa.list_(_BLOB)),
        ("record", pa.string()),
    ]
)
"""The trajectory table's columns. It is partitioned by `day`, the UTC day on which a record was accepted."""


@dataclass(frozen=True)
class Row:
    """A record on its way into the table."""

    sealed: Sealed
    record: EpisodeRecord
    entry: Entry


def table(rows: Sequence[Row], blobs: ArtifactStore) -> pa.Table:
    """Rows as Arrow; large texts go to `blobs` first.

    Raises:
        ArtifactError: a text could not be stored.
    """
    records = [row.record for row in rows]
    texts = [_without_large_texts(row.sealed.data, blobs) for row in rows]
    columns: dict[str, Any] = {
        "day": [row.entry.day for row in rows],
        "number": [row.entry.number for row in rows],
        "digest": [row.sealed.envelope.digest for row in rows],
        **{name: list(map(attrgetter(name), records)) for name in _PLAIN},
        "verify_policy": [str(row.record.verify_policy) for row in rows],
        "schema_version": [row.record.schema_version for row in rows],
        "ttfi_ms": [_ttfi_ms(row.record) for row in rows],
        "synthesized": [synthesized(row.record) for row in rows],
        "run": [row.sealed.envelope.run for row in rows],
        "recorded_at": [_microseconds(row.sealed.envelope.recorded_at) for row in rows],
        "accepted_at": [_microseconds(row.entry.accepted_at) for row in rows],
        "redactions": [json.dumps(row.sealed.envelope.redactions, sort_keys=True) for row in rows],
        "blobs": [put for _, put in texts],
        "record": [text for text, _ in texts],
    }
    columns["failure_owner"] = [owner and str(owner) for owner in columns["failure_owner"]]
    arrays = [
        _steps(records) if field.name == "steps" else pa.array(columns[field.name], field.type) for field in SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def whole(text: str, put: Sequence[dict[str, Any]] | None, blobs: ArtifactStore) -> bytes:
    """The record's canonical JSON of a row, with its large texts back in their places.

    Raises:
        ArtifactError: a blob is missing or corrupt.
        RecordUnreadable: the row is not what was written.
    """
    if not put:
        return text.encode()
    try:
        document = json.loads(text)
        for blob in put:
            *path, last = [_unescaped(part) for part in blob["pointer"].split("/")[1:]]
            place = document
            for part in path:
                place = place[int(part) if isinstance(place, list) else part]
            place[int(last) if isinstance(place, list) else last] = blobs.get(blob["digest"]).decode()
    except (ArtifactMissing, ArtifactCorrupt):
        raise
    except (ValueError, LookupError, TypeError) as error:
        raise RecordUnreadable(f"a row whose texts have no place in it: {error}") from error
    return canonical(document)


def _steps(records: Sequence[EpisodeRecord]) -> pa.Array:
    offsets = [0]
    steps: list[StepRecord] = []
    for one in records:
        steps += one.steps
        offsets.append(len(steps))
    values: dict[str, list[Any]] = {field.name: list(map(attrgetter(field.name), steps)) for field in _STEP}
    values["failure_owner"] = [owner and str(owner) for owner in values["failure_owner"]]
    fields = [pa.array(values[field.name], field.type) for field in _STEP]
    flat = pa.StructArray.from_arrays(fields, fields=list(_STEP))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)


def _without_large_texts(data: bytes, blobs: ArtifactStore) -> tuple[str, list[dict[str, Any]]]:
    if len(data) <= MAX_TEXT_BYTES:
        return data.decode(), []
    put: list[dict[str, Any]] = []

    def kept(value: Any, pointer: str) -> Any:
        if isinstance(value, str) and len(value) > MAX_TEXT_BYTES // 4:
            text = value.encode()
            if len(text) > MAX_TEXT_BYTES:
                put.append({"pointer": pointer, "digest": blobs.put(text), "size_bytes": len(text)})
                return None
        if isinstance(value, list):
            return [kept(item, f"{pointer}/{place}") for place, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: kept(item, f"{pointer}/{_escaped(key)}") for key, item in value.items()}
        return value

    document = kept(json.loads(data), "")
    if put and canonical(json.loads(data)) != data:
        # what is put back together would not be the same bytes; it stays whole
        return data.decode(), []
    return (canonical(document).decode() if put else data.decode()), put


def _ttfi_ms(one: EpisodeRecord) -> float | None:
    begun = one.stages[0].monotonic if one.stages else 0.0
    return next(((stamp.monotonic - begun) * 1000 for stamp in one.stages if stamp.stage == "first_command_ok"), None)


def _microseconds(moment: float) -> int:
    return int(min(max(moment, 0.0), 9e9) * 1e6)


def when(moment: float) -> str:
    """A moment as people read it, in UTC."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S")


def matches(row: dict[str, Any], data: bytes, one: EpisodeRecord) -> str | None:
    """What of a row contradicts its record; None if nothing does."""
    if sha256(data) != row["digest"]:
        return f"the record's digest is {sha256(data)}"
    for name in _PLAIN:
        expected = getattr(one, name)
        if row[name] != (str(expected) if name == "failure_owner" and expected is not None else expected):
            return f"column {name} is {row[name]!r}, and in the record {expected!r}"
    return None


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
