"""What an endpoint sends is read or named as trouble, never raised."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from quintain.verifiers.judging import JudgeSettings
from quintain.verifiers.judging_endpoint import Reply, Trouble, reply_of

SETTINGS = JudgeSettings(base_url="http://127.0.0.1:1/v1", api_key="sk-canary-0f7d2c9a41b8", model="m")

names = st.sampled_from(["choices", "message", "content", "finish_reason", "refusal", "model", "error", "type", "text"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["length", "text", "content_filter"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=15,
)


@given(json_values)
@example({"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"type": "text"}, 1]}}]})
def test_any_json_is_a_reply_or_trouble(value: Any) -> None:
    found = reply_of(SETTINGS, json.dumps(value).encode())
    assert isinstance(found, Reply | Trouble)
    wrapped = {"choices": [{"message": value}], "model": value}
    assert isinstance(reply_of(SETTINGS, json.dumps(wrapped).encode()), Reply | Trouble)


@given(st.binary())
def test_any_bytes_are_a_reply_or_trouble(data: bytes) -> None:
    assert isinstance(reply_of(SETTINGS, data), Reply | Trouble)


def test_text_in_parts_is_one_text() -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "image_url"}, {"type": "text", "text": "two"}]
    found = reply_of(SETTINGS, json.dumps({"choices": [{"message": {"content": parts}}]}).encode())
    assert found == Reply("one two")
