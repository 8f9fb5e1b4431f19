"""Every try is scored once, whatever is killed and however often it is submitted; more of it is in `tests/soak`."""

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

from e2e.ledger_audit import submissions
from e2e.scoring import scored
from e2e.serving import serving
from e2e.wire import Wire, step
from quintain.records import Ledger, Submission

pytestmark = pytest.mark.xdist_group("e2e-scores")

SESSIONS, EACH = 50, 20
TASK = {"scenario": "outdoor_marketplace_1", "task_idx": 0, "model_digest": "model", "attempt": 7}


def test_rollouts_are_scored_once_whatever_is_killed(tmp_path: Path) -> None:
    run = scored(tmp_path, 3, 28, clients=4, limit_s=90, strikes=8, longest_s=1.0)
    assert not run.log.failures, run.summary
    assert sum(count for what, count in run.log.tally.items() if what.endswith(" killed")) > 6, run.summary
    assert run.log.tally["sessions lost or cut"] > 0, run.summary


@pytest.mark.parametrize("servers", [1, 2])
def test_a_thousand_duplicates_at_once_are_one_score(tmp_path: Path, servers: int) -> None:
    """Fifty sessions play the same attempt, every other one solves it, and each asks for its score twenty times."""
    ledger = tmp_path / "ledger.db"
    with contextlib.ExitStack() as stack:
        urls = []
        for number in range(servers):
            (folder := tmp_path / str(number)).mkdir()
            urls.append(stack.enter_context(serving(folder, QUINTAIN_LEDGER=str(ledger))).url)
        sessions = [stack.enter_context(Wire(urls[number % servers])) for number in range(SESSIONS)]
        for number, session in enumerate(sessions):
            session.reset(**TASK)
            if number // servers % 2:
                session.value("add_cart_item", product_id=3, quantity=2)
        answers = verified_at_once(sessions)
    told = {(answer["observation"]["reward_type"], answer["reward"]) for answer in answers}
    assert len(answers) == 1000
    assert len(told) == 1
    assert told < {("complete", 1.0), ("incomplete", 0.1)}
    assert not any("metadata" in answer["observation"] for answer in answers)
    rewards, scores = asyncio.run(held(ledger))
    assert [(entry.reward_type, entry.reward) for entry in rewards] == list(told)
    assert scores == rewards
    assert 0 < submissions(ledger)["late"] < SESSIONS
    assert submissions(ledger)["uncertain"] == 0


def verified_at_once(sessions: list[Wire]) -> list[dict[str, Any]]:
    """What each session is told when all verify at the same time, as often as they can."""
    start = threading.Barrier(len(sessions))
    answers: list[dict[str, Any]] = []

    def verify(session: Wire) -> None:
        start.wait()
        for _ in range(EACH):
            session.send(step("verify", {}))
        answers.extend([session.receive()["data"] for _ in range(EACH)])

    threads = [threading.Thread(target=verify, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


async def held(ledger: Path) -> tuple[list[Submission], list[Submission]]:
    """The rewards, and the scores."""
    async with await Ledger.open(ledger) as opened:
        rewards = [entry async for entry in opened.scores(rewards=True)]
        return rewards, [entry async for entry in opened.scores()]
