"""`quintain run` as a user runs it: to the end, killed at random and gone on with, interrupted, refused."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.serving import COMMAND, alive, descendants, environment, wait_until
from quintain.cli.main import app
from quintain.contracts.record import EpisodeRecord
from quintain.errors import UsageError
from quintain.records.recorder import Sealed
from quintain.records.spool_reader import SpoolReader

pytestmark = pytest.mark.xdist_group("cli-run")

Command = Callable[..., subprocess.CompletedProcess[str]]
TASKS = ("--scenarios", "outdoor_marketplace_1", "--scenarios", "vet_clinic_1/0")


def records(run_dir: Path) -> list[EpisodeRecord]:
    """Every record in a run's spool."""
    reader = SpoolReader.open(run_dir / "spool")
    try:
        found = []
        while deliveries := reader.read():
            found += [Sealed.read(one.payload).record() for one in deliveries]
        return found
    finally:
        reader.close()


def scores(run_dir: Path) -> Counter[tuple[str, str, int]]:
    """How many rewards the ledger has for each try."""
    with sqlite3.connect(run_dir / "ledger.db") as database:
        rows = database.execute("SELECT episode_id, model_digest, attempt FROM episode_score").fetchall()
    database.close()
    return Counter((str(episode), str(model), int(attempt)) for episode, model, attempt in rows)


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_for_programs_every_line_is_an_event(quintain: Command, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    done = quintain("run", "--run-dir", str(run_dir), *TASKS, "--attempts", "2", "--json")
    assert done.returncode == 0, done.stderr
    told = events(done.stdout)
    assert [one["event"] for one in told if one["event"] not in ("started", "finished")] == ["begun", "ended"]
    assert told == events((run_dir / "events.jsonl").read_text())
    report = told[-1]["report"]
    assert report["overall"]["rate"] == 1.0
    assert report["overall"]["low"] < 1.0
    assert report["fates"] == {"solved": report["items"]}
    assert {row["start_kind"] for row in report["ttfi"]} <= {"cold", "cached_cold", "template_fork", "warm_claim"}
    kept = records(run_dir)
    assert len(kept) == report["items"] == report["done"]
    assert {record.terminal_reason for record in kept} == {"done"}
    again = quintain("run", "--run-dir", str(run_dir), "--json")
    assert [one["event"] for one in events(again.stdout)] == ["ended"]
    assert len(records(run_dir)) == len(kept)


def test_for_people_it_ends_with_a_report(quintain: Command, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "tasks: [{scenario: outdoor_marketplace_1, task_idx: 0}, {scenario: vet_clinic_1, task_idx: 0}]\n"
        "attempts: 3\n"
        "agents:\n"
        "- {kind: reference}\n"
        "- {kind: noisy, rates: {wrong_tool: 0.3, wrong_argument: 0.3, early_stop: 0.2, loop: 0.2}}\n"
        "- {kind: random, max_steps: 40}\n"
        "limits: {max_steps: 12}\n"
    )
    done = quintain("run", str(plan), "--run-dir", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert "18 of 18 attempts" in done.stdout
    for word in ("reference", "noisy", "random", "max_steps", "ttfi", "outdoor_marketplace_1", "solved"):
        assert word in done.stdout
    assert f"quintain store ingest --once --spool {tmp_path / 'run'}/spool" in done.stdout
    kept = records(tmp_path / "run")
    assert {record.truncated for record in kept} == {True, False}
    assert all(record.reward_valid for record in kept)
    assert {record.reward for record in kept if "/reference/" in str(record.rollout_item)} == {1.0}


def test_tasks_are_drawn_and_records_ingested(quintain: Command, tmp_path: Path) -> None:
    run_dir = str(tmp_path / "run")
    arguments = ("--tasks", "3", "--seed", "5", "--ingest", "--json")
    done = quintain("run", "--run-dir", run_dir, *arguments)
    assert done.returncode == 0, done.stderr
    *_, ended, ingested = events(done.stdout)
    assert len({name.rpartition("/")[0] for name in ended["report"]["by_task"]}) == 3
    assert (ingested["event"], ingested["new"], ingested["missing"]) == ("ingested", 3, 0)
    assert records(tmp_path / "run") == []
    again = quintain("run", "--run-dir", run_dir, "--ingest")  # what was played is known though the spool is empty
    assert again.returncode == 0, again.stderr
    assert "3 of 3 attempts" in again.stdout
    assert "0 new, 0 refused, 0 missing" in again.stdout
    where = ("--store", f"{run_dir}/store", "--ledger", f"{run_dir}/ledger.db")
    asked = quintain("store", "query", *where, "SELECT count(*) AS n, min(reward) AS least FROM trajectories", "--json")
    assert json.loads(asked.stdout) == {"n": 3, "least": 1.0}


@pytest.mark.parametrize(("seed", "kills", "attempts"), [(1, 3, 4), pytest.param(2, 5, 10, marks=pytest.mark.soak)])
@pytest.mark.timeout(300)
def test_killed_at_random_and_gone_on_with(tmp_path: Path, seed: int, kills: int, attempts: int) -> None:
    run_dir, dice, items = tmp_path / "run", random.Random(seed), 0
    command = [*COMMAND, "run", "--run-dir", str(run_dir), "--json"]
    first = [*TASKS, "--attempts", str(attempts), "--agent", "noisy", "--concurrency", "4"]
    for turn in range(kills):
        with subprocess.Popen(
            [*command, *(first if turn == 0 else ())],
            stdout=subprocess.PIPE, text=True, env=environment(tmp_path), cwd=tmp_path,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            more = dice.randrange(1, 12)
            for line in process.stdout:
                items = json.loads(line).get("items", items)
                more -= json.loads(line)["event"] == "finished"
                if more <= 0:
                    break
            time.sleep(dice.random() * 0.05)
            below = list(descendants(process.pid))
            process.kill()
        assert wait_until(lambda below=below: not [pid for pid in below if alive(pid)], 10)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, env=environment(tmp_path), cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    kept = records(run_dir)
    assert Counter(record.rollout_item for record in kept).most_common(1)[0][1] == 1
    assert len(kept) == items > 12
    assert set(scores(run_dir).values()) == {1}
    assert len(scores(run_dir)) == items
    lost = [record for record in kept if record.terminal_reason == "record_lost"]
    played = {(str(one.episode_id), one.model_digest, one.attempt) for one in kept}
    assert played == set(scores(run_dir))
    assert all(record.reward is None and record.failure_owner == "infrastructure" for record in lost)
    assert events(done.stdout)[-1]["report"]["done"] == items
    begun = Counter(one["item"] for one in events((run_dir / "events.jsonl").read_text()) if one["event"] == "started")
    again = [record for record in kept if record not in lost and begun[str(record.rollout_item)] > 1]
    assert all(len(record.retried or ()) == begun[str(record.rollout_item)] - 1 for record in again)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_says_how_to_go_on(tmp_path: Path, number: int) -> None:
    run_dir = tmp_path / "run"
    process = subprocess.Popen(
        [*COMMAND, "run", "--run-dir", str(run_dir), *TASKS, "--attempts", "200", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(tmp_path), cwd=tmp_path,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["event"] == "finished":
            break
    below = list(descendants(process.pid))
    process.send_signal(number)
    rest, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert f"go on with: quintain run --run-dir {run_dir}" in said
    assert events(rest)[-1]["event"] == "interrupted"
    assert wait_until(lambda: not [pid for pid in below if alive(pid)], 10)
    assert not list((tmp_path / "tmp").glob("quintain-run-*"))
    finished = [one for one in events((run_dir / "events.jsonl").read_text()) if one["event"] == "finished"]
    assert len(records(run_dir)) == len(finished)


def test_what_is_refused(refused: Callable[..., str], quintain: Command, tmp_path: Path) -> None:
    run_dir = str(tmp_path / "run")
    one = ("--scenarios", "vet_clinic_1/0")
    assert quintain("run", "--run-dir", run_dir, *one, "--keep-states").returncode == 0
    assert json.loads((tmp_path / "run" / "plan.json").read_text())["keep_states"], "whoever goes on keeps them too"
    assert "holds another plan" in refused("run", "--run-dir", run_dir, *one, "--attempts", "2")


ONE = ("--scenarios", "vet_clinic_1/0")
CHAT = ("--agent", "chat", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--api-key-env", "NO_SUCH_KEY")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("no-plan.yaml",), "no-plan.yaml"),
        (("no-plan.yaml", *ONE), "leave out"),
        (("--scenarios", "vet_clinic_1/99"), "99"),
        (("--scenarios", "vet_clinic_1/x"), "SCENARIO/TASK"),
        ((*ONE, "--tasks", "2"), "2 tasks cannot be drawn of 1"),
        ((*ONE, "--agent", "chat"), "--base-url"),
        ((*ONE, "--model", "m"), "--model"),
        ((*ONE, "--noise", "0.1"), "--noise"),
        ((*ONE, "--pool", "dev"), "no pools"),
        ((*ONE, *CHAT), "NO_SUCH_KEY"),
    ],
    ids=["plan", "plan-and-options", "task", "number", "draw", "endpoint", "model", "noise", "pool", "key"],
)
def test_what_is_refused_before_anything_is_played(
    arguments: tuple[str, ...], word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("QUINTAIN_", "AWM_", "OPENENV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with pytest.raises(UsageError) as told:
        app(["run", "--run-dir", str(tmp_path / "run"), *arguments], standalone_mode=False)
    assert word in str(told.value)
