"""Measure ingest: records of ten steps from spools into the store; `python benchmarks/ingest.py --records 20000`.

A writer seals and spools the records first; then one ingest process drains the spool, from its start to its end. The
target is 2,000 records a second.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import Figures, conditions, cpu_seconds, medians, report

from quintain.contracts.lifecycle import Stage, StageStamp
from quintain.contracts.record import EpisodeRecord, StepRecord
from quintain.contracts.reward import AWM
from quintain.records import Redactor, Spool
from quintain.records.recorder import seal

TARGET = 2000.0


def digest(number: int) -> str:
    """A digest that is as good as another."""
    return f"sha256:{number:064x}"


def made(number: int, steps: int) -> EpisodeRecord:
    """A record as an episode of the shop leaves it, with results of about 500 bytes."""
    items = [{"id": one, "name": f"Lamp {number}-{one}", "price": 9.5 + one, "stock": one * 3} for one in range(8)]
    return EpisodeRecord(
        environment_class_id=digest(1),
        episode_id=digest(1000 + number // 8),
        scenario="outdoor_marketplace_1",
        task_idx=number // 8 % 10,
        task="Find the cheapest lamp and put two of them into the cart.",
        verifier_digest=digest(2),
        seed=number // 80,
        attempt=number % 8,
        model_digest="benchmark",
        terminal_reason="done",
        reward_type="complete",
        reward=1.0,
        reward_valid=True,
        reward_contract_digest=AWM.digest,
        stages=tuple(StageStamp(stage=stage, wall=1.79e9 + number, monotonic=number + 0.125) for stage in Stage),
        steps=tuple(
            StepRecord(
                index=step,
                action="call_tool",
                tool_name="list_products",
                arguments={"page": step, "page_size": 8},
                reward_type="tool_call_ok",
                reward=0.0,
                result=json.dumps({"page": step, "items": items}),
                started=1.79e9 + number + step / 7,
                duration_ms=0.7 + step / 11,
            )
            for step in range(1, steps + 1)
        ),
    )


def main() -> None:
    """Measure, print a table, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the medians are told")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    described = conditions(records=given.records, steps=given.steps, runs=given.repeat)
    runs = []
    for _ in range(given.repeat):
        with tempfile.TemporaryDirectory(prefix="quintain_bench_") as name:
            runs.append(measured(Path(name), given.records, given.steps))
    report(medians(runs), described, {}, given.json, {"runs": runs})


def measured(folder: Path, records: int, steps: int) -> Figures:
    """One run."""
    spool, redactor = Spool.open(folder / "spool", max_bytes=2**40), Redactor()
    began = time.perf_counter()
    payloads = [seal(made(number, steps), redactor, "benchmark").payload() for number in range(records)]
    sealed_s = time.perf_counter() - began
    began = time.perf_counter()
    for outcome in [spool.append(payload) for payload in payloads]:
        outcome.result()
    spooled_s = time.perf_counter() - began
    spool.close()
    command = [sys.executable, "-m", "quintain.records.ingest", "--store", str(folder / "store"), "--ledger",
               str(folder / "ledger.db"), "--spool", str(folder / "spool"), "--once", "--json"]  # fmt: skip
    used = _used_s()
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        begun_s = time.perf_counter() - began
        used_at_start = cpu_seconds(process.pid)
        said = json.loads(process.stdout.readline())
    ended_s = time.perf_counter() - began
    used = _used_s() - used - used_at_start
    assert ready["event"] == "ready"
    assert said["appended"] == records, said
    return {
        "sealed in a worker (records/s)": records / sealed_s,
        "spooled, flushed (records/s)": records / spooled_s,
        "ingested (records/s)": records / (ended_s - begun_s),
        "ingested, by the processor time it took (records/s)": records / used,
        "ingested, with the process's start (records/s)": records / ended_s,
        "target (records/s)": TARGET,
        "a record (bytes)": sum(map(len, payloads)) / records,
        "a record in the table (bytes)": sum(
            file.stat().st_size for file in (folder / "store" / "trajectories").rglob("*.parquet")
        )
        / records,
    }


def _used_s() -> float:
    """Processor time of processes that have been waited for, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
