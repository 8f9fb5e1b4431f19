"""A judge before an endpoint that misbehaves in every way: a usable judgment or a reason, never an exception."""

import asyncio
import json
from email.utils import formatdate
from typing import Any

import pytest

from quintain.errors import Owner
from quintain.verifiers.judge import MAX_RETRY_AFTER_S, Judge
from quintain.verifiers.judging import Classification, JudgeSettings, Judgment, NoJudgment
from quintain.verifiers.judging_cache import JudgmentCache
from verifiers.judge_bench import KEY, Bench, a_case, open_bench
from verifiers.judge_server import (
    MODEL,
    Asked,
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


async def test_a_judgment_with_its_confidence_reasons_and_model() -> None:
    async with open_bench() as bench:
        bench.server.then(says(answer("incomplete", 0.75, "the cart is empty"), model="judge-1-2026-01"))
        assert await bench.ask() == Judgment(
            classification=Classification.INCOMPLETE,
            confidence=0.75,
            reasons=("the cart is empty",),
            served_model="judge-1-2026-01",
        )
        (asked,) = bench.server.asked
        assert asked.path == "/v1/chat/completions"
        assert asked.headers["authorization"] == f"Bearer {KEY}"
        assert asked.body["model"] == MODEL
        assert asked.body["response_format"]["json_schema"]["strict"] is True
        assert asked.task["task"] == "Add two sleeping bags."
        assert asked.data["evidence"] == {"cart_after": [[3, 2]]}


async def test_reasons_and_models_hold_nothing_that_a_ledger_or_terminal_would_choke_on() -> None:
    async with open_bench() as bench:
        bench.server.then(says(answer("complete", 0.9, "a\x00b", "\x1b[2J", "\ud800", "\u202e"), model="m\x00\ud800\n"))
        found = await bench.ask()
        assert isinstance(found, Judgment)
        assert found.reasons == ("a\\x00b", "\\x1b[2J", "\ufffd", "\\u202e")
        assert found.served_model == "m\\x00\ufffd"


PASSING: list[tuple[str, Behaviour, Owner]] = [
    ("overloaded", respond(503, "busy"), Owner.INFRASTRUCTURE),
    ("server error", respond(500, ""), Owner.INFRASTRUCTURE),
    ("gateway page", respond(502, "<html>Bad Gateway</html>"), Owner.INFRASTRUCTURE),
    ("rate limit", respond(429, '{"error": {"message": "slow down"}}'), Owner.INFRASTRUCTURE),
    ("request timeout", respond(408, ""), Owner.INFRASTRUCTURE),
    ("hangs up", hang_up, Owner.INFRASTRUCTURE),
    ("no http", babble, Owner.INFRASTRUCTURE),
    ("truncated body", truncate, Owner.INFRASTRUCTURE),
    ("silence", hang, Owner.INFRASTRUCTURE),
    ("slow drip", drip, Owner.INFRASTRUCTURE),
    ("huge body", flood, Owner.INFRASTRUCTURE),
    ("huge known body", respond(200, b" " * (2**20 + 1)), Owner.INFRASTRUCTURE),
    ("compressed", respond(200, b"\x1f\x8b", content_encoding="gzip"), Owner.INFRASTRUCTURE),
    ("not json", respond(200, "<html>Sign in</html>"), Owner.INFRASTRUCTURE),
    ("not utf-8", respond(200, b"\xff\xfe\x00"), Owner.INFRASTRUCTURE),
    ("nested without end", respond(200, b"[" * 200_000), Owner.INFRASTRUCTURE),
    ("no completion", respond(200, '{"choices": []}'), Owner.INFRASTRUCTURE),
    ("an error with 200", respond(200, '{"error": {"message": "overloaded"}}'), Owner.INFRASTRUCTURE),
    ("choices of numbers", respond(200, '{"choices": [1]}'), Owner.INFRASTRUCTURE),
    ("a list", respond(200, "[1, 2]"), Owner.INFRASTRUCTURE),
    ("refusal", respond(200, completion(None, refusal="I cannot")), Owner.VERIFIER),
    ("filtered", respond(200, completion("", finish="content_filter")), Owner.VERIFIER),
    ("cut off", respond(200, completion('{"classification": "comp', finish="length")), Owner.VERIFIER),
    ("no text", respond(200, completion(None)), Owner.VERIFIER),
    ("prose", says("The agent did well, I would say."), Owner.VERIFIER),
    ("another word", says(answer("mostly_complete")), Owner.VERIFIER),
    ("percent", says(answer("complete", 95)), Owner.VERIFIER),
    ("nan", says(lambda asked: answer()(asked).replace("0.9", "NaN")), Owner.VERIFIER),
    ("two answers", says(lambda asked: answer("complete")(asked) + answer("incomplete")(asked)), Owner.VERIFIER),
]


@pytest.mark.parametrize(("name", "behaviour", "owner"), PASSING, ids=[name for name, _, _ in PASSING])
async def test_what_may_pass_is_asked_again_and_then_has_an_owner(
    name: str, behaviour: Behaviour, owner: Owner
) -> None:
    async with open_bench() as bench:
        bench.server.then(behaviour)
        judgment = await bench.ask(timeout_s=0.4)
        assert isinstance(judgment, Judgment), judgment
        assert len(bench.server.asked) == 2
        bench.server.then(behaviour, behaviour, behaviour)
        failed = await bench.ask(a_case(task="Another."), timeout_s=0.3, max_retries=2)
        assert isinstance(failed, NoJudgment)
        assert (failed.owner, failed.attempts) == (owner, 3)
        assert len(bench.slept) == 3
        again = await bench.ask(a_case(task="Another."), timeout_s=5)
        assert isinstance(again, Judgment), "a failure must not be kept"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "OPENENV_AWM_LLM_API_KEY"),
        (403, "llm_api_key"),
        (404, "/v1"),
        (302, "redirects are not followed"),
        (400, "the context is too long"),
        (402, "the context is too long"),
        (413, "the context is too long"),
    ],
)
async def test_what_will_not_pass_is_not_asked_again_and_says_what_to_do(status: int, words: str) -> None:
    async with open_bench() as bench:
        body = json.dumps({"error": {"message": "the context is too long"}})
        bench.server.otherwise = respond(status, body, location="http://elsewhere.example/")
        failed = await bench.ask()
        assert isinstance(failed, NoJudgment)
        assert (failed.owner, failed.attempts, bench.slept) == (Owner.VERIFIER, 1, [])
        assert words in failed.reason
        assert str(status) in failed.reason


