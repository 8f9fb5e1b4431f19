"""Redaction: secrets go, whatever they stand in; what identifies and trains stays; and each is counted."""

import base64
import json
import random
import secrets as system_secrets
import struct
import uuid
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.contracts.identity import cas_uri, sha256
from quintain.records.form import canonical, document_of, read_record
from quintain.records.redaction import Redactor
from quintain.records.secrets import is_random, luhn
from records.recording import a_record, a_step

KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx\nq83Lk2v==\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"

SECRETS = [
    ("api_key", "sk-proj-a8Fj2kLm9Qw3Er5Ty7Ui1Op"),
    ("api_key", "sk-ant-api03-a8Fj2kLm9Qw3Er5Ty7Ui1Op-AA"),
    ("api_key", "sk_live_4eC39HqLyjWDarjtT1zdp7dc"),
    ("api_key", "AKIAIOSFODNN7EXAMPLE"),
    ("api_key", "AIzaSyA1234567890abcdefghijklmnopqrstuv"),
    ("api_key", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
    ("api_key", "glpat-xY12abCD34efGH56ijKL"),
    ("api_key", "hf_AbCdEfGhIjKlMnOpQrStUvWxYz12345678"),
    ("api_key", "hf_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh"),
    ("api_key", "xoxb-123456789012-abcdefABCDEF"),
    ("jwt", JWT),
    ("high_entropy", "x9Kq2LmZ8vRt4WcY7bNp3SdF6gHj1TuA"),
]


@pytest.mark.parametrize(("kind", "secret"), SECRETS)
@pytest.mark.parametrize(
    "around", ["{}", "the key is {}.", '{{"k": "{}"}}', "https://h/p?key={}&x=1", "({})", "k={}\n"]
)
def test_a_secret_goes_wherever_it_stands(kind: str, secret: str, around: str) -> None:
    text = around.format(secret)
    redacted, counts = Redactor().redact({"task": text})
    assert secret not in redacted["task"]
    assert sum(counts.values()) == 1
    assert redacted["task"].replace(f"[redacted:{next(iter(counts))}]", secret) == text, "and nothing else"
    if around == "{}":
        assert counts == {kind: 1}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer abcDEF123.456-789_xyz", "Authorization: Bearer [redacted:bearer_token]"),
        ("authorization: basic dXNlcjpwYXNzd29yZA==", "authorization: basic [redacted:bearer_token]"),
        ("postgres://me:hunter2@db.host:5432/x", "postgres://me:[redacted:url_password]@db.host:5432/x"),
        ("see https://host:8080/a@b and http://a.b/c", "see https://host:8080/a@b and http://a.b/c"),
        ('{"password": "correct-horse-9"}', '{"password": "[redacted:assigned_secret]"}'),
        ("API_KEY=abcdef123456789", "API_KEY=[redacted:assigned_secret]"),
        ('"{\\"secret_token\\": \\"a1b2c3d4e5f6g7\\"}"', '"{\\"secret_token\\": \\"[redacted:assigned_secret]\\"}"'),
        (KEY, "-----BEGIN RSA PRIVATE KEY-----[redacted:private_key]-----END RSA PRIVATE KEY-----"),
        (KEY[:60], "-----BEGIN RSA PRIVATE KEY-----[redacted:private_key]"),
    ],
)
def test_only_the_secret_part_goes(text: str, left: str) -> None:
    assert Redactor().text(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "password must have 12 characters or more",
        '{"password_hash_algorithm": "pbkdf2", "token_count": 1234567890123}',
        "secretary: Mr. Longbottomley of Little Hangleton",
        "a token of my appreciation for internationalization and counterrevolutionaries",
        "risk-management-and-compliance-2024-overview",
        "pk_episode_score_episode_id",
        "key-value-stores-considered-harmful",
        "/usr/local/lib/python3.11/site-packages/sqlalchemy/engine/default.py",
        "https://example.org/Products/OutdoorLamps/2024/SummerCollection?sort=PriceAscending&page=12",
        "getProductsByCategoryAndPriceRange2",
        "ORDER-2024-000123-OUTDOOR-MARKETPLACE",
        "2026-02-10T00:00:00.000000+00:00",
        "A" * 100 + "1" * 100 + "b" * 100,
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor().redact({"task": text}) == ({"task": text}, {})


@given(data=st.binary())
def test_digests_and_references_are_no_secrets(data: bytes) -> None:
    digest = sha256(data)
    for text in (
        digest,
        digest.removeprefix("sha256:"),
        cas_uri(digest),
        f"record {digest} of {digest[:23]}",
        digest.upper(),
    ):
        assert Redactor(personal_data=True).text(text) == text
    assert Redactor().text(f'{{"secret": "{digest}"}}') == f'{{"secret": "{digest}"}}'


@given(one=st.uuids(), seed=st.integers())
def test_uuids_are_no_secrets(one: uuid.UUID, seed: int) -> None:
    for text in (str(one), one.hex, f"unknown:{one}", f"session {one} token {one.hex}"):
        assert Redactor().text(text) == text


@given(tokens=st.lists(st.integers(0, 200_000), min_size=1, max_size=60), wide=st.booleans())
def test_token_ids_in_base64_are_no_secrets(tokens: list[int], wide: bool) -> None:
    text = base64.b64encode(struct.pack(f"<{len(tokens)}{'q' if wide else 'i'}", *tokens)).decode()
    assert Redactor().redact({"task": text}) == ({"task": text}, {})


@given(logprobs=st.lists(st.floats(-50, 0, width=32).filter(lambda x: x == 0 or x < -1e-11), min_size=4, max_size=40))
def test_logprobs_in_base64_are_no_secrets(logprobs: list[float]) -> None:
    text = base64.b64encode(struct.pack(f"<{len(logprobs)}f", *logprobs)).decode()
    assert Redactor().redact({"task": text}) == ({"task": text}, {})


def test_nearly_every_random_key_is_found() -> None:
    chance = random.Random(5)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    keys = ["".join(chance.choices(letters, k=40)) for _ in range(500)]
    assert sum(map(is_random, keys)) > 490


CREDENTIALS = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=6, max_size=40).filter(
    lambda text: not text.isdecimal()
)


