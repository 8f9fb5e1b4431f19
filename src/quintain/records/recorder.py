"""From a finished episode to a durable record: redacted, sealed with its digest, and in the spool."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quintain.contracts.identity import Digest, sha256
from quintain.contracts.record import EpisodeRecord
from quintain.errors import RecordUnreadable
from quintain.records.form import canonical, document_of, read_record
from quintain.records.redaction import Redactor
from quintain.records.spool import Spool

RUN_CHARS: Final = 200


class Envelope(BaseModel):
    """What goes with a record: its digest, what was redacted, and who recorded it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    envelope_version: Literal[1] = 1
    digest: Digest = Field(description="Of the record's canonical JSON, as redacted")
    redactions: dict[str, int] = Field(default_factory=dict, description="How many secrets were taken out, by kind")
    run: str = Field(max_length=RUN_CHARS, description="The run that recorded it, as the ledger names it")
    recorded_at: float = Field(allow_inf_nan=False, description="Seconds since 1970 (UTC)")


@dataclass(frozen=True)
class Sealed:
    """A record that may leave its worker: its canonical JSON, and its envelope."""

    envelope: Envelope
    data: bytes

    def payload(self) -> bytes:
        """As it lies in a spool and goes over the wire: the envelope on a line of its own, then the record."""
        return self.envelope.model_dump_json().encode() + b"\n" + self.data

    @classmethod
    def read(cls, payload: bytes) -> "Sealed":
        """A payload taken apart, its digest checked; the record itself is not looked at.

        Raises:
            RecordUnreadable: it is none, or the record does not have the digest.
        """
        head, _, data = payload.partition(b"\n")
        try:
            envelope = Envelope.model_validate_json(head)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise RecordUnreadable(
                f"no envelope of a record: {'.'.join(map(str, first['loc']))} {first['msg']}"
            ) from error
        if (found := sha256(data)) != envelope.digest:
            raise RecordUnreadable(f"a record whose digest is {found} and not {envelope.digest}; send it again")
        return cls(envelope, data)

    def record(self) -> EpisodeRecord:
        """The record.

        Raises:
            RecordUnreadable: it is none, or of a version that is not known here.
        """
        return read_record(self.data)


def seal(record: EpisodeRecord, redactor: Redactor, run: str, recorded_at: float | None = None) -> Sealed:
    """A record redacted, and fixed by its digest.

    Args:
        run: the run that recorded it.
        recorded_at: seconds since 1970; now if it is left out.
    """
    document, redactions = redactor.redact(document_of(record))
    data = canonical(document)
    when = time.time() if recorded_at is None else recorded_at
    return Sealed(Envelope(digest=sha256(data), redactions=redactions, run=run[:RUN_CHARS], recorded_at=when), data)


class RecordSink(Protocol):
    """Where the records of finished episodes go."""

    @property
    def full(self) -> bool:
        """Whether no new episode should be begun, because records are not taken away fast enough."""
        ...

    async def add(self, record: EpisodeRecord) -> str:
        """Have a record kept; returns its digest once it would survive a power cut.

        Raises:
            SpoolUnavailable: it cannot be kept now. Adding it again is safe.
        """
        ...


class Recorder:
    """A `RecordSink` on a spool. Close the spool when done."""

    def __init__(self, spool: Spool, redactor: Redactor, run: str) -> None:
        """`run` names the run in the ledger and in the store."""
        self._spool = spool
        self._redactor = redactor
        self._run = run

    @property
    def full(self) -> bool:
        """Whether the spool is at its size."""
        return self._spool.full

    async def add(self, record: EpisodeRecord) -> str:
        """Redact, seal and append a record."""
        sealed = await asyncio.to_thread(seal, record, self._redactor, self._run)
        await self._spool.add(sealed.payload())
        return sealed.envelope.digest


class MemoryRecorder:
    """A `RecordSink` in memory, for tests and for runs that keep nothing. It redacts as the other does."""

    def __init__(self, redactor: Redactor | None = None, run: str = "memory") -> None:
        self.sealed: list[Sealed] = []
        """What was added, in order."""
        self.full = False
        self._redactor = redactor or Redactor()
        self._run = run

    async def add(self, record: EpisodeRecord) -> str:
        """Redact and keep a record."""
        self.sealed.append(seal(record, self._redactor, self._run))
        return self.sealed[-1].envelope.digest
