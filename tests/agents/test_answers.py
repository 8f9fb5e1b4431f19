"""Whatever an endpoint sends is a completion or is not, and a streamed one is the one that is not streamed."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.agents.answers import NotACompletion, StreamedAnswer, completion_of, events
from quintain.agents.base import Completion
from quintain.agents.fake_replies import Refuses, Says, chunks_of, completion_body

BODY = {"model": "m", "messages": [], "logprobs": True, "return_token_ids": True}

keys = st.sampled_from(
    ["choices", "message", "delta", "content", "finish_reason", "refusal", "model", "error", "type", "text",
     "tool_calls", "function", "name", "arguments", "index", "id", "logprobs", "token_ids", "prompt_token_ids", "usage",
     "logprob", "token", "completion_tokens", "reasoning_content"]
)  # fmt: skip
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["length", "token_id:7", "0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=20,
)


def read(answer: Any) -> None:
    try:
        found = completion_of(answer)
    except NotACompletion:
        return
    # evidence must be writable
    assert Completion.model_validate_json(found.model_dump_json()) == found


@given(json_values, json_values)
def test_any_json_is_a_completion_or_not(value: Any, other: Any) -> None:
    read(value)
    read({"choices": [{"message": value, "logprobs": {"content": other}, "token_ids": other}], "usage": other})
    read({"choices": [{"message": {"tool_calls": value}, "logprobs": other}]})
    read({"choices": [{"message": {"tool_calls": [{"function": value, "id": other}]}}], "prompt_token_ids": other})


@given(st.lists(json_values))
def test_any_chunks_make_a_completion_or_not(values: list[Any]) -> None:
    answer = StreamedAnswer()
    try:
        for value in values:
            answer.add(json.dumps(value))
            answer.add(json.dumps({"choices": [{"delta": value, "finish_reason": "stop"}]}))
            answer.add(json.dumps({"choices": [{"delta": {"tool_calls": value}, "token_ids": value}]}))
    except NotACompletion:
        return
    read(answer.answer())


names = st.text(min_size=1)
replies = st.builds(
    Says,
    text=st.none() | st.text(),
    reasoning=st.none() | st.text(),
    calls=st.lists(st.tuples(names, st.text() | st.dictionaries(st.text(), st.integers())), max_size=4).map(tuple),
) | st.builds(Refuses, text=st.text(min_size=1))


@given(replies, st.integers(1, 20))
def test_a_streamed_answer_is_the_one_that_is_not_streamed(reply: Any, size: int) -> None:
    body = completion_body(reply, BODY)
    answer = StreamedAnswer()
    for chunk in chunks_of(body, usage=True, size=size):
        answer.add(json.dumps(chunk))
    assert answer.finished
    assert completion_of(answer.answer()) == completion_of(body)


@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1)),
    st.integers(1, 9),
    st.booleans(),
)
async def test_events_come_whole_however_their_bytes_are_cut(data: list[str], size: int, crlf: bool) -> None:
    lines = "".join(f": comment\n\nevent: x\ndata: {one}\n\n" for one in data)
    stream = (lines.replace("\n", "\r\n") if crlf else lines).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for first in range(0, len(stream), size):
            yield stream[first : first + size]

    assert [one async for one in events(pieces())] == data


def test_calls_without_index_belong_together_by_id() -> None:
    answer = StreamedAnswer()
    for named, name, arguments in [("a", "add", '{"n"'), (None, None, ": 1}"), ("b", "list", "{}"), ("a", "add", " ")]:
        call = {"id": named, "function": {"name": name, "arguments": arguments}}
        answer.add(json.dumps({"choices": [{"delta": {"tool_calls": [call]}}]}))
    found = completion_of(answer.answer()).calls
    assert [(one.id, one.name, one.arguments) for one in found] == [("a", "add", '{"n": 1} '), ("b", "list", "{}")]


def test_token_ids_in_place_of_tokens_are_read() -> None:
    content = [{"token": f"token_id:{number}", "logprob": -number / 10} for number in (5, 7)]
    found = completion_of({"choices": [{"message": {"content": "x"}, "logprobs": {"content": content}}]}).tokens
    assert (found.token_ids, found.logprobs) == ((5, 7), (-0.5, -0.7))


@pytest.mark.parametrize("bad", [None, "x", float("nan"), True, 10**400])
def test_logprobs_are_kept_whole_or_not_at_all(bad: Any) -> None:
    content = [{"token": "a", "logprob": -0.1}, {"token": "b", "logprob": bad}]
    found = completion_of({"choices": [{"message": {"content": "x"}, "logprobs": {"content": content}}]}).tokens
    assert found.logprobs is None
    assert found.tokens == ("a", "b")
