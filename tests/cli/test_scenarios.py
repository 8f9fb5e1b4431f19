"""`quintain scenarios`."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("cli-scenarios")

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_the_list_for_programs(quintain: Command) -> None:
    done = quintain("scenarios", "list", "--json")
    assert done.returncode == 0, done.stderr
    reports = {report["scenario"]: report for report in json.loads(done.stdout)}
    assert set(reports) == {"outdoor_marketplace_1", "vet_clinic_1", "parcel_desk_1", "recipe_box_1", "tool_library_1"}
    assert reports["outdoor_marketplace_1"]["tasks"] == 10
    assert reports["outdoor_marketplace_1"]["verifiers"]["code"] == 10
    assert reports["outdoor_marketplace_1"]["solutions"] == 10


def test_the_list_for_people(quintain: Command) -> None:
    done = quintain("scenarios", "list")
    assert done.returncode == 0
    assert "vet_clinic_1" in done.stdout
    assert "5 scenarios" in done.stdout


def test_one_scenario_in_any_spelling(quintain: Command) -> None:
    shown = json.loads(quintain("scenarios", "show", "Vet Clinic 1", "--json").stdout)
    assert shown["name"] == "vet_clinic_1"
    assert len(shown["tasks"]) == 10
    assert shown["report"]["scenario"] == "vet_clinic_1"
    text = quintain("scenarios", "show", "vet_clinic_1").stdout
    assert "Cancel Pepper's scheduled appointment" in text


def test_a_scenario_that_is_not_there(refused: Callable[..., str]) -> None:
    line = refused("scenarios", "show", "vet_clinik_1")
    assert "vet_clinik_1" in line
    assert "vet_clinic_1" in line  # what it may have meant


def test_a_dataset_of_ones_own(quintain: Command, notes_pack: Path) -> None:
    (report,) = json.loads(quintain("scenarios", "list", "--awm-data", str(notes_pack), "--json").stdout)
    assert (report["scenario"], report["tasks"]) == ("plain_notes_1", 1)
    with (notes_pack / "gen_envs.jsonl").open("a") as file:
        file.write("this is no JSON\n")
    done = quintain("scenarios", "list", "--awm-data", str(notes_pack))
    assert done.returncode == 0
    assert "gen_envs.jsonl" in done.stdout  # told, not swallowed


def test_a_missing_file(refused: Callable[..., str], notes_pack: Path) -> None:
    (notes_pack / "gen_tasks.jsonl").unlink()
    assert "gen_tasks.jsonl" in refused("scenarios", "list", "--awm-data", str(notes_pack))


PACK = {
    "pack.yaml": "apiVersion: quintain.dev/v1alpha1\nkind: Pack\nname: corner\ntitle: A corner\n",
    "shop/environment.yaml": "kind: mock\ntitle: Shop\n",
    "shop/tasks.yaml": "- name: one\n  difficulty: 4\n  tags: [retail]\n  variables: {n: {integer: [1, 9]}}\n"
    "  text: Buy ${n}.\n  solution: []\n  verify: verify_it\n",
    "shop/verifier.py": "def verify_it(final_state): return {'result': 'complete'}\n",
}


@pytest.fixture
def corner(tmp_path: Path) -> Path:
    folder = tmp_path / "corner"
    (folder / "shop").mkdir(parents=True)
    for name, text in PACK.items():
        (folder / name).write_text(text)
    return folder


def test_packs_beside_one_another(quintain: Command, corner: Path, notes_pack: Path) -> None:
    def listed(*arguments: str, **extra: str) -> dict[str, str]:
        done = quintain("scenarios", "list", "--json", *arguments, **extra)
        assert done.returncode == 0, done.stderr
        return {report["scenario"]: report["kind"] for report in json.loads(done.stdout)}

    assert listed("--pack", str(corner)) == {"shop": "mock"}
    both = listed("--pack", str(corner), "--pack", "awm")
    assert (len(both), both["shop"], both["vet_clinic_1"]) == (6, "mock", "database")
    assert listed(QUINTAIN_PACKS=f"awm, {corner}") == both
    assert listed(QUINTAIN_PACKS=str(corner), AWM_DATA_DIR=str(notes_pack)) == {
        "plain_notes_1": "database",
        "shop": "mock",
    }


def test_difficulty_and_tags_are_shown_and_the_text_for_all_seeds(quintain: Command, corner: Path) -> None:
    shown = json.loads(quintain("scenarios", "show", "shop", "--pack", str(corner), "--json").stdout)
    assert (shown["kind"], shown["tasks"]) == ("mock", ["Buy ${n}."])
    assert shown["task_labels"] == [{"difficulty": 4, "tags": ["retail"]}]
    text = quintain("scenarios", "show", "shop", "--pack", str(corner)).stdout
    assert all(word in text for word in ("shop (mock)", "Buy ${n}.", "4", "retail"))


def test_a_pack_with_mistakes_is_refused_with_all_of_them(quintain: Command, corner: Path) -> None:
    (corner / "shop" / "tasks.yaml").write_text(PACK["shop/tasks.yaml"].replace("${n}", "${m}").replace("4", "7"))
    done = quintain("scenarios", "list", "--pack", str(corner))
    assert (done.returncode, done.stdout) == (2, "")
    first, *rest = done.stderr.splitlines()
    assert first == f"quintain: {corner} is no pack that can be served:"
    assert [line.split(": ")[0].strip() for line in rest] == ["shop/tasks.yaml:2", "shop/tasks.yaml:5"]


def test_packs_are_imported_each_with_its_own_provenance(quintain: Command, corner: Path, tmp_path: Path) -> None:
    registry = ("--registry", str(tmp_path / "registry"))
    done = quintain("tasks", "import", "--pack", str(corner), "--pack", "awm", "--json", *registry)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert "shop/0" in made["added"]
    assert len(made["added"]) == 34
    again = json.loads(
        quintain("tasks", "import", "shop", "--pack", "awm", "--pack", str(corner), "--json", *registry).stdout
    )
    assert (again["added"], again["unchanged"], again["sequence"]) == ([], 1, None)
    sources = [
        json.loads(quintain("tasks", "show", task, "--json", *registry).stdout)["provenance"]["source"]
        for task in ("shop/0", "vet_clinic_1/0")
    ]
    assert sources[0] == "pack corner"
    assert sources[0] != sources[1]
