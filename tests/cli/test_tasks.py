"""`quintain tasks`, and a server that honours the pools."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.serving import serving
from e2e.wire import Wire

pytestmark = pytest.mark.xdist_group("cli-tasks")

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tasks(quintain: Command, tmp_path: Path) -> Callable[..., Any]:
    """Run `quintain tasks ... --json` on a registry of the test's own; what it prints."""

    def run(*arguments: str) -> Any:
        done = quintain("tasks", *arguments, "--registry", str(tmp_path / "registry"), "--json")
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    return run


@pytest.fixture
def refusal(refused: Callable[..., str], tmp_path: Path) -> Callable[..., str]:
    return lambda *arguments: refused("tasks", *arguments, "--registry", str(tmp_path / "registry"))


def test_a_task_from_import_to_train_and_its_trail(tasks: Callable[..., Any], refusal: Callable[..., str]) -> None:
    assert len(tasks("import", "Vet Clinic 1", "--pool", "dev", "--by", "ann")["added"]) == 10
    rest = tasks("import", "--pool", "train", "--by", "ann")
    assert (len(rest["added"]), rest["unchanged"], rest["changed"], rest["unusable"]) == (23, 10, {}, [])
    again = tasks("import", "--pool", "blind")
    assert (again["added"], again["unchanged"], again["sequence"]) == ([], 33, None)
    moved = tasks("move", "vet_clinic_1/3", "Vet Clinic 1/4", "--to", "train", "--why", "more", "--by", "bob")
    assert moved["event"]["tasks"] == {"vet_clinic_1/3": "dev", "vet_clinic_1/4": "dev"}
    shown = tasks("show", "vet_clinic_1/3")
    assert (shown["pool"], shown["provenance"]["licence"]) == ("train", "Apache-2.0")
    assert shown["provenance"]["imported_by"] == "ann"
    assert [(step["kind"], step["by"], step["target"]) for step in shown["trail"]] == [
        ("import", "ann", "dev"),
        ("move", "bob", "train"),
    ]
    assert "trained on" in refusal("move", "vet_clinic_1/3", "--to", "dev", "--why", "back")
    (dev,) = tasks("list", "--pool", "dev")
    assert [entry["task_idx"] for entry in dev["entries"]] == [0, 1, 2, 5, 6, 7, 8, 9]
    assert len(tasks("list", "--pool", "dev", "--version", "1")[0]["entries"]) == 10


def test_a_blind_task_is_neither_shown_nor_played_by_hand_without_a_milestone(
    tasks: Callable[..., Any], quintain: Command, refused: Callable[..., str], tmp_path: Path
) -> None:
    tasks("import", "Vet Clinic 1", "--pool", "blind", "--by", "ann")
    registry = {"QUINTAIN_REGISTRY": str(tmp_path / "registry")}
    for command in (("scenarios", "show", "vet_clinic_1"), ("episode", "Vet Clinic 1", "0", "--solution")):
        assert "vet_clinic_1/0 is blind" in refused(*command, **registry)
    shown = quintain("scenarios", "show", "vet_clinic_1", "--milestone", "release 1", **registry)
    assert shown.returncode == 0, shown.stderr
    assert [one["event"]["milestone"] for one in tasks("pools")["openings"]] == ["release 1"]
    assert quintain("scenarios", "show", "recipe_box_1", **registry).returncode == 0


def test_blind_takes_a_milestone_and_freezing_takes_purpose(
    tasks: Callable[..., Any], refusal: Callable[..., str]
) -> None:
    tasks("import", "vet_clinic_1", "--pool", "blind")
    tasks("import", "recipe_box_1", "--pool", "regression")
    tasks("import")
    assert {one["pool"] for one in tasks("list")} == {"train", "dev", "regression"}
    for command in (("list", "--pool", "blind"), ("show", "vet_clinic_1/0")):
        assert "--milestone" in refusal(*command)
    assert "milestone" in refusal("move", "vet_clinic_1", "--to", "dev", "--why", "spent")
    (blind,) = tasks("list", "--pool", "blind", "--milestone", "release 1", "--by", "ann")
    assert len(blind["entries"]) == 10
    assert tasks("show", "vet_clinic_1/0", "--milestone", "release 1", "--by", "bob")["pool"] == "blind"
    frozen = tasks("freeze", "--why", "baseline")
    assert frozen["version"] == 1
    assert "revision" in refusal("move", "recipe_box_1/0", "--to", "dev", "--why", "x")
    tasks("move", "recipe_box_1/0", "--to", "dev", "--why", "its verifier was wrong", "--revise")
    pools = tasks("pools")
    assert [(one["event"]["milestone"], one["by"]) for one in pools["openings"]] == [
        ("release 1", "ann"),
        ("release 1", "bob"),
    ]
    versions = {one["pool"]: one["versions"] for one in pools["pools"]}
    assert versions["regression"][0] == {"version": 1, "manifest": frozen["manifest"]}
    assert len(versions["regression"]) == 2
    assert pools["frozen"]


