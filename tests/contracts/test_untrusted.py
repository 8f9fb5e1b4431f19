"""Checks of values from outside."""

import pytest

from quintain.contracts.untrusted import MAX_VALUES, json_problem, printable, weight


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [red]text[/red] \\ and\n\tmore", None),
        ("\u00e9\u043a\u043b\u044e\u0447 \u6f22\u5b57 \U0001f98a\u00a0\u2003x", None),
        ("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
        ("over\rwritten\x7f\x00\x9b2J", "over\\rwritten\\x7f\\x00\\x9b2J"),
        ("right\u202eleft\u2066\u200f", "right\\u202eleft\\u2066\\u200f"),
        ("half \ud83d, line\u2028end", "half \\ud83d, line\\u2028end"),
    ],
)
def test_what_a_terminal_is_shown(text: str, shown: str | None) -> None:
    assert printable(text) == (text if shown is None else shown)


def test_weight_counts_text_and_every_part() -> None:
    assert 10_000 <= weight("x" * 10_000) < 10_200
    assert weight([[] for _ in range(1000)]) >= 56 * 1000
    assert weight({"a" * 5000: {"b": [1, 2.5, None, True, "c" * 5000]}}) >= 10_000


def test_more_values_than_anyone_should_look_through_are_a_problem() -> None:
    assert json_problem({"a": [[]] * (MAX_VALUES - 10)}) is None
    assert json_problem({"a": "x" * 10**7}) is None
    for value in ([[]] * 10**6, {"a": {str(number): 0 for number in range(MAX_VALUES)}}, [[0] * 1000] * 100):
        assert "more than 50000 values" in str(json_problem(value))
