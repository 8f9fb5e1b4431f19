"""`quintain run --keep-states`, `replay` and `reverify` as a user runs them, one after the other on one store."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.serving import run
from quintain.tasks.shipped import PACK

pytestmark = pytest.mark.xdist_group("cli-replay")

Told = Callable[..., Any]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A run whose records and states are in a store, as settings."""
    folder = tmp_path_factory.mktemp("replay")
    done = run(
        ["run", "--run-dir", str(folder / "run"), "--scenarios", "vet_clinic_1/0", "--scenarios", "parcel_desk_1/0",
         "--agent", "noisy", "--noise", "0.4", "--attempts", "2", "--seed", "3", "--keep-states", "--json"], folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {
        "folder": str(folder),
        "QUINTAIN_STORE": str(folder / "store"),
        "QUINTAIN_LEDGER": str(folder / "run" / "ledger.db"),
    }


@pytest.fixture
def told(places: dict[str, str]) -> Told:
    """Run a command on it; its exit status and its lines, parsed."""

    def tell(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
        extra = {name: value for name, value in places.items() if name != "folder"}
        done = run([*arguments, "--json"], Path(places["folder"]), **extra)
        assert done.returncode in (0, 1), done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    return tell


@pytest.fixture
def stored(told: Told, places: dict[str, str]) -> Told:
    """The same, once all is in the store."""
    folder = Path(places["folder"])
    if not (folder / "store").exists():
        status, lines = told("replay", "--run-dir", str(folder / "run"))
        assert (status, lines[-1]) == (0, {"event": "summary", "records": 4, "identical": 4}), "before it is ingested"
        assert {one["state"] for one in lines[:-1]} == {"same"}
        _, lines = told("store", "ingest", "--once", "--spool", str(folder / "run" / "spool"))
        assert (lines[-1]["new"], lines[-1]["stateless"]) == (4, 0)
    return told


def test_records_of_a_store_replay_with_their_states(stored: Told, places: dict[str, str]) -> None:
    status, lines = stored("replay", "--where", "attempt < 2")
    assert (status, lines[-1]) == (0, {"event": "summary", "records": 4, "identical": 4})
    assert {one["state"] for one in lines[:-1]} == {"same"}
    assert stored("store", "verify")[0] == 0
    extra = {name: value for name, value in places.items() if name != "folder"}
    none = run(["replay", "--where", "attempt > 99"], Path(places["folder"]), **extra)
    assert (none.returncode, "there is no record to replay" in none.stderr) == (2, True)


def test_a_tampered_record_is_found_out(stored: Told, places: dict[str, str], tmp_path: Path) -> None:
    _, rows = stored("store", "query", "SELECT digest FROM trajectories WHERE scenario = 'parcel_desk_1'")
    digest = rows[0]["digest"]
    status, lines = stored("replay", digest[7:20])
    assert (status, lines[-1]["records"]) == (0, 1), lines
    extra = {name: value for name, value in places.items() if name != "folder"}
    document = json.loads(run(["store", "show", digest], tmp_path, **extra).stdout)
    changed = next(step for step in document["record"]["steps"] if step.get("result"))
    changed["result"] = changed["result"].replace(changed["result"][5:9], "????")
    file = tmp_path / "record.json"
    file.write_text(json.dumps(document))
    status, lines = stored("replay", str(file))
    assert (status, lines[0]["status"], lines[0]["difference"]["step"]) == (1, "different", changed["index"])
    told = run(["replay", str(file)], tmp_path, **extra)
    assert f"first difference: step {changed['index']}, result" in told.stdout
    assert "1 records replayed: 1 different" in told.stdout
    assert f"{file} was changed: its record is sha256:" in told.stderr, "what a replay does not compare, too"
    file.write_text(json.dumps(json.loads(run(["store", "show", digest], tmp_path, **extra).stdout)))
    assert "was changed" not in run(["replay", str(file)], tmp_path, **extra).stderr


@pytest.fixture
def other_verifiers(tmp_path: Path) -> Path:
    """The shipped dataset, but for verifiers that are never content."""
    folder = tmp_path / "data"
    shutil.copytree(PACK, folder)
    file = folder / "gen_verifier.pure_code.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        code = row["verification"]["code"]
        row["verification"]["code"] = code.replace('"complete"', '"others"')
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_other_verifiers_score_beside_the_old_ones(stored: Told, places: dict[str, str], other_verifiers: Path) -> None:
    def rewards() -> list[tuple[Any, ...]]:
        with sqlite3.connect(places["QUINTAIN_LEDGER"]) as ledger:
            rows = ledger.execute(
                "SELECT s.episode_id, s.attempt, s.verifier_digest, s.reward FROM submission s "
                "JOIN episode_score e ON e.submission_id = s.id ORDER BY s.id"
            ).fetchall()
        ledger.close()
        return rows

    before = rewards()
    status, lines = stored("reverify", "--all")
    assert (status, lines[-1]["unchanged"]) == (0, 4), "the same verifiers: nothing to do"
    status, lines = stored("reverify", "--all", "--awm-data", str(other_verifiers))
    assert (status, lines[-1]["scored"]) == (0, 4)
    assert {one["new"] for one in lines[:-1]} == {"incomplete"}
    assert {row["new"] for row in lines[-1]["agreement"]} == {"incomplete"}
    status, lines = stored("reverify", "--all", "--awm-data", str(other_verifiers))
    assert lines[-1]["unchanged"] == 4
    assert rewards() == before
    _, rows = stored("store", "query", "SELECT count(*) AS n FROM scores WHERE NOT is_reward")
    assert rows == [{"n": 4}]
    assert stored("store", "verify")[0] == 0


def test_what_is_refused(refused: Callable[..., str], places: dict[str, str], tmp_path: Path) -> None:
    extra = {"QUINTAIN_STORE": str(tmp_path / "store")}
    assert "name a record" in refused("replay", **extra)
    assert "no store of records" in refused("replay", "sha256:abcdef", **extra)
    assert "leave one out" in refused("reverify", "--all", "--where", "true", **extra)
    (tmp_path / "bad.json").write_text("[1]")
    assert "holds no record" in refused("replay", str(tmp_path / "bad.json"), **extra)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    assert "bytes.json cannot be read" in refused("replay", str(tmp_path / "bytes.json"), **extra)
