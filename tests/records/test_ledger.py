"""What the ledger promises to those who submit, allocate and read."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quintain.errors import LedgerError, UsageError
from quintain.records import MAX_ATTEMPT, Ledger, Submission
from records.making import certain, digest, key, uncertain


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    async with await Ledger.open(tmp_path / "ledger.db") as opened:
        yield opened


async def all_scores(ledger: Ledger, **asked: object) -> list[Submission]:
    return [entry async for entry in ledger.scores(**asked)]  # type: ignore[arg-type]


async def test_the_first_certain_verdict_holds_the_key(ledger: Ledger, tmp_path: Path) -> None:
    first, later = certain(word="incomplete"), certain(word="complete", run="another")
    told = await ledger.submit(first)
    assert (told.entry, told.first, told.episode_score) == (first, True, first)
    for again in (later, first):
        told = await ledger.submit(again)
        assert (told.entry, told.first, told.episode_score) == (first, False, first)
    assert await ledger.score(key()) == first
    assert await ledger.submissions(key()) == (first, later, first)
    await ledger.close()
    async with await Ledger.open(str(tmp_path / "ledger.db")) as reopened:
        assert (await reopened.submit(later)).entry == first


async def test_an_uncertain_verdict_occupies_nothing(ledger: Ledger) -> None:
    unsure, sure = uncertain(), certain()
    told = await ledger.submit(unsure)
    assert (told.entry, told.first, told.episode_score) == (None, False, None)
    assert await ledger.episode_score(digest(1), "model", 0) is None
    assert (await ledger.submit(sure)).first
    told = await ledger.submit(unsure)
    assert (told.entry, told.first, told.episode_score) == (sure, False, sure)
    assert await ledger.submissions(key()) == (unsure, sure, unsure)
    assert await all_scores(ledger) == [sure]


async def test_an_uncertain_verdict_is_told_what_another_process_has_scored(ledger: Ledger, tmp_path: Path) -> None:
    """Also of a try that was numbered here, of which there is usually nothing to look up."""
    sure, unsure = certain(), uncertain()
    assert await ledger.next_attempt(digest(1), "model") == 0
    async with await Ledger.open(tmp_path / "ledger.db") as another:
        assert (await another.submit(sure)).first
    told = await ledger.submit(unsure)
    assert (told.entry, told.first, told.episode_score) == (sure, False, sure)


async def test_the_episodes_reward_is_the_first_certain_verdict_in_whichever_mode(ledger: Ledger) -> None:
    by_judge = certain(key(verifier=2), "incomplete", mode="sql")
    by_code = certain(key(verifier=1))
    await ledger.submit(uncertain(key(verifier=1)))
    assert (await ledger.submit(by_judge)).episode_score == by_judge
    told = await ledger.submit(by_code)
    assert (told.entry, told.first, told.episode_score) == (by_code, True, by_judge)
    assert await ledger.episode_score(digest(1), "model", 0) == by_judge
    assert await all_scores(ledger) == [by_judge, by_code]
    assert await all_scores(ledger, rewards=True) == [by_judge]


async def test_each_part_of_the_key_counts(ledger: Ledger) -> None:
    keys = [key(), key(1), key(episode=2), key(model="Model"), key(verifier=2), key(model="model ")]
    told = [await ledger.submit(certain(of)) for of in keys]
    assert [one.first for one in told] == [True] * len(keys)
    assert [entry.key for entry in await all_scores(ledger)] == keys


async def test_a_thousand_duplicates_at_once_are_one_score(ledger: Ledger) -> None:
    words = ["complete", "incomplete"]

    async def several(task: int) -> list[bool]:
        return [(await ledger.submit(certain(word=words[(task + turn) % 2]))).first for turn in range(20)]

    firsts = await asyncio.gather(*(several(task) for task in range(50)))
    assert sum(map(sum, firsts)) == 1
    assert len(await ledger.submissions(key())) == 1000
    assert await all_scores(ledger) == [(await ledger.submissions(key()))[0]]


async def test_one_that_cannot_be_written_does_not_spoil_its_neighbours(ledger: Ledger) -> None:
    bad = certain(key(99)).model_copy(update={"reason": "\ud800"})  # past its checks, as a bug might bring it
    good = [certain(key(number)) for number in range(40)]
    waiting = [*good[:13], bad, *good[13:30], bad, *good[30:]]
    told = await asyncio.gather(*map(ledger.submit, waiting), return_exceptions=True)
    assert [isinstance(one, LedgerError) for one in told] == [one is bad for one in waiting]
    assert [entry.key for entry in await all_scores(ledger)] == [one.key for one in good]
    assert (await ledger.submissions(key(99)), await ledger.next_attempt(digest(1), "model")) == ((), 40)


async def test_a_verdict_is_committed_though_who_submitted_it_has_gone(ledger: Ledger) -> None:
    task = asyncio.create_task(ledger.submit(certain()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (await ledger.submit(certain(word="incomplete"))).first
    assert await ledger.score(key()) == certain()


async def test_attempts_are_numbered_for_each_episode_and_model(ledger: Ledger, tmp_path: Path) -> None:
    one, two = digest(1), digest(2)
    assert [await ledger.next_attempt(one, "a") for _ in range(3)] == [0, 1, 2]
    assert [await ledger.next_attempt(two, "a"), await ledger.next_attempt(one, "b")] == [0, 0]
    await ledger.close()
    async with await Ledger.open(tmp_path / "ledger.db") as reopened:
        numbers = await asyncio.gather(*(reopened.next_attempt(one, "a") for _ in range(300)))
    assert sorted(numbers) == list(range(3, 303))


async def test_numbers_that_a_trainer_gives_are_gone_past(ledger: Ledger) -> None:
    await ledger.claim_attempt(digest(1), "a", 7)
    await ledger.claim_attempt(digest(1), "a", 3)
    await ledger.claim_attempt(digest(1), "a", 7)
    assert [await ledger.next_attempt(digest(1), "a") for _ in range(2)] == [8, 9]
    await ledger.submit(uncertain(key(20, model="a")))
    assert await ledger.next_attempt(digest(1), "a") == 21


async def test_the_last_number_is_the_trainers_own_affair(ledger: Ledger) -> None:
    await ledger.claim_attempt(digest(1), "a", MAX_ATTEMPT)
    asked = ledger.next_attempt(digest(1), "a"), ledger.next_attempt(digest(1), "b")
    refused, given = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(refused, UsageError)
    assert str(MAX_ATTEMPT) in str(refused)
    assert given == 0


async def test_scores_are_read_a_page_at_a_time_in_order(ledger: Ledger) -> None:
    keys = [key(number, model=f"m{number % 2}", episode=number % 3) for number in range(1101)]
    await asyncio.gather(*(ledger.submit(certain(of)) for of in keys))
    assert [entry.key for entry in await all_scores(ledger)] == keys
    assert [entry.key for entry in await all_scores(ledger, model_digest="m1", episode_id=digest(2))] == [
        of for of in keys if (of.model_digest, of.episode_id) == ("m1", digest(2))
    ]


async def test_what_is_written_while_scores_are_read_is_no_hindrance(ledger: Ledger) -> None:
    await asyncio.gather(*(ledger.submit(certain(key(number))) for number in range(600)))
    seen = 0
    async for _ in ledger.scores():
        seen += 1
        if seen == 10:
            await ledger.submit(certain(key(600)))
    assert seen == 601


async def test_closing_commits_what_waits_and_then_nothing_more(ledger: Ledger, tmp_path: Path) -> None:
    waiting = [asyncio.create_task(ledger.submit(certain(key(number)))) for number in range(600)]
    await asyncio.sleep(0)
    await asyncio.gather(ledger.close(), ledger.close())
    assert [told.first for told in await asyncio.gather(*waiting)] == [True] * 600
    for refused in (ledger.submit(certain()), ledger.next_attempt(digest(1), "a"), ledger.score(key())):
        with pytest.raises(LedgerError, match="was closed; open it again"):
            await refused
    async with await Ledger.open(tmp_path / "ledger.db") as reopened:
        assert len(await all_scores(reopened)) == 600
