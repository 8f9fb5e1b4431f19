"""What comes from an endpoint is told without its key, and what it asks for is read or left out."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr, ValidationError

from quintain.contracts.endpoints import ApiKey, BaseUrl, retry_after, told_of, without_key


class Settings(BaseModel, hide_input_in_errors=True):
    base_url: BaseUrl
    api_key: ApiKey | None = Field(default=None, repr=False, exclude=True)


@pytest.mark.parametrize(
    ("given_url", "kept"),
    [
        ("http://Host:8000/v1/", "http://host:8000/v1"),
        ("https://host/v1/chat/completions", "https://host/v1"),
        ("https://mine.openai.azure.com", "https://mine.openai.azure.com/openai/v1"),
    ],
)
def test_addresses_are_brought_to_one_form(given_url: str, kept: str) -> None:
    assert Settings(base_url=given_url).base_url == kept


@pytest.mark.parametrize("url", ["host/v1", "ftp://host", "https://me:secret-pass@host/v1", "https://host?key=a", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Settings(base_url=url)
    assert "secret-pass" not in str(refused.value)


def test_a_key_is_in_neither_repr_nor_dump_nor_error() -> None:
    settings = Settings(base_url="http://host/v1", api_key=SecretStr("sk-canary-0f7d2c9a41b8"))
    assert "canary" not in repr(settings) + settings.model_dump_json()
    with pytest.raises(ValidationError) as refused:
        Settings(base_url="http://host/v1", api_key=SecretStr("sk-canary with a space"))
    assert "canary" not in str(refused.value)


days = st.text(alphabet="MonTueJanGTM+-0123456789:, ")


@given(st.text() | days, st.floats(0, 4e9))
@example("0", 0.0)
@example("²", 0.0)
@example("Mon, 01 Jan 0001 00:00:00 -2400", 0.0)
def test_any_retry_after_is_a_wait_or_nothing(header: str, now: float) -> None:
    wait = retry_after(header, now)
    assert wait is None or wait >= 0


@given(st.text(), st.text(), st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=6))
def test_no_text_around_a_key_brings_it_through(before: str, after: str, key: str) -> None:
    if key in "[key]" or key in before + after:
        return
    told = without_key(f"{before} {key} {after}", SecretStr(key))
    assert key not in told.replace("[key]", " ")


@given(st.text())
def test_foreign_text_is_told_in_one_printable_line(text: str) -> None:
    told = told_of(text, SecretStr("sk-canary-0f7d2c9a41b8"))
    assert len(told.splitlines()) <= 1
    assert told.isprintable() or not told.isascii()
    told.encode()