@given(credential=CREDENTIALS, before=st.text(max_size=9), after=st.text(max_size=9))
def test_the_runs_own_credentials_go_in_every_spelling(credential: str, before: str, after: str) -> None:
    redactor = Redactor([credential], entropy=False)
    whole = before + credential + after
    assert credential not in redactor.text(whole).replace("[redacted:credential]", "")
    in_json = json.dumps(whole, ensure_ascii=False)
    assert json.dumps(credential, ensure_ascii=False)[1:-1] not in redactor.text(in_json).replace(
        "[redacted:credential]", ""
    )
    for spelled in (quote(credential, safe=""), credential.encode().hex()):
        assert redactor.text(spelled) in ("[redacted:credential]", "0")  # hex digits may be a number of JSON
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(f"{before}{credential}{after}".encode("utf-8", "replace")).decode()
        if len(credential.encode()) >= 8:  # of a shorter one too few characters are its own
            assert "[redacted:credential]" in redactor.text(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"pin": 123456, "n": [123456]}', '{"pin": 0, "n": [0]}'),
        ('{"pin": "123456"}', '{"pin": "[redacted:credential]"}'),
        ('{"n": 12345678, "x": 0.123456}', '{"n": 12345678, "x": 0.123456}'),
        ("pin:123456!", "pin:[redacted:credential]!"),
    ],
)
def test_a_credential_of_digits(text: str, left: str) -> None:
    assert Redactor(["123456"]).text(text) == left


def test_a_private_key_without_its_end_takes_no_json_with_it() -> None:
    text = json.dumps({"a": json.dumps({"k": "-----BEGIN PRIVATE KEY-----\nMIIE", "z": 1})})
    assert json.loads(json.loads(Redactor().text(text))["a"]) == {
        "k": "-----BEGIN PRIVATE KEY-----[redacted:private_key]", "z": 1,
    }  # fmt: skip


def test_a_credential_of_no_length_is_not_looked_for() -> None:
    assert Redactor(["", "abc"]).redact({"task": "abc abc"}) == ({"task": "abc abc"}, {})


