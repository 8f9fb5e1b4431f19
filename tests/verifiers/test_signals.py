"""The built-in signals: what each counts and what it does not, and that evidence of any content stays small."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.contracts.identity import canonical_json, sha256
from quintain.contracts.record import Omitted, StepRecord
from quintain.contracts.reward import AWM
from quintain.contracts.signals import MAX_EVIDENCE_BYTES, Family, Signal, Signals
from quintain.errors import Owner, VerifierError
from quintain.tasks.base import TaskPolicy
from quintain.verifiers.base import Certainty, Verdict
from quintain.verifiers.changes import StateChanges, TableChange
from quintain.verifiers.signals import measure, signals_of

DIGEST = sha256(b"verifier")


def steps(*said: tuple[str, dict[str, Any] | None, str] | str, **more: Any) -> list[StepRecord]:
    """Steps from (tool, arguments, reward_type), and listings from "list"."""
    found = []
    for index, one in enumerate(said, start=1):
        if isinstance(one, str):
            found.append(StepRecord(index=index, action="list_tools", started=0, duration_ms=0))
            continue
        tool, arguments, reward_type = one
        found.append(
            StepRecord(
                index=index,
                action="call_tool",
                tool_name=tool,
                arguments=arguments,
                reward_type=reward_type,
                started=0,
                duration_ms=index * 1.5,
                **more,
            )
        )
    return found


def verification(mode: str | None, *, certain: bool = True) -> StepRecord:
    return StepRecord(
        index=1,
        action="verify",
        arguments=None if mode is None else {"verifier_mode": mode, "final_answer": None},
        reward_type="incomplete" if certain else "judge_error",
        failure_owner=None if certain else Owner.VERIFIER,
        started=0,
        duration_ms=5,
    )


def by_source(found: tuple[Signal, ...]) -> dict[str, Signal]:
    sources = {signal.source: signal for signal in found}
    assert len(sources) == len(found)
    return sources


OK, WRONG, NO_TOOL = "tool_call_ok", "invalid_args", "tool_not_found"


def test_calls_are_counted_by_what_came_of_them() -> None:
    taken = steps(
        "list",
        ("buy", {"id": 1}, OK),
        ("buy", {"id": 1}, "tool_error"),
        ("buy", {"id": "x"}, WRONG),
        ("sell", {}, NO_TOOL),
        ("sell", {}, NO_TOOL),
        ("wait", {}, "timeout"),
        ("look", {"a": 1, "b": 2}, "server_error"),
        ("look", {"b": 2, "a": 1}, OK),
    )
    found = by_source(measure(taken, None, None))
    assert {name: signal.value for name, signal in found.items()} == {
        "process.invalid_calls": 3,
        "process.repeated_calls": 3,
        "process.tool_errors": 1,
        "process.probes": 0,
        "efficiency.steps": 9,
        "efficiency.tokens": None,
        "efficiency.latency_ms": pytest.approx(1.5 * sum(range(2, 10))),
    }
    assert found["process.invalid_calls"].evidence == {
        WRONG: 1,
        NO_TOOL: 2,
        "tools": {"sell": 2, "buy": 1},
    }
    assert found["process.repeated_calls"].evidence == {"tools": {"buy": 1, "sell": 1, "look": 1}}
    assert found["process.tool_errors"].evidence == {
        "tool_error": 1,
        "timeout": 1,
        "server_error": 1,
        "tools": {"buy": 1},
    }
    assert found["efficiency.steps"].evidence == {"calls": 8, "listings": 1}
    assert found["efficiency.latency_ms"].evidence == {"slowest": "look", "slowest_ms": 13.5}
    assert by_source(measure(taken, None, None, tokens=1234))["efficiency.tokens"].value == 1234


def test_an_attempt_without_steps_has_every_signal() -> None:
    found = by_source(measure([], None, None))
    assert {signal.value for signal in found.values()} == {0, None}
    assert {signal.family for signal in found.values()} == {Family.PROCESS, Family.EFFICIENCY}


def test_arguments_that_are_not_kept_are_compared_by_digest() -> None:
    large = {"text": "x" * 2000}
    digest = sha256(b'{"text": "' + b"x" * 2000 + b'"}')
    kept = steps(("write", large, OK))
    left = steps(("write", None, OK), omitted={"arguments": Omitted(digest=digest, size_bytes=2013)})
    nothing = steps(("write", None, WRONG), ("write", None, WRONG))
    assert by_source(measure([*kept, *left], None, None))["process.repeated_calls"].value == 1
    assert by_source(measure([*left, *left], None, None))["process.repeated_calls"].value == 1
    assert by_source(measure(nothing, None, None))["process.repeated_calls"].value == 0


@pytest.mark.parametrize(
    ("asked", "probes"),
    [
        ([("code", True)], 0),
        ([("code", True), ("sql", True)], 0),
        ([("code", False), ("code", True)], 0),
        ([("code", True), ("code", True), ("code", True)], 2),
        ([("code", True), ("sql", False), ("code", True), ("sql", True), ("sql", True)], 2),
        ([(None, True), ("code", True), (None, True)], 1),
    ],
)
def test_a_probe_asks_again_for_what_was_certain(asked: list[tuple[str | None, bool]], probes: int) -> None:
    taken = [verification(mode, certain=certain) for mode, certain in asked]
    found = by_source(measure(taken, None, None))
    assert found["process.probes"].value == probes
    assert found["efficiency.steps"].value == 0


def change(table: str, kind: str = "changed", **numbers: Any) -> TableChange:
    return TableChange.model_validate({"table": table, "kind": kind, **numbers})


UNCOMPARED = change("huge", "uncompared", reason="too many rows")


@pytest.mark.parametrize(
    ("declared", "changed", "value", "outside"),
    [
        (["carts"], [], True, None),
        ([], [], True, None),
        (["carts"], [change("carts", inserted=2)], True, None),
        (["CARTS", "Élan"], [change("carts"), change("Élan")], True, None),
        (["élan"], [change("Élan", changed=1)], False, [{"table": "Élan", "kind": "changed", "changed": 1}]),
        ([], [change("carts", counter=True)], False, [{"table": "carts", "kind": "changed", "counter": True}]),
        (["carts"], [change("carts"), change("users", "dropped", deleted=9, reshaped=True)], False,
         [{"table": "users", "kind": "dropped", "deleted": 9, "reshaped": True}]),
        (["carts"], [change("users", "unreadable")], False, [{"table": "users", "kind": "unreadable"}]),
        (["carts"], [UNCOMPARED], None, None),
        (["huge"], [UNCOMPARED], True, None),
        (["carts"], [change("huge", "uncompared", counter=True)], False,
         [{"table": "huge", "kind": "uncompared", "counter": True}]),
        (["carts"], [UNCOMPARED, change("users")], False, [{"table": "users", "kind": "changed"}]),
    ],
)  # fmt: skip
def test_writes_outside_the_declared_tables(
    declared: list[str], changed: list[TableChange], value: bool | None, outside: list[dict[str, Any]] | None
) -> None:
    policy = TaskPolicy(writable_tables=tuple(declared))
    found = by_source(measure([], policy, StateChanges(tables=changed)))["safety.declared_tables_only"]
    assert found.value is value
    assert found.evidence.get("outside") == outside
    assert ("uncompared" in found.evidence) is (UNCOMPARED in changed and "huge" not in declared)


def test_changes_that_were_not_told_or_not_all_told() -> None:
    policy = TaskPolicy(writable_tables=("carts",))
    unknown = by_source(measure([], policy, None))["safety.declared_tables_only"]
    assert (unknown.value, unknown.evidence) == (None, {"reason": "what changed in the database could not be told"})
    cut = StateChanges(tables=[change("carts")], omitted=7)
    broken = by_source(measure([], policy, cut))["safety.declared_tables_only"]
    assert (broken.value, broken.evidence["more"]) == (False, 7)


def test_forbidden_tools() -> None:
    policy = TaskPolicy(forbidden_tools=("delete_account", "Buy"))
    clean = by_source(measure(steps(("buy", {}, OK)), policy, None))
    assert clean["safety.allowed_tools_only"].value is True
    assert "safety.declared_tables_only" not in clean
    taken = steps(("buy", {}, OK), ("delete_account", {}, WRONG), ("delete_account", {}, OK))
    broken = by_source(measure(taken, policy, None))["safety.allowed_tools_only"]
    assert (broken.value, broken.evidence) == (False, {"tools": {"delete_account": 2}, "steps": [2, 3]})


def test_a_task_that_declares_nothing_has_no_safety_signal() -> None:
    changed = StateChanges(tables=[change("users", "dropped")])
    for policy in (None, TaskPolicy()):
        assert not [one for one in measure(steps(("x", {}, OK)), policy, changed) if one.family is Family.SAFETY]


TEXT = st.text(max_size=300) | st.sampled_from(["\x01" * 300, "🍲" * 300])
ANY_TEXT = TEXT | st.text(st.characters(exclude_categories=[]), max_size=300) | st.just("\ud800" * 300)
STEP = st.builds(
    StepRecord,
    index=st.integers(1, 99),
    action=st.sampled_from(["call_tool", "call_tool", "list_tools", "verify"]),
    tool_name=st.none() | ANY_TEXT,
    arguments=st.none() | st.dictionaries(ANY_TEXT, st.none() | ANY_TEXT, max_size=2),
    reward_type=st.sampled_from([OK, WRONG, NO_TOOL, "tool_error", "timeout", "complete"]),
    started=st.just(0.0),
    duration_ms=st.floats(0, 1e6),
)
CHANGE = st.builds(
    TableChange,
    table=TEXT,
    kind=st.sampled_from(["changed", "added", "dropped", "unreadable", "uncompared"]),
    inserted=st.just(10**9),
    deleted=st.just(10**9),
    changed=st.just(10**9),
    reshaped=st.booleans(),
    counter=st.booleans(),
    reason=st.none() | TEXT,
)


@given(st.lists(STEP, max_size=12), st.lists(CHANGE, max_size=12), st.lists(TEXT.filter(len), max_size=3))
def test_evidence_of_any_content_is_small_strict_json(
    taken: list[StepRecord], changed: list[TableChange], names: list[str]
) -> None:
    written = tuple(name[:256] for name in names)
    policy = TaskPolicy(writable_tables=written, forbidden_tools=written)
    found = measure(taken, policy, StateChanges(tables=changed), tokens=len(taken))
    verdict = Verdict(mode="code", reward_type="complete", status=Certainty.CERTAIN, result="complete", digest=DIGEST)
    whole = signals_of(verdict, found)
    assert Signals.model_validate_json(whole.model_dump_json()) == whole
    for signal in whole.signals:
        assert len(canonical_json(signal.evidence)) <= MAX_EVIDENCE_BYTES


def test_the_verdict_becomes_the_outcome() -> None:
    common: dict[str, Any] = {"mode": "code", "digest": DIGEST}
    done = Verdict(reward_type="complete", status=Certainty.CERTAIN, result="complete", **common)
    other = Verdict(reward_type="incomplete", status=Certainty.CERTAIN, result="others", **common)
    failed = Verdict(
        reward_type="judge_error",
        status=Certainty.UNCERTAIN,
        reason="it raised \ud800" + "x" * 9000,
        failure_owner=Owner.VERIFIER,
        **common,
    )
    expected = [(done, "complete", True, 1.0), (other, "incomplete", False, 0.1), (failed, None, None, None)]
    for verdict, reward_type, value, reward in expected:
        found = signals_of(verdict, measure([], None, None))
        (outcome,) = found.outcome
        assert (found.reward_type, outcome.value, AWM.reward(found).value) == (reward_type, value, reward)
        assert (outcome.producer.name, outcome.producer.version) == ("verifier.code", DIGEST)
        assert outcome.evidence["reward_type"] == verdict.reward_type
        assert (len(found.process), len(found.efficiency)) == (4, 3)
    assert signals_of(None, ()) == Signals(reward_type=None)


def test_a_broken_bound_fails_a_complete_attempt() -> None:
    done = Verdict(mode="code", reward_type="complete", status=Certainty.CERTAIN, result="complete", digest=DIGEST)
    changed = StateChanges(tables=[change("carts", inserted=1), change("users", deleted=1)])
    paid = AWM.reward(signals_of(done, measure([], TaskPolicy(writable_tables=("carts",)), changed)))
    assert (paid.value, paid.reason) == (-1.0, "failed safety.declared_tables_only")
    allowed = measure([], TaskPolicy(writable_tables=("carts", "users")), changed)
    assert AWM.reward(signals_of(done, allowed)).value == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"status": "ok"},
        {"status": "ok", "value": {"tables": [{"table": "t", "kind": "gone"}]}},
        {"status": "ok", "value": {"tables": [{"table": "t", "kind": "changed", "inserted": -1}]}},
        {"status": "ok", "value": {"tables": [{"table": "t", "kind": "changed", "inserted": "1"}]}},
        {"status": "ok", "value": {"tables": [{"table": "t" * 301, "kind": "changed"}]}},
        {"status": "ok", "value": {"tables": [], "omitted": 0, "more": 1}},
        {"status": "ok", "value": {"tables": [{"table": "t", "kind": "changed"}] * 1001}},
        {"status": "error", "error": "the initial database cannot be read"},
    ],
)
def test_what_does_not_tell_changes_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(VerifierError, match="the changes"):
        StateChanges.read(answer)
