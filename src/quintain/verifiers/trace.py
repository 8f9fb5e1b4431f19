"""The action trace as a verifier's code gets it: what the agent called, with what, and what came of it."""

from collections.abc import Sequence
from typing import Any, Final

from quintain.contracts.record import StepRecord
from quintain.contracts.untrusted import weight

JsonObject = dict[str, Any]

MAX_TRACE_BYTES: Final = 2 * 2**20
"""About how large a trace may be; beyond it results, then arguments, are left out, of the earliest steps first."""

_LARGE: Final = ("result", "error", "arguments")


def action_trace(steps: Sequence[StepRecord]) -> list[JsonObject]:
    """One object per call: `index`, `tool_name`, `arguments`, `outcome` (a reward_type), `result`, `error`.

    There is nothing in it of verifications, rewards or times. What is left out is None, and named in `omitted`.
    """
    trace = [_step(step) for step in steps if step.action == "call_tool"]
    left = MAX_TRACE_BYTES - sum(weight(one) for one in trace)
    for name in _LARGE:
        for one in trace:
            if left >= 0:
                return trace
            if one[name] is not None:
                left += weight(one[name])
                one[name] = None
                one["omitted"].append(name)
    return trace


def _step(step: StepRecord) -> JsonObject:
    return {
        "index": step.index,
        "tool_name": step.tool_name,
        "arguments": step.arguments,
        "outcome": step.reward_type,
        "result": step.result,
        "error": step.error,
        "omitted": sorted(step.omitted or ()),
    }