def test_what_identifies_an_episode_is_never_touched() -> None:
    secret = "sk-" + system_secrets.token_hex(20)
    record = a_record(
        model_digest=secret, versions={"quintain": secret}, task=f"use {secret}", client_episode_id=secret
    )
    record = record.model_copy(update={"steps": (
        a_step(1, arguments={secret: [secret]}, result=secret, error=f"bad {secret}", warning=secret, tool_name=secret,
               verify_result={"a": {"b": secret}}, evidence=[secret]),
    )})  # fmt: skip
    document = document_of(record)
    redacted, counts = Redactor([secret]).redact(document)
    assert counts == {"credential": 10}
    assert redacted["model_digest"] == secret
    assert {name: value for name, value in redacted.items() if value != document[name]}.keys() == {
        "task", "client_episode_id", "steps",
    }  # fmt: skip
    assert secret not in json.dumps(redacted["steps"])
    assert read_record(canonical(redacted)).steps[0].arguments == {"[redacted:credential]": ["[redacted:credential]"]}
    again, found = Redactor([secret]).redact(redacted)
    assert (again, found) == (redacted, {}), "what was redacted stays as it is"


def test_keys_that_become_one_stay_two() -> None:
    one, two = "AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLF"
    redacted, _ = Redactor().redact({"steps": [{"arguments": {one: 1, two: 2}}]})
    assert list(redacted["steps"][0]["arguments"].values()) == [1, 2]


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from([text for _, text in SECRETS]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12,
)  # fmt: skip


@given(value=JSONS)
def test_json_within_a_text_stays_json(value: Any) -> None:
    text = json.dumps({"token": value, "password": value})
    for one in (text, json.dumps(text)):
        json.loads(Redactor(["credential"], personal_data=True).text(one))


def test_personal_data_goes_if_asked_for() -> None:
    text = "mail ann.lee+x@example.co.uk or call +44 20 7946 0958, (555) 123-4567; "
    text += "card 4111 1111 1111 1111, not 4111 1111 1111 1112"
    assert Redactor().text(text) == text
    redacted, counts = Redactor(personal_data=True).redact({"task": text})
    assert counts == {"card": 1, "email": 1, "phone": 2}
    assert "1112" in redacted["task"], "a number that fails the check is no card's"
    assert "example" not in redacted["task"]


@given(digits=st.lists(st.integers(0, 9), min_size=12, max_size=18).filter(any))
def test_luhn(digits: list[int]) -> None:
    valid = [last for last in range(10) if luhn("".join(map(str, [*digits, last])))]
    assert len(valid) == 1


@given(text=st.text())
def test_any_text_can_be_looked_at(text: str) -> None:
    Redactor(["credential"], personal_data=True).text(text)


def test_tokens_that_spell_a_secret_go_with_it() -> None:
    secret = "AKIAIOSFODNN7EXAMPLE"

    def turn(index: int, sent: str, said: str) -> dict[str, Any]:
        tokens = {
            "prompt_token_ids": [1, 2],
            "token_ids": [3, 4],
            "tokens": [said[:9], said[9:]],
            "logprobs": [-0.5, -1.0],
        }
        return {
            "index": index,
            "messages": [{"role": "user", "content": sent}],
            "reply": {"content": "words"},
            "tokens": tokens,
        }

    document = {
        "turns": [turn(1, "hello", "nothing here"), turn(2, "hello", f"it is {secret}"), turn(3, "and", "then")]
    }
    redacted, counts = Redactor().redact(document)
    first, second, third = (one["tokens"] for one in redacted["turns"])
    assert first == document["turns"][0]["tokens"]
    assert second == {"prompt_token_ids": [1, 2], "token_ids": None, "tokens": None, "logprobs": None}
    assert third == {"prompt_token_ids": None, "token_ids": [3, 4], "tokens": ["then", ""], "logprobs": [-0.5, -1.0]}
    assert counts == {"api_key": 1, "token_trace": 4}


def test_a_failures_message_stays_within_its_limit() -> None:
    message = "secret " * 285
    failure = {
        "cause": "x",
        "owner": "infrastructure",
        "component": "y",
        "stage": "running",
        "message": message,
        "at": 1.0,
    }
    record = a_record(
        failure=failure, retried=(failure,), failure_owner="infrastructure", reward=None, reward_valid=False
    )
    redacted, _ = Redactor(["secret"]).redact(document_of(record))
    assert "secret" not in redacted["failure"]["message"]
    assert read_record(canonical(redacted)).failure is not None
