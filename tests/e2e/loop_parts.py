"""What the chaos over the loop starts beside plain commands: `python loop_parts.py dying|write ...`."""

import asyncio
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from quintain.contracts.record import EpisodeRecord
from quintain.errors import LedgerError, SpoolUnavailable
from quintain.records import Ledger, Recorder, Redactor, Spool, Submission
from quintain.records.recorder import seal
from records.making import certain, key
from records.recording import a_record

ELSEWHERE = "elsewhere"
"""Names the model whose episodes a worker elsewhere has played."""

_AT_ONCE = 4


def score(number: int) -> Submission:
    """The score of an episode that was played elsewhere."""
    return certain(key(number, model=ELSEWHERE), run=ELSEWHERE, submitted_at=time.time())


def record(number: int) -> EpisodeRecord:
    """Its record, the same each time. Some have a text that the store keeps as a blob."""
    texts = {"task": f"{number} " * 40_000} if number % 10 == 0 else {}
    return a_record(number, model_digest=ELSEWHERE, **texts)


def digest(number: int) -> str:
    """Its record's digest."""
    return seal(record(number), Redactor(), ELSEWHERE, 1.0).envelope.digest


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)


async def write(root: str, ledger: str, pause_s: str, *numbers: str) -> None:
    """Score and record these episodes, and say which were acknowledged; what is refused is tried again."""
    left = list(map(int, numbers))
    spool = Spool.open(Path(root), name=ELSEWHERE, segment_bytes=50_000)
    async with await Ledger.open(ledger) as scores:
        recorder = Recorder(spool, Redactor(), ELSEWHERE)
        say({"event": "ready"})

        async def one_by_one() -> None:
            while left:
                number = left.pop(0)
                while True:
                    try:
                        await scores.submit(score(number))
                        say({"event": "written", "number": number, "digest": await recorder.add(record(number))})
                        break
                    except (LedgerError, SpoolUnavailable):
                        await asyncio.sleep(0.2)
                await asyncio.sleep(float(pause_s))

        await asyncio.gather(*(one_by_one() for _ in range(_AT_ONCE)))
    spool.close()


def dying(commit: str, *arguments: str) -> None:
    """Run a `quintain` command that is killed while it commits for the n-th time."""
    left = int(commit)

    def die() -> None:
        time.sleep(random.uniform(0, 0.003))
        os.kill(os.getpid(), signal.SIGKILL)

    def committing(*_: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            threading.Thread(target=die).start()

    sa.event.listen(sa.Engine, "commit", committing)
    sys.argv = ["quintain", *arguments]
    from quintain.cli.main import main

    main()


if __name__ == "__main__":
    if sys.argv[1] == "dying":
        dying(*sys.argv[2:])
    else:
        asyncio.run(write(*sys.argv[2:]))
