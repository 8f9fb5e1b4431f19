"""The ingest process: one thread that writes to the store, fed by this host's spools and by HTTP, until SIGTERM."""

import argparse
import gc
import json
import logging
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

from quintain.errors import ArtifactError, LedgerError, RecordError, UsageError
from quintain.records.ingest import APPEND_AFTER_S, ORPHANED_AFTER_S, Accepted, Ingest
from quintain.records.spool_reader import WAIT_S, SpoolReader
from quintain.records.states import drop
from quintain.records.store import Store

TOKEN_VARIABLE: Final = "QUINTAIN_INGEST_TOKEN"

_IDLE_S: Final = 0.05
_TIDY_S: Final = 5.0
_LOST_S: Final = 600.0
_BACK_OFF_S: Final = (0.1, 5.0)
_BATCH: Final = 512
_COLLECTED: Final = (100_000, 50, 50)
_LOG = logging.getLogger(__name__)
_Request = tuple[list[bytes], "Future[Accepted]"]


@dataclass(frozen=True)
class IngestOptions:
    """What an ingest process is told."""

    store: Path
    ledger: str
    spools: tuple[Path, ...] = ()
    host: str = "127.0.0.1"
    port: int | None = None
    """None: no HTTP endpoint; 0: any free port."""
    token: str | None = None
    once: bool = False
    """End when the spools are empty."""
    append_after_s: float = APPEND_AFTER_S
    orphaned_after_s: float = ORPHANED_AFTER_S
    as_json: bool = False


@dataclass
class Tally:
    """What an ingest process has done since it was started."""

    new: int = 0
    duplicates: int = 0
    refused: int = 0
    appended: int = 0
    recovered: int = 0
    lost: int = 0
    damages: int = 0
    stateless: int = 0
    """Files of states that records name and the store has not."""
    problem: str = ""
    """Why it does not get on at the moment; empty while it does."""


class Service:
    """The thread that writes, and what feeds it. Use `start`, then `stop`."""

    def __init__(self, store: Store, readers: list[SpoolReader], options: IngestOptions) -> None:
        self.tally = Tally()
        self.ended = threading.Event()
        """Set when the thread has ended."""
        self._store = store
        self._readers = readers
        self._options = options
        self._ingest = Ingest(store, append_after_s=options.append_after_s)
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._stopping = False
        self._failures = 0
        self._tidied = self._looked = -math.inf
        self._thread = threading.Thread(target=self._run, name="quintain-ingest", daemon=True)

    def start(self) -> None:
        """Recover what the last process left, then begin."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more; finish what is there. Returns when that is done."""
        with self._gate:
            self._stopping = True
            self._requests.put(None)
        self._thread.join()

    def put(self, payloads: list[bytes]) -> "Future[Accepted]":
        """Have payloads accepted; the future is done when they are durable.

        Raises:
            RecordError: the process is ending; send them again.
        """
        outcome: Future[Accepted] = Future()
        outcome.set_running_or_notify_cancel()
        with self._gate:
            if self._stopping:
                raise RecordError("the ingest process is ending; send the records again")
            self._requests.put((payloads, outcome))
        return outcome

    def missing_states(self, digests: list[str]) -> list[str]:
        """Which of these the store has not. Safe to call from any thread, as `put_state` is."""
        return [digest for digest in digests if not self._store.blobs.has(digest)]

    def put_state(self, data: bytes) -> str:
        """Have a file of a state in the store; its digest, once it is durable.

        Raises:
            ArtifactError: the store cannot be written.
        """
        return self._store.blobs.put(data)

    def _run(self) -> None:
        try:
            self._guarded(self._recover)
            while True:
                with self._gate:
                    ending = self._stopping
                busy = self._guarded(self._turn)
                if not busy and (ending or self._options.once):
                    break
            self._guarded(self._finish)
        finally:
            for _, outcome in self._pending():
                outcome.set_exception(RecordError("the ingest process has ended; send the records again"))
            self.ended.set()

    def _guarded(self, do: Any) -> bool:
        """Do something; what cannot be written now is tried again after a while, unless the process is ending."""
        try:
            busy = bool(do())
        except (LedgerError, RecordError, ArtifactError, OSError) as error:
            if str(error) != self.tally.problem:
                _LOG.error("ingest does not get on: %s", error)
            self.tally.problem = str(error)
            for reader in self._readers:
                reader.rewind()
            self._failures += 1
            if not self._stopping and not self._options.once:
                time.sleep(min(_BACK_OFF_S[0] * 2 ** min(self._failures, 10), _BACK_OFF_S[1]))
            return False
        self.tally.problem, self._failures = "", 0
        return busy

    def _recover(self) -> None:
        self.tally.recovered += self._ingest.recover()

    def _turn(self) -> bool:
        """One round over everything that feeds it; whether there was anything."""
        busy = False
        if time.monotonic() - self._looked > _LOST_S:
            self.tally.lost += self._ingest.record_lost(self._options.orphaned_after_s)
            self._looked = time.monotonic()
        for reader in self._readers:
            busy = self._from_spool(reader) or busy
        busy = self._from_network(wait=not busy) or busy
        if self._ingest.due:
            self.tally.appended += self._ingest.append()
        if time.monotonic() - self._tidied > _TIDY_S:
            self._tidy()
        return busy

    def _from_spool(self, reader: SpoolReader) -> bool:
        deliveries = reader.read(_BATCH)
        if deliveries:
            accepted = self._ingest.accept((one.payload for one in deliveries), reader.states)
            self._count(accepted)
            reader.acknowledge(one.position for one in deliveries)
            drop(reader.states, accepted.states.there)
        self.tally.damages = sum(len(one.damages) for one in self._readers)
        return bool(deliveries)

    def _from_network(self, wait: bool) -> bool:
        requests = self._pending(wait and not self._options.once and not self._stopping)
        failed: BaseException | None = None
        for payloads, outcome in requests:
            try:
                if failed is not None:
                    raise failed
                accepted = self._ingest.accept(payloads)
            except BaseException as error:
                failed = error
                outcome.set_exception(error)
            else:
                self._count(accepted)
                outcome.set_result(accepted)
        if failed is not None:
            raise failed
        return bool(requests)

    def _pending(self, wait: bool = False) -> list[_Request]:
        found: list[_Request] = []
        while len(found) < _BATCH:
            try:
                request = self._requests.get(timeout=_IDLE_S) if wait and not found else self._requests.get_nowait()
            except Empty:
                break
            if request is not None:
                found.append(request)
            wait = False
        return found

    def _count(self, accepted: Accepted) -> None:
        self.tally.new += accepted.new
        self.tally.duplicates += accepted.duplicates
        self.tally.refused += len(accepted.refused)
        self.tally.stateless += len(accepted.states.missing)

    def _finish(self) -> None:
        self.tally.appended += self._ingest.append()
        self._tidy()

    def _tidy(self) -> None:
        self._tidied = time.monotonic()
        for reader in self._readers:
            reader.tidy()


