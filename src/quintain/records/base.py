"""The records room's contract: what is scored, what is submitted for it, and what came of that."""

import json
from typing import Annotated, Any, Final, Literal, Protocol, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator

from quintain.contracts.identity import MAX_SEED, Digest, sha256
from quintain.contracts.record import Omitted
from quintain.contracts.untrusted import json_problem, whole_text
from quintain.errors import Owner
from quintain.verifiers.base import Verdict, VerdictMode

MAX_ATTEMPT: Final = MAX_SEED
"""Largest attempt number: the largest integer that every JSON reader keeps exactly."""

MAX_VALUE_BYTES: Final = 4096
"""Largest value, as JSON, that is kept whole; of a larger one digest and size are."""

MAX_REASON_CHARS: Final = 2000
MAX_WORD_CHARS: Final = 200


def _storable(text: str) -> str:
    # no database takes halves of surrogate pairs, and PostgreSQL takes no NUL
    if "\0" in text or whole_text(text) != text:
        raise ValueError("must hold whole Unicode characters and no NUL")
    return text


Text = Annotated[str, AfterValidator(_storable)]

ModelDigest = Annotated[Text, Field(strict=True, min_length=1, max_length=512)]
"""What names a model: a digest, or any text up to 512 characters that a trainer calls it by."""


class AttemptKey(BaseModel):
    """One try of one model at one episode."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    episode_id: Digest
    model_digest: ModelDigest
    attempt: Annotated[int, Field(ge=0, le=MAX_ATTEMPT, strict=True)]


class ScoreKey(AttemptKey):
    """What can be scored once: one try, by one verifier (its code, mode, and judge where it has one)."""

    verifier_digest: Digest

    @property
    def tried(self) -> AttemptKey:
        """The try, whichever verifier looks at it."""
        return AttemptKey(episode_id=self.episode_id, model_digest=self.model_digest, attempt=self.attempt)


class Submission(BaseModel):
    """One verdict as it is brought to the ledger, and as the ledger keeps it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    key: ScoreKey
    mode: VerdictMode
    certain: bool = Field(description="Whether it may be a score; an uncertain one is logged and occupies nothing")
    reward_type: Annotated[Text, Field(min_length=1, max_length=64)]
    word: Annotated[Text, Field(max_length=MAX_WORD_CHARS)] | None = Field(
        default=None, description="The verifier's own word, such as complete"
    )
    value: JsonValue = Field(default=None, description="The verifier's whole answer, where it is small")
    value_omitted: Omitted | None = Field(default=None, description="Digest and size of an answer that is not small")
    reason: Annotated[Text, Field(max_length=MAX_REASON_CHARS)] | None = Field(
        default=None, description="Why it is uncertain"
    )
    failure_owner: Owner | None = Field(default=None, description="Whose failure made it uncertain")
    contract_digest: Digest | None = Field(default=None, description="The contract that made the reward")
    reward: Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        default=None, description="None where there is none that may be used"
    )
    submitted_at: Annotated[float, Field(allow_inf_nan=False)] = Field(description="Seconds since 1970 (UTC)")
    run: Annotated[Text, Field(min_length=1, max_length=200)] = Field(description="The run that submitted it")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.certain and self.failure_owner is not None:
            raise ValueError(f"a certain verdict has no failure, but failure_owner is {self.failure_owner}")
        if not self.certain and (self.failure_owner is None or self.reward is not None):
            raise ValueError("an uncertain verdict has a failure_owner and no reward")
        if self.value is not None and self.value_omitted is not None:
            raise ValueError("a value is either kept or omitted")
        if problem := json_problem(self.value):
            raise ValueError(f"value: {problem}")
        if (size := len(_json(self.value))) > MAX_VALUE_BYTES:
            raise ValueError(f"value is {size} bytes of JSON, over {MAX_VALUE_BYTES}; give digest and size instead")
        return self

    @classmethod
    def of(
        cls,
        key: ScoreKey,
        verdict: Verdict,
        *,
        submitted_at: float,
        run: str,
        reward: float | None = None,
        contract_digest: str | None = None,
    ) -> Self:
        """A verdict with what it pays. What of it is too long is cut or given as digest and size.

        Args:
            reward: what the contract pays for it; left out where the verdict is uncertain.
            submitted_at: seconds since 1970 (UTC).
            run: the run that submits it.
        """
        value, omitted = _kept(verdict.value)
        return cls(
            key=key,
            mode=verdict.mode,
            certain=verdict.certain,
            reward_type=verdict.reward_type,
            word=_cut(verdict.result, MAX_WORD_CHARS),
            value=value,
            value_omitted=omitted,
            reason=_cut(verdict.reason, MAX_REASON_CHARS),
            failure_owner=None if verdict.certain else verdict.failure_owner or Owner.VERIFIER,
            contract_digest=contract_digest,
            reward=reward if verdict.certain else None,
            submitted_at=submitted_at,
            run=run,
        )


class Committed(BaseModel):
    """What a submission came to, after it was made durable."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    entry: Submission | None = Field(description="What holds the key: its first certain verdict; None while none does")
    first: bool = Field(description="Whether that is the submission itself")
    episode_score: Submission | None = Field(
        description="The try's first certain verdict in whichever mode: the episode's reward; None while there is none"
    )


class ScoreLedger(Protocol):
    """What scores an attempt exactly once, and hands out attempt numbers."""

    async def submit(self, submission: Submission) -> Committed:
        """Log a verdict; the first certain one of its key holds the key for ever.

        Raises:
            LedgerError: it cannot be written; submitting again is safe.
        """
        ...

    async def score(self, key: ScoreKey) -> Submission | None:
        """What holds a key; None while nothing does.

        Raises:
            LedgerError: it cannot be read.
        """
        ...

    async def episode_score(self, episode_id: str, model_digest: str, attempt: int) -> Submission | None:
        """A try's reward: its first certain verdict in whichever mode; None while there is none.

        Raises:
            LedgerError: it cannot be read.
        """
        ...

    async def next_attempt(self, episode_id: str, model_digest: str) -> int:
        """A number that no other try of this model at this episode has, or will have.

        Raises:
            LedgerError: it cannot be written.
        """
        ...

    async def claim_attempt(self, episode_id: str, model_digest: str, attempt: int) -> None:
        """Record a number that a trainer gave.

        Raises:
            LedgerError: it cannot be written.
        """
        ...


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _kept(value: Any) -> tuple[Any, Omitted | None]:
    """A verdict's value if it is small, else what tells of it. One that is not JSON is not kept."""
    if json_problem(value):
        return None, None
    text = _json(value)
    if len(text) <= MAX_VALUE_BYTES:
        return value, None
    text = json.dumps(value, sort_keys=True).encode()
    return None, Omitted(digest=sha256(text), size_bytes=len(text))


def _cut(text: str | None, limit: int) -> str | None:
    if text is None:
        return None
    text = whole_text(text).replace("\0", "\ufffd")
    return text if len(text) <= limit else text[: limit - 1] + "\u2026"
