"""Other processes at a server's ledger: `python -m e2e.ledger_users COMMAND LEDGER ...`.

All but `neighbour` say a word once they hold what they are for, and hold it until a line comes.
"""

import asyncio
import json
import os
import sqlite3
import sys
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

from quintain.errors import LedgerError
from quintain.records import Ledger, ScoreKey, Submission
from records.making import certain, key

NEIGHBOUR = "neighbour"
"""The model whose scores a neighbour submits."""

GHOST = "ghost"
"""The model of attempts that nobody made."""

_GHOSTS = 400
_PACE_S = 0.05


def _hold(word: str) -> None:
    print(word, flush=True)
    sys.stdin.readline()


async def neighbour(ledger: str, start: str) -> NoReturn:
    """Submit one key after the other; in between submit the contrary of a score that somebody else has."""
    number = int(start)
    while True:
        try:
            async with await Ledger.open(ledger) as opened:
                while True:
                    _say(number, (await opened.submit(certain(key(number, model=NEIGHBOUR)))).entry)
                    number += 1
                    await asyncio.sleep(_PACE_S)
                    if (there := _any_score(ledger)) is not None:
                        _say(None, await _contradicted(opened, there))
        except (LedgerError, sqlite3.Error):
            await asyncio.sleep(_PACE_S)


def _any_score(ledger: str) -> ScoreKey | None:
    names = ", ".join(ScoreKey.model_fields)
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as connection:
        found = connection.execute(
            f"SELECT {names} FROM score WHERE model_digest <> ? ORDER BY random() LIMIT 1", [NEIGHBOUR]
        ).fetchone()
    return None if found is None else ScoreKey(**dict(zip(ScoreKey.model_fields, found, strict=True)))


async def _contradicted(opened: Ledger, there: ScoreKey) -> Submission:
    score = await opened.score(there)
    assert score is not None
    contrary = certain(there, "incomplete" if score.reward_type == "complete" else "complete", run=NEIGHBOUR)
    committed = await opened.submit(contrary)
    assert not committed.first
    assert committed.entry == score
    return score


def _say(number: int | None, entry: Submission | None) -> None:
    assert entry is not None
    print(json.dumps([number, entry.reward_type, entry.reward]), flush=True)


def lock(ledger: str) -> None:
    """Hold the lock for writing."""
    with closing(_connected(ledger)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        _hold("held")
        connection.execute("ROLLBACK")


def torn(ledger: str) -> None:
    """Write scores of attempts that nobody made, up to the commit; they are in the log on disk when it is said."""
    with closing(_connected(ledger)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        for number in range(_GHOSTS):
            _write(connection, certain(key(number, model=GHOST), value={"result": "x" * 1000}))
        _hold("held")


def _connected(ledger: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{ledger}?mode=rw", uri=True, isolation_level=None, timeout=30)


def _write(connection: sqlite3.Connection, submission: Submission) -> None:
    fields: dict[str, Any] = submission.model_dump(mode="json")
    of = fields.pop("key")
    tried = {name: value for name, value in of.items() if name != "verifier_digest"}
    del fields["value_omitted"]
    row = of | fields | {"value": json.dumps(fields["value"])}
    _insert(connection, "attempt", tried | {"origin": "submitted"})
    number = _insert(connection, "submission", row)
    _insert(connection, "score", of | {"submission_id": number})
    _insert(connection, "episode_score", tried | {"submission_id": number})


def _insert(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> int | None:
    marks = ", ".join("?" * len(row))
    return connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", [*row.values()]).lastrowid


def full(ledger: str) -> None:
    """Take all that is left of the ledger's disk, and what its log on disk could be written over with."""
    with closing(_connected(ledger)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    place = Path(ledger).with_name("filling")
    with place.open("wb", buffering=0) as file:
        place.unlink()  # so that it goes with this process
        try:
            for size in (2**16, 512):
                while True:
                    try:
                        file.write(os.urandom(size))
                    except OSError:
                        break
        finally:
            _hold("full")


COMMANDS: dict[str, Callable[..., Coroutine[Any, Any, NoReturn] | None]] = {
    "neighbour": neighbour,
    "lock": lock,
    "torn": torn,
    "full": full,
}

if __name__ == "__main__":
    doing = COMMANDS[sys.argv[1]](*sys.argv[2:])
    if doing is not None:
        asyncio.run(doing)
