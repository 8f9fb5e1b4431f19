"""Verdicts as BFCL's multi-turn checker gives them, turn by turn, on what the reference solution came to.

Of each turn that has a reference, the state at its end must equal the reference's in every public attribute of every
class, and all results of the reference's calls of that turn must be among the results so far, as often as they are
there. A turn whose reference has calls must have calls.
"""

import hashlib
import json
from collections import Counter
from typing import Any

EXPECTED: dict[str, Any] = {}


def state_digests(state: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Digest of each attribute, by class and name; equal where Python takes the values for equal."""
    return {
        name: {key: _digest(_number(value)) for key, value in held["attributes"].items()}
        for name, held in state.items()
    }


def response_digest(text: str) -> str:
    """Digest of one result."""
    return _digest(text)


def judged(task: str, final_state: dict[str, Any]) -> dict[str, Any]:
    """The verdict on a task's turns; `turn` counts from 0, as BFCL does."""
    expected, turns = EXPECTED[task], final_state.get("turns", [])
    if len(turns) != len(expected):
        return _failed("multi_turn:force_terminated", len(turns), "the conversation did not come to its last turn")
    so_far: Counter[str] = Counter()
    idle = []
    for index, (turn, wanted) in enumerate(zip(turns, expected, strict=True)):
        so_far.update(response_digest(call["result"] or "") for call in turn["calls"])
        if wanted is None:
            idle += [index] if turn["calls"] else []
            continue
        if not turn["calls"]:
            return _failed("multi_turn:empty_turn_model_response", index, "no call was made")
        if differing := _differing(state_digests(turn["state"]), wanted["state"]):
            return _failed("multi_turn:instance_state_mismatch", index, ", ".join(differing))
        missing = Counter(wanted["responses"]) - so_far
        if missing:
            calls = [call for call, one in zip(wanted["calls"], wanted["responses"], strict=True) if one in missing]
            return _failed("multi_turn:execution_response_mismatch", index, f"no result is that of {'; '.join(calls)}")
    return {"result": "complete", "calls_in_turns_without_reference": idle}


def _failed(reason: str, turn: int, detail: str) -> dict[str, Any]:
    return {"result": "others", "error_type": reason, "turn": turn, "detail": detail[:2000]}


def _differing(found: dict[str, dict[str, str]], wanted: dict[str, dict[str, str]]) -> list[str]:
    return [
        f"{name}.{key}"
        for name, held in wanted.items()
        for key, digest in held.items()
        if found.get(name, {}).get(key) != digest
    ]


def _number(value: Any) -> Any:
    """The value with 1.0 and true as 1."""
    if isinstance(value, dict):
        return {key: _number(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_number(one) for one in value]
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return value


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
