"""Signals: families apart, strict JSON of bounded size, and nothing lost on the way."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from contracts.signalling import PRODUCER, signals, some_signals
from quintain.contracts.identity import canonical_json
from quintain.contracts.signals import MAX_EVIDENCE_BYTES, MAX_SIGNALS, Family, Signal, Signals


@given(signals())
def test_there_and_back_through_json(given: Signals) -> None:
    text = given.model_dump_json()
    assert Signals.model_validate_json(text) == given
    assert canonical_json(json.loads(text)) == canonical_json(given.model_dump(mode="json"))
    types = [type(one.value) for one in given.signals]
    assert [type(one.value) for one in Signals.model_validate_json(text).signals] == types  # true is not 1.0


@given(signals())
def test_every_family_is_kept_and_kept_apart(given: Signals) -> None:
    families = [given.outcome, given.process, given.safety, given.efficiency, given.stability]
    for family, found in zip(Family, families, strict=True):
        assert found == given.of(family) == tuple(one for one in given.signals if one.family is family)
    assert sum(map(len, families)) == len(given.signals)


@given(some_signals(Family.SAFETY))
def test_safety_is_passed_when_everything_measured_it_so(found: list[Signal]) -> None:
    values = {one.value for one in found}
    expected = False if False in values else None if None in values else True
    assert Signals(reward_type=None, signals=tuple(found)).passed_safety is expected


def signal(**change: Any) -> Signal:
    return Signal.model_validate(
        {"family": "process", "name": "probes", "value": 1, "producer": PRODUCER.model_dump(), **change}
    )


def test_a_count_becomes_a_number_and_yes_stays_yes() -> None:
    assert type(signal(value=1).value) is float
    assert signal(value=True).value is True


def test_the_evidence_is_a_copy() -> None:
    given: dict[str, Any] = {"tools": ["a"]}
    made = signal(evidence=given)
    given["tools"].append("b")
    assert made.evidence == {"tools": ["a"]}
    assert signal(evidence={"pair": (1, 2.0)}) == signal(evidence={"pair": [1, 2]})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"value": float("nan")}, "finite"),
        ({"value": 10**400}, "valid number"),
        ({"value": "1"}, "valid number"),
        ({"value": [1]}, "valid number"),
        ({"name": "Two Words"}, "pattern"),
        ({"name": ""}, "pattern"),
        ({"family": "style"}, "outcome"),
        ({"family": "safety", "value": 0.5}, "give true, false or null"),
        ({"family": "safety", "value": 0}, "give true, false or null"),
        ({"evidence": {"x": float("inf")}}, "give plain JSON"),
        ({"evidence": {"x": 2**53}}, "give plain JSON"),
        ({"evidence": {"x": "\ud800"}}, "give plain JSON"),
        ({"evidence": {"x": object()}}, "give plain JSON"),
        ({"evidence": {1: "x"}}, "string"),
        ({"evidence": {"x": "é" * (MAX_EVIDENCE_BYTES // 2)}}, f"over {MAX_EVIDENCE_BYTES}; give less of it"),
        ({"evidence": json.loads('{"x":' * 70 + "1" + "}" * 70)}, "nested deeper"),
        ({"weight": 1}, "Extra inputs"),
    ],
)
def test_what_is_no_signal_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        signal(**change)


def test_what_is_no_collection_is_refused() -> None:
    one = signal()
    with pytest.raises(ValidationError, match=r"signal process\.probes is there twice; give each once"):
        Signals(reward_type=None, signals=(one, signal(value=2)))
    with pytest.raises(ValidationError, match="no outcome signal has a value"):
        Signals(reward_type="complete", signals=(one, signal(family="outcome", value=None)))
    with pytest.raises(ValidationError, match=f"at most {MAX_SIGNALS}"):
        Signals(reward_type=None, signals=tuple(signal(name=f"s{number}") for number in range(MAX_SIGNALS + 1)))
    with pytest.raises(ValidationError, match="frozen"):
        one.value = 2.0  # type: ignore[misc]


@given(st.integers() | st.floats() | st.booleans() | st.none())
def test_any_number_is_a_finite_value_or_is_refused(value: Any) -> None:
    try:
        made = signal(value=value)
    except ValidationError:
        assert isinstance(value, int | float)
        assert not abs(value) <= 1.7e308
    else:
        assert made.value == value or float(value) == made.value
