"""`quintain episode`: a solution replayed, and an episode played by hand over a pipe."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.preloaded import shared
from e2e.serving import environment

pytestmark = pytest.mark.xdist_group("cli-episode")

Command = Callable[..., subprocess.CompletedProcess[str]]


def by_hand(folder: Path, typed: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Type lines into an episode."""
    command = ["episode", "outdoor_marketplace_1", "0", *arguments]
    return shared().run(command, folder, environment(folder), 60, typed=typed)


def test_a_solution_for_programs(quintain: Command) -> None:
    done = quintain("episode", "outdoor_marketplace_1", "0", "--solution", "--seed", "7", "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == ["task", "call", "result", "call", "result", "answer", "done"]
    assert events[3] == {"event": "call", "tool_name": "add_cart_item", "arguments": {"product_id": 3, "quantity": 2}}
    assert events[4]["status"] == "ok"
    record = events[-1]["record"]
    assert (record["reward"], record["reward_type"], record["seed"]) == (1.0, "complete", 7)
    assert record["environment_class_id"].startswith("sha256:")


def test_a_solution_for_people(quintain: Command) -> None:
    done = quintain("episode", "Outdoor Marketplace 1", "0", "--solution")
    assert done.returncode == 0, done.stderr
    assert "> add_cart_item" in done.stdout
    assert "complete, reward 1.0" in done.stdout


def test_by_hand(tmp_path: Path) -> None:
    typed = (
        "tools\nnonsense {\nadd_cart_item [1]\nno_such_tool\n"
        'add_cart_item {"product_id": 3, "quantity": 2}\ndone Added to the cart\n'
    )
    done = by_hand(tmp_path, typed)
    assert done.returncode == 0, done.stderr
    assert "list_products: " in done.stdout
    assert "tool_not_found" in done.stdout
    assert "answer: Added to the cart" in done.stdout
    assert "complete, reward 1.0" in done.stdout
    assert done.stderr.count("arguments must be a JSON object") == 2


def test_by_hand_for_programs_every_line_is_json(tmp_path: Path) -> None:
    done = by_hand(tmp_path, "tools\nadd_cart_item [1]\nlist_products\ndone", "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == ["task", "tools", "tools", "call", "result", "done"]
    assert events[1] == events[2]
    assert {"name", "description"} == set(events[2]["tools"][0])


def test_the_end_of_the_input_is_the_end_of_the_episode(tmp_path: Path) -> None:
    done = by_hand(tmp_path, "list_products", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout.splitlines()[-1])["record"]
    assert (record["reward"], record["reward_type"]) == (0.1, "incomplete")


def test_an_answer_with_an_apostrophe(tmp_path: Path) -> None:
    done = by_hand(tmp_path, "done It's in the cart\n")
    assert done.returncode == 0, done.stderr
    assert "answer: It's in the cart" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("nowhere_9", "0"), "nowhere_9"),
        (("vet_clinic_1", "99"), "99"),
    ],
)
def test_an_episode_that_is_not_there(refused: Callable[..., str], arguments: tuple[str, ...], named: str) -> None:
    assert named in refused("episode", *arguments, "--solution")


def test_a_task_without_a_solution(refused: Callable[..., str], notes_pack: Path) -> None:
    (notes_pack / "solutions.json").unlink()
    line = refused("episode", "plain_notes_1", "0", "--solution", "--awm-data", str(notes_pack))
    assert "no reference solution" in line


def test_misspelt_arguments_say_where_the_help_is(quintain: Command) -> None:
    episode = ("episode", "vet_clinic_1")
    for arguments in ((*episode, "first"), (*episode, "-1"), ("dance",), ("serve", "-x")):
        done = quintain(*arguments)
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.startswith("quintain: ")
        assert " --help`" in line
