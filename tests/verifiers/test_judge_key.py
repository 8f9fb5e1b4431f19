"""The judge's key reaches the endpoint and nothing else, whatever the endpoint does with it."""

import asyncio
import base64
import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from quintain.verifiers.judging import Judgment, NoJudgment
from quintain.verifiers.judging_cache import JudgmentCache
from verifiers.judge_bench import KEY, a_case, open_bench
from verifiers.judge_server import (
    Behaviour,
    answer,
    babble,
    completion,
    drip,
    flood,
    hang,
    hang_up,
    respond,
    says,
    truncate,
)

pytestmark = pytest.mark.asyncio

ODD_KEY = 'sk-canary+/="\\odd%key'


def escaped(text: str) -> str:
    """The text in JSON's numeric escapes, which spell it only once they are parsed."""
    return "".join(f"\\u{ord(char):04x}" for char in text)


def echoes(key: str) -> dict[str, Behaviour]:
    """Every way in which an endpoint may send the key back, or break while it has it."""
    error = json.dumps({"error": {"message": f"Incorrect API key provided: {key}.", "param": key}})
    spelled = {
        "bare": key,
        "in a url": quote(key, safe=""),
        "in json": json.dumps(key),
        "in base64": base64.b64encode(key.encode()).decode(),
    }
    return {
        **{f"401 {name}": respond(401, f"bad {text}") for name, text in spelled.items()},
        **{f"500 {name}": respond(500, f"bad {text}") for name, text in spelled.items()},
        **{f"404 {name}": respond(404, f"bad {text}") for name, text in spelled.items()},
        "400 json": respond(400, error),
        "429 json": respond(429, error, retry_after=key),
        "503 cut within the key": respond(503, "x" * (300 - len(key) // 2 - 1) + key),
        "500 escaped": respond(500, f'{{"error": "{escaped(key)}"}}'),
        "200 error": respond(200, error),
        "302": respond(302, "", location=f"http://elsewhere.example/?key={quote(key)}"),
        "reasons": says(answer("complete", 0.9, f"the key is {key}", key)),
        "reasons escaped": says(lambda asked: answer("complete", 0.9, "REASON")(asked).replace("REASON", escaped(key))),
        "unsure": says(answer("complete", 0.2, f"the key is {key}")),
        "classification": says(lambda asked: answer(key)(asked)),
        "model": says(answer(), model=f"model {key}"),
        "refusal": respond(200, completion(None, refusal=key)),
        "cookie": respond(500, "", set_cookie=f"key={quote(key)}"),
        "silence": hang,
        "drip": drip,
        "hang up": hang_up,
        "babble": babble,
        "truncate": truncate,
        "flood": flood,
    }


def everything(found: Any, folder: Path, caplog: pytest.LogCaptureFixture) -> str:
    shown = [repr(found), str(vars(found)), caplog.text, *(repr(vars(record)) for record in caplog.records)]
    if isinstance(found, Judgment):
        shown.append(found.model_dump_json())
    shown += [path.read_text() for path in folder.rglob("*.json")]
    return "\n".join(shown)


@pytest.mark.parametrize("key", [KEY, ODD_KEY], ids=["plain", "odd"])
@pytest.mark.parametrize("name", echoes(KEY))
async def test_the_key_stays_out_of_judgments_reasons_logs_and_cache(
    name: str, key: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "quintain")
    caplog.set_level(logging.INFO)
    async with open_bench(cache=JudgmentCache(tmp_path)) as bench:
        bench.server.otherwise = echoes(key)[name]
        found = await bench.ask(api_key=key, timeout_s=0.2, max_retries=1)
        assert bench.server.asked[0].headers["authorization"] == f"Bearer {key}"
        shown = everything(found, tmp_path, caplog)
        for part in (key, key[:14], key[-10:], json.dumps(key)[1:-1], quote(key, safe=""), escaped(key)):
            assert part not in shown, f"{part} in {shown}"
        assert isinstance(found, Judgment | NoJudgment)


async def test_a_redirect_does_not_take_the_key_along() -> None:
    async with open_bench() as bench, open_bench() as other:
        bench.server.otherwise = respond(307, "", location=f"{other.server.url}/chat/completions")
        assert isinstance(await bench.ask(), NoJudgment)
        assert other.server.asked == []


async def test_what_one_session_was_given_is_not_sent_with_another() -> None:
    async def with_cookie(asked: Any, writer: asyncio.StreamWriter) -> None:
        data = completion(answer()(asked))
        await respond(200, data, set_cookie="session=one; Path=/")(asked, writer)

    async with open_bench() as bench:
        bench.server.otherwise = with_cookie
        await bench.ask()
        await bench.ask(a_case(task="Another."), api_key=None)
        assert [set(asked.headers) & {"cookie", "authorization"} for asked in bench.server.asked] == [
            {"authorization"},
            set(),
        ]
