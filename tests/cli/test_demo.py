"""`quintain demo`, the first command of the README."""

import json
import shlex
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.serving import COMMAND, alive, descendants, environment, using, wait_until
from quintain.cli.demo import problems, reference_of
from quintain.cli.run import Worked
from quintain.cli.run_store import Ingested
from quintain.rollout import Outcome
from quintain.rollout.report import report
from rollout.cast import plan
from rollout.made import made

pytestmark = pytest.mark.xdist_group("cli-demo")

Command = Callable[..., subprocess.CompletedProcess[str]]
SMALL = ("--tasks", "5", "--attempts", "1")

WITHOUT_THE_EXTRA = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in ("deltalake", "duckdb") else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""


def test_one_document_tells_all_and_nothing_stays(quintain: Command, tmp_path: Path) -> None:
    done = quintain("demo", "--json", *SMALL, "--seed", "3")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["problems"] == []
    assert told["kept"] is None
    assert told["reference"] == {"tasks": 5, "complete_tasks": 5, "attempts": 5, "complete": 5}
    stored, found = told["stored"], told["report"]
    assert (stored["new"], stored["refused"], stored["missing"], stored["problem"]) == (25, 0, 0, "")
    assert found["done"] == found["items"] == 25
    assert len({name.rpartition("/")[0] for name in found["by_task"]}) == 5
    assert found["fates"]["agent"] > 0
    assert set(found["fates"]) == {"solved", "agent"}
    assert found["by_agent"]["random"]["rate"] < found["by_agent"]["reference"]["rate"] == 1.0
    assert found["tokens"] > 0
    assert list((tmp_path / "tmp").iterdir()) == []
    assert using(tmp_path) == []
    assert not (tmp_path / "ledger.db").exists()  # its scores are nobody's


def test_what_is_kept_can_be_asked_about(quintain: Command, notes_pack: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept demo"
    done = quintain("demo", "--tasks", "3", "--attempts", "1", "--keep", str(kept), AWM_DATA_DIR=str(notes_pack))
    assert done.returncode == 0, done.stderr
    assert "3 of 3 reference solutions complete" in done.stdout
    assert "15 new, 0 refused, 0 missing" in done.stdout
    assert "Plain Notes" not in done.stdout  # the demo plays the shipped pack, whatever dataset is one's own
    assert f"kept in {kept}" in done.stdout
    lines = [shlex.split(line) for line in done.stdout.splitlines() if line.startswith("  ")]
    (where,) = [words[1:] for words in lines if words[0] == "export"]
    (query,) = [words[1:] for words in lines if words[:3] == ["quintain", "store", "query"]]
    (replay,) = [words[1:] for words in lines if words[:2] == ["quintain", "replay"]]
    variables = dict(word.split("=", 1) for word in where)
    asked = quintain(*query, "--json", **variables)
    assert asked.returncode == 0, asked.stderr
    rows = {row["model_digest"].partition(":")[0]: row for row in map(json.loads, asked.stdout.splitlines())}
    assert rows["reference"]["reward"] == 1.0
    assert set(rows) == {"reference", "noisy", "random", "chat"}
    counted = quintain("store", "query", "SELECT count(*) AS n FROM trajectories", "--json", **variables)
    assert json.loads(counted.stdout) == {"n": 15}
    replayed = quintain(*replay, **variables)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert "identical" in replayed.stdout
    again = quintain("demo", "--keep", str(kept))
    assert again.returncode == 2
    assert "there is something in" in again.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_nothing_stays(tmp_path: Path, number: int) -> None:
    process = subprocess.Popen(
        [*COMMAND, "demo", "--attempts", "50"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(tmp_path), cwd=tmp_path,
    )  # fmt: skip
    temporary = tmp_path / "tmp"
    assert wait_until(lambda: any("started" in one.read_text() for one in temporary.glob("*/events.jsonl")), 60)
    below = list(descendants(process.pid))
    process.send_signal(number)
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert printed == ""
    assert said.splitlines()[-1] == "quintain: interrupted"
    assert list(temporary.iterdir()) == []
    assert wait_until(lambda: not [pid for pid in below if alive(pid)], 20)


def test_without_the_extra_it_says_so_and_goes_on(quintain: Command, tmp_path: Path) -> None:
    folder = tmp_path / "without"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(WITHOUT_THE_EXTRA)
    done = quintain("demo", "--tasks", "1", "--attempts", "1", PYTHONPATH=str(folder))
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if "quintain[store]" in line] != []
    assert "1 of 1 reference solutions complete" in done.stdout
    assert "quintain store query" not in done.stdout


def test_what_cannot_begin_says_why(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "MAX_CONCURRENT_ENVS" in refused("demo", MAX_CONCURRENT_ENVS="0")
    assert "999 tasks" in refused("demo", "--tasks", "999")
    (tmp_path / "file").write_text("")
    assert "cannot be made" in refused("demo", "--keep", str(tmp_path / "file"))


def worked(*changes: dict[str, Any]) -> Worked:
    """A run of the reference agent's, with an outcome for each of the changes to one that is solved."""
    outcomes: dict[str, Outcome] = {
        str(number): made(str(number), agent="reference", **change) for number, change in enumerate(changes)
    }
    return Worked(report(plan(attempts=len(changes)), list(outcomes.values())), outcomes, False)


STORED = Ingested("store", 1, 1, new=2, duplicates=0, refused=0, damages=0, missing=0, seconds=1.0, problem="")
FAILED = {"reward_type": "incomplete", "reward": 0.1}
MASKED = {"reward_type": None, "reward": None, "reward_valid": False, "failure_owner": "verifier", "cause": "x"}


@pytest.mark.parametrize(
    ("done", "stored", "words"),
    [
        (worked({}, {}), STORED, []),
        (worked({}, {}), None, []),
        (worked({}, FAILED), STORED, ["1 attempts of reference solutions are not complete"]),
        (worked({}, MASKED), STORED, ["not complete", "1 attempts failed by the verifier"]),
        (worked({}, {}), replace(STORED, missing=1), ["1 missing"]),
        (worked({}, {}), replace(STORED, refused=2), ["2 refused"]),
        (worked({}, {}), replace(STORED, problem="the disk is full"), ["the disk is full"]),
    ],
    ids=["well", "no-store", "unsolved", "masked", "missing", "refused", "problem"],
)
def test_it_fails_when_the_platform_did(done: Worked, stored: Ingested | None, words: list[str]) -> None:
    found = problems(done, reference_of(done), stored)
    assert len(found) == len(words)
    assert all(word in told for word, told in zip(words, found, strict=True))


def test_an_attempt_without_a_record_is_a_failure() -> None:
    whole = worked({}, {})
    short = Worked(whole.report.model_copy(update={"done": 1}), whole.outcomes, False)
    assert problems(short, reference_of(short), STORED) == ["1 attempts have no record"]
