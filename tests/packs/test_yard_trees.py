"""Trees that look right without the work, or are made to stop a verifier, are paid by none of the yard's workspaces.

Verifiers are asked without a sandbox, as if hidden tests had passed: what is judged here is the rest.
"""

import csv
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from packs import yard_play
from quintain.tasks.shipped import PACKS
from quintain.verifiers.verifier_kind.code import run

HARBOUR = {
    "README.md": "# tide\n",
    "tide/__init__.py": "",
    "tide/depth.py": "SILL = 168\n",
    "tide/lamp.py": "RHYTHM = 3\n",
}
"""Some of what the history has; these verifiers look at no commit."""

Change = Callable[[Path], object]


class Field:
    """A task's tree as it was, and as an agent left it."""

    def __init__(self, root: Path, scenario: str, idx: int, seed: int = 0) -> None:
        self.scenario, self.idx, self._root = scenario, idx, root
        task = yard_play.yard().task(scenario, idx, seed)
        self.v: dict[str, Any] = task.variables
        self.first = root / "first"
        shutil.rmtree(self.first, ignore_errors=True)
        if (tree := PACKS / "yard" / scenario / "tree").is_dir():
            shutil.copytree(tree, self.first)
        for name, written in {
            **(HARBOUR if scenario == "harbour_history" else {}),
            **(task.start or {}).get("files", {}),
        }.items():
            put(self.first, name, written)

    def verdict(self, *changes: Change, answer: str | None = None) -> str:
        """What is said of the tree after these changes."""
        last = self._root / "last"
        shutil.copytree(self.first, last)
        for change in changes:
            change(last)
        verifier = yard_play.yard().verifier(self.scenario, self.idx, "code")
        assert verifier is not None
        inputs = {"initial_dir": str(self.first), "final_dir": str(last), "final_answer": answer}
        more = {"trace": [], "variables": self.v, "tests": {"complete": True}}
        try:
            return str(run(verifier.code, verifier.function, inputs, more)["result"])
        finally:
            subprocess.run(["rm", "-rf", last], check=True)  # `shutil` gets through no deep folders


def put(root: Path, name: str, written: str | bytes) -> None:
    """Write a file, with the folders it needs."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(written if isinstance(written, bytes) else written.encode())


def file(name: str, written: str | bytes) -> Change:
    return lambda root: put(root, name, written)


def link(name: str, to: str) -> Change:
    return lambda root: (root / name).symlink_to(to)


def folder(name: str) -> Change:
    return lambda root: (root / name).mkdir(parents=True)


def swapped(name: str, old: str, new: str) -> Change:
    def change(root: Path) -> None:
        text = (root / name).read_text()
        assert old in text, (name, old)
        put(root, name, text.replace(old, new))

    return change


def deep(root: Path) -> None:
    """More folders in one another than a walk that calls itself gets through."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


SPOILT = [file("README.md", "# all is well\n"), file("raw/more.txt", "x"), link("raw/mem", "/proc/self/mem")]
"""What must not be done on any of the data desk's tasks."""


def spoilt(field: Field, right: Change, answer: str | None = None) -> None:
    """What was rightly done is complete; not so with something else changed besides."""
    assert field.verdict(right, answer=answer) == "complete"
    assert field.verdict(answer=answer) == "others"
    for change in SPOILT:
        assert field.verdict(right, change, answer=answer) == "others"
    assert field.verdict(right, lambda root: os.mkfifo(root / "raw" / "pipe"), answer=answer) == "others"


@pytest.mark.parametrize("seed", yard_play.SEEDS)
def test_counting(seed: int, tmp_path: Path) -> None:
    field = Field(tmp_path, "data_desk", 0, seed)
    lines = (field.first / "raw/gate.log").read_text().splitlines()
    count = sum(line.split()[1:3] == [field.v["level"], field.v["gate"]] for line in lines)
    spoilt(field, file("count.txt", f"{count}\n"))
    for wrong in (link("count.txt", "/proc/self/mem"), link("count.txt", "count.txt"), folder("count.txt")):
        assert field.verdict(wrong) == "others"
    for text in ("9" * 5000, b"\xff\xfe", " ".join(map(str, range(50)))):
        assert field.verdict(file("count.txt", text)) == "others"


def moved_out(root: Path) -> None:
    """The data lie elsewhere, and a link leads there."""
    shutil.move(root / "raw", root / "elsewhere")
    (root / "raw").symlink_to("elsewhere")