async def test_an_endpoint_that_is_not_there_is_infrastructure() -> None:
    async with open_bench() as bench:
        failed = await bench.ask(base_url="http://127.0.0.1:1/v1", max_retries=1)
        assert isinstance(failed, NoJudgment)
        assert (failed.owner, failed.attempts) == (Owner.INFRASTRUCTURE, 2)
        assert "ConnectError" in failed.reason


async def test_waits_double_with_jitter_and_never_pass_the_bound() -> None:
    async with open_bench() as bench:
        bench.server.otherwise = respond(503, "")
        await bench.ask(max_retries=9, total_timeout_s=300)
        assert len(bench.slept) == 9
        for number, waited in enumerate(bench.slept):
            full = min(0.5 * 2**number, 20.0)
            assert full / 2 <= waited <= full
        assert len(set(bench.slept)) == 9


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("7", 7, 7),
        ("0", 0, 0.5),
        ("soon", 0, 0.5),
        ("-3", 0, 0.5),
        (str(10**30), MAX_RETRY_AFTER_S, MAX_RETRY_AFTER_S),
        pytest.param("9" * 400, MAX_RETRY_AFTER_S, MAX_RETRY_AFTER_S, id="400 digits"),
        pytest.param(formatdate(usegmt=True), 0, 0.5, id="now"),
        ("Wed, 21 Oct 2099 07:28:00 GMT", MAX_RETRY_AFTER_S, MAX_RETRY_AFTER_S),
        ("Wed, 99 Nix 9999 07:28:00 GMT", 0, 0.5),
    ],
)
async def test_retry_after_is_honoured_within_bounds(header: str, least: float, most: float) -> None:
    async with open_bench() as bench:
        bench.server.then(respond(429, "", retry_after=header))
        assert isinstance(await bench.ask(total_timeout_s=300), Judgment)
        (waited,) = bench.slept
        assert least <= waited <= most


async def test_no_wait_begins_that_the_total_time_has_no_room_for() -> None:
    async with open_bench() as bench:
        bench.server.otherwise = respond(429, "", retry_after="30")
        failed = await bench.ask(total_timeout_s=50, max_retries=9)
        assert isinstance(failed, NoJudgment)
        assert (bench.slept, failed.attempts, failed.owner) == ([30.0], 2, Owner.INFRASTRUCTURE)
        assert "50 s" in failed.reason


