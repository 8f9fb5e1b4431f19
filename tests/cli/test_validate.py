"""`quintain validate`: the shipped pack is sound, each unsound task is named by its code, and lists are kept."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.pack import NOTES, Scenario, write_pack
from e2e.serving import environment, run
from e2e.unsound import DONE, UNSOUND
from quintain.episodes.validation import ValidationReport
from quintain.tasks import layout
from quintain.tasks.quarantine_file import read_quarantine

pytestmark = pytest.mark.xdist_group("cli-validate")

Command = Callable[..., subprocess.CompletedProcess[str]]
Reasons = dict[tuple[str, int | None], set[str]]
WITHOUT_BUBBLEWRAP = Path(__file__).parents[1] / "e2e" / "reduced.py"
EXPECTED: Reasons = {(scenario.name, place): reasons for scenario, found in UNSOUND for place, reasons in found.items()}
FEW = ("sound_notes_1", "broken_notes_1", "unsteady_notes_1")


@pytest.fixture(scope="module")
def unsound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound scenario, and others each unsound in a way of its own."""
    return write_pack(tmp_path_factory.mktemp("unsound") / "data", [scenario for scenario, _ in UNSOUND])


@pytest.fixture(scope="module")
def few_listed(unsound: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The list that was made of a few of them."""
    folder = tmp_path_factory.mktemp("few")
    done = run(["validate", *FEW, "--awm-data", str(unsound), "--quarantine", str(folder / "list.yaml")], folder)
    assert done.returncode == 1, done.stderr
    return folder / "list.yaml"


def reasons_in(report: dict[str, Any]) -> Reasons:
    found = {}
    for scenario in report["scenarios"]:
        found[scenario["scenario"], None] = {one["reason"] for one in scenario["findings"]}
        for task in scenario["tasks"]:
            found[scenario["scenario"], task["task_idx"]] = {one["reason"] for one in task["findings"]}
    return {place: reasons for place, reasons in found.items() if reasons}


def test_the_shipped_pack_is_sound(quintain: Command, tmp_path: Path) -> None:
    done = quintain("validate", "--json", "--quarantine", "list.yaml")
    assert done.returncode == 0, done.stdout
    report = ValidationReport.model_validate_json(done.stdout)
    assert len(report.scenarios) == 5
    for scenario in report.scenarios:
        assert (scenario.status, scenario.findings, scenario.obstacle) == ("sound", (), None), scenario
        assert scenario.warm, f"{scenario.scenario} is not warmed, so that warm starts were compared with nothing"
        for task in scenario.tasks:
            assert (task.status, task.noop, task.solution) == ("sound", "incomplete", "complete"), task
            assert task.findings == ()
            assert task.missing == ()
    assert read_quarantine(tmp_path / "list.yaml").entries == ()


def test_each_kind_of_unsound_task_is_found_and_nothing_else(quintain: Command, unsound: Path, tmp_path: Path) -> None:
    done = quintain("validate", "--awm-data", str(unsound), "--json", "--report", "out.json", "--quarantine", "q.yaml")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert reasons_in(report) == EXPECTED
    assert json.loads((tmp_path / "out.json").read_text()) == report
    assert set(report) == {
        "schema_version", "dataset_digest", "datasets", "versions", "started_at", "duration_s", "seed", "seeds",
        "repeats", "random", "scenarios",
    }  # fmt: skip
    assert {"quintain", "python", "sqlite", "isolation"} <= set(report["versions"])
    judged = next(one for one in report["scenarios"] if one["scenario"] == "judged_notes_1")
    assert [task["status"] for task in judged["tasks"]] == [
        "sound", "unsound", "unsound", "unproven", "unsound", "unsound", "unsound", "unsound", "unproven",
    ]  # fmt: skip
    assert [task["missing"] for task in judged["tasks"]] == [*[[]] * 3, ["verifier"], *[[]] * 4, ["solution"]]
    listed = read_quarantine(tmp_path / "q.yaml")
    assert {entry.place: set(entry.reasons) for entry in listed.entries} == EXPECTED
    assert {entry.dataset_digest for entry in listed.entries} == {report["dataset_digest"]}
    assert all(entry.detail for entry in listed.entries)
    assert all((entry.verifier_digest is None) is (entry.task_idx is None) for entry in listed.entries)


def test_rows_that_are_missing_and_bounds_that_the_solution_breaks(quintain: Command, tmp_path: Path) -> None:
    names = ("Bare Notes 1", "Bound Notes 1")
    data = write_pack(tmp_path / "data", [Scenario(name, NOTES, solutions={0: DONE}) for name in names])
    rows = (data / layout.ENVS).read_text().splitlines(keepends=True)
    (data / layout.ENVS).write_text("".join(row for row in rows if "Bare Notes 1" not in row))
    bounds = {"scenario": "bound_notes_1", "task_idx": 0, "writable_tables": [], "forbidden_tools": ["add_note"]}
    (data / layout.POLICIES).write_text(json.dumps(bounds) + "\n")
    done = quintain("validate", "--awm-data", str(data), "--json")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert reasons_in(report) == {("bare_notes_1", None): {"unreadable"}, ("bound_notes_1", 0): {"solution_unsafe"}}
    assert "allowed_tools_only" in report["scenarios"][1]["tasks"][0]["findings"][0]["detail"]


def test_the_same_is_found_in_sandboxes_of_the_reduced_level(unsound: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(WITHOUT_BUBBLEWRAP), "validate", "--awm-data", str(unsound), "--isolation", "reduced",
         "--json"],
        capture_output=True, text=True, timeout=110, cwd=tmp_path, check=False,
        env=environment(tmp_path, arguments=["--awm-data"]),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert report["versions"]["isolation"] == "reduced"
    assert reasons_in(report) == EXPECTED


def test_unsound_tasks_are_named_for_people(quintain: Command, unsound: Path) -> None:
    done = quintain("validate", "--awm-data", str(unsound), "judged_notes_1", "sound_notes_1")
    assert done.returncode == 1
    assert "judged_notes_1 task 1: noop_complete: doing nothing is scored complete" in done.stdout
    told = (
        "solution_not_complete: the reference solution is scored incomplete; call 2, no_such_tool, gave tool_not_found"
    )
    assert f"judged_notes_1 task 2: {told}" in done.stdout
    assert "judged_notes_1 task 4: verifier_uncertain: on doing nothing: the code raised ValueError: oh" in done.stdout
    assert "judged_notes_1 task 0" not in done.stdout
    assert "judged_notes_1 task 3" not in done.stdout
    assert "1 of 2 scenarios pass; tasks: 2 sound, 2 unproven, 6 unsound" in done.stdout


def test_a_list_is_the_same_byte_for_byte_when_nothing_new_is_found(
    quintain: Command, unsound: Path, few_listed: Path, tmp_path: Path
) -> None:
    path = tmp_path / "list.yaml"
    first = few_listed.read_bytes()
    path.write_bytes(first)
    assert len(read_quarantine(path).entries) == 2
    again = quintain("validate", *FEW, "--awm-data", str(unsound), "--quarantine", str(path), "--release")
    assert again.returncode == 1
    assert f"{path} holds 2 entries; it held 2" in again.stderr
    assert path.read_bytes() == first


def test_what_passes_now_is_taken_off_only_on_request(
    quintain: Command, unsound: Path, few_listed: Path, tmp_path: Path
) -> None:
    path = tmp_path / "list.json"
    document = read_quarantine(few_listed).model_dump(mode="json")
    stale = document["entries"][-1] | {"scenario": "sound_notes_1", "task_idx": 0, "reasons": ["noop_complete"]}
    by_hand = stale | {"task_idx": None, "reasons": ["by_hand"], "note": "too easy"}
    path.write_text(json.dumps(document | {"entries": [*document["entries"], stale, by_hand]}))
    validate = ("validate", *FEW, "--awm-data", str(unsound), "--quarantine", str(path))
    quintain(*validate)
    assert len(read_quarantine(path).entries) == 4
    quintain(*validate, "--release")
    left = read_quarantine(path).entries
    assert [entry.place for entry in left] == [
        ("broken_notes_1", None),
        ("sound_notes_1", None),
        ("unsteady_notes_1", 0),
    ]
    assert (left[1].reasons, left[1].note) == (("by_hand",), "too easy")


def test_few_of_many(quintain: Command, unsound: Path) -> None:
    done = quintain("validate", "Judged Notes 1", "--awm-data", str(unsound), "--task", "0", "--task", "3", "--json")
    assert done.returncode == 0, done.stdout
    (result,) = json.loads(done.stdout)["scenarios"]
    assert (result["scenario"], result["status"]) == ("judged_notes_1", "unproven")
    assert [task["task_idx"] for task in result["tasks"]] == [0, 3]
    done = quintain("validate", "--awm-data", str(unsound), "--task", "8", "--repeats", "1", "--at-once", "3", "--json")
    assert done.returncode == 0, done.stdout
    report = json.loads(done.stdout)
    assert report["repeats"] == 1
    assert [one["scenario"] for one in report["scenarios"]] == ["judged_notes_1"]


def test_what_a_scenario_says_neither_formats_nor_controls_the_terminal(quintain: Command, tmp_path: Path) -> None:
    broken = "raise RuntimeError('see [/red] and [bold]this[/] \\x1b]0;title\\x07\\u202e')"
    crash = "def verify_task_completion(a, b, c):\n    raise ValueError('[/] no [link=http://x]\\x1b[2J')\n"
    scenarios = [
        Scenario("Broken Notes 1", broken),
        Scenario("Odd Notes 1", NOTES, (("Do [/this] or [red]that\x1b[1m", crash),), {0: DONE}),
    ]
    pack = write_pack(tmp_path / "data", scenarios)
    done = quintain("validate", "--awm-data", str(pack), "--quarantine", "list.yaml")
    assert done.returncode == 1
    assert "Traceback (most recent call last)" not in done.stderr, done.stderr
    assert "see [/red] and [bold]this[/] \\x1b]0;title\\x07\\u202e" in done.stdout
    assert "[/] no [link=http://x]\\x1b[2J" in done.stdout
    listed = (tmp_path / "list.yaml").read_text()
    assert "title" in listed
    shown = quintain("scenarios", "show", "odd_notes_1", "--awm-data", str(pack))
    assert shown.returncode == 0, shown.stderr
    assert "Do [/this] or [red]that\\x1b[1m" in shown.stdout
    refused = quintain("episode", "broken_notes_1", "0", "--awm-data", str(pack))
    assert refused.returncode == 2
    assert "see [/red]" in refused.stderr
    printed = done.stdout + shown.stdout + refused.stderr + listed
    assert not any(char in printed for char in "\x1b\x07\u202e")


def test_misuse(refused: Callable[..., str], notes_pack: Path, tmp_path: Path) -> None:
    data = ("--awm-data", str(notes_pack))
    assert "nowhere_9" in refused("validate", "nowhere_9", *data)
    assert "no task 7 in plain_notes_1" in refused("validate", "plain_notes_1", "--task", "7", *data)
    assert "--quarantine" in refused("validate", "--release", *data)
    assert ".yaml or .json" in refused("validate", "--quarantine", "list.txt", *data)
    (tmp_path / "bad.yaml").write_text("entries: []")
    assert "bad.yaml is no quarantine list: schema_version is missing" in refused(
        "validate", "--quarantine", "bad.yaml", *data
    )
    assert "nowhere/report.json" in refused("validate", "--report", "nowhere/report.json", *data)
    assert "nowhere/list.yaml" in refused("validate", "--quarantine", "nowhere/list.yaml", *data)
    (notes_pack / "gen_verifier.jsonl").unlink()
    assert "gen_verifier.jsonl" in refused("validate", *data)
