"""What is wrong with a pack is told at once, each thing with its file, line and field."""

import os
from pathlib import Path

import pytest

from quintain.errors import DatasetError
from quintain.tasks import PackSource
from quintain.tasks.packs import files

from .conftest import ENVIRONMENT, PACK, TASKS, MakePack

DATABASE = "kind: database\ntitle: Shop\n"
SQL = {"shop/environment.yaml": DATABASE, "shop/app.py": "app = 1\n", "shop/schema.sql": "CREATE TABLE t (a);\n"}


def told(folder: Path) -> list[str]:
    """The problems, one a line, without the line that names the folder."""
    with pytest.raises(DatasetError) as caught:
        PackSource.open(folder)
    first, *rest = str(caught.value).splitlines()
    assert str(folder) in first
    return [line.strip() for line in rest]


def changed(old: str, new: str) -> dict[str, str | bytes | None]:
    assert old in TASKS
    return {"shop/tasks.yaml": TASKS.replace(old, new)}


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"pack.yaml": PACK + "colour: red\n"}, "pack.yaml:7: colour: is no field here"),
        ({"pack.yaml": PACK.replace("kind: Pack", "kind: Bag")}, "pack.yaml:2: kind: input should be 'Pack'"),
        ({"pack.yaml": PACK + "epoch: 2026-02-10\n"}, "pack.yaml:7: epoch: is no instant; write it as"),
        ({"pack.yaml": PACK + "environments: [shop, tea]\n"}, "pack.yaml:7: environments[1]: 'tea' is no folder"),
        ({"pack.yaml": PACK.replace("title: A corner of town\n", "")}, "pack.yaml:1: title: is missing; add it"),
        ({"shop/environment.yaml": "kind: mock\n"}, "shop/environment.yaml:1: title: is missing"),
        ({"shop/environment.yaml": ENVIRONMENT + "kind: x\n"}, "shop/environment.yaml:5: kind: stands twice"),
        ({"shop/tasks.yaml": None}, "shop/tasks.yaml: is missing"),
        ({"shop/tasks.yaml": "a: 1"}, "shop/tasks.yaml:1: holds no list of tasks"),
        ({"shop/verifier.py": None}, "shop/verifier.py: is missing"),
        ({"shop/verifier.py": "def verify_refund(:\n"}, "shop/verifier.py:1: not Python"),
        (
            {"shop/verifier.py": "def verify_refund(): ...\n"},
            "shop/tasks.yaml:18: greet.verify: verifier.py has no function",
        ),
        (changed("difficulty: 3", "difficulty: 9"), "shop/tasks.yaml:2: [0].difficulty: input should be less than"),
        (
            changed("difficulty: 3", "difficulty: '3'"),
            "shop/tasks.yaml:2: [0].difficulty: input should be a valid integer",
        ),
        (changed("name: greet", "name: refund"), "shop/tasks.yaml:18: [1].name: 'refund' is task 0 too"),
        (changed("name: greet", "name: Greet Me"), "shop/tasks.yaml:18: [1].name: 'Greet Me' is not of the form"),
        (changed("verify: verify_refund", "verify: refund"), "[0].verify: 'refund' is not of the form"),
        (
            changed("{choice: [A17, B42, C99]}", "{chose: [1]}"),
            "shop/tasks.yaml:5: [0].variables.order.chose: is no field",
        ),
        (changed("{choice: [A17, B42, C99]}", "{}"), "shop/tasks.yaml:5: [0].variables.order: is drawn in one way"),
        (changed("list: {shuffle", "for: {shuffle"), "'for' is a word of the expression language"),
        (
            changed("text: Refund ${order}", "text: Refund ${ordre}"),
            "shop/tasks.yaml:11: [0].text: `ordre` asks for ordre",
        ),
        (changed("text: Refund ${order}", "text: Refund ${order"), "shop/tasks.yaml:11: [0].text: `${order"),
        (
            changed("n * 10", "n *"),
            "shop/tasks.yaml:10: [0].variables.total.value: expression `n *`: not an expression",
        ),
        (changed('{value: "${n * 10}"}', '{value: "${total}"}'), "[0].variables.total.value: `total` asks for total"),
        (changed("answer: ", "answers: "), "shop/tasks.yaml:15: [0].answers: is no field here"),
        (changed("forbidden_tools: [delete_all]", "forbidden_tools: ['']"), "[0].forbidden_tools"),
        ({**SQL, "shop/schema.sql": None}, "shop/schema.sql: is missing"),
        ({**SQL, "shop/data.sql": "INSERT INTO t\nVALUES (1)\n"}, "shop/data.sql:1: the last statement has no end"),
        ({**SQL, "shop/more.sql": ""}, "shop/more.sql: is read by nothing"),
        ({**SQL, "shop/environment.yaml": DATABASE + "state: {}\n"}, "shop/environment.yaml:3: state: is no field"),
    ],
)
def test_a_problem_has_its_place(make_pack: MakePack, files: dict[str, str | bytes | None], problem: str) -> None:
    (line,) = told(make_pack(files))
    assert problem in line


