"""From a run's spool into the store beside it, by an ingest process of its own, and what became of the records."""

import importlib.util
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from quintain.cli import options
from quintain.contracts.untrusted import printable
from quintain.errors import UsageError
from quintain.server.settings import Settings

STORE: Final = "store"
"""The store's directory within a run's."""

NEEDED: Final = "the store needs the extra: pip install 'quintain[store]'"

_LOCK_TIMEOUT_S: Final = 30.0
_EXTRA: Final = ("deltalake", "duckdb", "pyarrow", "zstandard")
_TRY: Final = (
    'quintain store query "SELECT model_digest, avg(reward) AS reward FROM trajectories GROUP BY 1"',
    'quintain replay --where "reward < 1 AND attempt = 0"',
    "quintain store stats",
)


@dataclass(frozen=True)
class Ingested:
    """What became of the records of a run."""

    store: str
    spool_bytes: int
    """Of the records in the spool before they were ingested."""
    store_bytes: int
    """Of the store's files afterwards; the index lies with the ledger."""
    new: int
    duplicates: int
    refused: int
    damages: int
    """Stretches of the spool that were no whole record, and are kept aside."""
    missing: int
    """Records of the run that are not in the store's index."""
    seconds: float
    problem: str
    """Why not all was stored; empty if it was."""

    @property
    def incomplete(self) -> bool:
        """Whether a record of the run is not in the store."""
        return bool(self.problem or self.refused or self.damages or self.missing)


def store_is_here() -> bool:
    """Whether the extra that the store needs is installed. Imports nothing."""
    return all(importlib.util.find_spec(name) is not None for name in _EXTRA)


def require_store() -> None:
    """Raises UsageError: the extra is not installed."""
    if not store_is_here():
        raise UsageError(NEEDED)


def ingest(run_dir: Path, digests: Collection[str]) -> Ingested:
    """Bring a run's records into the store in its directory; blocks. The run must have ended.

    Args:
        digests: of all its records, to be looked for in the store's index afterwards.
    """
    spool, store, began = run_dir / "spool", run_dir / STORE, time.perf_counter()
    size = _bytes(spool)
    command = [
        sys.executable, "-m", "quintain.records.ingest", "--once", "--json",
        "--store", str(store), "--ledger", str(run_dir / "ledger.db"), "--spool", str(spool),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    told = next((event for event in _events(done.stdout) if event["event"] == "ended"), {})
    problem = str(told.get("problem") or "")
    if done.returncode != 0 and not problem:
        said = done.stderr.strip().splitlines()
        problem = said[-1] if said else f"the ingest process ended with {done.returncode}"
    counts = {name: int(told.get(name, 0)) for name in ("new", "duplicates", "refused", "damages")}
    seconds = time.perf_counter() - began
    missing = len(digests) - _known(run_dir / "ledger.db", digests)
    return Ingested(
        str(store), size, _bytes(store), **counts, missing=missing, seconds=round(seconds, 3), problem=problem
    )


def print_ingested(found: Ingested, *, temporary: bool = False) -> None:
    """Say what became of the records."""
    told = f"{found.new} new, {found.refused} refused, {found.missing} missing"
    if found.duplicates:
        told += f", {found.duplicates} there before"
    where = "in a temporary directory" if temporary else f"in {found.store}"
    rows = (
        ("spool", f"{_megabytes(found.spool_bytes)}, each record on disk before it counted"),
        ("store", f"{told}: {_megabytes(found.store_bytes)} {where}, after {found.seconds:.1f} s"),
    )
    for name, text in rows:
        options.console.print(Text(f"  {name}  ", "cyan").append(printable(text)), soft_wrap=True)
    if found.problem:
        options.console.print(options.plain(f"  not all was stored: {found.problem}", "red"), soft_wrap=True)


def print_commands(commands: Iterable[str]) -> None:
    """Commands to try, each on a line of its own that can be copied."""
    for command in commands:
        options.console.print(options.plain(f"  {command}"), soft_wrap=True)


def ingest_commands(run_dir: str | Path, played: Settings) -> list[str]:
    """What brings the records of a run into a store beside them, and then asks about them."""
    export, *more = next_commands(run_dir, played)
    return [export, f"quintain store ingest --once --spool {shlex.quote(f'{run_dir}/spool')}", *more]


def next_commands(run_dir: str | Path, played: Settings) -> list[str]:
    """What to try with a run that was ingested; `played` names its tasks, which a replay needs again."""
    variables = {"QUINTAIN_STORE": f"{run_dir}/{STORE}", "QUINTAIN_LEDGER": f"{run_dir}/ledger.db"}
    if played.data_dir is not None or played.packs:
        variables |= {"AWM_DATA_DIR": str(played.data_dir or ""), "QUINTAIN_PACKS": ",".join(played.packs)}
    words = (f"{name}={shlex.quote(value) if value else ''}" for name, value in variables.items())
    return [f"export {' '.join(words)}", *_TRY]


def _known(ledger: Path, digests: Collection[str]) -> int:
    """How many of them are in the index."""
    from quintain.records.database import Database
    from quintain.records.index import Index

    database = Database.open(ledger, _LOCK_TIMEOUT_S)
    try:
        return len(Index(database).known(list(digests)))
    finally:
        database.close()


def _events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