@pytest.mark.parametrize("seed", yard_play.SEEDS)
def test_cleaning(seed: int, tmp_path: Path) -> None:
    field, rows = Field(tmp_path, "data_desk", 1, seed), dict[str, list[str]]()
    for row in csv.DictReader((field.first / "raw/members.csv").read_text().splitlines()):
        mail = row["mail"].strip().lower()
        if "@" in mail and not (mail in rows and field.v["keep"] == "first"):
            rows[mail] = [" ".join(row["name"].split()), mail, row["joined"].strip()]
    order = 1 if field.v["by"] == "mail" else 2

    def right(root: Path) -> None:
        with (root / "clean.csv").open("w", newline="") as opened:
            csv.writer(opened).writerows(
                [["name", "mail", "joined"], *sorted(rows.values(), key=lambda one: one[order])]
            )

    spoilt(field, right)
    assert field.verdict(right, moved_out) == "others"
    for text in ("x" * 200_000, '"' + "y" * 200_000, b"\x00\xff,\x00", '"'):
        assert field.verdict(file("clean.csv", text)) == "others"


NO_JSON: list[str | bytes] = ["[" * 100_000, '{"a":' * 100_000, b"\xff\xfe", "9" * 5000, "", "null", '"\\ud800"', "NaN"]


def test_json_that_is_none(tmp_path: Path) -> None:
    for idx, name in ((3, "config/a.json"), (4, "owed.json")):
        field = Field(tmp_path, "data_desk", idx)
        for text in NO_JSON:
            assert field.verdict(file(name, text)) == "others", (idx, text[:9])
        assert field.verdict(folder("config"), link(name, "/proc/self/mem")) == "others"
        assert field.verdict(folder(name)) == "others"
        assert field.verdict(deep) == "others"


@pytest.mark.parametrize("seed", yard_play.SEEDS)
def test_what_is_owed(seed: int, tmp_path: Path) -> None:
    field = Field(tmp_path, "data_desk", 4, seed)
    v = field.v
    owed = {f"A{v['k']}": v["c"], f"A{v['k'] + 4}": 720, f"A{v['k'] + 5}": 990}
    owed |= {} if v["late"] else {f"A{v['k'] + 3}": v["c"] + 40}
    right, answer = file("owed.json", json.dumps(owed)), f"They are owed {v['sum']} cents."
    spoilt(field, right, answer)
    for wrong in (
        f"{v['sum'] - 1}, {v['sum']}, {v['sum'] + 1}",
        f"1{v['sum']}0",
        "".join(map(str, range(9000))),
        "9" * 5000,
    ):
        assert field.verdict(right, answer=wrong) == "others"


def renamed(field: Field) -> Change:
    def change(root: Path) -> None:
        for path in [*root.glob("cargo/*.py"), *root.glob("tests/*.py")]:
            path.write_text(path.read_text().replace("bill_total", field.v["name"]))

    return change


def test_a_rename_keeps_the_tests(tmp_path: Path) -> None:
    field = Field(tmp_path, "cargo_library", 1)
    right = renamed(field)
    assert field.verdict(right) == "complete"
    assert field.verdict(right, file("tests/test_more.py", "def test_more():\n    assert True\n")) == "complete"
    for wrong in (
        lambda root: (root / "tests/test_report.py").unlink(),
        lambda root: (root / "tests/test_loads.py").unlink(),
        swapped("tests/test_report.py", "== ", ">= "),
        file("tests/test_bills.py", "def test_lines():\n    assert True\n"),
        swapped("check.sh", "set -e", "set +e"),
        file("cargo/x.py", b"\xff\xfe bill_total"),
        link("cargo/x.py", "/proc/self/mem"),
        link("cargo/x.py", "x.py"),
    ):
        assert field.verdict(right, wrong) == "others"
    for harmless in (file("cargo/x.py", b"\xff\xfe"), folder("cargo/x.py")):
        assert field.verdict(right, harmless) == "complete"


ONCE = """
def _cents(weight, zone, each, part=4, heavy=20):
    if weight < 1:
        raise ValueError("weight")
    if zone not in (1, 2, 3):
        raise ValueError("zone")
    cents = each * weight
    cents += {1: 0, 2: cents // part, 3: cents // 2}[zone]
    return cents + 500 if weight > heavy else cents
"""


def ways(*bodies: str) -> str:
    """The three ways, with these returns."""
    names = zip(("by_road", "by_rail", "by_boat"), bodies, strict=True)
    return "".join(f'\n\ndef {name}(weight, zone):\n    """Cents."""\n    return {body}\n' for name, body in names)


