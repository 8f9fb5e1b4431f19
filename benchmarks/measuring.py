"""What the benchmarks share: a server to measure, what its processes use, and how figures are printed."""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

SCENARIO = "outdoor_marketplace_1"
BASELINE = {
    "reset p50 (ms)": "2250",
    "first call p50 (ms)": "36-44",
    "list_products p50 (ms)": "11.5",
    "get_product p50 (ms)": "5.9",
    "write p50 (ms)": "7.5",
    "code verification p50 (ms)": "34",
    "private memory after 20 calls (MiB)": "73",
    "calls/s, 16 sessions": "182",
    "calls/s, 64 sessions": "150",
    "resets/s, 8 clients": "1.6",
    "episodes/s, 8 clients": "1.4",
    "server memory, idle (MiB)": "185",
}
"""The public AWM server on a quiet two-core machine, with the same scenario."""

Figures = dict[str, float]


@dataclass(frozen=True)
class Served:
    """A server to measure; `pid` is 0 for one that was not started here."""

    url: str
    pid: int = 0
    started_s: float = 0.0
    started_cpu_s: float = 0.0

    def cpu_seconds(self) -> float:
        """Processor time of the server process so far; 0 where it is not ours."""
        return cpu_seconds(self.pid) if self.pid else 0.0


@contextmanager
def served(url: str | None = None, **environment: str) -> Iterator[Served]:
    """A server started on a free port, or the one at `url`."""
    if url is not None:
        yield Served(url)
        return
    command = [sys.executable, "-m", "quintain.cli.main", "serve", "--port", "0", "--json"]
    began = time.perf_counter()
    with (
        TemporaryDirectory(prefix="quintain_bench_", dir=Path.home()) as folder,  # on a disk, as a ledger is
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "QUINTAIN_LEDGER": f"{folder}/ledger.db",
                "QUINTAIN_SPOOL": f"{folder}/spool",
                **environment,
            },
        ) as process,
    ):
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            yield Served(ready["url"], process.pid, time.perf_counter() - began, cpu_seconds(process.pid))
        finally:
            process.terminate()


def cpu_seconds(pid: int) -> float:
    """User and system time of one process, its children not counted; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def private_mib(pid: int | str) -> float:
    """Memory that is a process's alone (`self`: this one); 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def available_mib() -> float:
    """What the host can still give, as the kernel estimates it."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) / 1024


def descriptors(pid: int) -> int:
    """Open descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid: int) -> int:
    """Threads of a process."""
    return len(os.listdir(f"/proc/{pid}/task"))


def episode_processes() -> list[int]:
    """Processes of running episodes on this host (verifiers end at once)."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text().strip() == "q-episode":
                found.append(int(entry.name))
        except OSError:
            continue
    return found


async def timed(action: Awaitable[Any]) -> float:
    """Milliseconds an action takes."""
    began = time.perf_counter()
    await action
    return (time.perf_counter() - began) * 1e3


def calls(number: int) -> tuple[str, dict[str, Any]]:
    """The mix: four reads to a write."""
    if number % 5 == 4:
        return "add_cart_item", {"product_id": 1 + number % 12, "quantity": 1}
    if number % 2:
        return "get_product", {"product_id": 1 + number % 12}
    return "list_products", {"page": 1, "page_size": 10}


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def medians(runs: Sequence[Figures]) -> Figures:
    """Of each figure, over several runs."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def conditions(**more: Any) -> dict[str, Any]:
    """What must be said with every figure."""
    return {
        "machine": platform.machine(),
        "kernel": platform.release(),
        "processors": os.cpu_count(),
        "memory (GiB)": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "python": platform.python_version(),
        "load before": round(os.getloadavg()[0], 2),
        **more,
    }


def report(
    figures: Mapping[str, float],
    described: Mapping[str, Any],
    baseline: Mapping[str, str],
    json_path: Path | None,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Print the figures as a table with their conditions; write them as JSON if a path is given."""
    table = Table("figure", "here", "public AWM server")
    for name, value in figures.items():
        table.add_row(name, f"{value:.2f}" if value < 10 else f"{value:.1f}", baseline.get(name, ""))
    console = Console(width=110)
    console.print(table)
    for name, value in (more or {}).items():
        console.print(f"{name}:", value)
    console.print(dict(described))
    if json_path is not None:
        document = {"conditions": dict(described), "figures": dict(figures), "baseline": dict(baseline), **(more or {})}
        json_path.write_text(json.dumps(document, indent=2) + "\n")
