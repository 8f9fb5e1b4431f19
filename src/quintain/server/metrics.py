"""What a server counts and measures of its episodes: as Prometheus text for `/metrics`, as JSON for `/stats`.

Labels come from fixed sets, and whatever else is met is `other`: names of segments come out of sandboxes, and names of
scenarios and models are never labels.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from quintain.contracts.lifecycle import Stage
from quintain.contracts.record import EpisodeRecord
from quintain.contracts.terminal import TerminalReason
from quintain.contracts.timing import NOT_STARTED, TTFI, Timing, spread, stages_ms, ttfi_ms
from quintain.episodes import Scored
from quintain.errors import Owner

JsonObject = dict[str, Any]

CONTENT_TYPE: Final = prometheus_client.CONTENT_TYPE_LATEST

OTHER: Final = "other"
"""The label of what is in no fixed set."""

NOBODY: Final = "none"
"""The label where no failure was."""

START_KINDS: Final = frozenset({"cold", "cached_cold", "warm_claim", "template_fork", "in_process", NOT_STARTED})

_OF_TEMPLATES: Final = (
    "isolate", "load", "prepare", "database", "code", "startup", "tools", "settle", "warm",
)  # fmt: skip
SEGMENTS: Final = frozenset(
    {"claim", "fork", "namespaces", "inject", "begin", *(f"template_{name}" for name in _OF_TEMPLATES)}
)
"""The parts of a start."""

WINDOW: Final = 1000
"""How many of the latest durations of one kind and name the spreads in `/stats` are of."""

_SECONDS: Final = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0,
)  # fmt: skip

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The figures of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        one = self.registry
        self._durations = {
            TTFI: _histogram(one, "ttfi_seconds", "From accepted to the first command that succeeded", "start_kind"),
            "segments": _histogram(one, "start_segment_seconds", "Parts of a start", "segment", "start_kind"),
            "stages": _histogram(one, "stage_seconds", "Time in a stage of an episode's life", "stage", "start_kind"),
        }
        self._episodes = _counter(one, "episodes", "Episodes that ended", "terminal_reason", "failure_owner", "stage")
        self._rewards = _counter(one, "rewards", "Ended episodes by what became of their reward", "validity")
        self._verdicts = _counter(one, "verdicts", "Verdicts given", "mode", "certainty")
        self._illegal = _counter(one, "illegal_transitions", "Transitions that were refused", "stage", "wanted")
        self._turned_away = _counter(one, "resets_refused", "Resets for which there was no room", "reason")
        self._latest: dict[tuple[str, str, str], deque[float]] = {}

    def ended(self, record: EpisodeRecord) -> None:
        """Count an episode that ended."""
        reason = _known(record.terminal_reason, TerminalReason)
        owner = _known(record.failure_owner or NOBODY, {NOBODY, *Owner})
        last = next((str(one.stage) for one in reversed(record.stages) if one.stage in _ENDS), OTHER)
        self._episodes.labels(reason, owner, last).inc()
        verified = any(step.action == "verify" for step in record.steps)
        self._rewards.labels("valid" if record.reward_valid else "invalid" if verified else "unverified").inc()
        kind = _known(record.start_kind or NOT_STARTED, START_KINDS)
        first = ttfi_ms(record.stages)
        if first is not None:
            self._observe(TTFI, TTFI, kind, first)
        for name, ms in record.segments_ms.items():
            self._observe("segments", _known(name, SEGMENTS), kind, ms)
        for name, ms in stages_ms(record.stages).items():
            self._observe("stages", _known(name, Stage), kind, ms)

    def verified(self, mode: str, scored: Scored) -> None:
        """Count a verdict."""
        self._verdicts.labels(_known(mode, _MODES), "certain" if scored.counts else "uncertain").inc()

    def refused(self, now: Stage, wanted: Stage) -> None:
        """Count a transition that was not allowed."""
        self._illegal.labels(str(now), str(wanted)).inc()

    def turned_away(self, reason: str) -> None:
        """Count a reset for which there was no room: `records` or `capacity`."""
        self._turned_away.labels(_known(reason, {"records", "capacity"})).inc()

    def watch(self, figures: Callable[[], Mapping[str, float]]) -> None:
        """Tell of some figures too, by name, asked for whenever the metrics are. One in `*_total` only ever grows."""
        self.registry.register(_Watched(figures))

    def text(self) -> bytes:
        """All of it, in Prometheus's text format."""
        return prometheus_client.generate_latest(self.registry)

    def timings(self) -> JsonObject:
        """How the latest durations are spread, in milliseconds, by what they are of."""
        told: dict[str, list[JsonObject]] = {name: [] for name in self._durations}
        for (what, name, kind), values in sorted(self._latest.items()):
            told[what].append(_rounded(spread(kind, name, values)))
        return dict(told)

    def counts(self) -> JsonObject:
        """What was counted: how many, with the labels by which it is told apart."""
        counters = (self._episodes, self._rewards, self._verdicts, self._illegal, self._turned_away)
        return {
            family.name.removeprefix("quintain_"): [
                {**sample.labels, "count": int(sample.value)}
                for sample in family.samples
                if sample.name.endswith("_total")
            ]
            for counter in counters
            for family in counter.collect()
        }

    def _observe(self, what: str, name: str, kind: str, ms: float) -> None:
        labels = (kind,) if what == TTFI else (name, kind)
        self._durations[what].labels(*labels).observe(ms / 1000)
        self._latest.setdefault((what, name, kind), deque(maxlen=WINDOW)).append(ms)


class _Watched(Collector):
    """Figures that are asked for."""

    def __init__(self, figures: Callable[[], Mapping[str, float]]) -> None:
        self._figures = figures

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing: so that nobody asks before there is something to tell."""
        return ()

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        """The figures now."""
        for name, value in self._figures().items():
            told = name.removesuffix("_total").replace("_", " ")
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield family(f"quintain_{name}", told, value=value)


_MODES: Final = frozenset({"code", "sql", "hybrid"})
_ENDS: Final = frozenset({Stage.COMPLETED, Stage.FAILED, Stage.TIMED_OUT, Stage.CANCELLED})


def _known(value: str, known: Iterable[str]) -> str:
    return str(value) if value in set(known) else OTHER


def _rounded(timing: Timing) -> JsonObject:
    document = timing.model_dump()
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in document.items()}


def _histogram(registry: CollectorRegistry, name: str, told: str, *labels: str) -> Histogram:
    return Histogram(f"quintain_{name}", told, labels, registry=registry, buckets=_SECONDS)


def _counter(registry: CollectorRegistry, name: str, told: str, *labels: str) -> Counter:
    return Counter(f"quintain_{name}", told, labels, registry=registry)
