"""A worker that records, and a host that ingests, for tests that kill them: `python worker.py COMMAND ...`."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, NoReturn

from quintain.errors import LedgerError, RecordError, SpoolUnavailable
from quintain.records import Recorder, Redactor, Spool
from quintain.records.checking import check
from quintain.records.service import IngestOptions, run
from quintain.records.spool_reader import SpoolReader
from quintain.records.store import Store
from records.recording import a_record, payload


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)


async def record(root: str, model: str, start: str) -> NoReturn:
    """Record one try after the other from several tasks, and say which were acknowledged."""
    recorder = Recorder(Spool.open(Path(root), segment_bytes=20_000), Redactor(), model)
    say("ready")
    number = int(start)

    async def keep_on() -> NoReturn:
        nonlocal number
        while True:
            mine, number = number, number + 1
            say([mine, await recorder.add(a_record(mine, model_digest=model))])

    await asyncio.gather(*(keep_on() for _ in range(8)))
    raise AssertionError


async def fill(root: str) -> None:
    """Fill the disk that the spool is on, make room, and go on; say what was acknowledged and what is read."""
    ballast = Path(root) / "ballast"
    ballast.write_bytes(bytes(200_000))
    spool = Spool.open(Path(root) / "spool")
    acknowledged, refused, number = [], [], 0
    while not refused:
        try:
            await spool.add(b"%05d" % number * 400)
            acknowledged.append(number)
        except SpoolUnavailable as error:
            refused.append(str(error))
        number += 1
    ballast.unlink()
    for _ in range(20):
        await spool.add(b"%05d" % number * 400)
        acknowledged.append(number)
        number += 1
    spool.close()
    reader = SpoolReader.open(Path(root) / "spool")
    read = [int(one.payload[:5]) for one in reader.read(100_000, 2**30)]
    say({"acknowledged": acknowledged, "refused": refused[0], "read": read, "damages": len(reader.damages)})


async def fill_store(root: str, left: str) -> None:
    """Ingest onto a disk that has few bytes left, make room, and ingest again; say what became of it."""
    folder = Path(root)
    spool = Spool.open(folder / "spool")
    for number in range(100):
        await spool.add(payload(number))
    spool.close()
    options = IngestOptions(folder / "store", str(folder / "ledger.db"), (folder / "spool",), once=True, as_json=True)
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            file.truncate(file.tell() - int(left))
    refused = ""
    try:
        run(options)
    except (RecordError, LedgerError) as error:
        refused = str(error)
    ballast.unlink()
    tally = run(options)
    store = Store.read(folder / "store", folder / "ledger.db")
    rows, problems = len(list(store.trajectories.rows(["digest"]))), [str(one) for one in check(store).problems]
    store.close()
    say({"refused": refused, "rows": rows, "problems": problems, "problem": tally.problem})


COMMANDS = {"record": record, "fill": fill, "fill_store": fill_store}

if __name__ == "__main__":
    asyncio.run(COMMANDS[sys.argv[1]](*sys.argv[2:]))
