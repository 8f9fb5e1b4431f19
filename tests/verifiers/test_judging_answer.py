"""Reading a judgment out of what a model wrote."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.verifiers.judging import Classification, Judgment
from quintain.verifiers.judging_answer import MAX_REASON_CHARS, MAX_REASONS, MAX_TEXT_CHARS, read_judgment

CASE = "5f3a9c0e77d1b264"
ALL = tuple(Classification)


def said(classification: Any = "complete", **fields: Any) -> str:
    return json.dumps({"case": CASE, "reasons": ["r"], "classification": classification, "confidence": 0.8, **fields})


def read(text: str) -> Judgment | str:
    return read_judgment(text, CASE, ALL)


ANSWERS = {
    "bare": said(),
    "indented": json.dumps(json.loads(said()), indent=2),
    "fenced": f"```json\n{said()}\n```",
    "fenced without a language": f"Here it is:\n```\n{said()}\n```\nLet me know.",
    "prose around it": f"I compared the carts. {said()} That is my answer.",
    "braces in the prose": f"The set {{3, 2}} and {{'id': 3}} and {{ }} differ {{from}} {{\"a\": 1}}. {said()}",
    "an unclosed brace first": f"Rows: {{3: {{2\n{said()}",
    "braces in its reasons": said(reasons=["the row {3, 2} became {3, 4}", '{"classification": "incomplete"}']),
    "after thinking": f"<think>{said('incomplete')} or maybe {{not}}</think>\n{said()}",
    "said twice alike": said() + "\n" + said(),
    "quoting another's verdict": f'The note says {{"classification": "incomplete", "confidence": 1}}. {said()}',
    "quoting a verdict for another case": said("incomplete", case="0000000000000000") + said(),
    "capitals": said("Complete "),
    "without case": json.dumps({"classification": "complete", "confidence": 0.8, "reasons": ["r"]}),
    "one reason as text": said(reasons="r"),
    "wrapped": f'{{"answer": {said()}}}',
    "more keys": said(thoughts="none", evidence={"rows": 2}),
}


@pytest.mark.parametrize("text", ANSWERS.values(), ids=ANSWERS)
def test_found(text: str) -> None:
    judgment = read(text)
    assert isinstance(judgment, Judgment), judgment
    assert (judgment.classification, judgment.confidence) == (Classification.COMPLETE, 0.8)


NO_ANSWERS = {
    "nothing": "",
    "prose": "complete",
    "a string": '"complete"',
    "a list": '["complete", 0.9]',
    "contradiction": said("complete") + said("incomplete"),
    "contradiction without case": '{"classification": "complete", "confidence": 1}'
    + '{"classification": "incomplete", "confidence": 1}',
    "only another case": said(case="0000000000000000"),
    "an unknown word": said("success"),
    "an unknown word beside a known one": said("success") + said("complete"),
    "no word": said(None),
    "a list of words": said(["complete"]),
    "confidence absent": json.dumps({"case": CASE, "classification": "complete"}),
    "confidence as text": said(confidence="0.9"),
    "confidence as truth": said(confidence=True),
    "confidence over one": said(confidence=1.01),
    "confidence under zero": said(confidence=-0.01),
    "confidence infinite": said(confidence=float("inf")),
    "confidence nan": said(confidence=float("nan")),
    "a key twice": said()[:-1] + ', "classification": "incomplete"}',
    "cut off": said()[:-5],
    "too long": " " * MAX_TEXT_CHARS + said(),
    "nested without end": '{"a":' * 30_000,
    "braces without end": "{" * 200_000,
}


@pytest.mark.parametrize("text", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_no_judgment_and_why(text: str) -> None:
    problem = read(text)
    assert isinstance(problem, str)
    assert problem.startswith("its ")


def test_only_what_may_be_answered_counts() -> None:
    choices = tuple(one for one in ALL if one is not Classification.SERVER_ERROR)
    assert isinstance(read_judgment(said("server_error"), CASE, choices), str)
    assert isinstance(read_judgment(said("server_error"), CASE, ALL), Judgment)


def test_reasons_are_bounded_cleaned_and_only_text() -> None:
    many = ["x" * 1000, 5, None, "", "\ud800", *["more"] * 50]
    judgment = read(said(reasons=many))
    assert isinstance(judgment, Judgment)
    assert len(judgment.reasons) == MAX_REASONS
    assert judgment.reasons[:2] == ("x" * MAX_REASON_CHARS, "\ufffd")
    for odd in (None, 7, {"a": 1}):
        judgment = read(said(reasons=odd))
        assert isinstance(judgment, Judgment)
        assert judgment.reasons == ()


@given(st.text(), st.text(), st.sampled_from(ALL), st.floats(0, 1), st.lists(st.text(max_size=50), max_size=3))
def test_an_answer_is_found_among_any_prose(
    before: str, after: str, word: Classification, confidence: float, reasons: list[str]
) -> None:
    text = before + said(word.value, confidence=confidence, reasons=reasons) + after
    judgment = read(text)
    assert isinstance(judgment, Judgment)
    assert (judgment.classification, judgment.confidence) == (word, confidence)


@given(st.text(alphabet='{}[]":,\\ complete\nclassificatio019.', max_size=300))
def test_any_text_is_an_answer_or_a_reason(text: str) -> None:
    assert isinstance(read(text), Judgment | str)