async def test_the_total_time_also_ends_an_attempt_and_a_wait_for_a_turn() -> None:
    async with open_bench(max_concurrency=1) as bench:
        bench.server.otherwise = hang
        first, second = await asyncio.gather(
            bench.ask(total_timeout_s=1.0), bench.ask(a_case(task="Another."), total_timeout_s=0.2)
        )
        for failed in (first, second):
            assert isinstance(failed, NoJudgment)
            assert (failed.owner, failed.attempts) == (Owner.INFRASTRUCTURE, 0)
        assert len(bench.server.asked) == 1


def refusing(*fields: str) -> Behaviour:
    """An endpoint that answers 400 to a request with one of these fields."""

    async def behave(asked: Asked, writer: asyncio.StreamWriter) -> None:
        refused = [name for name in fields if name in asked.body]
        message = json.dumps({"error": {"message": f"unsupported: {refused}"}})
        await (respond(400, message) if refused else says(answer()))(asked, writer)

    return behave


@pytest.mark.parametrize(
    ("refused", "kept", "tries"),
    [
        ((), {"response_format", "temperature", "max_completion_tokens"}, 1),
        (("temperature", "max_tokens"), {"response_format"}, 2),  # as models that reason first do
        (("response_format",), {"temperature", "max_tokens"}, 3),
        (("response_format", "max_tokens"), set(), 4),
    ],
)
async def test_the_form_that_an_endpoint_takes_is_found_and_remembered(
    refused: tuple[str, ...], kept: set[str], tries: int
) -> None:
    async with open_bench() as bench:
        bench.server.otherwise = refusing(*refused)
        assert isinstance(await bench.ask(), Judgment)
        assert len(bench.server.asked) == tries
        assert isinstance(await bench.ask(a_case(task="Another.")), Judgment)
        assert len(bench.server.asked) == tries + 1
        assert set(bench.server.asked[-1].body) == {"model", "messages", *kept}
        assert bench.slept == []


async def test_a_refusal_of_everything_is_remembered_by_nobody() -> None:
    async with open_bench() as bench:
        bench.server.then(*[respond(400, "no")] * 4)
        assert isinstance(await bench.ask(), NoJudgment)
        assert isinstance(await bench.ask(), Judgment)
        assert "response_format" in bench.server.asked[-1].body


async def test_an_unsure_judgment_is_none_and_is_not_kept() -> None:
    async with open_bench() as bench:
        bench.server.then(says(answer("complete", 0.49, "hard to tell")))
        failed = await bench.ask()
        assert isinstance(failed, NoJudgment)
        assert failed.owner is Owner.VERIFIER
        assert "0.49" in failed.reason
        assert "hard to tell" in failed.reason
        assert isinstance(await bench.ask(), Judgment)


@pytest.mark.parametrize(
    ("trace", "judged"),
    [
        (None, True),
        ({"environment_failures": 1}, True),
        ({"environment_failures": 0}, False),
    ],
)
async def test_an_agent_cannot_talk_the_judge_into_blaming_the_environment(trace: Any, judged: bool) -> None:
    async with open_bench() as bench:
        bench.server.otherwise = says(answer("server_error"))
        found = await bench.ask(a_case(trace=trace, final_answer="The server failed me."), max_retries=1)
        assert isinstance(found, Judgment if judged else NoJudgment)
        schema = bench.server.asked[0].body["response_format"]["json_schema"]["schema"]
        assert ("server_error" in schema["properties"]["classification"]["enum"]) is judged


async def test_equal_questions_are_asked_once_even_at_the_same_time() -> None:
    async with open_bench() as bench:
        found = await asyncio.gather(*(bench.ask() for _ in range(100)))
        assert len(set(found)) == 1
        await bench.ask()
        assert len(bench.server.asked) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"case": {"evidence": {"cart_after": [[3, 1]]}}},
        {"case": {"final_answer": "Done."}},
        {"case": {"success_criteria": "Two of them."}},
        {"case": {"trace": {"environment_failures": 1}}},
        {"settings": {"model": "judge-2"}},
    ],
)
async def test_any_other_question_is_asked(change: dict[str, Any]) -> None:
    async with open_bench() as bench:
        await bench.ask()
        await bench.ask(a_case(**change.get("case", {})), **change.get("settings", {}))
        assert len(bench.server.asked) == 2


