"""What a ledger must hold after a run, by the clients' own logs: read through `Ledger`, and with plain sqlite3."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from e2e.ledger_users import NEIGHBOUR
from e2e.rollouts import Key, Log, Rollout
from quintain.records import Ledger, Submission

_FIRST = """
    SELECT min(id) AS id FROM submission WHERE certain
    GROUP BY episode_id, model_digest, attempt{verifier}
"""


async def audit(file: Path, log: Log, rollouts: Sequence[Rollout], acknowledged: Iterable[int]) -> list[str]:
    """What is wrong with the ledger; `acknowledged` are the attempts that a neighbour was told are scored."""
    async with await Ledger.open(file) as ledger:
        rewards = [entry async for entry in ledger.scores(rewards=True)]
        scores = [entry async for entry in ledger.scores()]
    ours = [entry for entry in rewards if entry.key.model_digest != NEIGHBOUR]
    wrong = [*_unexpected(ours, scores, log), *_missing(ours, log, rollouts), *_contradicted(ours, scores, log)]
    theirs = {entry.key.attempt: entry for entry in rewards if entry.key.model_digest == NEIGHBOUR}
    wrong += [f"the neighbour's {number} was acknowledged and is lost" for number in set(acknowledged) - theirs.keys()]
    wrong += [f"the neighbour's score is another: {entry}" for entry in theirs.values() if entry.reward != 1.0]
    return wrong + _by_rows(file, rewards, scores, log)


def key_of(entry: Submission) -> Key:
    return Key(entry.key.episode_id, entry.key.model_digest, entry.key.attempt)


def _unexpected(rewards: Sequence[Submission], scores: Sequence[Submission], log: Log) -> list[str]:
    wrong = [f"{number} rewards for {key}" for key, number in Counter(map(key_of, rewards)).items() if number != 1]
    for entry in rewards:
        rollout = log.tried.get(key_of(entry))
        if rollout is None:
            wrong.append(f"a score for an attempt that nobody made: {entry}")
        elif (entry.mode, _verdict(entry)) != (rollout.mode, rollout.expected[rollout.mode]):
            wrong.append(f"not the score that it must have: {entry}, expected {rollout}")
    most = {key: rollout.keys for key, rollout in log.tried.items()}
    for key, number in Counter(map(key_of, scores)).items():
        if key.model != NEIGHBOUR and number > most.get(key, 0):
            wrong.append(f"{number} scores for {key}, expected {most.get(key, 0)}")
    return wrong


def _missing(rewards: Sequence[Submission], log: Log, rollouts: Sequence[Rollout]) -> list[str]:
    held = Counter(map(key_of, rewards))
    return [
        f"a rollout was never scored, or its score is lost: {rollout}"
        for rollout in rollouts
        if rollout.number not in log.scored or held[log.scored[rollout.number]] != 1
    ]


def _contradicted(rewards: Sequence[Submission], scores: Sequence[Submission], log: Log) -> list[str]:
    """Of what the clients were told is valid: all is there, and nothing is there that was told otherwise.

    In a later mode the word is that mode's, and the reward still the attempt's.
    """
    wrong = []
    paid = {key_of(entry): entry for entry in rewards}
    held: dict[tuple[Key, str], str] = {(key_of(entry), entry.mode): entry.reward_type for entry in scores}
    for told in log.told:
        rollout, reward = log.tried[told.key], paid.get(told.key)
        if reward is None:
            wrong.append(f"a client was told {told}, and there is no score")
            continue
        word = held.get((told.key, told.mode), reward.reward_type if rollout.keys == 1 else "")
        if told.verdict != (word, reward.reward):
            wrong.append(f"a client was told {told}, the ledger holds {word!r} and {reward.reward}")
        if told.verdict != (rollout.expected[told.mode][0], rollout.expected[rollout.mode][1]):
            wrong.append(f"a client was told {told}, expected {rollout}")
    return wrong


def _verdict(entry: Submission) -> tuple[str, float | None]:
    return entry.reward_type, entry.reward


def _by_rows(file: Path, rewards: Sequence[Submission], scores: Sequence[Submission], log: Log) -> list[str]:
    """The same by the rows themselves."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:

        def rows(query: str) -> list[Any]:
            return connection.execute(query).fetchall()

        wrong = [f"sqlite finds {one[0]}" for one in rows("PRAGMA integrity_check") if one[0] != "ok"]
        wrong += [f"a key of a table leads nowhere: {one}" for one in rows("PRAGMA foreign_key_check")]
        for table, entries, verifier in (("score", scores, ", verifier_digest"), ("episode_score", rewards, "")):
            there = {number for (number,) in rows(f"SELECT submission_id FROM {table}")}
            if there != {number for (number,) in rows(_FIRST.format(verifier=verifier))}:
                wrong.append(f"{table} does not name the first certain submission of every key")
            names = "episode_id, model_digest, attempt, reward_type, reward"
            read = rows(f"SELECT {names} FROM submission WHERE id IN (SELECT submission_id FROM {table})")
            if Counter(read) != Counter((*key_of(entry), *_verdict(entry)) for entry in entries):
                wrong.append(f"{table} by its rows is not what the ledger reads")
        made = {Key(*row) for row in rows("SELECT episode_id, model_digest, attempt FROM submission")}
        strange = [key for key in made - log.tried.keys() if key.model != NEIGHBOUR]
        wrong += [f"submitted for an attempt that nobody made: {key}" for key in strange]
        claimed = {Key(*row) for row in rows("SELECT episode_id, model_digest, attempt FROM attempt")}
        wrong += [f"an attempt is not on record: {key}" for key in log.tried.keys() - claimed]
    return wrong


def submissions(file: Path) -> dict[str, int]:
    """How many submissions were uncertain, scores, or later than the first."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        scores, certain, every = connection.execute(
            "SELECT (SELECT count(*) FROM score WHERE model_digest <> :them), sum(certain), count(*) FROM submission "
            "WHERE model_digest <> :them",
            {"them": NEIGHBOUR},
        ).fetchone()
    return {"scores": scores, "late": certain - scores, "uncertain": every - certain}
