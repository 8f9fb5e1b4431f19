"""Records that a command is given: of a store, a file, a kept session, or a run's spool."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quintain.cli.run_store import require_store
from quintain.cli.store import Ledger, StorePath, ledger_of, reading
from quintain.contracts.identity import sha256
from quintain.episodes.recorded import Recorded
from quintain.errors import RecordUnreadable, StoreError, UsageError
from quintain.records.form import canonical, read_record
from quintain.records.recorder import Sealed
from quintain.records.spool_reader import SpoolReader
from quintain.records.states import spool_states

if TYPE_CHECKING:
    from quintain.artifacts import ArtifactStore
    from quintain.records.store import Store

__all__ = ["AtOnce", "Given", "Ledger", "Names", "RunDirs", "StorePath", "Where", "ledger_of"]

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RECORD...",
        help="A record's digest in the store or how it begins, a file with a record or a kept session's "
        "trajectory.json, or a run's directory.",
    ),
]
Where = Annotated[str | None, typer.Option(help="Those of the store for which this holds: SQL on trajectories.")]
RunDirs = Annotated[list[Path] | None, typer.Option("--run-dir", help="All in the spool of a run's directory.")]
AtOnce = Annotated[int, typer.Option("--concurrency", min=1, max=256, help="Most at a time.")]

_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Given:
    """Which records are asked for."""

    names: Sequence[str] = ()
    run_dirs: Sequence[Path] = ()
    where: str | None = None
    store: Path | None = None
    ledger: str | None = None
    stack: ExitStack = field(default_factory=ExitStack)

    @contextmanager
    def opened(self) -> Iterator[tuple[Iterator[Recorded], int | None]]:
        """The records, read as they are asked for, and how many there are where that is known.

        Raises:
            UsageError: a name names nothing, or nothing was asked for.
            StoreError: there is no store.
        """
        with self.stack:
            sources: list[Iterator[Recorded]] = []
            known: int | None = 0
            for name in self.names:
                path = Path(name)
                if path.is_dir():
                    sources.append(self._spool(path))
                    known = None
                elif path.is_file():
                    sources.append(_from_file(path))
                    known = None if known is None or path.suffix == ".jsonl" else known + 1
                else:
                    sources.append(iter([self._of_store(name)]))
                    known = None if known is None else known + 1
            sources += [self._spool(folder) for folder in self.run_dirs]
            if self.where is not None:
                sources.append(self._chosen(self.where))
            if not sources:
                raise UsageError("name a record, or choose some with --where or --run-dir")
            whole = known is not None and not self.run_dirs and self.where is None
            yield (one for source in sources for one in source), known if whole else None

    def _of_store(self, name: str) -> Recorded:
        if not set(name.removeprefix("sha256:")) <= _HEX or len(name) < 4:
            raise UsageError(
                f"{name[:80]!r} is no file nor folder, and no digest nor how one begins (at least 4 hex digits)"
            )
        store = self._store()
        found = [row["digest"] for row in store.index.find(name)]
        if len(found) != 1:
            why = f"{len(found)} records or more begin so; give more of one" if found else "no record begins so"
            raise UsageError(f"{name[:80]!r}: {why}")
        data = store.find(found[0])
        if data is None:
            raise UsageError(f"{found[0]} is neither in the table nor in the outbox; run `quintain store verify`")
        return _checked(found[0], data, (store.blobs,))

    def _chosen(self, where: str) -> Iterator[Recorded]:
        require_store()
        from quintain.records.columns import whole
        from quintain.records.queries import Queries

        store = self._store()
        queries = Queries(store)
        self.stack.callback(queries.close)
        query = f"SELECT digest, record, blobs FROM trajectories WHERE {where} ORDER BY number"
        for batch in queries.arrow(query):
            for row in batch.to_pylist():
                yield _checked(row["digest"], whole(row["record"], row["blobs"], store.blobs), (store.blobs,))

    def _store(self) -> "Store":
        return self.stack.enter_context(reading(self.store, self.ledger))

    def _spool(self, folder: Path) -> Iterator[Recorded]:
        root = folder / "spool" if (folder / "spool").is_dir() else folder
        if not root.is_dir():
            raise UsageError(f"{folder} is no run's directory: it has no spool")
        return self._from_spool(root)

    def _from_spool(self, root: Path) -> Iterator[Recorded]:
        states: list[ArtifactStore] = [spool_states(root)]
        try:
            states.append(self._store().blobs)
        except (StoreError, UsageError):
            pass  # what was not ingested yet is in the spool
        reader = SpoolReader.beside(root)
        while deliveries := reader.read():
            for one in deliveries:
                sealed = Sealed.read(one.payload)
                yield Recorded(sealed.envelope.digest, sealed.record(), states)


def _checked(digest: str, data: bytes, states: Sequence["ArtifactStore"]) -> Recorded:
    if (found := sha256(data)) != digest:
        raise RecordUnreadable(f"the store's record {digest} is damaged ({found}); run `quintain store verify`")
    return Recorded(digest, read_record(data), states)


def _from_file(path: Path) -> Iterator[Recorded]:
    """Records of a file: one as JSON, a kept session's `trajectory.json`, or an export's lines."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if path.suffix == ".jsonl":
        for number, line in enumerate(text.splitlines(), 1):
            document = _parsed(line, f"{path}:{number}")
            _tell_change(document, f"{path}:{number}")
            yield _record(document.get("record", document), str(document.get("digest", f"{path}:{number}")))
        return
    document = _parsed(text, str(path))
    if "trajectory" in document and isinstance(document.get("record"), dict):
        whole = {**document["record"], "steps": document["trajectory"]}
        yield _record(whole, str(path), path.parent)
    else:
        _tell_change(document, str(path))
        yield _record(document.get("record", document), str(path))


def _tell_change(document: dict[str, Any], where: str) -> None:
    """Say so where a record stands beside a digest that is another's; it is taken as it is."""
    digest, record = document.get("digest"), document.get("record")
    if digest is None or not isinstance(record, dict):
        return
    try:
        found = sha256(canonical(record))
    except RecursionError:
        return  # reading it says what is wrong
    if found != digest:
        typer.echo(f"quintain: {where} was changed: its record is {found}, not {str(digest)[:80]!r}", err=True)


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise UsageError(f"{where} holds no record: a JSON object is needed")
    return document


def _record(document: Any, name: str, folder: Path | None = None) -> Recorded:
    try:
        return Recorded(name, read_record(json.dumps(document)), (), folder)
    except RecordUnreadable as error:
        raise UsageError(f"{name}: {error}") from error
