"""A server honours the list that validation wrote: what is on it is neither listed nor played."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.pack import write_pack
from e2e.serving import serving
from e2e.unsound import UNSOUND
from e2e.wire import Wire
from quintain.tasks import open_pack
from quintain.tasks.quarantine import QuarantineList

pytestmark = pytest.mark.xdist_group("cli-quarantine")

Command = Callable[..., subprocess.CompletedProcess[str]]
OTHER = "sha256:" + "0" * 64


def listed(session: Wire) -> dict[str, Any]:
    observation = session.seen("__list_scenarios__")
    assert observation["total"] == len(observation["scenarios"])
    return {one["name"]: one for one in observation["scenarios"]}


def refusal(session: Wire, scenario: str, task_idx: int | None, **more: Any) -> str:
    data = {"scenario": scenario, "task_idx": task_idx, **more}
    observation = session.ask({"type": "reset", "data": data})["data"]["observation"]
    assert observation["reward_type"] == "reset_error", observation
    assert observation.get("metadata", {}) == {}, "a refusal is the request's mistake and nobody's failure"
    return str(observation["error"])


def entry(scenario: str, task_idx: int | None, **fields: Any) -> dict[str, Any]:
    plain = {
        "reasons": ["noop_complete"],
        "detail": "doing nothing is scored complete",
        "found_at": "2026-03-01T12:00:00Z",
    }
    return {"scenario": scenario, "task_idx": task_idx, "dataset_digest": open_pack().dataset_digest, **plain, **fields}


def write(path: Path, *entries: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"schema_version": 1, "entries": entries}))
    return path


def test_what_validation_found_is_not_played(quintain: Command, tmp_path: Path) -> None:
    chosen = ("sound_notes_1", "judged_notes_1", "broken_notes_1", "clock_notes_1")
    data = write_pack(tmp_path / "data", [one for one, _ in UNSOUND if one.name in chosen])
    quarantine = tmp_path / "list.yaml"
    validated = quintain("validate", "--awm-data", str(data), "--quarantine", str(quarantine))
    assert validated.returncode == 1, validated.stderr
    with (
        serving(tmp_path, ["--awm-data", str(data), "--quarantine", str(quarantine)]) as server,
        Wire(server.url) as session,
    ):
        assert (server.ready["scenarios"], server.ready["quarantined"]) == (2, 8)
        assert "in quarantine: 2 scenarios, 6 tasks" in server.log
        assert listed(session).keys() == {"sound_notes_1", "judged_notes_1"}
        assert listed(session)["judged_notes_1"]["num_tasks"] == 9
        for index in (1, 2, 4, 5, 6, 7):
            told = refusal(session, "Judged Notes 1", index)
            assert told.startswith(f"task {index} of judged_notes_1 is in quarantine (")
            assert str(quarantine) in told
        assert "noop_complete" in refusal(session, "judged_notes_1", 1)
        assert "does_not_boot" in refusal(session, "broken_notes_1", 0)
        for index in (0, 3, 8):
            assert session.reset("judged_notes_1", index)["task_idx"] == index
        assert session.value("add_note", words="done") == {"added": "done"}


def test_no_spelling_and_no_parameter_leads_round_the_list(tmp_path: Path) -> None:
    quarantine = write(tmp_path / "list.json", entry("parcel_desk_1", 1), entry("Vet Clinic 1", None))
    with serving(tmp_path, QUINTAIN_QUARANTINE=str(quarantine)) as server, Wire(server.url) as session:
        before = open_pack().scenario("parcel_desk_1")
        assert listed(session)["parcel_desk_1"]["tasks"] == list(before.tasks)
        for name in ("parcel_desk_1", "Parcel Desk 1", "PARCEL-DESK_1"):
            assert "in quarantine" in refusal(session, name, 1)
            assert "in quarantine" in refusal(session, name, 1, task="Something else.")
            assert "in quarantine" in refusal(session, name, 1, seed=7, attempt=3, model_digest="mine")
        assert "in quarantine" in refusal(session, "vet clinic 1", None)
        assert "in quarantine" in refusal(session, "vet_clinic_1", 9)
        assert session.reset("parcel_desk_1", 2)["task"] == before.tasks[2]
        assert "task_idx" not in session.reset("parcel_desk_1")
        assert server.complaints == []


def test_entries_about_another_dataset_do_not_apply_and_are_reported(tmp_path: Path) -> None:
    quarantine = write(tmp_path / "list.json", entry("parcel_desk_1", 1, dataset_digest=OTHER))
    with serving(tmp_path, ["--quarantine", str(quarantine)]) as server, Wire(server.url) as session:
        assert session.reset("parcel_desk_1", 1)["task_idx"] == 1
        assert (server.ready["scenarios"], server.ready["quarantined"]) == (5, 0)
        assert f"about other datasets than {open_pack().dataset_digest}, and not applied: 1 entries" in server.log


def test_a_list_that_cannot_be_used_is_refused_at_the_start(refused: Callable[..., str], tmp_path: Path) -> None:
    serve = ("serve", "--port", "0", "--quarantine")
    assert "absent.yaml cannot be read" in refused(*serve, "absent.yaml")
    (tmp_path / "empty.yaml").touch()
    assert "empty.yaml is no quarantine list" in refused(*serve, "empty.yaml")
    (tmp_path / "wrong.yaml").write_text("schema_version: 1\nentries:\n- scenario: x\n")
    assert "entries.0.task_idx is missing" in refused(*serve, "wrong.yaml")
    write(tmp_path / "unknown.json", entry("nowhere_9", 0))
    assert "no scenario 'nowhere_9'" in refused(*serve, "unknown.json")
    write(tmp_path / "beyond.json", entry("parcel_desk_1", 99))
    assert "no task 99 in parcel_desk_1" in refused(*serve, "beyond.json")
    assert "absent.yaml" in refused("serve", "--port", "0", QUINTAIN_QUARANTINE="absent.yaml")


def test_what_is_in_quarantine_can_still_be_played_by_hand_and_validated(quintain: Command, tmp_path: Path) -> None:
    quarantine = write(tmp_path / "list.json", entry("tool_library_1", None))
    told = {"QUINTAIN_QUARANTINE": str(quarantine)}
    played = quintain("episode", "tool_library_1", "0", "--solution", **told)
    assert played.returncode == 0, played.stderr
    validated = quintain("validate", "tool_library_1", "--quarantine", str(quarantine), "--release", **told)
    assert validated.returncode == 0, validated.stdout
    assert QuarantineList.read(quarantine.read_bytes(), "json").entries == ()
