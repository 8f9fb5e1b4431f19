"""What a judge is: which endpoint and model, what it is told of an episode, and what it may answer."""

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quintain.contracts.endpoints import ApiKey, BaseUrl, ModelName, problems_of
from quintain.errors import Owner, UsageError

JsonObject = dict[str, Any]

UNSURE_BELOW: Final = 0.5
"""A judgment with less confidence than this is not used."""


class Classification(StrEnum):
    """What a judge may say of an episode; the words are Agent World Model's."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    SERVER_ERROR = "server_error"
    AGENT_ERROR = "agent_error"


class JudgeSettings(BaseModel):
    """Which endpoint judges, with which model and within which bounds.

    The endpoint is any that answers OpenAI's `POST {base_url}/chat/completions`. Neither repr, dump nor an error
    holds the key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    base_url: BaseUrl | None = None
    api_key: ApiKey | None = Field(default=None, repr=False, exclude=True)
    model: ModelName | None = None
    timeout_s: float = Field(default=30.0, gt=0, le=3600, description="Seconds for one attempt, to its last byte")
    # openenv's clients wait 60 s for an answer to verify
    total_timeout_s: float = Field(default=50.0, gt=0, le=7200, description="Seconds for all attempts and waits")
    max_retries: int = Field(default=3, ge=0, le=10, description="Further attempts after the first")
    max_tokens: int = Field(default=4096, ge=64, le=131072, description="Most tokens of an answer")
    max_evidence_bytes: int = Field(default=256 * 1024, ge=1024, le=16 * 2**20, description="Largest evidence as JSON")

    @classmethod
    def read(cls, **values: Any) -> Self:
        """Settings from values that a user gave; None and "" stand for what was not given.

        Raises:
            UsageError: a value is unusable; the message names it and does not hold it.
        """
        problem = ""
        try:
            return cls(**{name: value for name, value in values.items() if value not in (None, "")})
        except ValidationError as error:
            problem = problems_of(error, "the judge's")
        # outside of the except, so that the new error does not carry the old one and with it the input
        raise UsageError(problem)

    def over(self, base_url: str | None = None, api_key: str | None = None, model: str | None = None) -> Self:
        """These settings with what one reset gives in their place.

        A key goes only to the endpoint that it was given with: where the reset names another, these settings' key is
        left out.

        Raises:
            UsageError: a value is unusable.
        """
        given = type(self).read(base_url=base_url, api_key=api_key, model=model)
        elsewhere = given.base_url is not None and given.base_url != self.base_url
        return self.model_copy(
            update={
                "base_url": given.base_url or self.base_url,
                "api_key": given.api_key or (None if elsewhere else self.api_key),
                "model": given.model or self.model,
            }
        )

    @property
    def missing(self) -> str | None:
        """What must be set before anything can be judged, as a sentence; None when nothing is missing."""
        names = [name for name in ("base_url", "model") if getattr(self, name) is None]
        if not names:
            return None
        told = " and ".join(f"OPENENV_AWM_LLM_{name.upper()} (or the reset's llm_{name})" for name in names)
        return f"this verification needs a judge, and none is set; set {told}, or use verifier_mode code"


@dataclass(frozen=True)
class Case:
    """What a judge is told of one episode.

    Task and criteria are the task author's. Evidence, final answer and trace come from the agent's doings and are
    shown as data. `trace` is None where nobody kept one.
    """

    task: str
    evidence: Any
    success_criteria: str = ""
    failure_criteria: str = ""
    author_note: str = ""
    final_answer: str | None = None
    trace: JsonObject | None = None

    @property
    def choices(self) -> tuple[Classification, ...]:
        """What may be answered: server_error only where the platform itself saw a call fail by the environment's fault.

        So an agent cannot talk its way out of a score by claiming such a failure.
        """
        if self.trace is not None and not self.trace.get("environment_failures"):
            return tuple(one for one in Classification if one is not Classification.SERVER_ERROR)
        return tuple(Classification)

    @property
    def digest(self) -> str:
        """Digest of everything in it."""
        return json_digest(vars(self))


class Judgment(BaseModel):
    """A judge's usable answer. `served_model` is what the endpoint says answered, where it says so."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    classification: Classification
    confidence: float = Field(ge=0.0, le=1.0)
    reasons: tuple[str, ...] = ()
    served_model: str | None = None


@dataclass(frozen=True)
class NoJudgment:
    """Why there is none, and whose failure that is: the endpoint's outage is infrastructure, all else verifier."""

    reason: str
    owner: Owner
    attempts: int = 0


def json_digest(value: Any) -> str:
    """`sha256:<hex>` of a JSON value; unlike canonical JSON it takes integers of any size."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()