def run(options: IngestOptions) -> Tally:
    """Ingest until SIGTERM or SIGINT, or with `once` until the spools are empty; then finish what is begun.

    Raises:
        StoreBusy: another process has the store, or a spool.
        SettingsError: the address cannot be listened on, or others can reach it and there is no token.
        RecordError, LedgerError, UsageError: the store cannot be opened, or what was left could not be stored; with
            `once`, a spool is not there.
    """
    with ExitStack() as stack:
        sock = _listening(options, stack)  # a mistake is told before anything is done
        if options.once:
            _expect_spools(options.spools)
        stack.enter_context(_seldom_collected())
        store = Store.open(options.store, options.ledger)
        stack.callback(store.close)
        readers = []
        for root in options.spools:
            readers.append(SpoolReader.open(root, WAIT_S))
            stack.callback(readers[-1].close)
        service = Service(store, readers, options)
        ending = _Ending()
        service.start()
        try:
            if sock is None:
                say(options, {"event": "ready", "store": str(options.store)})
                while not ending.asked.wait(_IDLE_S) and not service.ended.is_set():
                    pass
            else:
                from quintain.records.http import serve

                serve(service, options, sock, ending.asked)
        finally:
            service.stop()
        say(options, {"event": "ended", **asdict(service.tally)})
    if service.tally.problem:
        raise RecordError(f"not everything was stored, and will be the next time: {service.tally.problem}")
    return service.tally


def _expect_spools(roots: Iterable[Path]) -> None:
    """Raises UsageError: one of the spools is not there, so that its records would be waited for in vain."""
    for root in roots:
        if not root.is_dir():
            raise UsageError(f"there is no spool at {root}; name the one that records are in")


def _listening(options: IngestOptions, stack: ExitStack) -> socket.socket | None:
    if options.port is None:
        return None
    from quintain.records.http import listening

    return stack.enter_context(listening(options))


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Records have no cycles: to look through all that wait for some, as often as by default, is in vain."""
    before = gc.get_threshold()
    gc.set_threshold(*_COLLECTED)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@dataclass
class _Ending:
    """Notes that a signal asked for the end."""

    asked: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.asked.set())


def say(options: IngestOptions, event: dict[str, Any]) -> None:
    """Tell on standard output what happens: as JSON, or for people."""
    if options.as_json:
        print(json.dumps(event), flush=True)
        return
    rest = ", ".join(f"{name} {value}" for name, value in event.items() if name != "event" and value != "")
    print(f"ingest {event['event']}: {rest}", flush=True)


def run_from_arguments(arguments: list[str]) -> int:
    """What `python -m quintain.records.ingest` does; the command's exit code."""
    parser = argparse.ArgumentParser(prog="python -m quintain.records.ingest", description=__doc__)
    parser.add_argument("--store", type=Path, required=True, help="the store's directory")
    parser.add_argument("--ledger", required=True, help="the ledger: a SQLite file or an SQLAlchemy URL")
    parser.add_argument("--spool", type=Path, action="append", default=[], help="a spool to read; may be repeated")
    parser.add_argument("--host", default="127.0.0.1", help="address of the HTTP endpoint")
    parser.add_argument("--port", type=int, help="port of the HTTP endpoint, 0 for any; none without it")
    parser.add_argument("--once", action="store_true", help="end when the spools are empty")
    parser.add_argument("--append-after", type=float, default=APPEND_AFTER_S, help="seconds a record may wait")
    parser.add_argument("--orphaned-after", type=float, default=ORPHANED_AFTER_S, help="seconds until a score is lost")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    given = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    run(
        IngestOptions(
            store=given.store,
            ledger=given.ledger,
            spools=tuple(given.spool),
            host=given.host,
            port=given.port,
            token=os.environ.get(TOKEN_VARIABLE) or None,
            once=given.once,
            append_after_s=given.append_after,
            orphaned_after_s=given.orphaned_after,
            as_json=given.json,
        )
    )
    return 0
