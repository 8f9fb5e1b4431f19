"""What is kept of episodes for good: scores in the ledger, records on their way to the store."""

from quintain.records.base import (
    MAX_ATTEMPT,
    AttemptKey,
    Committed,
    ModelDigest,
    ScoreKey,
    ScoreLedger,
    Submission,
)
from quintain.records.ledger import Ledger
from quintain.records.memory import MemoryLedger
from quintain.records.recorder import MemoryRecorder, Recorder, RecordSink
from quintain.records.redaction import Redactor
from quintain.records.spool import Spool

__all__ = [
    "MAX_ATTEMPT",
    "AttemptKey",
    "Committed",
    "Ledger",
    "MemoryLedger",
    "MemoryRecorder",
    "ModelDigest",
    "RecordSink",
    "Recorder",
    "Redactor",
    "ScoreKey",
    "ScoreLedger",
    "Spool",
    "Submission",
]
