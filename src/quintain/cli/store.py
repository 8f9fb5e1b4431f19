"""`quintain store`: records into the store, and what is in it."""

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.table import Table

from quintain.cli import options
from quintain.cli.run_store import require_store
from quintain.errors import UsageError
from quintain.server.settings import data_home

if TYPE_CHECKING:
    from quintain.records.store import Store

app = typer.Typer(
    help="Ingest episode records, ask about them, check and mend the store.", no_args_is_help=True, add_completion=False
)

StorePath = Annotated[
    Path | None,
    typer.Option(
        "--store",
        envvar="QUINTAIN_STORE",
        show_envvar=False,
        help="The store's directory. Default: $QUINTAIN_STORE, or in the user's data.",
    ),
]
Ledger = Annotated[
    str | None, typer.Option("--ledger", help="The ledger, which has the index too. Default: $QUINTAIN_LEDGER.")
]
Spools = Annotated[
    list[Path] | None,
    typer.Option(
        "--spool",
        envvar="QUINTAIN_SPOOL",
        show_envvar=False,
        help="A spool's directory; may be repeated. Default: $QUINTAIN_SPOOL, or in the user's data.",
    ),
]
Sql = Annotated[str, typer.Argument(help="One SELECT over trajectories, all_records, steps and scores.")]
OrphanedAfter = Annotated[
    float, typer.Option("--orphaned-after", min=0, help="Seconds after which a score without a record is given one.")
]

_DAY_S = 24 * 3600.0
_TOKEN = "QUINTAIN_INGEST_TOKEN"


class ExportFormat(StrEnum):
    """What an export is written as."""

    JSONL = "jsonl"
    PARQUET = "parquet"


@app.command("ingest")
def ingest(
    store: StorePath = None,
    ledger: Ledger = None,
    spool: Spools = None,
    host: Annotated[
        str, typer.Option(help=f"Address to listen on; other than loopback needs ${_TOKEN}.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(help="Port of the HTTP endpoint, 0 for a free one; none without it.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when the spools are empty. Those that are named must be there.")
    ] = False,
    orphaned_after: OrphanedAfter = _DAY_S,
    as_json: options.AsJson = False,
) -> None:
    """Bring records from spools, and from workers over HTTP, into the store, until SIGTERM or SIGINT."""
    require_store()
    from quintain.records.service import IngestOptions, run

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="quintain: %(message)s")
    run(
        IngestOptions(
            store=store_root(store),
            ledger=ledger_of(ledger),
            spools=tuple(spool or _own_spool(made=not once)),
            host=host,
            port=port,
            token=os.environ.get(_TOKEN) or None,
            once=once,
            orphaned_after_s=orphaned_after,
            as_json=as_json,
        )
    )


@app.command("forward")
def forward(
    url: Annotated[str, typer.Argument(help="Where an ingest process listens, such as http://127.0.0.1:8898.")],
    spool: Spools = None,
    as_json: options.AsJson = False,
) -> None:
    """Send what is in spools to an ingest process elsewhere, with $QUINTAIN_INGEST_TOKEN if it needs one."""
    from quintain.records.forwarding import Forwarded, Forwarder
    from quintain.records.spool_reader import WAIT_S, SpoolReader

    _refuse_what_is_no_address(url)
    for root in spool or ():
        if not root.is_dir():
            raise UsageError(f"there is no spool at {root}; name the one that records are in")
    own = data_home() / "spool"
    if not spool and not own.is_dir():
        _tell({"spool": str(own), **asdict(Forwarded())}, as_json)
    for root in spool or _own_spool(made=False):
        reader = SpoolReader.open(root, WAIT_S)
        forwarder = Forwarder(reader, url, os.environ.get(_TOKEN) or None)
        try:
            done = asdict(forwarder.drain())
        finally:
            forwarder.close()
            reader.close()
        _tell({"spool": str(root), **done}, as_json)


