"""Reward: from what happened to a number, by a contract that has a name, a version and a digest.

A `RewardMap` pays for one reward_type; Agent World Model's pays complete 1.0, incomplete 0.1, format_error -1.0
(tool_not_found, invalid_args) and 0.0 for everything else. A `RewardContract` holds such a map, says what breaking a
safety bound pays and may add terms for process and efficiency; it turns an attempt's signals into its reward.
"""

import math
import operator
from collections.abc import Iterable, Mapping
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from quintain.contracts.identity import Digest, digest_of
from quintain.contracts.signals import Family, SignalName, Signals
from quintain.errors import UsageError

FORMAT_ERRORS: Final = frozenset({"tool_not_found", "invalid_args"})
"""Reward types that are the agent's own mistake in forming a call."""


def _total(values: Iterable[float]) -> float:
    # plain addition, whose rounding keeps order, and not sum(), which corrects it and differs between Pythons
    return reduce(operator.add, values)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False


class _Contract(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RewardMap(_Contract):
    """What each outcome pays."""

    complete: float = 1.0
    incomplete: float = 0.1
    format_error: float = -1.0

    def value(self, reward_type: str) -> float:
        """The reward of one reward_type; whatever the map does not name pays 0.0."""
        if reward_type == "complete":
            return self.complete
        if reward_type == "incomplete":
            return self.incomplete
        return self.format_error if reward_type in FORMAT_ERRORS else 0.0

    @property
    def values(self) -> tuple[float, ...]:
        """Everything that it can pay."""
        return (self.complete, self.incomplete, self.format_error, 0.0)

    def merged(self, config: Mapping[str, Any] | None) -> "RewardMap":
        """This map with some values replaced, as reset's `reward_config` asks.

        Raises:
            UsageError: an unknown name, or a value that is not a finite number.
        """
        if not config:
            return self
        names = ", ".join(type(self).model_fields)
        for name, value in config.items():
            if name not in type(self).model_fields:
                raise UsageError(f"reward_config has no entry {name[:80]!r}; it may set {names}")
            if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
                raise UsageError(f"reward_config.{name} is {str(value)[:80]!r}; give a finite number")
        return self.model_copy(update={name: float(value) for name, value in config.items()})


class WeightedTerm(_Contract):
    """What one process or efficiency signal adds: `weight` in full when the signal reaches `full_at`, else its share.

    A value below 0 counts as 0, true as 1; one that could not be measured adds nothing. A penalty's weight is negative.
    """

    family: Literal[Family.PROCESS, Family.EFFICIENCY]
    name: SignalName
    weight: float
    full_at: Annotated[float, Field(gt=0)] = 1.0

    @property
    def source(self) -> str:
        """Family and name of the signal it pays for."""
        return f"{self.family.value}.{self.name}"

    def pays(self, value: float) -> float:
        """What it adds for a signal's value: between 0 and `weight`."""
        return self.weight * (min(max(float(value), 0.0), self.full_at) / self.full_at)


class Contribution(_Contract):
    """What one source gave: the verdict (`outcome.complete`), a term (`process.probes`), or `safety`, failed."""

    source: str
    gave: float


class Reward(_Contract):
    """An attempt's training scalar and why. `value` is None exactly when `valid` is false: mask it, do not train on 0.

    The contributions, added up in their order, are the value.
    """

    value: float | None
    valid: bool
    contract_digest: Digest
    terms: tuple[Contribution, ...] = ()
    reason: str

    @model_validator(mode="after")
    def _valid_means_a_value(self) -> Self:
        if self.valid is (self.value is None):
            raise ValueError(f"value is {self.value} and valid is {self.valid}; a valid reward is one with a value")
        return self


def _sorted_terms(terms: tuple[WeightedTerm, ...]) -> tuple[WeightedTerm, ...]:
    # one order of adding up, and one digest, however they were given
    ordered = tuple(sorted(terms, key=lambda term: term.source))
    for one, other in pairwise(ordered):
        if one.source == other.source:
            raise ValueError(f"expected one term for each signal, got two for {one.source}")
    return ordered


class RewardContract(_Contract):
    """How an attempt's signals become its reward.

    The law of safety: `unsafe` is what an attempt with a failed safety signal is paid, whatever else it did, and a
    contract in which anything else can pay less than `unsafe` is refused. An attempt without a certain verdict has no
    valid reward; nor has one with a safety signal that could not be measured and none that failed.
    """

    schema_version: Literal[1] = 1
    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
    version: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z.-]{0,31}$")]
    rewards: RewardMap = Field(default_factory=RewardMap)
    unsafe: float
    terms: Annotated[tuple[WeightedTerm, ...], Field(max_length=32), AfterValidator(_sorted_terms)] = ()

    @model_validator(mode="after")
    def _nothing_outweighs_safety(self) -> Self:
        if not math.isfinite(self.lowest) or not math.isfinite(self.highest):
            raise ValueError(f"the terms add up to between {self.lowest} and {self.highest}; give smaller weights")
        if self.unsafe > self.lowest:
            raise ValueError(
                f"unsafe pays {self.unsafe}, more than the {self.lowest} that a safe attempt can get; "
                f"give at most {self.lowest}"
            )
        return self

    @property
    def lowest(self) -> float:
        """The least that an attempt within its safety bounds can be paid."""
        return _total([min(self.rewards.values), *(min(term.weight, 0.0) for term in self.terms)])

    @property
    def highest(self) -> float:
        """The most that an attempt can be paid."""
        return _total([max(self.rewards.values), *(max(term.weight, 0.0) for term in self.terms)])

    @property
    def digest(self) -> str:
        """Digest of everything in the contract, its name and version included."""
        return _digest(self)

    def reward(self, signals: Signals) -> Reward:
        """The reward of an attempt, and why."""
        if signals.reward_type is None:
            return self._invalid("there is no certain verdict")
        if signals.passed_safety is False:
            broken = ", ".join(signal.source for signal in signals.safety if signal.value is False)
            return self._paid([Contribution(source="safety", gave=self.unsafe)], f"failed {broken}")
        if signals.passed_safety is None:
            unknown = ", ".join(signal.source for signal in signals.safety if signal.value is None)
            return self._invalid(f"{unknown} could not be measured")
        verdict = f"outcome.{signals.reward_type}"
        given = [Contribution(source=verdict, gave=self.rewards.value(signals.reward_type))]
        values = {signal.source: signal.value for signal in signals.signals}
        missing = []
        for term in self.terms:
            value = values.get(term.source)
            if value is None:
                missing.append(term.source)
            else:
                given.append(Contribution(source=term.source, gave=term.pays(value)))
        unmeasured = f"; {', '.join(missing)} not measured" if missing else ""
        return self._paid(given, f"the verdict is {signals.reward_type}{unmeasured}")

    def _paid(self, given: list[Contribution], reason: str) -> Reward:
        value = _total(one.gave for one in given)
        return Reward(value=value, valid=True, contract_digest=self.digest, terms=tuple(given), reason=reason)

    def _invalid(self, reason: str) -> Reward:
        return Reward(value=None, valid=False, contract_digest=self.digest, reason=reason)


@lru_cache(maxsize=64)
def _digest(contract: RewardContract) -> str:
    return digest_of(contract.model_dump(mode="json"))


AWM: Final = RewardContract(name="awm", version="1", unsafe=-1.0)
"""Agent World Model's rewards, with nothing added; a broken safety bound pays what a malformed call does."""


def awm_contract(config: Mapping[str, Any] | None = None) -> RewardContract:
    """The AWM contract with reset's `reward_config`: another map, so another digest; `unsafe` stays the lowest.

    Raises:
        UsageError: an unknown name, or a value that is not a finite number.
    """
    rewards = AWM.rewards.merged(config)
    unsafe = min(AWM.unsafe, *rewards.values)
    return RewardContract(name=AWM.name, version=AWM.version, rewards=rewards, unsafe=unsafe)
