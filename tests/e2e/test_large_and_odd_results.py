"""Results that are large, binary or odd: what can be shown is shown, what is too large says so, the session goes on."""

import json

import pytest

from e2e.wire import Wire

pytestmark = pytest.mark.xdist_group("e2e-hostile")

MIB = 2**20


def test_five_megabytes_arrive_whole(house: Wire) -> None:
    observation = house.seen("large", size=5 * MIB)
    assert observation["reward_type"] == "tool_call_ok"
    assert observation["tool_result"] == "x" * (5 * MIB)


def test_the_limit_is_ten_megabytes_of_utf8(house: Wire) -> None:
    assert len(house.seen("large", size=10 * MIB)["tool_result"]) == 10 * MIB
    for size, character in ((10 * MIB + 1, "x"), (12 * MIB, "x"), (4 * MIB, "\u4e2d")):
        answer = house.call("large", size=size, character=character)
        assert answer["observation"]["reward_type"] == "tool_error"
        assert "10 MiB" in answer["observation"]["error"]
        assert answer["reward"] == 0.0
        assert house.value("list_notes") == ["first"]


def test_binary_is_text_with_replacements(house: Wire) -> None:
    observation = house.seen("binary")
    assert observation["reward_type"] == "tool_call_ok"
    assert "PNG" in observation["tool_result"]
    assert "\ufffd" in observation["tool_result"]
    assert house.value("list_notes") == ["first"]


def test_odd_characters_arrive_as_they_are(house: Wire) -> None:
    house.send({"type": "step", "data": {"type": "call_tool", "tool_name": "words", "arguments": {}}})
    raw = house.socket.recv(30)
    assert isinstance(raw, str)
    assert raw.isascii()
    assert json.loads(json.loads(raw)["data"]["observation"]["tool_result"]) == {
        "line": "a\u2028b\u2029c",
        "nested": {"\U0001f600": ["\u00e9", {"\u4e2d": "\u202e"}]},
        "nul": "\x00",
    }


def test_half_a_surrogate_pair_cannot_break_the_envelope(house: Wire) -> None:
    observation = house.seen("surrogate")
    assert observation["reward_type"] == "tool_call_ok"
    observation["tool_result"].encode()  # whole characters only
    assert "half" in observation["tool_result"]


def test_a_result_with_nan_is_text(house: Wire) -> None:
    observation = house.seen("not_a_number")
    assert observation["reward_type"] == "tool_call_ok"
    assert "NaN" in observation["tool_result"]
