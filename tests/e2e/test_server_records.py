"""Records of a real server: in the store as those of a run are, also after a kill, and what may be seen of them."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from e2e.serving import Server, run, serving, wait_until
from e2e.wire import Wire
from quintain.contracts.record import EpisodeRecord
from quintain.records.recorder import Sealed
from quintain.records.spool_reader import SpoolReader

TASK = "outdoor_marketplace_1"


def play(wire: Wire, *, end: bool = True) -> None:
    wire.reset(TASK, task_idx=0)
    wire.call("list_products", search="Tarnlight")
    wire.call("add_cart_item", product_id=3, quantity=2)
    assert wire.call("verify", final_answer="Added.")["reward"] == 1.0
    if end:
        wire.call("done")


def stats(server: Server) -> Any:
    return httpx.get(f"{server.url}/stats", timeout=20, trust_env=False).json()["quintain"]


def metrics(server: Server) -> dict[str, float]:
    text = httpx.get(f"{server.url}/metrics", timeout=20, trust_env=False).text
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.labels
    }


def spooled(spool: Path) -> list[EpisodeRecord]:
    reader = SpoolReader.open(spool)
    try:
        found = []
        while deliveries := reader.read():
            found += [Sealed.read(one.payload).record() for one in deliveries]
        assert not reader.damages
        return found
    finally:
        reader.close()


def ingested(folder: Path) -> dict[str, str]:
    settings = {"QUINTAIN_STORE": str(folder / "store")}
    done = run(["store", "ingest", "--once", "--json"], folder, timeout_s=120, **settings)
    assert done.returncode == 0, done.stderr
    return settings


def stored(folder: Path) -> list[dict[str, Any]]:
    settings = ingested(folder)
    sql = (
        "SELECT terminal_reason, reward, reward_valid, failure_owner, start_kind, len(steps) AS steps "
        "FROM trajectories ORDER BY number"
    )
    asked = run(["store", "query", sql, "--json"], folder, **settings)
    assert asked.returncode == 0, asked.stderr
    assert run(["store", "verify"], folder, **settings).returncode == 0
    return [json.loads(line) for line in asked.stdout.splitlines()]


def test_what_was_acknowledged_survives_a_kill_and_is_ingested(tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        assert server.ready["spool"] == str(tmp_path / "spool")
        with Wire(server.url) as wire, Wire(server.url) as running:
            for _ in range(3):
                play(wire)
            play(running, end=False)
            assert wait_until(lambda: stats(server)["records"]["kept"] == 3, 30)
            told = stats(server)
            assert {one["name"] for one in told["timings_ms"]["segments"]} >= {
                "inject",
                "begin",
            }  # fork only where nobody stood by
            found = metrics(server)
            assert found["quintain_records_kept_total"] == 3
            assert found["quintain_spool_bytes"] > 1000
            assert found["quintain_live_episodes"] + found["quintain_hibernated_episodes"] == 1
            server.process.send_signal(signal.SIGKILL)
            server.process.wait(20)
        rows = stored(tmp_path)
    finally:
        server.stop(signal.SIGKILL)
    assert [(row["terminal_reason"], row["reward"], row["failure_owner"]) for row in rows] == [("done", 1.0, None)] * 3
    assert [row["steps"] for row in rows] == [3, 3, 3]
    assert rows[0]["start_kind"] in ("cold", "cached_cold")
    told = run(["store", "stats", "--json"], tmp_path, QUINTAIN_STORE=str(tmp_path / "store"))
    timings = json.loads(told.stdout)["timings_ms"]
    assert {one["start_kind"] for one in timings["ttfi"]} == {row["start_kind"] for row in rows}
    assert {"running", "verifying", "queued"} <= {one["name"] for one in timings["stages"]}
    assert sum(one["count"] for one in timings["stages"] if one["name"] == "running") == 3


def test_a_shutdown_drains_and_a_restart_goes_on_in_the_same_spool(tmp_path: Path) -> None:
    with serving(tmp_path) as server, Wire(server.url) as wire:
        play(wire, end=False)
        assert server.stop() == 0
        assert server.complaints == []
    with serving(tmp_path) as server:
        with Wire(server.url) as wire:
            play(wire)
        assert server.stop() == 0
    # the shutdown came after the score: the reward stands
    ends = sorted((record.terminal_reason, record.reward_valid) for record in spooled(tmp_path / "spool"))
    assert ends == [("done", True), ("server_shutdown", True)]


def test_a_full_spool_stops_resets_until_it_is_ingested(tmp_path: Path) -> None:
    with serving(tmp_path, QUINTAIN_SPOOL_SIZE="1") as server, Wire(server.url) as wire:
        text = "x" * 300_000
        for played in range(1, 5):
            wire.reset(TASK, task_idx=0)
            wire.call("list_products", search=text)
            wire.call("done")
            assert wait_until(lambda played=played: stats(server)["records"]["kept"] == played, 20)
            if stats(server)["records"]["full"]:
                break
        assert wait_until(lambda: stats(server)["records"]["full"], 20)
        with Wire(server.url) as other:
            refused = other.ask({"type": "reset", "data": {"scenario": TASK, "task_idx": 0}})
            assert refused["data"]["code"] == "CAPACITY_REACHED"
            assert "ingest" in refused["data"]["message"]
            ingested(tmp_path)
            deadline = time.monotonic() + 20
            while other.ask({"type": "reset", "data": {"scenario": TASK, "task_idx": 0}})["type"] == "error":
                assert time.monotonic() < deadline
                time.sleep(0.1)


def test_states_that_a_server_keeps_are_replayed_and_reach_the_store(tmp_path: Path) -> None:
    with serving(tmp_path, QUINTAIN_KEEP_STATES="1") as server:
        with Wire(server.url) as wire:
            play(wire)
            play(wire, end=False)
            wire.call("add_cart_item", product_id=1, quantity=1)  # after the score, and given up then
        assert wait_until(lambda: stats(server)["records"]["kept"] == 2, 30)
        assert server.stop() == 0
    done, left = sorted(spooled(tmp_path / "spool"), key=lambda record: record.terminal_reason != "done")
    assert done.states is not None
    assert left.states is not None
    assert done.states.scored is None
    assert left.states.scored == done.states.final, "what was scored is kept beside what it ended with"
    assert left.states.final != left.states.scored
    settings = ingested(tmp_path)
    again = run(["replay", "--where", "true", "--json"], tmp_path, **settings)
    lines = [json.loads(line) for line in again.stdout.splitlines()]
    assert lines[-1] == {"event": "summary", "records": 2, "identical": 2}, again
    assert [one["state"] for one in lines[:-1]] == ["same", "same"]