def test_all_problems_are_told_in_the_order_of_files_and_lines(make_pack: MakePack) -> None:
    folder = make_pack(
        {
            "shop/environment.yaml": ENVIRONMENT.replace("title", "titel"),
            "shop/tasks.yaml": TASKS.replace("${order}", "${ordre}").replace("text: Say", "texts: Say"),
        }
    )
    places = [line.split(" ")[0] for line in told(folder)]
    assert places[0] == "shop/environment.yaml:1:"
    assert places[1:] == [f"shop/tasks.yaml:{line}:" for line in (11, 14, 18, 19)]


def test_two_folders_of_one_name(make_pack: MakePack) -> None:
    other = {"Shop!/environment.yaml": ENVIRONMENT, "Shop!/tasks.yaml": "[]\n"}
    (line,) = told(make_pack(other))
    assert "the same name" in line


def test_no_environment_is_no_pack(make_pack: MakePack) -> None:
    (line,) = told(make_pack({"shop/environment.yaml": None}))
    assert "no folder holds an environment.yaml" in line


def test_links_do_not_lead_out_of_a_pack(make_pack: MakePack, tmp_path: Path) -> None:
    folder = make_pack()
    (tmp_path / "secret").write_text("mine")
    inside = folder / "shop" / "same.py"
    inside.symlink_to(folder / "shop" / "verifier.py")
    assert "same.py" in PackSource.open(folder).payload("shop")["files"]
    for target in (tmp_path / "secret", tmp_path, folder / "shop", tmp_path / "nothing"):
        link = folder / "shop" / "link"
        link.symlink_to(target)
        with pytest.raises(DatasetError, match="link out of the pack or to no file"):
            PackSource.open(folder)
        link.unlink()
    os.mkfifo(folder / "shop" / "pipe")
    with pytest.raises(DatasetError, match="no plain file"):
        PackSource.open(folder)


def test_a_link_that_leads_back_to_itself_is_told(make_pack: MakePack, tmp_path: Path) -> None:
    folder = make_pack()
    (folder / "shop" / "loop").symlink_to("loop")
    with pytest.raises(DatasetError, match="shop/loop is a link that leads back to itself; put the file itself there"):
        PackSource.open(folder)
    (folder / "shop" / "loop").unlink()
    (folder / "shop" / "there").symlink_to("back")
    (folder / "shop" / "back").symlink_to("there")
    with pytest.raises(DatasetError, match="leads back to itself"):
        PackSource.open(folder)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(DatasetError, match="loop is a link that leads back to itself; name a pack's folder"):
        PackSource.open(tmp_path / "loop")


def test_a_pack_is_bounded(make_pack: MakePack, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_pack()
    for name, bound in (("MAX_FILES", 3), ("MAX_PACK_BYTES", 500)):
        with monkeypatch.context() as patch:
            patch.setattr(files, name, bound)
            with pytest.raises(DatasetError, match="keep less"):
                PackSource.open(folder)


def test_what_python_and_git_leave_is_no_part_of_a_pack(make_pack: MakePack) -> None:
    before = PackSource.open(make_pack()).dataset_digest
    after = make_pack({"shop/__pycache__/verifier.pyc": b"\x00", ".git/HEAD": "ref"})
    assert PackSource.open(after).dataset_digest == before