@app.command("stats")
def stats(store: StorePath = None, ledger: Ledger = None, as_json: options.AsJson = False) -> None:
    """Count what is in the store, by how it ended and whose failure it was, and say where the time went."""
    require_store()
    from quintain.records.queries import Queries
    from quintain.records.timings import timings

    with reading(store, ledger) as opened:
        counts = opened.index.counts()
        queries = Queries(opened)
        try:
            ended = queries.ask(_ENDED)
            spent = timings(queries)
        finally:
            queries.close()
        found = {
            **counts,
            "table": opened.trajectories.sizes(),
            "redactions": opened.index.redactions(),
            "ended": [dict(zip(ended.columns, row, strict=True)) for row in ended.rows],
            "timings_ms": {what: [one.model_dump() for one in spread] for what, spread in spent.items()},
        }
    if as_json:
        options.print_json(found)
        return
    for name in ("records", "tries", "scored tries", "waiting", "bytes", "table", "redactions"):
        options.console.print(f"{name}:", options.plain(_shown(found[name])))
    _print_rows(ended.columns, ended.rows)
    rows = [
        (what, one.start_kind, one.name, one.count, one.p50_ms, one.p95_ms)
        for what, spread in spent.items()
        for one in sorted(spread, key=lambda one: one.start_kind)
    ]
    _print_rows(["time", "start kind", "of", "tries", "p50 ms", "p95 ms"], rows)


_ENDED = """
SELECT terminal_reason, failure_owner, count(*) AS tries, avg(reward) FILTER (reward_valid) AS mean_reward
FROM trajectories GROUP BY ALL ORDER BY tries DESC, terminal_reason, failure_owner
"""


@app.command("query")
def query(
    sql: Sql,
    store: StorePath = None,
    ledger: Ledger = None,
    limit: Annotated[int, typer.Option(min=1, help="Most rows that are printed.")] = 1000,
    as_json: options.AsJson = False,
) -> None:
    """Ask the store in SQL; nothing can be changed by it."""
    require_store()
    from quintain.records.queries import Queries

    with reading(store, ledger) as opened:
        queries = Queries(opened)
        try:
            answer = queries.ask(sql, limit)
        finally:
            queries.close()
    if as_json:
        for row in answer.rows:
            typer.echo(json.dumps(dict(zip(answer.columns, row, strict=True)), default=_plain))
    else:
        _print_rows(answer.columns, answer.rows)
    if answer.more:
        typer.echo(f"quintain: the first {limit} rows; more with --limit", err=True)


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="A record's digest or its episode's id, or how one of them begins.")],
    store: StorePath = None,
    ledger: Ledger = None,
) -> None:
    """Print one record whole, as JSON."""

    with reading(store, ledger) as opened:
        if not all(char in "0123456789abcdef" for char in name.removeprefix("sha256:")) or len(name) < 4:
            raise UsageError(f"{name[:80]!r} is no digest, nor how one begins (at least 4 hex digits)")
        found = opened.index.find(name)
        if not found:
            raise UsageError(f"no record whose digest or episode begins with {name!r}; see `quintain store query`")
        if len(found) > 1:
            choices = ", ".join(row["digest"][:23] for row in found[:5])
            raise UsageError(f"{len(found)} or more records begin with {name!r}, such as {choices}; give more of one")
        digest = found[0]["digest"]
        text = opened.find(digest)
        if text is None:
            raise UsageError(f"{digest} is neither in the table nor in the outbox; run `quintain store verify`")
        typer.echo(json.dumps({"digest": digest, "record": json.loads(text)}, indent=2))


@app.command("export")
def export_command(
    target: Annotated[Path, typer.Argument(help="File to write.")],
    where: Annotated[str | None, typer.Option(help="A condition on trajectories, in SQL. Default: all.")] = None,
    sql: Annotated[str | None, typer.Option("--sql", help="A whole SELECT in place of the condition.")] = None,
    form: Annotated[
        ExportFormat | None, typer.Option("--format", help="Default: by the file's ending, .jsonl or .parquet.")
    ] = None,
    states: Annotated[
        Path | None, typer.Option("--states", help="Directory that gets the states kept of them, by digest.")
    ] = None,
    store: StorePath = None,
    ledger: Ledger = None,
    as_json: options.AsJson = False,
) -> None:
    """Write records to a file: JSON Lines with a whole record per line, or Parquet with the table's columns."""
    require_store()
    from quintain.records.exporting import export

    if where is not None and sql is not None:
        raise UsageError("--where is a condition and --sql a whole question; give one of them")
    kind = form or _form_of(target)
    question = sql or f"SELECT * FROM trajectories WHERE {where or 'true'} ORDER BY number"
    with reading(store, ledger) as opened, options.progress_bar() as progress:
        bar = progress.add_task(f"exporting to {target}", total=None)
        count = export(opened, question, target, kind.value, lambda done: progress.update(bar, completed=done), states)
    _tell({"file": str(target), "rows": count}, as_json)


