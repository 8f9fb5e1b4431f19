"""What commands refuse before they do anything, and what of it a user is told."""

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from quintain.cli.init import scaffold

pytestmark = pytest.mark.xdist_group("cli-misuse")

Command = Callable[..., subprocess.CompletedProcess[str]]
Refused = Callable[..., str]


def spool_of(folder: Path) -> str:
    """An empty spool."""
    (folder / "empty").mkdir()
    return str(folder / "empty")


def test_an_ingest_process_that_may_not_listen_ingests_nothing(refused: Refused, tmp_path: Path) -> None:
    given = ("store", "ingest", "--store", "store", "--spool", spool_of(tmp_path))
    assert "QUINTAIN_INGEST_TOKEN" in refused(*given, "--host", "0.0.0.0", "--port", "0")
    assert "cannot listen on 192.0.2.1" in refused(
        *given, "--host", "192.0.2.1", "--port", "0", QUINTAIN_INGEST_TOKEN="secret"
    )
    assert not (tmp_path / "store").exists()
    assert not (tmp_path / "ledger.db").exists()


def test_a_spool_that_is_named_must_be_there(refused: Refused, quintain: Command, tmp_path: Path) -> None:
    assert "no spool at nowhere" in refused("store", "ingest", "--once", "--spool", "nowhere", "--store", "store")
    assert "no spool at nowhere" in refused("store", "forward", "http://127.0.0.1:1", "--spool", "nowhere")
    assert not (tmp_path / "nowhere").exists()
    assert not (tmp_path / "store").exists()
    own = {"XDG_DATA_HOME": str(tmp_path / "data"), "QUINTAIN_SPOOL": ""}  # nobody named that one
    done = quintain("store", "forward", "http://127.0.0.1:1", "--json", **own)
    assert (done.returncode, '"sent": 0' in done.stdout) == (0, True), done
    assert quintain("store", "ingest", "--once", "--store", "store", **own).returncode == 0
    assert not (tmp_path / "data" / "quintain" / "spool").exists()


@pytest.mark.parametrize("url", ["BADURL", "ftp://host", "http://", "http://host:port", "host:8898"])
def test_records_are_sent_to_an_address(refused: Refused, tmp_path: Path, url: str) -> None:
    assert "no address of an ingest process" in refused("store", "forward", url, "--spool", spool_of(tmp_path))


def test_an_export_says_what_it_is(refused: Refused, quintain: Command, tmp_path: Path) -> None:
    places = ("--store", "store", "--ledger", "ledger.db")
    assert quintain("store", "ingest", "--once", *places, "--spool", spool_of(tmp_path)).returncode == 0
    assert "neither .jsonl nor .parquet" in refused("store", "export", "x.csv", *places)
    assert "give one of them" in refused("store", "export", "x.jsonl", "--where", "true", "--sql", "SELECT 1", *places)
    assert not (tmp_path / "x.csv").exists()
    done = quintain("store", "export", "x.csv", "--format", "jsonl", *places)
    assert (done.returncode, (tmp_path / "x.csv").read_text()) == (0, ""), done


def test_a_run_leaves_other_folders_alone(refused: Refused, tmp_path: Path) -> None:
    folder = scaffold("mock", "desk", tmp_path)
    before = sorted(folder.rglob("*"))
    assert "and no run" in refused("run", "--run-dir", "desk", "--scenarios", "outdoor_marketplace_1/0")
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "[]", "tasks"])
def test_a_plan_is_a_mapping(refused: Refused, tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.yaml").write_text(text)
    line = refused("run", "plan.yaml")
    assert "plan.yaml is no mapping" in line
    assert "`tasks`" in line


def test_names_that_are_not_there(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    wrong = refused("validate", "./my-pakc", QUINTAIN_PACKS="awm,yard")
    assert "there is no folder of that name either" in wrong
    assert "served" not in wrong
    assert "the folder of that name is no pack" in refused("validate", "folder")
    assert "no file nor folder" in refused("replay", "./my-run")
    assert "which has tasks 0 to " in refused("validate", "outdoor_marketplace_1", "--task", "999")
    assert "the one with most has tasks 0 to 1" in refused(
        "validate", str(scaffold("mock", "desk", tmp_path)), "--task", "9"
    )


def test_commands_to_copy_are_quoted(quintain: Command, tmp_path: Path) -> None:
    made = quintain("init", "mock", "desk", "--into", "my packs")
    assert shlex.split(made.stdout.splitlines()[-1]) == ["quintain", "validate", "my packs/desk", "--seeds", "3"]
    packed = quintain("package", "my packs/desk", "my image")
    validate, start = (shlex.split(line) for line in packed.stdout.splitlines()[-2:])
    assert validate[:3] == ["openenv", "validate", "my image"]
    assert start[:2] == ["cd", "my image"]
