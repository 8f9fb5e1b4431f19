"""Judge settings: what is accepted, whose key goes where, and that no error shows one."""

import pickle
import traceback
from typing import Any

import pytest
from pydantic import ValidationError

from quintain.errors import UsageError
from quintain.verifiers.judging import Case, Classification, JudgeSettings

KEY = "sk-canary-0f7d2c9a41b8"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://Judge.example/v1/", "https://judge.example/v1"),
        (" http://127.0.0.1:8000/v1 ", "http://127.0.0.1:8000/v1"),
        ("https://judge.example/v1/chat/completions", "https://judge.example/v1"),
        ("https://name.openai.azure.com", "https://name.openai.azure.com/openai/v1"),
        ("https://name.services.ai.azure.com/openai/v1/", "https://name.services.ai.azure.com/openai/v1"),
        ("https://judge.example", "https://judge.example"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_addresses_are_brought_to_one_form(given: str, kept: str) -> None:
    assert JudgeSettings.read(base_url=given).base_url == kept


@pytest.mark.parametrize(
    "url",
    [
        "judge.example/v1",
        "ftp://judge.example/v1",
        "file:///etc/passwd",
        "https://",
        "https://judge.example:port/v1",
        "https://judge.example:99999/v1",
        "https://[::1/v1",
        "https://judge.example/a b",
        "https://judge.example/v1\r\nHost: elsewhere",
        f"https://user:{KEY}@judge.example/v1",
        f"https://judge.example/v1?key={KEY}",
        f"https://judge.example/v1#{KEY}",
    ],
)
def test_other_addresses_are_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(UsageError, match="the judge's base_url") as caught:
        JudgeSettings.read(base_url=url)
    assert_silent(caught.value)


@pytest.mark.parametrize("key", [f"{KEY}\nX-Header: y", f"{KEY} and more", f"{KEY}é", f"{KEY}\x00", [KEY], {KEY: 1}])
def test_a_key_that_no_header_can_carry_is_refused_without_being_repeated(key: Any) -> None:
    with pytest.raises(UsageError, match="the judge's api_key") as caught:
        JudgeSettings.read(api_key=key)
    assert_silent(caught.value)
    with pytest.raises(ValidationError) as bare:
        JudgeSettings(api_key=key)
    assert KEY not in str(bare.value)


def assert_silent(error: BaseException) -> None:
    shown = "".join(traceback.format_exception(error))
    assert KEY not in repr(error) + str(error) + shown
    assert error.__context__ is None, "the error before it holds what was given"


def test_settings_show_no_key() -> None:
    settings = JudgeSettings(base_url="https://judge.example/v1", api_key=f" {KEY}\n", model="m")
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == KEY
    for shown in (
        repr(settings),
        str(settings),
        f"{settings}",
        settings.model_dump_json(),
        repr(settings.model_dump()),
    ):
        assert KEY not in shown
        assert "judge.example" in shown
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_what_was_not_given_is_not_set() -> None:
    assert JudgeSettings.read(base_url=None, api_key="", model="", max_retries=1) == JudgeSettings(max_retries=1)


@pytest.mark.parametrize(
    ("reset", "url", "key", "model"),
    [
        ({}, "https://own.example/v1", KEY, "m"),
        ({"model": "other"}, "https://own.example/v1", KEY, "other"),
        ({"api_key": "sk-theirs"}, "https://own.example/v1", "sk-theirs", "m"),
        ({"base_url": "https://OWN.example/v1/"}, "https://own.example/v1", KEY, "m"),
        ({"base_url": "https://own.example/v2"}, "https://own.example/v2", None, "m"),
        ({"base_url": "https://theirs.example/v1"}, "https://theirs.example/v1", None, "m"),
        ({"base_url": "https://own.example:444/v1"}, "https://own.example:444/v1", None, "m"),
        ({"base_url": "http://own.example/v1"}, "http://own.example/v1", None, "m"),
        (
            {"base_url": "https://theirs.example/v1", "api_key": "sk-theirs", "model": "t"},
            "https://theirs.example/v1",
            "sk-theirs",
            "t",
        ),
    ],
)
def test_a_key_goes_only_to_the_endpoint_that_it_was_given_with(
    reset: dict[str, str], url: str, key: str | None, model: str
) -> None:
    own = JudgeSettings(base_url="https://own.example/v1", api_key=KEY, model="m", max_retries=7)
    found = own.over(**reset)
    secret = found.api_key.get_secret_value() if found.api_key is not None else None
    assert (found.base_url, secret, found.model, found.max_retries) == (url, key, model, 7)


def test_a_key_without_an_endpoint_of_its_own_goes_nowhere() -> None:
    assert JudgeSettings(api_key=KEY).over(base_url="https://theirs.example/v1").api_key is None


def test_the_same_case_has_the_same_digest_and_any_other_does_not() -> None:
    case = Case(task="t", evidence={"b": 1, "a": [10**40]})
    assert case.digest == Case(task="t", evidence={"a": [10**40], "b": 1}).digest
    others = [
        Case(task="u", evidence=case.evidence),
        Case(task="t", evidence={"b": 1, "a": []}),
        Case(task="t", evidence=case.evidence, final_answer=""),
        Case(task="t", evidence=case.evidence, failure_criteria="x"),
        Case(task="t", evidence=case.evidence, success_criteria="x"),
        Case(task="t", evidence=case.evidence, author_note="x"),
        Case(task="t", evidence=case.evidence, trace={}),
    ]
    assert len({case.digest, *(other.digest for other in others)}) == 1 + len(others)


def test_the_environment_may_be_blamed_only_where_a_call_failed_by_its_fault() -> None:
    assert Classification.SERVER_ERROR in Case(task="t", evidence=None).choices
    assert Classification.SERVER_ERROR in Case(task="t", evidence=None, trace={"environment_failures": 2}).choices
    for trace in ({"environment_failures": 0}, {}):
        choices = Case(task="t", evidence=None, trace=trace).choices
        assert choices == (Classification.COMPLETE, Classification.INCOMPLETE, Classification.AGENT_ERROR)