def test_what_people_see(quintain: Command, tmp_path: Path) -> None:
    registry = ("--registry", str(tmp_path / "registry"))
    assert "10 new in dev" in quintain("tasks", "import", "vet_clinic_1", "--pool", "dev", *registry).stdout
    moved = quintain("tasks", "move", "vet_clinic_1/1", "--to", "train", "--why", "more", "--by", "[red]bob", *registry)
    assert "1 tasks moved to train; train is at version 1, dev is at version 2" in moved.stdout
    shown = quintain("tasks", "show", "vet_clinic_1/1", *registry).stdout
    assert "quintain pack" in shown
    assert "[red]bob" in shown
    pools = quintain("tasks", "pools", *registry).stdout
    assert "regression" in pools
    assert "blind was opened 0 times" in pools
    assert "9 tasks" in quintain("tasks", "list", "--pool", "dev", *registry).stdout


def test_what_is_refused_is_one_line(refusal: Callable[..., str], tasks: Callable[..., Any], tmp_path: Path) -> None:
    for command in (["list"], ["pools"], ["show", "vet_clinic_1/0"], ["freeze"]):
        assert "no task registry" in refusal(*command)
    assert "vet_clinik" in refusal("import", "vet_clinik")
    tasks("import")
    assert "names no task" in refusal("show", "vet_clinic_1")
    assert "no task vet_clinic_1/77" in refusal("show", "vet_clinic_1/77")
    assert "no task of sofas" in refusal("move", "Sofas", "--to", "dev", "--why", "x")
    assert "--version" in refusal("list", "--version", "1")
    journal = tmp_path / "registry" / "journal"
    journal.write_bytes(b"x" + journal.read_bytes())
    assert "records are lost" in refusal("pools")


def test_a_torn_journal_is_repaired_with_a_notice(quintain: Command, tasks: Callable[..., Any], tmp_path: Path) -> None:
    tasks("import", "--pool", "dev")
    with (tmp_path / "registry" / "journal").open("ab") as file:
        file.write(b"sha256:0123")
    done = quintain(
        "tasks", "move", "vet_clinic_1", "--to", "train", "--why", "x", "--registry", str(tmp_path / "registry")
    )
    assert done.returncode == 0
    assert "11 bytes of a record that was never finished; they were cut off" in done.stderr
    assert tasks("pools")["pools"][0]["tasks"] == 10


def test_a_server_serves_by_pool(tasks: Callable[..., Any], tmp_path: Path) -> None:
    tasks("import", "vet_clinic_1", "--pool", "dev")
    tasks("import", "parcel_desk_1")
    token = "nightly-0123456789"
    file = tmp_path / "tokens.json"
    holder = {"name": "nightly", "token": token, "pools": ["dev"]}
    file.write_text(json.dumps({"schema_version": 1, "tokens": [holder]}))
    registry = {"QUINTAIN_REGISTRY": str(tmp_path / "registry")}
    with serving(tmp_path, **registry) as server, Wire(server.url) as session:
        assert "tasks are served by pool" in server.log
        assert [one["name"] for one in session.seen("__list_scenarios__")["scenarios"]] == ["parcel_desk_1"]
        assert session.reset("parcel_desk_1", 0)["task_idx"] == 0
    with serving(tmp_path, QUINTAIN_TOKENS=str(file), QUINTAIN_TOKEN="trainer-0123456789", **registry) as server:
        for held, scenario in ((token, "vet_clinic_1"), ("trainer-0123456789", "parcel_desk_1")):
            with Wire(server.url, headers={"Authorization": f"Bearer {held}"}) as session:
                assert [one["name"] for one in session.seen("__list_scenarios__")["scenarios"]] == [scenario]


def test_a_server_that_was_told_of_pools_does_not_start_without_them(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    absent = str(tmp_path / "absent")
    assert "no task registry" in refused("serve", "--port", "0", QUINTAIN_REGISTRY=absent)
    data = {"XDG_DATA_HOME": str(tmp_path / "data")}
    assert "no task registry" in refused("serve", "--port", "0", QUINTAIN_TOKEN_POOLS="dev", **data)
    file = tmp_path / "tokens.json"
    holder = {"name": "nightly", "token": "nightly-0123456789", "pools": ["dev"]}
    file.write_text(json.dumps({"schema_version": 1, "tokens": [holder]}))
    assert "no task registry" in refused("serve", "--port", "0", QUINTAIN_TOKENS=str(file), **data)
