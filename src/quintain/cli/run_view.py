"""How a run is shown while it goes on."""

from collections import Counter
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from quintain.cli import options
from quintain.cli.report_view import STYLES
from quintain.rollout.events import RunEvent
from quintain.rollout.outcome import Fate, Outcome


class Progressing:
    """A progress bar on standard error with counts by owner of failure and an ETA; or every event as JSON on stdout."""

    def __init__(self, total: int, done: Iterable[Outcome], as_json: bool) -> None:
        self._as_json = as_json
        self._fates = Counter(one.fate for one in done)
        self._pressure = ""
        self._bar = Progress(
            TextColumn("attempts"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("ETA"),
            TimeRemainingColumn(), TextColumn("{task.fields[counts]}"),
            console=options.errors, transient=True, disable=not options.errors.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=total, completed=self._fates.total(), counts=self._counts())

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, event: dict[str, Any]) -> None:
        """Show an event."""
        if self._as_json:
            options.print_json(event)
        if event["event"] == RunEvent.FINISHED:
            self._fates[Outcome.model_validate(event["outcome"]).fate] += 1
            self._bar.update(self._task, advance=1, counts=self._counts())
        elif event["event"] == RunEvent.PRESSURE:
            self._pressure = event["pressure"] or ""
            self._bar.update(self._task, counts=self._counts())
        elif event["event"] == RunEvent.REPAIRED and not self._as_json:
            options.errors.print(options.plain(f"quintain: repaired: {event['what']}"))

    def _counts(self) -> str:
        counts = " ".join(f"[{STYLES[fate]}]{fate} {self._fates[fate]}[/]" for fate in Fate if self._fates[fate])
        return f"{counts} [red]waiting: {self._pressure}[/]" if self._pressure else counts
