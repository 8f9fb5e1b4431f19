"""How a record is written: one canonical JSON text, its digest, and how older versions are read.

The text is RFC 8785 (JCS). A record must never be lost over what an agent put into it, so what JCS cannot carry has a
form too: integers over 2^53-1 in all their digits, NaN and infinities as null, halves of surrogate pairs as U+FFFD.
A field that is None and need not be given is absent.
"""

import json
import math
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

import rfc8785
from pydantic import BaseModel, ValidationError

from quintain.contracts.identity import MAX_SEED, sha256
from quintain.contracts.record import EpisodeRecord, KeptStates, KeptTurn, StepRecord
from quintain.contracts.untrusted import whole_text
from quintain.errors import RecordUnreadable

JsonObject = dict[str, Any]
Upgrader = Callable[[JsonObject], JsonObject]

NEWEST: Final = 1
"""The schema version that is written."""

UPGRADERS: Final[Mapping[int, Upgrader]] = {}
"""For each older version, what makes the next version of a document of it."""

_MAX_CHARS: Final = 300


def document_of(record: EpisodeRecord) -> JsonObject:
    """A record as the JSON object that is written."""
    document = _without(record.model_dump(mode="json"), _ABSENT_IN_RECORD)
    document["steps"] = [_without(step, _ABSENT_IN_STEP) for step in document["steps"]]
    if document.get("turns"):
        document["turns"] = [_without(turn, _ABSENT_IN_TURN) for turn in document["turns"]]
    if document.get("states"):
        document["states"] = _without(document["states"], _ABSENT_IN_STATES)
    return document


def record_bytes(record: EpisodeRecord) -> bytes:
    """A record as it is written; its digest is that of these bytes."""
    return canonical(document_of(record))


def record_digest(record: EpisodeRecord) -> str:
    """What identifies a record: `sha256:` of its canonical JSON."""
    return sha256(record_bytes(record))


def read_record(data: bytes | str) -> EpisodeRecord:
    """A record of any version that was ever written.

    Raises:
        RecordUnreadable: it is none, or of a version that is not known here.
    """
    try:
        return EpisodeRecord.model_validate_json(data)
    except ValidationError as error:
        refused = error
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RecordUnreadable(f"not a record: {_short(error)}") from error
    if not isinstance(document, dict):
        raise RecordUnreadable(f"not a record: expected a JSON object, got {type(document).__name__}")
    if document.get("schema_version") == NEWEST:
        raise RecordUnreadable(f"not a record of version {NEWEST}: {_explained(refused)}") from refused
    try:
        return EpisodeRecord.model_validate(upgraded(document))
    except ValidationError as error:
        raise RecordUnreadable(f"not a record: {_explained(error)}") from error


def upgraded(document: JsonObject, upgraders: Mapping[int, Upgrader] = UPGRADERS, newest: int = NEWEST) -> JsonObject:
    """A document of an older version in the form of the newest.

    Raises:
        RecordUnreadable: it names no version, one that is not known, or a newer one.
    """
    version = document.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise RecordUnreadable(f"a record needs a schema_version, a number; got {str(version)[:40]!r}")
    if version > newest:
        raise RecordUnreadable(
            f"a record of version {version}, and the newest known here is {newest}; read it with a newer quintain"
        )
    while version < newest:
        if version not in upgraders:
            known = ", ".join(map(str, sorted([*upgraders, newest])))
            raise RecordUnreadable(f"a record of version {version}, which was never written; known: {known}")
        document, version = {**upgraders[version](document), "schema_version": version + 1}, version + 1
    return document


def canonical(value: Any) -> bytes:
    """The canonical JSON of a value that `model_dump(mode="json")` made: never refused."""
    nonce = secrets.token_hex(8)  # what is put in a number's place must be nothing that a text can hold
    odd_keys = odd_numbers = False

    def plain(item: Any) -> Any:
        nonlocal odd_keys, odd_numbers
        kind = type(item)
        if kind is str:
            return item if item.isascii() else whole_text(item)
        if kind is dict:
            odd_keys = odd_keys or not all(map(str.isascii, item))
            return {whole_text(key): plain(child) for key, child in item.items()}
        if kind is list:
            return [plain(child) for child in item]
        if kind is float:
            if not math.isfinite(item):
                return None
            if item.is_integer() and abs(item) <= MAX_SEED:
                return int(item)
            if not 1e-4 <= abs(item) <= MAX_SEED:
                odd_numbers = True
                return f"{nonce}{rfc8785.dumps(item).decode()}"
        return item

    made = plain(value)
    text = _sorted(made) if odd_keys else json.dumps(made, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if odd_numbers:
        text = re.sub(rf'"{nonce}([^"]*)"', r"\1", text)
    return text.encode()


def _sorted(value: Any) -> str:
    """What JSON's own writer does, with JCS's order of keys; slower."""
    if isinstance(value, list):
        return "[" + ",".join(map(_sorted, value)) + "]"
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{_sorted(key)}:{_sorted(value[key])}" for key in keys) + "}"
    return json.dumps(value, ensure_ascii=False)


def _optional(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(name for name, field in model.model_fields.items() if not field.is_required())


_ABSENT_IN_RECORD: Final = _optional(EpisodeRecord)
_ABSENT_IN_STEP: Final = _optional(StepRecord)
_ABSENT_IN_TURN: Final = _optional(KeptTurn)
_ABSENT_IN_STATES: Final = _optional(KeptStates)


def _without(document: JsonObject, absent: frozenset[str]) -> JsonObject:
    return {name: value for name, value in document.items() if value is not None or name not in absent}


def _explained(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"])) or "the document"
    return f"{where}: {first['msg']}"[:_MAX_CHARS]


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:_MAX_CHARS] or type(error).__name__
