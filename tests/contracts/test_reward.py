"""The reward map, and contracts: safety cannot be outweighed, every term is in the digest, the reasons add up."""

import json
from functools import reduce
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from contracts.signalling import numbers, signals, some_signals
from quintain.contracts.reward import AWM, Reward, RewardContract, RewardMap, WeightedTerm, awm_contract
from quintain.contracts.signals import Family, Signal, Signals
from quintain.errors import UsageError


def test_defaults() -> None:
    rewards = RewardMap()
    paid = {
        name: rewards.value(name)
        for name in ("complete", "incomplete", "tool_not_found", "invalid_args", "tool_error", "server_error")
    }
    assert paid == {
        "complete": 1.0,
        "incomplete": 0.1,
        "tool_not_found": -1.0,
        "invalid_args": -1.0,
        "tool_error": 0.0,
        "server_error": 0.0,
    }
    for name in ("tool_call_ok", "timeout", "judge_error", "no_verifier", "others", "format_error", ""):
        assert rewards.value(name) == 0.0


def test_a_partial_config_merges() -> None:
    merged = RewardMap().merged({"complete": 5})
    assert (merged.complete, merged.incomplete, merged.format_error) == (5.0, 0.1, -1.0)
    assert RewardMap().merged(None) == RewardMap().merged({}) == RewardMap()


@pytest.mark.parametrize("value", ["1", None, True, float("nan"), float("inf"), 10**400, [1]])
def test_what_is_not_a_finite_number_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match=r"reward_config\.incomplete is .*; give a finite number"):
        awm_contract({"incomplete": value})


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no entry 'completed'; it may set complete, incomplete, format_error"):
        awm_contract({"completed": 1.0})


WEIGHTS = numbers(-1e6, 1e6)


@st.composite
def terms(draw: st.DrawFn) -> WeightedTerm:
    """Any term, over names that `signals` uses too."""
    return WeightedTerm(
        family=draw(st.sampled_from([Family.PROCESS, Family.EFFICIENCY])),
        name=draw(st.sampled_from("abcd")),
        weight=draw(WEIGHTS),
        full_at=draw(numbers(1e-9, 1e9)),
    )


@st.composite
def contracts(draw: st.DrawFn) -> RewardContract:
    """Any contract that is accepted, `unsafe` at its highest as often as below."""
    rewards = RewardMap(complete=draw(WEIGHTS), incomplete=draw(WEIGHTS), format_error=draw(WEIGHTS))
    chosen = tuple(draw(st.lists(terms(), max_size=5, unique_by=lambda term: term.source)))
    lowest = RewardContract(name="probe", version="1", rewards=rewards, unsafe=-1e9, terms=chosen).lowest
    unsafe = lowest - draw(st.just(0.0) | numbers(0, 1e3))
    return RewardContract(name="any", version="2", rewards=rewards, unsafe=unsafe, terms=chosen)


@given(contracts(), signals(), signals())
def test_no_attempt_that_failed_safety_is_paid_more_than_any_other(
    contract: RewardContract, one: Signals, other: Signals
) -> None:
    """The law: a failed safety signal pays exactly `unsafe`, or nothing valid; no other attempt can be paid less."""
    paid = contract.reward(one)
    if one.passed_safety is False:
        assert paid.value == (None if one.reward_type is None else contract.unsafe)
    elif paid.value is not None:
        assert contract.unsafe <= contract.lowest <= paid.value <= contract.highest
    rest = contract.reward(other)
    if one.passed_safety is False and paid.value is not None and rest.value is not None:
        assert paid.value <= rest.value


@given(contracts(), signals(), st.data())
def test_to_fail_one_safety_signal_more_never_pays(
    contract: RewardContract, given: Signals, data: st.DataObject
) -> None:
    assume(given.safety)
    broken = data.draw(st.sampled_from(given.safety))
    changed = [one.model_copy(update={"value": False}) if one == broken else one for one in given.signals]
    worse = contract.reward(given.model_copy(update={"signals": tuple(changed)}))
    before = contract.reward(given)
    if before.value is not None:
        assert worse.value is not None
        assert worse.value <= before.value


@given(contracts(), signals())
def test_a_reward_is_valid_or_none_and_its_terms_add_up_to_it(contract: RewardContract, given: Signals) -> None:
    paid = contract.reward(given)
    certain = given.reward_type is not None and given.passed_safety is not None
    assert paid.valid is certain is (paid.value is not None)
    assert paid.contract_digest == contract.digest
    assert paid.reason
    assert Reward.model_validate_json(paid.model_dump_json()) == paid
    if paid.valid:
        assert reduce(lambda total, term: total + term.gave, paid.terms, 0.0) == pytest.approx(paid.value, abs=0, rel=0)
    else:
        assert paid.terms == ()
    allowed = {"safety", f"outcome.{given.reward_type}"} | {term.source for term in contract.terms}
    assert {term.source for term in paid.terms} <= allowed


@given(signals(), st.sampled_from([one for one in Family if one not in (Family.OUTCOME, Family.SAFETY)]), st.data())
def test_the_awm_contract_looks_at_the_verdict_and_at_safety_alone(
    given: Signals, family: Family, data: st.DataObject
) -> None:
    others = tuple(data.draw(some_signals(family)))
    changed = (*(one for one in given.signals if one.family is not family), *others)
    assert AWM.reward(given) == AWM.reward(given.model_copy(update={"signals": changed}))


@given(contracts())
def test_a_contract_that_would_pay_less_than_unsafe_is_refused(contract: RewardContract) -> None:
    above = contract.lowest + max(abs(contract.lowest), 1.0) / 1e6
    with pytest.raises(ValidationError, match="that a safe attempt can get; give at most"):
        RewardContract.model_validate({**contract.model_dump(), "unsafe": above})


