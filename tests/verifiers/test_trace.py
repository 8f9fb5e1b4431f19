"""The trace that a verifier's code may ask for."""

import json
from typing import Any

import pytest

from quintain.contracts.record import Omitted, StepRecord
from quintain.episodes import Episode, EpisodeRequest
from quintain.verifiers.trace import MAX_TRACE_BYTES, action_trace

DIGEST = "sha256:" + "0" * 64


def step(index: int, action: Any = "call_tool", **fields: Any) -> StepRecord:
    return StepRecord(index=index, action=action, started=0.0, duration_ms=1.0, **fields)


def test_it_tells_calls_and_nothing_of_verifications_rewards_or_times() -> None:
    steps = [
        step(1, "list_tools"),
        step(2, tool_name="buy", arguments={"id": 1}, reward_type="tool_call_ok", reward=0.0, result="bought"),
        step(3, "verify", reward_type="complete", reward=1.0, verify_result={"result": "complete"}),
        step(
            4,
            tool_name="buy",
            reward_type="invalid_args",
            reward=-1.0,
            error="no id",
            omitted={"arguments": Omitted(digest=DIGEST, size_bytes=9)},
        ),
    ]
    assert action_trace(steps) == [
        {
            "index": 2,
            "tool_name": "buy",
            "arguments": {"id": 1},
            "outcome": "tool_call_ok",
            "result": "bought",
            "error": None,
            "omitted": [],
        },
        {
            "index": 4,
            "tool_name": "buy",
            "arguments": None,
            "outcome": "invalid_args",
            "result": None,
            "error": "no id",
            "omitted": ["arguments"],
        },
    ]


def test_what_is_too_large_goes_from_the_earliest_results_on() -> None:
    quarter = "x" * (MAX_TRACE_BYTES // 4)
    trace = action_trace([step(number, tool_name="read", arguments={}, result=quarter) for number in range(1, 7)])
    assert [one["omitted"] for one in trace] == [["result"], ["result"], ["result"], [], [], []]
    assert len(json.dumps(trace)) <= MAX_TRACE_BYTES
    assert action_trace([step(1, tool_name="write", arguments={"text": "y" * MAX_TRACE_BYTES})])[0]["arguments"] is None


@pytest.mark.asyncio
async def test_code_that_names_it_gets_it_and_other_code_does_not(open_world: Any) -> None:
    async with open_world() as world:
        seen: list[Any] = []
        claim = world.provider.claim

        async def watched(*args: Any, **kwargs: Any) -> Any:
            sandbox = await claim(*args, **kwargs)
            call = sandbox.call

            async def told(request: Any, timeout_s: float) -> Any:
                seen.append(request)
                return await call(request, timeout_s)

            sandbox.call = told
            return sandbox

        world.provider.claim = watched
        verifier = world.source.verifiers("toy_notes_1", 0)[0]
        asking = verifier.model_copy(update={"code": "# with a trace\n" + verifier.code})
        for found in (verifier, asking):
            world.source.verifiers = lambda *_, found=found: (found,)
            episode = Episode(world.rooms, EpisodeRequest(scenario="toy_notes_1", task_idx=0, model_digest="m"))
            await episode.start()
            await episode.call("add_note", {"text": "buy milk"})
            await episode.verify("code")
            await episode.finish()
        plain, with_trace = (request for request in seen if request.get("op") == "verify")
        assert "trace" not in plain
        assert [one["arguments"] for one in with_trace["trace"]] == [{"text": "buy milk"}]
