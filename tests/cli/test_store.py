"""`quintain store`, as a user runs it, and what it is that `quintain serve` never imports."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quintain.records import Spool
from records.recording import payload, sealed

pytestmark = pytest.mark.xdist_group("cli-store")

HEAVY = {"deltalake", "pyarrow", "duckdb", "pandas"}  # httpx takes zstandard where it is installed


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where a store of four records is, as settings."""
    folder = tmp_path_factory.mktemp("store")
    spool = Spool.open(folder / "spool")
    for number in range(3):
        spool.append(payload(number)).result(30)
    lost: dict[str, Any] = {"reward": None, "reward_valid": False, "reward_type": None, "steps": 1}
    spool.append(payload(3, terminal_reason="sandbox_lost", failure_owner="infrastructure", **lost)).result(30)
    spool.close()
    return {
        "QUINTAIN_STORE": str(folder / "store"),
        "QUINTAIN_LEDGER": str(folder / "ledger.db"),
        "QUINTAIN_SPOOL": str(folder / "spool"),
    }


Told = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def store(quintain: Told, places: dict[str, str]) -> Told:
    """Run `quintain store` on it, once it is filled."""
    if not Path(places["QUINTAIN_STORE"]).exists():
        done = quintain("store", "ingest", "--once", "--json", **places)
        assert json.loads(done.stdout.splitlines()[-1])["appended"] == 4, done
    return lambda *arguments: quintain("store", *arguments, **places)


def test_stats(store: Told) -> None:
    told = json.loads(store("stats", "--json").stdout)
    assert (told["records"], told["tries"], told["waiting"]) == (4, 4, 0)
    assert told["ended"] == [
        {"terminal_reason": "done", "failure_owner": None, "tries": 3, "mean_reward": 1.0},
        {"terminal_reason": "sandbox_lost", "failure_owner": "infrastructure", "tries": 1, "mean_reward": None},
    ]
    assert "sandbox_lost" in store("stats").stdout


def test_query(store: Told) -> None:
    rows = store("query", "SELECT tool_name, count(*) AS n FROM steps GROUP BY ALL", "--json").stdout.splitlines()
    assert [json.loads(row) for row in rows] == [{"tool_name": "get_product", "n": 10}]
    asked = store("query", "SELECT record ->> '$.steps[0].result' FROM trajectories WHERE attempt = 1", "--json")
    assert "Lamp 1" in asked.stdout
    limited = store("query", "SELECT attempt FROM trajectories ORDER BY 1", "--limit", "2", "--json")
    assert limited.stdout.splitlines() == ['{"attempt": 0}', '{"attempt": 1}']
    assert "the first 2 rows" in limited.stderr


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC 1", "syntax error"),
        ("DROP VIEW trajectories", "ask one SELECT"),
        ("SELECT 1; SELECT 2", "ask one SELECT"),
        ("COPY trajectories TO '/tmp/x.csv'", "ask one SELECT"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled"),
        ("SELECT * FROM nothing_such", "nothing_such"),
    ],
)
def test_a_question_that_is_refused(store: Told, sql: str, said: str) -> None:
    done = store("query", sql)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_show(store: Told) -> None:
    digest = sealed(2).envelope.digest
    shown = json.loads(store("show", digest[:20]).stdout)
    assert shown == {"digest": digest, "record": json.loads(sealed(2).data)}
    for name, said in (("sha256:" + "0" * 60, "give more of one"), ("fffffffff", "no record"), ("xyz", "no digest")):
        done = store("show", name)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_export(store: Told, tmp_path: Path) -> None:
    target = tmp_path / "records.jsonl"
    done = store("export", str(target), "--where", "reward_valid AND attempt > 0", "--json")
    assert json.loads(done.stdout) == {"file": str(target), "rows": 2}
    assert [json.loads(line) for line in target.read_text().splitlines()] == [
        {"digest": sealed(number).envelope.digest, "record": json.loads(sealed(number).data)} for number in (1, 2)
    ]
    assert json.loads(store("export", str(tmp_path / "a.parquet"), "--json").stdout)["rows"] == 4
    assert (tmp_path / "a.parquet").read_bytes()[:4] == b"PAR1"
    refused = store("export", str(target), "--sql", "SELECT attempt FROM trajectories")
    assert (refused.returncode, "needs the columns blobs, digest, record" in refused.stderr) == (2, True)
    assert len(target.read_text().splitlines()) == 2, "what was there is still there"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_repair_makes_no_store(quintain: Told, store: Told, places: dict[str, str], tmp_path: Path) -> None:
    """A mistyped path must not have the ledger forget the records of the store that was meant."""
    wrong = tmp_path / "wrong"
    done = quintain("store", "repair", "--store", str(wrong), "--orphaned-after", "0", **places)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no store of records" in done.stderr
    assert not wrong.exists()
    assert store("verify").returncode == 0


def test_verify_and_repair(store: Told) -> None:
    assert json.loads(store("verify", "--json").stdout) == {
        "records": 4, "waiting": 0, "unrecorded": 0, "problems": [],
    }  # fmt: skip
    done = json.loads(store("repair", "--compact", "--json").stdout)
    assert (done["appended"], done["quarantined"], done["lost"]) == (0, 0, 0)
    assert store("verify").returncode == 0


def test_a_store_that_is_not_there(refused: Callable[..., str], tmp_path: Path) -> None:
    line = refused("store", "stats", "--store", str(tmp_path / "none"), "--ledger", str(tmp_path / "ledger.db"))
    assert "there is no store of records" in line


def test_only_the_stores_side_imports_what_is_heavy() -> None:
    rooms = "quintain.cli.main, quintain.records, quintain.records.recorder, quintain.records.forwarding, "
    rooms += "quintain.episodes.assembly, quintain.server.app, quintain.cli.serve, quintain.cli.episode"
    program = f"import sys, {rooms}; print(sorted({HEAVY!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