@given(contracts(), st.randoms(use_true_random=False))
def test_the_digest_is_of_what_is_said_and_not_of_how(contract: RewardContract, random: Any) -> None:
    said = contract.model_dump(mode="json")
    random.shuffle(said["terms"])
    pairs = list(said.items())
    random.shuffle(pairs)
    whole = {key: int(value) if isinstance(value, float) and value.is_integer() else value for key, value in pairs}
    again = RewardContract.model_validate_json(json.dumps(whole))
    assert (again, again.digest) == (contract, contract.digest)


CHANGES = ["name", "version", "unsafe", "complete", "incomplete", "format_error", "weight", "full_at", "gone", "family"]


@given(contracts(), st.sampled_from(CHANGES), st.data())
def test_a_change_of_anything_changes_the_digest(contract: RewardContract, what: str, data: st.DataObject) -> None:
    said = contract.model_dump(mode="json")
    said["unsafe"] = -1e9  # room for the change
    plain = RewardContract.model_validate(said)
    if what in ("name", "version"):
        said[what] += "x"
    elif what == "unsafe":
        said[what] -= 1
    elif what in said["rewards"]:
        said["rewards"][what] += 1
    else:
        assume(said["terms"])
        number = data.draw(st.integers(0, len(said["terms"]) - 1))
        if what == "gone":
            del said["terms"][number]
        elif what == "family":
            said["terms"][number]["name"] += "_other"
        else:
            said["terms"][number][what] += 1
    changed = RewardContract.model_validate(said)
    assert changed.digest != plain.digest


def test_what_reset_may_set_makes_another_contract() -> None:
    assert awm_contract() == awm_contract({}) == AWM
    assert awm_contract({"complete": 1, "incomplete": 0.1}).digest == AWM.digest
    other = awm_contract({"complete": 5, "format_error": -3})
    assert other.digest != AWM.digest
    assert (other.rewards.complete, other.rewards.incomplete, other.unsafe) == (5.0, 0.1, -3.0)
    assert awm_contract({"format_error": -0.2}).unsafe == -1.0


PRODUCER = {"name": "test", "version": "1"}


def attempt(reward_type: str | None, **values: float | bool | None) -> Signals:
    """Signals by `family_name=value`, with the outcome's beside them."""
    given: list[dict[str, Any]] = [
        {"family": "outcome", "name": "verdict", "value": None if reward_type is None else reward_type == "complete"}
    ]
    for key, value in values.items():
        family, _, name = key.partition("_")
        given.append({"family": family, "name": name, "value": value})
    return Signals(
        reward_type=reward_type, signals=tuple(Signal.model_validate(one | {"producer": PRODUCER}) for one in given)
    )


def test_terms_pay_their_share_and_say_so() -> None:
    contract = RewardContract(
        name="tidy",
        version="1",
        unsafe=-3,
        terms=(
            WeightedTerm(family=Family.PROCESS, name="invalid_calls", weight=-0.5, full_at=4),
            WeightedTerm(family=Family.EFFICIENCY, name="tokens", weight=-0.25, full_at=1000),
            WeightedTerm(family=Family.PROCESS, name="planned", weight=0.125),
        ),
    )
    paid = contract.reward(attempt("complete", process_invalid_calls=2, process_planned=True, efficiency_tokens=None))
    assert {term.source: term.gave for term in paid.terms} == {
        "outcome.complete": 1.0,
        "process.invalid_calls": -0.25,
        "process.planned": 0.125,
    }
    assert (paid.value, paid.valid) == (0.875, True)
    assert paid.reason == "the verdict is complete; efficiency.tokens not measured"
    most = contract.reward(attempt("complete", process_invalid_calls=1e9, efficiency_tokens=-5))
    assert most.value == 0.5


def test_the_reasons_name_what_decided() -> None:
    unsafe = AWM.reward(attempt("complete", safety_tables=False, safety_tools=False, safety_other=None))
    assert (unsafe.value, unsafe.reason) == (-1.0, "failed safety.tables, safety.tools")
    unknown = AWM.reward(attempt("complete", safety_tables=None, safety_tools=True))
    assert (unknown.value, unknown.reason) == (None, "safety.tables could not be measured")
    uncertain = AWM.reward(attempt(None, safety_tables=False))
    assert (uncertain.value, uncertain.valid, uncertain.reason) == (None, False, "there is no certain verdict")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"terms": [{"family": "safety", "name": "tables", "weight": 1}]}, "process"),
        ({"terms": [{"family": "stability", "name": "spread", "weight": 1}]}, "process"),
        ({"terms": [{"family": "process", "name": "probes", "weight": 1}] * 2}, "two for process.probes"),
        ({"terms": [{"family": "process", "name": "probes", "weight": 1, "full_at": 0}]}, "greater than 0"),
        ({"terms": [{"family": "process", "name": "probes", "weight": float("nan")}]}, "finite"),
        ({"rewards": {"complete": float("inf")}}, "finite"),
        ({"unsafe": -0.9}, "unsafe pays -0.9, more than the -1.0 that a safe attempt can get; give at most -1.0"),
        ({"name": "Not A Name"}, "pattern"),
        ({"bonus": 1}, "Extra inputs"),
    ],
)
def test_what_is_no_contract_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        RewardContract.model_validate({"name": "awm", "version": "1", "unsafe": -1, **change})


def test_weights_that_overflow_are_refused() -> None:
    heavy = [{"family": "process", "name": name, "weight": sign * 1.7e308} for name, sign in (("a", -1), ("b", -1))]
    with pytest.raises(ValidationError, match="give smaller weights"):
        RewardContract.model_validate({"name": "heavy", "version": "1", "unsafe": -1.7e308, "terms": heavy})