@app.command("verify")
def verify(store: StorePath = None, ledger: Ledger = None, as_json: options.AsJson = False) -> None:
    """Check digests and the links between index, table, blobs and ledger. Exits with 1 if anything is wrong."""
    require_store()
    from quintain.records.checking import check

    with reading(store, ledger) as opened, options.progress_bar() as progress:
        bar = progress.add_task("checking records", total=opened.index.counts()["records"])
        found = check(opened, lambda done: progress.update(bar, completed=done))
    if as_json:
        options.print_json(asdict(found))
    else:
        options.console.print(
            f"{found.records} records in the table, {found.waiting} waiting, {found.unrecorded} scores without a record"
        )
        if found.problems:
            _print_rows(["fault", "record", "what"], [(str(one.fault), one.digest, one.what) for one in found.problems])
    raise typer.Exit(1 if found.problems else 0)


@app.command("repair")
def repair(
    store: StorePath = None,
    ledger: Ledger = None,
    orphaned_after: OrphanedAfter = _DAY_S,
    compact: Annotated[bool, typer.Option("--compact", help="Also put the table's small files together.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Finish the outbox, put damage into quarantine, index what is whole, sweep. Nothing may be ingesting."""
    require_store()
    from quintain.records.checking import mend
    from quintain.records.store import Store

    root = store_root(store)
    Store.expect(root)  # a new one would take the outbox, and the index forget the records of the store that was meant
    opened = Store.open(root, ledger_of(ledger))
    try:
        done: dict[str, Any] = asdict(mend(opened, orphaned_after))
        if compact:
            done |= opened.trajectories.compact()
    finally:
        opened.close()
    _tell(done, as_json)


def _form_of(target: Path) -> ExportFormat:
    """The format that a file's ending names."""
    try:
        return ExportFormat(target.suffix.removeprefix("."))
    except ValueError:
        raise UsageError(f"{target} ends in neither .jsonl nor .parquet; say with --format what it is to be") from None


def _refuse_what_is_no_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise UsageError(f"{url[:200]!r} is no address of an ingest process; give one such as http://127.0.0.1:8898")


def _own_spool(*, made: bool) -> list[Path]:
    """The spool in the user's data: nobody named it, so unless it will be made it may also not be there."""
    own = data_home() / "spool"
    return [own] if made or own.is_dir() else []


def store_root(given: Path | None) -> Path:
    """The store's directory: the one given, or in the user's data."""
    return given or data_home() / "store"


def ledger_of(given: str | None) -> str:
    """The ledger: the one given, or that of the settings."""
    return given or options.settings_with().ledger


@contextmanager
def reading(store: Path | None, ledger: str | None) -> "Iterator[Store]":
    """A store to read from, closed at the end."""
    from quintain.records.store import Store

    opened = Store.read(store_root(store), ledger_of(ledger))
    try:
        yield opened
    finally:
        opened.close()


def _tell(what: dict[str, Any], as_json: bool) -> None:
    if as_json:
        options.print_json(what)
    else:
        options.console.print(options.plain(", ".join(f"{name}: {value}" for name, value in what.items())))


def _print_rows(columns: Any, rows: Any) -> None:
    table = Table(*columns)
    for row in rows:
        table.add_row(*(options.plain(_shown(value)) for value in row))
    options.console.print(table)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return json.dumps(value, default=_plain) if isinstance(value, dict | list) else str(value)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)
