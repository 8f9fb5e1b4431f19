"""Signals: what is known of how an episode went, each with its evidence and who measured it.

The five families stay apart. `outcome` says whether the task was done, `process` how the agent went about it, `safety`
whether it kept to its bounds, `efficiency` what it took; `stability` is about several attempts at one episode, so it is
computed over their records and never within one. `RewardContract` turns them into a number; nothing here adds them up.
"""

import json
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StringConstraints,
    model_validator,
)

from quintain.contracts.identity import canonical_json
from quintain.contracts.untrusted import json_problem
from quintain.errors import DescriptorError

MAX_EVIDENCE_BYTES: Final = 4096
"""Largest evidence of one signal, as canonical JSON."""

MAX_SIGNALS: Final = 64
"""Most signals of one attempt."""


class Family(StrEnum):
    """What a signal is about."""

    OUTCOME = "outcome"
    PROCESS = "process"
    SAFETY = "safety"
    EFFICIENCY = "efficiency"
    STABILITY = "stability"


def _checked_evidence(value: dict[str, Any]) -> dict[str, Any]:
    try:
        data = canonical_json(value)
    except DescriptorError as error:
        raise ValueError(f"evidence is {error}; give plain JSON") from error
    if len(data) > MAX_EVIDENCE_BYTES:
        raise ValueError(f"evidence has {len(data)} bytes of JSON, over {MAX_EVIDENCE_BYTES}; give less of it")
    copied: dict[str, Any] = json.loads(data)  # the caller's object may change, the evidence may not
    if problem := json_problem(copied):
        raise ValueError(f"evidence is {problem}")
    return copied


SignalName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Evidence = Annotated[dict[str, Any], AfterValidator(_checked_evidence)]


class _Contract(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Producer(_Contract):
    """Who measured: a name, and the digest or version that says exactly what it was."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    version: Annotated[str, StringConstraints(min_length=1, max_length=100)]


class Signal(_Contract):
    """One measurement. A value of None says that it was to be measured and could not be; `evidence` says why.

    A safety signal's value is True (kept to the bounds), False or None.
    """

    family: Family
    name: SignalName
    value: StrictFloat | StrictBool | None
    evidence: Evidence = Field(default_factory=dict)
    producer: Producer

    @model_validator(mode="after")
    def _safety_is_yes_or_no(self) -> Self:
        if self.family is Family.SAFETY and isinstance(self.value, float):
            raise ValueError(f"safety signal {self.name} has the value {self.value}; give true, false or null")
        return self

    @property
    def source(self) -> str:
        """Family and name, as rewards and messages tell it: `process.invalid_calls`."""
        return f"{self.family.value}.{self.name}"


class Signals(_Contract):
    """All signals of one attempt, no two of the same family and name.

    `reward_type` is the certain verdict in the reward map's words (complete, incomplete); None while there is none.
    """

    schema_version: Literal[1] = 1
    reward_type: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None
    signals: Annotated[tuple[Signal, ...], Field(max_length=MAX_SIGNALS)] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        sources = [signal.source for signal in self.signals]
        if len(set(sources)) < len(sources):
            twice = next(source for source in sources if sources.count(source) > 1)
            raise ValueError(f"signal {twice} is there twice; give each once")
        if self.reward_type is not None and all(signal.value is None for signal in self.outcome):
            raise ValueError(
                f"reward_type is {self.reward_type!r}, and no outcome signal has a value; give one or None"
            )
        return self

    def of(self, family: Family) -> tuple[Signal, ...]:
        """The signals of one family."""
        return tuple(signal for signal in self.signals if signal.family is family)

    @property
    def outcome(self) -> tuple[Signal, ...]:
        """Whether the task was done."""
        return self.of(Family.OUTCOME)

    @property
    def process(self) -> tuple[Signal, ...]:
        """How the agent went about it."""
        return self.of(Family.PROCESS)

    @property
    def safety(self) -> tuple[Signal, ...]:
        """Whether it kept to its bounds."""
        return self.of(Family.SAFETY)

    @property
    def efficiency(self) -> tuple[Signal, ...]:
        """What it took."""
        return self.of(Family.EFFICIENCY)

    @property
    def stability(self) -> tuple[Signal, ...]:
        """How it compares with other attempts; empty in one attempt's own record."""
        return self.of(Family.STABILITY)

    @property
    def passed_safety(self) -> bool | None:
        """False when any safety signal is False, else None when any could not be measured, else True."""
        values = [signal.value for signal in self.safety]
        if False in values:
            return False
        return None if None in values else True
