"""A process that uses a ledger, for tests that race several and kill them: `python child.py COMMAND LEDGER ...`.

It says `ready` once everything is imported (and, but for `open`, the ledger is open), waits for a line, and then does
what the command says.
"""

import asyncio
import json
import os
import signal
import sys
import time
from typing import Any, NoReturn

import alembic.command
import sqlalchemy as sa

from quintain.records import Ledger
from records.making import certain, digest, key


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)


def ready() -> None:
    say("ready")
    sys.stdin.readline()


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def open_only(place: str) -> None:
    """Open it, at the same time as others do."""
    assert alembic.command.__name__ in sys.modules
    ready()
    async with await Ledger.open(place):
        say("open")


async def duplicates(place: str, run: str, count: str) -> None:
    """Submit one key many times from several tasks; say which of them came first and what they were told."""
    async with await Ledger.open(place) as ledger:
        ready()

        async def several(task: int) -> list[list[Any]]:
            told = []
            for turn in range(int(count) // 10):
                word = "complete" if (task + turn) % 2 else "incomplete"
                committed = await ledger.submit(certain(word=word, run=f"{run}.{task}.{turn}"))
                assert committed.entry is not None
                told.append([committed.first, committed.entry.run])
            return told

        say(await asyncio.gather(*map(several, range(10))))


async def attempts(place: str, count: str) -> None:
    """Allocate numbers, a few at a time."""
    async with await Ledger.open(place) as ledger:
        ready()
        numbers: list[int] = []
        while len(numbers) < int(count):
            numbers += await asyncio.gather(*(ledger.next_attempt(digest(1), "model") for _ in range(10)))
        say(numbers)


async def verified(place: str) -> NoReturn:
    """Have a verdict and do not come to submit it."""
    async with await Ledger.open(place):
        ready()
        await asyncio.sleep(600)
    raise AssertionError


async def crash(place: str) -> None:
    """Submit and say what came of it, but die when all is written and, after a while, still not committed."""

    def linger(*_: Any) -> None:
        time.sleep(0.3)
        die()

    async with await Ledger.open(place) as ledger:
        ready()
        sa.event.listen(sa.Engine, "commit", linger)
        say((await ledger.submit(certain(run="killed"))).first)


async def submitted(place: str) -> NoReturn:
    """Submit, and never look at the reply."""
    async with await Ledger.open(place) as ledger:
        ready()
        task = asyncio.create_task(ledger.submit(certain(run="killed")))
        await asyncio.sleep(0)
        say("submitted")
        time.sleep(600)  # noqa: ASYNC251 - the reply cannot be delivered while the loop does not run
        await task
    raise AssertionError


async def stream(place: str, start: str) -> NoReturn:
    """Submit one key after the other from several tasks, and say which were acknowledged."""
    async with await Ledger.open(place) as ledger:
        ready()
        number = int(start)

        async def keep_on() -> NoReturn:
            nonlocal number
            while True:
                mine, number = number, number + 1
                say([mine, (await ledger.submit(certain(key(mine)))).first])

        await asyncio.gather(*(keep_on() for _ in range(8)))
    raise AssertionError


async def die_migrating(place: str, statement: str) -> None:
    """Open it and die before the given statement, counted from 1."""
    left = int(statement)

    def count(*_: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            die()

    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    ready()
    async with await Ledger.open(place):
        say("open")


COMMANDS = {
    "open": open_only,
    "duplicates": duplicates,
    "attempts": attempts,
    "verified": verified,
    "submitted": submitted,
    "crash": crash,
    "stream": stream,
    "die_migrating": die_migrating,
}


def main() -> None:
    asyncio.run(COMMANDS[sys.argv[1]](*sys.argv[2:]))


if __name__ == "__main__":
    main()
