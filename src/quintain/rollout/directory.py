"""A run's directory: its plan, its records, its scores and what happened, all that a run needs to go on after a kill.

plan.json      the plan; another one is refused
run.lock       held by the one process that works on it
spool/         the terminal records, until they are ingested
ledger.db      the scores
events.jsonl   what happened
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from quintain.contracts.documents import from_json
from quintain.errors import RecordUnreadable, SpoolUnavailable, StoreBusy, UsageError
from quintain.records.recorder import Sealed
from quintain.records.spool_reader import SpoolReader, release
from quintain.rollout.events import RunEvent, read_events
from quintain.rollout.outcome import Outcome, outcome_of
from quintain.rollout.plan import RolloutPlan
from quintain.tasks.quarantine_file import replace_file


@dataclass
class Found:
    """What a run directory tells of earlier processes."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """By item; each has a terminal record."""
    unlogged: list[Outcome] = field(default_factory=list)
    """Those of them that are known by their record alone, because the process was killed before it could say so."""
    begun: dict[str, list[float]] = field(default_factory=dict)
    """When attempts that have no record were begun, by item (seconds since 1970)."""
    repaired: list[str] = field(default_factory=list)
    """What was damaged, and is mended."""


@dataclass(frozen=True)
class RunDirectory:
    """An open run directory. Use `open`."""

    root: Path
    plan: RolloutPlan

    @classmethod
    @contextmanager
    def open(cls, root: Path, plan: RolloutPlan | None = None) -> Iterator["RunDirectory"]:
        """The directory, made if it is not there, for one process.

        Args:
            plan: what is to be done there; None: what the directory says.

        Raises:
            UsageError: it holds another plan, or none and none is given, or files and no run; or another process works
                on it.
        """
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            _refuse_what_is_no_run(root)
            lock = os.open(root / "run.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise UsageError(f"the run directory {root} cannot be made: {error.strerror or error}") from error
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UsageError(f"another process works on {root}; end it first, or name another directory") from error
            yield cls(root, _settled(root / "plan.json", plan))
        finally:
            os.close(lock)

    @property
    def spool(self) -> Path:
        """Where the records are."""
        return self.root / "spool"

    @property
    def ledger(self) -> Path:
        """The scores' database."""
        return self.root / "ledger.db"

    @property
    def events(self) -> Path:
        """What happened."""
        return self.root / "events.jsonl"

    def found(self) -> Found:
        """What was done before: by the events, and by the records in the spool, whose torn tail is mended.

        An ingest process may take the spool's records meanwhile: those that no event may tell of are retained for this.

        Raises:
            SpoolUnavailable: the spool cannot be read.
        """
        found = Found()
        for event in read_events(self.events):
            if event["event"] == RunEvent.FINISHED:
                try:
                    outcome = Outcome.model_validate(event.get("outcome"))
                except ValidationError:
                    continue  # its record is looked for in the spool
                found.outcomes[outcome.item] = outcome
            elif event["event"] == RunEvent.STARTED:
                found.begun.setdefault(str(event.get("item")), []).append(float(event.get("at", 0.0)))
        self._from_spool(found)
        for item in found.outcomes:
            found.begun.pop(item, None)
        return found

    def _from_spool(self, found: Found) -> None:
        known = {outcome.record_digest for outcome in found.outcomes.values()}
        digest = self.plan.digest
        try:
            reader = SpoolReader.open(self.spool)
        except StoreBusy:
            reader = SpoolReader.beside(self.spool)  # whoever reads it mends it
        reader.rewind_wholly()
        try:
            while deliveries := reader.read():
                for delivery in deliveries:
                    try:
                        sealed = Sealed.read(delivery.payload)
                        if sealed.envelope.digest in known:
                            continue
                        record = sealed.record()
                    except RecordUnreadable as error:
                        found.repaired.append(f"passed over in the spool: {error}")
                        continue
                    if record.rollout_plan == digest and record.rollout_item not in (None, *found.outcomes):
                        outcome = outcome_of(record, sealed.envelope.digest)
                        found.outcomes[outcome.item] = outcome
                        found.unlogged.append(outcome)
            for damage in reader.damages:
                what = "a record that was not wholly written" if damage.torn_tail else "damaged bytes"
                found.repaired.append(f"{damage.size_bytes} bytes of {what} in the spool, kept in {damage.kept}")
        finally:
            reader.close()

    def settle(self) -> None:
        """Call it when an event tells of every record of writers that have ended: they need not be retained any more.

        Raises:
            SpoolUnavailable: the events or the spool cannot be written.
        """
        try:
            if self.events.exists():
                with self.events.open("rb") as file:
                    os.fsync(file.fileno())
        except OSError as error:
            raise SpoolUnavailable(f"{self.events} cannot be written: {error.strerror or error}") from error
        release(self.spool)


def _refuse_what_is_no_run(root: Path) -> None:
    names = {path.name for path in root.iterdir()}
    others = {name for name in names if name not in ("spool", "store") and not name.startswith("ledger.db")}
    if others and not names & {"plan.json", "run.lock"}:  # an ingest process may have begun before the run
        raise UsageError(f"there is something in {root}, and no run; name a directory that is new, empty or a run's")


def _settled(path: Path, plan: RolloutPlan | None) -> RolloutPlan:
    """The plan of a directory: the one given, written there if there is none yet."""
    if not path.exists():
        if plan is None:
            raise UsageError(f"there is no run at {path.parent}; give a plan, or scenarios")
        document = json.dumps(plan.model_dump(mode="json"), indent=2) + "\n"
        try:
            replace_file(path, document.encode())
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
        return plan
    known = RolloutPlan.parse(from_json, path.read_text(encoding="utf-8"), str(path))
    if plan is None:
        return known
    if plan.digest != known.digest:
        raise UsageError(
            f"{path.parent} holds another plan ({known.digest}) than the one given ({plan.digest}); "
            "name another directory, or give no plan to go on with that one"
        )
    return plan