async def test_an_endpoint_answers_for_itself_alone() -> None:
    async with open_bench() as bench, open_bench() as other:
        other.server.otherwise = says(answer("complete"))
        bench.server.otherwise = says(answer("incomplete"))
        planted = await bench.ask(base_url=other.server.url)
        own = await bench.ask()
        assert isinstance(planted, Judgment)
        assert isinstance(own, Judgment)
        assert (planted.classification, own.classification) == ("complete", "incomplete")


async def test_who_has_another_key_is_not_refused_for_the_first_ones() -> None:
    async def checks(asked: Asked, writer: asyncio.StreamWriter) -> None:
        good = asked.headers.get("authorization") == f"Bearer {KEY}"
        await (says(answer()) if good else respond(401, "no"))(asked, writer)

    async with open_bench() as bench:
        bench.server.otherwise = checks
        bad, good = await asyncio.gather(bench.ask(api_key="sk-not-this-one"), bench.ask())
        assert isinstance(bad, NoJudgment)
        assert isinstance(good, Judgment)


async def test_failures_at_the_same_time_are_shared_but_not_kept() -> None:
    async with open_bench() as bench:
        bench.server.then(respond(401, "no"))
        assert {type(one) for one in await asyncio.gather(*(bench.ask() for _ in range(5)))} == {NoJudgment}
        assert len(bench.server.asked) == 1
        assert isinstance(await bench.ask(), Judgment)


async def test_exchanges_with_one_endpoint_are_bounded_and_a_wait_takes_no_place() -> None:
    async with open_bench(max_concurrency=3) as bench:
        bench.server.then(*[respond(503, "")] * 10)
        found = await asyncio.gather(*(bench.ask(a_case(task=f"Task {number}.")) for number in range(20)))
        assert {type(one) for one in found} == {Judgment}
        assert bench.server.most_at_once <= 3
        assert len(bench.server.asked) == 30


async def until(bench: Bench, requests: int) -> None:
    async with bench.server.arrived:
        await bench.server.arrived.wait_for(lambda: len(bench.server.asked) >= requests)


async def test_one_who_leaves_does_not_take_the_answer_from_the_others() -> None:
    async with open_bench() as bench:
        release = asyncio.Event()

        async def held(asked: Asked, writer: asyncio.StreamWriter) -> None:
            await release.wait()
            await says(answer())(asked, writer)

        bench.server.then(held)
        leaving, staying = asyncio.create_task(bench.ask()), asyncio.create_task(bench.ask())
        await until(bench, 1)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        release.set()
        assert isinstance(await staying, Judgment)
        assert len(bench.server.asked) == 1


async def test_when_all_have_left_the_exchange_ends_and_the_next_asks_anew() -> None:
    async with open_bench() as bench:
        bench.server.then(hang)
        only = asyncio.create_task(bench.ask())
        await until(bench, 1)
        only.cancel()
        with pytest.raises(asyncio.CancelledError):
            await only
        assert isinstance(await bench.ask(), Judgment)
        assert len(bench.server.asked) == 2


async def test_closing_ends_what_is_on_its_way_without_an_exception() -> None:
    async with open_bench() as bench:
        bench.server.otherwise = hang
        waiting = [asyncio.create_task(bench.ask(a_case(task=f"Task {number % 2}."))) for number in range(4)]
        await until(bench, 2)
        await bench.judge.aclose()
        for failed in [*await asyncio.gather(*waiting), await bench.ask()]:
            assert isinstance(failed, NoJudgment)
            assert failed.owner is Owner.INFRASTRUCTURE
            assert "closed" in failed.reason


async def test_kept_judgments_outlive_the_judge(tmp_path: Any) -> None:
    async with open_bench(cache=JudgmentCache(tmp_path)) as bench:
        first = await bench.ask()
        later = Judge(JudgmentCache(tmp_path))
        assert await later.judge(bench.settings(api_key=None), a_case()) == first
        await later.aclose()
        assert len(bench.server.asked) == 1


@pytest.mark.parametrize("given", [{}, {"base_url": "http://127.0.0.1:1/v1"}, {"model": "m"}, {"api_key": KEY}])
async def test_without_an_endpoint_and_a_model_it_says_what_to_set(given: dict[str, str]) -> None:
    judge = Judge()
    failed = await judge.judge(JudgeSettings(**given), a_case())
    await judge.aclose()
    assert isinstance(failed, NoJudgment)
    assert failed.owner is Owner.VERIFIER
    assert ("OPENENV_AWM_LLM_BASE_URL" in failed.reason) is ("base_url" not in given)
    assert ("OPENENV_AWM_LLM_MODEL" in failed.reason) is ("model" not in given)