def test_what_is_said_once(tmp_path: Path) -> None:
    field = Field(tmp_path, "cargo_library", 3)
    first = (field.first / "cargo/ways.py").read_text()
    hidden = first
    for name in ("by_road", "by_rail", "by_boat"):
        hidden = hidden.replace(f"def {name}", f"def _{name}")
    table = (
        "_W = {'road': _by_road, 'rail': _by_rail, 'boat': _by_boat}\n\n\n"
        "def _cents(way, *given):\n    return _W[way](*given)\n"
    )
    same = [f"_cents(weight, zone, {each})" for each in (31, 21, 11)]
    for right in (
        ONCE + ways(*same),
        ONCE + ways(same[0], "_cents(weight, zone, heavy=30, each=21)", "_cents(weight, zone, 11, part=8)"),
    ):
        assert field.verdict(file("cargo/ways.py", right)) == "complete"
    helper = file("cargo/_once.py", ONCE)
    assert field.verdict(helper, file("cargo/ways.py", "from cargo._once import _cents\n" + ways(*same))) == "complete"
    for wrong in (
        first,
        hidden + ways(*(f"_by_{way}(weight, zone)" for way in ("road", "rail", "boat"))),
        hidden + table + ways(*(f"_cents('{way}', weight, zone)" for way in ("road", "rail", "boat"))),
        ONCE + ways(*same[:2], "_cents(weight, zone, 11) + (weight > 20) * 5"),
        ONCE + ways(*same[:2], "_cents(weight, zone, 11 if zone == 2 else 12)"),
        ONCE + ways(*same[:2], "sum([one for one in (weight,)])"),
        "def by_road(:",
        "(" * 100_000,
        b"\xff\xfe",
        b"\x00",
    ):
        assert field.verdict(file("cargo/ways.py", wrong)) == "others", wrong[-80:]
    moved = file("cargo/_old.py", hidden)
    apart = "from cargo._old import _by_road, _by_rail, _by_boat\n\n" + table
    calls = ways(*(f"_cents('{way}', weight, zone)" for way in ("road", "rail", "boat")))
    assert field.verdict(moved, file("cargo/ways.py", apart + calls)) == "others"
    assert field.verdict(file("cargo/ways.py", ONCE + ways(*same)), file("check.sh", "")) == "others"
    for odd in (link("cargo/x.py", "/proc/self/mem"), file("cargo/x.py", b"\xff\xfe")):
        assert field.verdict(file("cargo/ways.py", ONCE + ways(*same)), odd) == "others"


INITIALS = '''def initials(name):
    """First letters of a name."""
    return "".join(part[0].upper() for part in name.split())


'''


@pytest.mark.parametrize("seed", yard_play.SEEDS)
def test_what_is_brought_back(seed: int, tmp_path: Path) -> None:
    field = Field(tmp_path, "harbour_history", 1, seed)
    name, above = "tide/names.py", field.v["above"]
    right = swapped(name, f"def {above}(", f"{INITIALS}def {above}(")
    assert field.verdict(right) == "complete"
    elsewhere = next(one for one in ("tidy", "same", field.v["fn"]) if one != above)
    for wrong in (
        swapped(name, f"def {elsewhere}(", f"{INITIALS}def {elsewhere}("),
        swapped(name, "def tidy", "initials = str\n\n\ndef tidy"),
        file(name, "(" * 100_000),
        file(name, b"\x00"),
        file(name, b"\xff"),
        file(name, INITIALS),
        swapped(name, f"def {above}(", f"{INITIALS.rstrip()}\n\ndef {above}("),
        folder("other"),
    ):
        assert field.verdict(wrong) == "others"
    for besides in (
        swapped(name, '"""Whether two names are one."""', '"""Same."""'),
        file("README.md", "# mine\n"),
        file("tide/depth.py", "SILL = 168\n\n"),
        lambda root: (root / "tide/lamp.py").unlink(),
    ):
        assert field.verdict(right, besides) == "others"


@pytest.mark.parametrize("seed", yard_play.SEEDS)
def test_what_was_over(seed: int, tmp_path: Path) -> None:
    """What is checked out stays, all of it; and one number is told."""
    field = Field(tmp_path, "harbour_history", 3, seed)
    told, done = field.v["told"], file("over.csv", "time,over\n")
    assert field.verdict(done, answer=f"It is {told} cm.") == "complete"
    for answer in (", ".join(map(str, range(900))), f"{told} or {told + 1}", "9" * 5000, "", None):
        assert field.verdict(done, answer=answer) == "others"
    for besides in (
        file("tide/depth.py", "SILL = 168\nMORE = 1\n"),
        swapped("readings.csv", "time,", "when,"),
        file("README.md", ""),
        lambda root: (root / "tide/lamp.py").unlink(),
    ):
        assert field.verdict(done, besides, answer=str(told)) == "others"


def test_who_set_it(tmp_path: Path) -> None:
    """One author and one commit are named."""
    field = Field(tmp_path, "harbour_history", 0)
    who, commit = field.v["who"], field.v["hash"]
    assert field.verdict(answer=f"{who}, with {commit[:9]}.") == "complete"
    for answer in (
        f"Bo Ferrin, Cai Holm or Ree Alders, {commit}",
        f"{who} {commit} {'0' * 40}",
        f"Not {who}, but {commit}",
        f"Bo or Cai or {who}, {commit}" if who.startswith("Ree") else f"Ree or {who}, {commit}",
        who,
        "a" * 100_000,
        "",
    ):
        assert field.verdict(answer=answer) == "others"
    for besides in (link("mem", "/proc/self/mem"), file("new", "")):
        assert field.verdict(besides, answer=f"{who} {commit}") == "others"
    assert field.verdict(deep, answer=f"{who} {commit}") == "complete"
