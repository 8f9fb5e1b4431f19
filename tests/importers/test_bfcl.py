"""BFCL's multi-turn categories as packs, beside BFCL's own checker. Its package is not part of this one."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from quintain.agents.reference import ReferenceAgent
from quintain.cli.importing import written
from quintain.contracts.tools import RESPOND, CallToolAction
from quintain.episodes.assembly import Assembly, open_rooms
from quintain.episodes.base import EpisodeRequest, Rooms
from quintain.episodes.episode import Episode
from quintain.errors import DatasetError
from quintain.tasks import PackSource
from quintain.tasks.importers import BfclPack, BfclPackage, Category, read_entries
from quintain.tasks.importers.bfcl import parsed_call
from served import ROOT

PEER = ROOT / ".venvs/bfcl"
COMPARE = ROOT / "tests/importers/bfcl_compare.py"
NAMED = {
    Category.BASE: (1, 56, 104, 173, 199),
    Category.MISS_FUNC: (0, 52, 111, 124, 180),
    Category.MISS_PARAM: (3, 60, 120, 155, 190),
    Category.LONG_CONTEXT: (9, 51, 100, 150, 185),
}
TASKS = [f"multi_turn_{category}_{number}" for category, numbers in NAMED.items() for number in numbers]

needs_bfcl = pytest.mark.skipif(
    not (PEER / ".ready").exists(),
    reason="bfcl-eval is not installed here; make bfcl sets it up, or says why it cannot",
)
pytestmark = [pytest.mark.xdist_group("bfcl"), pytest.mark.timeout(300)]

Row = dict[str, Any]


def site() -> Path:
    """Where the package lies."""
    (found,) = PEER.glob("lib/python*/site-packages")
    return found


def compare(report: Path, spoilt: int, *tasks: str, timeout_s: float) -> Row:
    """The report of attempts played in one process, without sandboxes."""
    command = [sys.executable, str(COMPARE), str(site()), str(report), str(spoilt), *tasks]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == ""
    return dict(json.loads(report.read_text()))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """References, no-ops and spoilt references of the sample, each with both verdicts."""
    return list(compare(tmp_path_factory.mktemp("bfcl") / "report.json", 20, *TASKS, timeout_s=200)["rows"])


@needs_bfcl
def test_verdicts_on_a_sample_are_those_of_bfcls_own_checker(rows: list[Row]) -> None:
    assert [row for row in rows if row["ours"] != row["theirs"]] == []
    said = Counter((row["how"], row["ours"] == "valid") for row in rows)
    assert said[("reference", True)] == said[("no-op", False)] == len(TASKS)
    assert sum(count for (how, _), count in said.items() if how not in ("reference", "no-op")) == 20
    assert {(row["task"].rsplit("_", 1)[0]) for row in rows} == {f"multi_turn_{one}" for one in Category}


@needs_bfcl
async def test_the_platform_gives_the_same_verdicts(rows: list[Row], runtime_cache: Path, tmp_path: Path) -> None:
    package = BfclPackage.at(site())
    entries = [entry for one in Category for entry in read_entries(package, one, frozenset(TASKS))]
    assert {name for entry in entries for name in entry.classes} >= {
        "GorillaFileSystem", "TwitterAPI", "TicketAPI", "MessageAPI", "TradingBot", "TravelAPI", "VehicleControlAPI",
    }  # fmt: skip
    assembly = Assembly(cache=runtime_cache.parent)
    await written(BfclPack(package, entries), tmp_path / "pack", assembly)
    with PackSource.open(tmp_path / "pack") as source:
        places = {
            source.template(scenario.name, index)["name"]: (scenario.name, index)
            for scenario in source.scenarios()
            for index in range(len(scenario.tasks))
        }
        async with open_rooms(source, assembly) as rooms:
            for row in rows:
                if row["how"] != "no-op" or row["task"].endswith("0"):
                    said = await _played(rooms, *places[row["task"]], row["turns"])
                    assert said == ("complete" if row["ours"] == "valid" else "incomplete"), row


async def _played(rooms: Rooms, scenario: str, index: int, turns: list[list[Row]]) -> str:
    said = CallToolAction(tool_name=RESPOND, arguments={"message": "Done."})
    calls: list[CallToolAction] = []
    for number, turn in enumerate(turns):
        made = (CallToolAction(tool_name=one["name"], arguments=one["arguments"]) for one in turn)
        calls += [*([said] if number else []), *made]
    request = EpisodeRequest(scenario=scenario, task_idx=index, model_digest="bfcl")
    record = await Episode(rooms, request).play(ReferenceAgent(calls, "Done."))
    return str(record.reward_type)


@needs_bfcl
def test_a_pack_says_where_it_comes_from_and_hides_what_bfcl_hides(tmp_path: Path) -> None:
    package = BfclPackage.at(site())
    entries = read_entries(package, Category.MISS_FUNC, frozenset({"multi_turn_miss_func_3"}))
    BfclPack(package, entries).write(tmp_path / "pack")
    with PackSource.open(tmp_path / "pack") as source:
        assert source.provenance.licence == "Apache-2.0"
        assert "bfcl-eval 2026.3.23" in source.provenance.source
        (scenario,) = source.scenarios()
        assert source.payload(scenario.name)["environment"]["exclude"] == ["mv"]
        start = source.task(scenario.name, 0).start
        assert start is not None
        assert start["conversation"]["withhold"] == {"2": ["find", "ls"]}
        assert start["conversation"]["messages"][0].startswith("I have updated some more functions")
    with pytest.raises(DatasetError, match="there already"):
        BfclPack(package, entries).write(tmp_path / "pack")


@needs_bfcl
@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_all_verdicts_and_those_on_a_thousand_spoilt_references(tmp_path: Path) -> None:
    found = compare(tmp_path / "report.json", 1000, timeout_s=3500)
    assert found["attempts"] == 2600
    assert {(row["task"], row["how"]) for row in found["rows"]} == {
        ("multi_turn_miss_func_49", "reference"),  # its reference calls a function two turns before it appears
        ("multi_turn_miss_func_49", "extra call"),
        ("multi_turn_miss_func_49", "wrong argument"),
        ("multi_turn_miss_func_124", "extra call"),  # of a function that has not appeared yet; there it is done
        ("multi_turn_base_166", "wrong argument"),  # a number for a text is refused; there it makes no difference
    }


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("sort('a.txt')", {"file": "a.txt", "order": None}),
        ("sort('a.txt', order='up')", {"file": "a.txt", "order": "up"}),
        ("sort(order=[1, {'a': -2.5}], file='x')", {"order": [1, {"a": -2.5}], "file": "x"}),
    ],
)
def test_calls_are_read_without_being_run(text: str, arguments: Row) -> None:
    call = parsed_call(text, {"sort": ("file", "order")}, "here")
    assert call.arguments == {name: value for name, value in arguments.items() if value is not None}


@pytest.mark.parametrize(
    "text",
    [
        "sort(find('x'))",
        "sort",
        "a.sort('x')",
        "sort('a', 'b', 'c')",
        "sort('a', file='b')",
        "sort(**{})",
        "sort(",
        "cp('a')",
    ],
)
def test_what_is_no_call_with_literals_is_refused(text: str) -> None:
    with pytest.raises(DatasetError, match="here: "):
        parsed_call(text, {"sort": ("file", "order")}, "here")


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """A package with one class, one function and one entry, written for this test."""
    root = tmp_path / "bfcl_eval"
    prefix = "eval_checker/multi_turn_eval/func_source_code"
    files = {
        "constants/executable_backend_config.py": (
            f'BACKEND_PATH_PREFIX = "bfcl_eval.{prefix.replace("/", ".")}"\n'
            'CLASS_FILE_PATH_MAPPING = {"LampAPI": f"{BACKEND_PATH_PREFIX}.lamp"}\n'
            'MULTI_TURN_FUNC_DOC_FILE_MAPPING = {"LampAPI": "lamp.json"}\n'
        ),
        "constants/default_prompts.py": 'DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC = ("More now.")\n',
        f"{prefix}/lamp.py": (
            "class LampAPI:\n"
            "    def _load_scenario(self, scenario, long_context=False):\n"
            "        self.level = scenario['level']\n"
            "        self.marks = (1, {2: 'x'})\n"
            "    def set_level(self, level):\n"
            "        self.level = level\n"
            "        return {'level': level}\n"
            "    def burst(self):\n"
            "        raise ValueError('it is dark')\n"
        ),
        "data/multi_turn_func_doc/lamp.json": "\n".join(
            json.dumps({"name": name, "description": name, "parameters": {"type": "dict", "properties": one}})
            for name, one in {"set_level": {"level": {"type": "float"}}, "burst": {}}.items()
        ),
        "data/BFCL_v4_multi_turn_base.json": json.dumps(
            {
                "id": "multi_turn_base_0",
                "question": [[{"role": "user", "content": "Costs ${5}"}], [{"role": "user", "content": "Again"}]],
                "initial_config": {"LampAPI": {"level": 9876543210123456}},
                "involved_classes": ["LampAPI"],
            }
        ),
        "data/possible_answer/BFCL_v4_multi_turn_base.json": json.dumps(
            {"id": "multi_turn_base_0", "ground_truth": [["set_level(5)"], ["burst()"]]}
        ),
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return tmp_path


async def test_an_import_of_a_small_package(unpacked: Path, runtime_cache: Path) -> None:
    package = BfclPackage.at(unpacked)
    entries = read_entries(package, Category.BASE)
    assembly = Assembly(cache=runtime_cache.parent)
    await written(BfclPack(package, entries), unpacked / "pack", assembly)
    turns = [[{"name": "set_level", "arguments": {"level": 5}}], [{"name": "burst", "arguments": {}}]]
    with PackSource.open(unpacked / "pack") as source:
        assert source.task("bfcl_base_lamp", 0).text == "Costs ${5}"
        async with open_rooms(source, assembly) as rooms:
            assert await _played(rooms, "bfcl_base_lamp", 0, turns) == "complete"
            assert await _played(rooms, "bfcl_base_lamp", 0, [turns[0], []]) == "incomplete"
            assert await _played(rooms, "bfcl_base_lamp", 0, [turns[1], turns[1]]) == "incomplete"
            turns[0][0]["arguments"]["level"] = 5.0  # an equal state, and another result: "5.0"
            assert await _played(rooms, "bfcl_base_lamp", 0, turns) == "incomplete"


def test_a_package_of_another_layout_is_refused(unpacked: Path, tmp_path: Path) -> None:
    (unpacked / "bfcl_eval/constants/executable_backend_config.py").write_text("CLASSES = []\n")
    with pytest.raises(DatasetError, match="layout is not known"):
        BfclPackage.at(unpacked)
    with pytest.raises(DatasetError, match="name the folder"):
        BfclPackage.at(tmp_path / "nothing")
