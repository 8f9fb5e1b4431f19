"""Signals of one attempt in a tool environment, from its steps, its task's policy and what changed in the database."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from quintain.contracts.identity import sha256
from quintain.contracts.record import StepRecord
from quintain.contracts.reward import FORMAT_ERRORS
from quintain.contracts.signals import Family, Producer, Signal, Signals
from quintain.contracts.untrusted import whole_text
from quintain.tasks.base import TaskPolicy
from quintain.verifiers.base import Verdict
from quintain.verifiers.changes import StateChanges, TableChange

PRODUCER: Final = Producer(name="quintain.measure", version="1")
"""Who measures here; the version rises when a signal comes to mean something else."""

# so that evidence stays under its limit even where every character of a name takes six bytes of JSON
_SHOWN = 4
_NAME = 50
_REASON = 100


def signals_of(verdict: Verdict | None, measured: Sequence[Signal]) -> Signals:
    """Everything known of an attempt: the verdict that is its score, or the last one if none was certain, and more."""
    certain = verdict is not None and verdict.certain
    outcome = () if verdict is None else (_outcome(verdict),)
    return Signals(reward_type=verdict.reward_type if verdict and certain else None, signals=(*outcome, *measured))


def measure(
    steps: Sequence[StepRecord], policy: TaskPolicy | None, changes: StateChanges | None, tokens: int | None = None
) -> tuple[Signal, ...]:
    """The built-in process, efficiency and safety signals.

    process: `invalid_calls` (tool_not_found, invalid_args), `repeated_calls` (same tool and arguments as an earlier
    call), `tool_errors` (4xx answers; where the environment failed is in the evidence alone), `probes` (verifications
    in a mode that had already given a certain verdict).
    efficiency: `steps` (calls and listings), `tokens` (None where unknown), `latency_ms` (spent in tools).
    safety: `declared_tables_only` and `allowed_tools_only`, each only where the policy declares such a bound.

    Args:
        changes: None when they could not be told; then a bound on tables is None too.
        tokens: what the agent's model generated.
    """
    calls = [step for step in steps if step.action == "call_tool"]
    found = [*_process(calls, steps), *_efficiency(calls, steps, tokens)]
    if policy is not None and policy.writable_tables is not None:
        found.append(_declared_tables_only(policy.writable_tables, changes))
    if policy is not None and policy.forbidden_tools:
        found.append(_allowed_tools_only(policy.forbidden_tools, calls))
    return tuple(found)


def _outcome(verdict: Verdict) -> Signal:
    said = {"mode": verdict.mode, "reward_type": verdict.reward_type, "result": verdict.result}
    return Signal(
        family=Family.OUTCOME,
        name="verdict",
        value=verdict.reward_type == "complete" if verdict.certain else None,
        evidence={key: value for key, value in said.items() if value is not None} | _because(verdict.reason),
        producer=Producer(name=f"verifier.{verdict.mode}", version=verdict.digest),
    )


def _process(calls: Sequence[StepRecord], steps: Sequence[StepRecord]) -> list[Signal]:
    invalid = [step for step in calls if step.reward_type in FORMAT_ERRORS]
    repeated = _repeated(calls)
    failed = [step for step in calls if step.reward_type in ("tool_error", "server_error", "timeout")]
    errors = [step for step in failed if step.reward_type == "tool_error"]
    probes = _probes(steps)
    return [
        _signal(Family.PROCESS, "invalid_calls", len(invalid), **_by_kind(invalid), tools=_tools(invalid)),
        _signal(Family.PROCESS, "repeated_calls", len(repeated), tools=_tools(repeated)),
        _signal(Family.PROCESS, "tool_errors", len(errors), **_by_kind(failed), tools=_tools(errors)),
        _signal(Family.PROCESS, "probes", len(probes), steps=[step.index for step in probes[:_SHOWN]]),
    ]


def _efficiency(calls: Sequence[StepRecord], steps: Sequence[StepRecord], tokens: int | None) -> list[Signal]:
    listings = sum(step.action == "list_tools" for step in steps)
    times = [step.duration_ms for step in calls]
    slowest = max(calls, key=lambda step: step.duration_ms, default=None)
    evidence = {} if slowest is None else {"slowest": _shown(slowest.tool_name), "slowest_ms": slowest.duration_ms}
    return [
        _signal(Family.EFFICIENCY, "steps", len(calls) + listings, calls=len(calls), listings=listings),
        _signal(Family.EFFICIENCY, "tokens", tokens),
        _signal(Family.EFFICIENCY, "latency_ms", sum(times), **evidence),
    ]


def _declared_tables_only(declared: Sequence[str], changes: StateChanges | None) -> Signal:
    name = "declared_tables_only"
    if changes is None:
        return _signal(Family.SAFETY, name, None, reason="what changed in the database could not be told")
    allowed = {_folded(table) for table in declared}
    others = [change for change in changes.tables if _folded(change.table) not in allowed]
    outside = [change for change in others if change.written]
    unknown = [change for change in others if not change.written]
    evidence: dict[str, Any] = {"outside": [_told(change) for change in outside[:_SHOWN]]}
    if len(outside) > _SHOWN or changes.omitted:
        evidence["more"] = max(len(outside) - _SHOWN, 0) + changes.omitted
    if unknown:
        evidence["uncompared"] = [_shown(change.table) for change in unknown[:_SHOWN]]
        evidence |= _because(unknown[0].reason)
    # a list of changes that was cut is longer than any declaration, so `outside` is not empty then either
    value = False if outside or changes.omitted else None if unknown else True
    return _signal(Family.SAFETY, name, value, **evidence)


def _allowed_tools_only(forbidden: Iterable[str], calls: Sequence[StepRecord]) -> Signal:
    names = frozenset(forbidden)
    broken = [step for step in calls if step.tool_name in names]
    evidence = {"tools": _tools(broken), "steps": [step.index for step in broken[:_SHOWN]]}
    return _signal(Family.SAFETY, "allowed_tools_only", not broken, **evidence)


def _signal(family: Family, name: str, value: float | bool | None, **evidence: Any) -> Signal:
    told = {key: found for key, found in evidence.items() if found not in ([], {})}
    return Signal(family=family, name=name, value=value, evidence=told, producer=PRODUCER)


def _repeated(calls: Sequence[StepRecord]) -> list[StepRecord]:
    """The calls that an earlier one equals; arguments that no record can hold equal nothing."""
    seen: set[tuple[str | None, str]] = set()
    repeated = []
    for step in calls:
        arguments = _arguments(step)
        if arguments is None:
            continue
        if (step.tool_name, arguments) in seen:
            repeated.append(step)
        seen.add((step.tool_name, arguments))
    return repeated


def _arguments(step: StepRecord) -> str | None:
    """A digest of the arguments, which is in the record itself where they are too large to be."""
    if step.arguments is not None:
        return sha256(json.dumps(step.arguments, sort_keys=True).encode())
    omitted = (step.omitted or {}).get("arguments")
    return None if omitted is None else omitted.digest


def _probes(steps: Sequence[StepRecord]) -> list[StepRecord]:
    known: set[Any] = set()
    probes = []
    for step in steps:
        if step.action != "verify":
            continue
        mode = str((step.arguments or {}).get("verifier_mode"))
        if mode in known:
            probes.append(step)
        elif step.failure_owner is None:
            known.add(mode)
    return probes


def _by_kind(steps: Sequence[StepRecord]) -> dict[str, int]:
    return dict(Counter(str(step.reward_type) for step in steps))


def _tools(steps: Sequence[StepRecord]) -> dict[str, int]:
    """The tools called most often, with how often."""
    return dict(Counter(_shown(step.tool_name) for step in steps).most_common(_SHOWN))


def _told(change: TableChange) -> dict[str, Any]:
    said = {"kind": change.kind, "inserted": change.inserted, "deleted": change.deleted, "changed": change.changed}
    flags = {"reshaped": change.reshaped, "counter": change.counter}
    return {"table": _shown(change.table)} | {key: value for key, value in (said | flags).items() if value}


def _because(reason: str | None) -> dict[str, str]:
    return {} if reason is None else {"reason": whole_text(reason)[:_REASON]}


def _shown(name: str | None) -> str:
    text = whole_text(name or "")
    return text if len(text) <= _NAME else f"{text[:_NAME]}..."


def _folded(table: str) -> bytes:
    # as SQLite compares names: only the letters of ASCII have no case
    return table.encode().lower()
