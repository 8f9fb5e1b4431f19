"""`quintain init`: what it makes of every kind is sound as it is, and says what is in it."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from quintain.cli.init import KINDS, scaffold
from quintain.errors import UsageError
from quintain.tasks import PackSource

pytestmark = pytest.mark.xdist_group("cli-init")

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    ("kinds", "asked"),
    [
        (KINDS[:4], ("--seeds", "2", "--random", "5")),
        (KINDS[4:5], ("--seeds", "1", "--repeats", "1")),  # each of its verdicts runs tests
        (KINDS[5:], ("--seeds", "1", "--repeats", "1")),  # each of its episodes starts a server
    ],
    ids=["quick kinds", "workspace", "mcp"],
)
def test_packs_of_every_kind_are_accepted_at_once(
    quintain: Command, kinds: tuple[str, ...], asked: tuple[str, ...]
) -> None:
    for kind in kinds:
        made = quintain("init", kind, f"my-{kind}", "--into", "packs")
        assert made.returncode == 0, made.stderr
        assert made.stdout.splitlines()[-1] == f"quintain validate packs/my-{kind} --seeds 3"
    done = quintain("validate", *(f"packs/my-{kind}" for kind in kinds), *asked, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    seeds = int(asked[1])
    assert (report["seed"], report["seeds"]) == (0, seeds)
    assert [one["scenario"] for one in report["scenarios"]] == [f"my_{kind}" for kind in kinds]
    for scenario in report["scenarios"]:
        assert (scenario["status"], scenario["warnings"]) == ("sound", []), scenario
        for task in scenario["tasks"]:
            assert (task["noop"], task["solution"], len(task["seeds"])) == ("incomplete", "complete", seeds), task
            if report["random"]:
                assert (task["trials"]["tried"] >= 5, task["trials"]["complete"]) == (True, 0)
        assert len(scenario["tasks"]) == 2


def test_what_is_wrong_with_hidden_tests_is_told(quintain: Command, tmp_path: Path) -> None:
    assert quintain("init", "workspace", "desk", "--into", str(tmp_path)).returncode == 0
    tests = tmp_path / "desk/desk/tests"
    (file,) = tests.glob("test_*.py")
    file.write_text(f"import no_such_module\n{file.read_text()}")
    done = quintain("validate", str(tmp_path / "desk"), "--task", "0", "--repeats", "1", "--json")
    assert done.returncode == 1, done.stderr
    (finding,) = json.loads(done.stdout)["scenarios"][0]["tasks"][0]["findings"]
    assert finding["reason"] == "solution_not_complete"
    assert finding["detail"].endswith("hidden tests: ModuleNotFoundError: No module named 'no_such_module'")
    (tests / "__init__.py").touch()
    done = quintain("validate", str(tmp_path / "desk"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "desk/tasks.yaml" in done.stderr
    assert "take each __init__.py away" in done.stderr


def test_a_pack_and_a_scenario_of_it_are_named_side_by_side(quintain: Command) -> None:
    assert quintain("init", "mock", "desk").returncode == 0
    done = quintain("validate", "./desk", "Desk", "--task", "1", "--seeds", "3", "--random", "4", "--repeats", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "1 of 1 scenarios pass; tasks: 1 sound, each with 3 seeds"
    assert " 3/3 " in done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_say_what_is_in_them(kind: str, tmp_path: Path) -> None:
    folder = scaffold(kind, "corner-shop", tmp_path)
    with PackSource.open(folder) as source:
        (scenario,) = source.scenarios()
        assert (scenario.name, scenario.title, scenario.kind) == ("corner_shop", "Corner shop", kind)
        assert len(scenario.tasks) == 2
        for index in range(2):
            drawn = [source.task(scenario.name, index, seed) for seed in range(10)]
            texts = {json.dumps([one.text, one.start]) for one in drawn}
            assert len(texts) > 1, "a seed varies it"
    for file in ("pack.yaml", "corner_shop/environment.yaml", "corner_shop/tasks.yaml"):
        text = (folder / file).read_text()
        assert text.startswith("# ")
        assert "@" not in text


def test_misuse(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "no kind is called 'browser'" in refused("init", "browser", "desk")
    assert "'My Desk' is no name of a pack" in refused("init", "mock", "My Desk")
    (tmp_path / "desk").mkdir()
    assert "desk is there already" in refused("init", "mock", "desk")
    (tmp_path / "file").touch()
    assert "cannot be written" in refused("init", "mock", "other", "--into", "file")
    with pytest.raises(UsageError, match="no name"):
        scaffold("mock", "../up", tmp_path)
    last = 2**53 - 1
    assert f"over {last}" in refused("validate", "--seed", str(last), "--seeds", "2")
