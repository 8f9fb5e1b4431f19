"""Reading the published layout: joins, verifiers, solutions, and every fault counted and named."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quintain.contracts import digest_of, sha256
from quintain.errors import DatasetError, UnknownTaskError
from quintain.tasks import AwmDataset, TaskPolicy, TaskRef, TaskSource, layout, normalised, verifier_bundle

MakeDataset = Callable[..., Path]
Append = Callable[[Path, str | bytes | dict[str, Any]], int]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Outdoor Marketplace 1", "outdoor_marketplace_1"),
        ("  A--B__c!", "a_b_c"),
        ("vet_clinic_1", "vet_clinic_1"),
        ("Café Été 2", "caf_t_2"),
        ("!!!", ""),
    ],
)
def test_names_are_normalised(name: str, expected: str) -> None:
    assert normalised(name) == expected


def test_rows_of_differently_ordered_files_are_joined(make_dataset: MakeDataset) -> None:
    folder = make_dataset(5)
    with AwmDataset.open(folder) as opened:
        source: TaskSource = opened
        assert [scenario.name for scenario in source.scenarios()] == [f"corner_shop_{number}" for number in range(5)]
        assert source.problems == []
        for number in range(5):
            payload = source.payload(f"Corner Shop {number}")
            assert payload == {
                "scenario": f"corner_shop_{number}",
                "database": f"corner_shop_{number}.db",
                "code": f"# Corner Shop {number} ",
                "schema": {
                    "tables": [{"name": "items", "ddl": "CREATE TABLE items (id INTEGER PRIMARY KEY);", "indexes": []}]
                },
                "sample": {
                    "tables": [{"table_name": "items", "insert_statements": [f"INSERT INTO items VALUES ({number});"]}]
                },
                "epoch": "2026-02-10T00:00:00Z",
            }
            assert source.payload_digest(f"corner-shop {number}") == digest_of(payload)


def test_a_scenario_keeps_its_published_title_and_line_separators(make_dataset: MakeDataset) -> None:
    with AwmDataset.open(make_dataset()) as source:
        scenario = source.scenario("CORNER SHOP 1")
        assert (scenario.name, scenario.title) == ("corner_shop_1", "Corner Shop 1")
        assert scenario.description == "Shop number 1.\u2028Open all day."
        assert scenario == source.scenarios()[1]


def test_an_unknown_scenario_names_close_ones(make_dataset: MakeDataset) -> None:
    with AwmDataset.open(make_dataset()) as source:
        with pytest.raises(
            UnknownTaskError, match=r"no scenario 'corner shp 1' among the 3 .* did you mean corner_shop_1"
        ):
            source.payload("corner shp 1")
        with pytest.raises(UnknownTaskError, match="list the scenarios"):
            source.scenario("zzz")


@pytest.mark.parametrize("task_idx", [-1, 10, True])
def test_an_index_out_of_range_names_the_range(make_dataset: MakeDataset, task_idx: int) -> None:
    with AwmDataset.open(make_dataset()) as source:
        for call in (source.task, source.solution, source.verifiers):
            with pytest.raises(UnknownTaskError, match=r"corner_shop_0, which has tasks 0 to 9"):
                call("Corner Shop 0", task_idx)


def test_tasks_and_their_verifiers(make_dataset: MakeDataset) -> None:
    with AwmDataset.open(make_dataset()) as source:
        assert source.task("Corner Shop 2") == TaskRef(scenario="corner_shop_2")
        assert source.task("Corner Shop 2", 3) == TaskRef(
            scenario="corner_shop_2", task_idx=3, text="Task 3 of shop 2", verifiers=("code", "sql")
        )
        sql = source.verifier("corner shop 2", 3, "sql")
        code = source.verifier("corner shop 2", 3, "code")
        assert sql is not None
        assert code is not None
        assert (sql.function_name, sql.success_criteria, sql.failure_criteria) == ("verify_task", "sql 3", "")
        assert (code.function_name, code.reasoning) == ("verify_task_completion", "why")
        assert source.verifiers("corner shop 2", 3) == (code, sql)
        assert verifier_bundle([code, sql]) == {"code": code.content, "sql": sql.content}
        others = {source.verifiers("corner shop 2", index)[0].digest for index in range(10)}
        assert len(others) == 10
        assert code.digest in others
        assert sql.digest not in others


def test_the_first_usable_verifier_row_counts_and_the_others_are_reported(
    make_dataset: MakeDataset, append: Append
) -> None:
    folder = make_dataset(1)
    file = folder / "gen_verifier.pure_code.jsonl"
    kept = file.read_text()
    row = json.loads(kept.splitlines()[0])
    empty = row | {"verification": {"code": "  ", "raw_response": "{}"}}
    file.write_text(json.dumps(empty) + "\n" + kept)
    line = append(file, row | {"verification": {"code": "def verify_other(): ...", "raw_response": "{}"}})
    with AwmDataset.open(folder) as source:
        verifier = source.verifier("corner shop 0", 0, "code")
        assert verifier is not None
        assert "return 0" in verifier.code
        report = source.report("Corner Shop 0")
        assert report.counts == {"unusable_row": 1, "duplicate_row": 1}
        assert report.verifiers == {"code": 10, "sql": 10}
        assert [str(problem) for problem in report.problems] == [
            f"{file.name}:1: unusable_row: task 0 has no verifier code",
            f"{file.name}:{line}: duplicate_row: another row for corner_shop_0 task 0; the first one counts",
        ]


@pytest.mark.parametrize(
    ("line", "kind", "detail"),
    [
        ("{broken", "unparsable_row", "not JSON"),
        (b"\xff\xfe{}", "unparsable_row", "not JSON"),
        ("[1]", "unparsable_row", "a list instead of an object"),
        ('{"scenario": 7}', "unparsable_row", "no scenario name"),
        ('{"scenario": "Corner Shop 0", "db_schema": NaN}', "unparsable_row", "NaN is not JSON"),
        ("[" * 100_000, "unparsable_row", "not JSON"),
        ('{"scenario": "Corner Shop 0", "db_schema": "text"}', "unusable_row", "no usable db_schema"),
        ('{"scenario": "Corner Shop 0", "db_schema": {"tables": ["\\ud800"]}}', "unusable_row", "surrogate"),
        ('{"scenario": "Elsewhere 1", "db_schema": {}}', "unlisted_scenario", "elsewhere_1 is not in gen_scenario"),
        ('{"scenario": "Corner shop 0!", "db_schema": {}}', "duplicate_row", "another row for corner_shop_0"),
    ],
)
def test_a_bad_row_is_reported_with_file_and_line(
    make_dataset: MakeDataset, append: Append, line: str | bytes, kind: str, detail: str
) -> None:
    folder = make_dataset(1)
    number = append(folder / layout.DB, line)
    with AwmDataset.open(folder) as source:
        (problem,) = source.problems
        assert (problem.kind, problem.file) == (kind, layout.DB)
        assert problem.line == (None if kind == "unlisted_scenario" else number)
        assert detail in problem.detail
        assert source.payload("corner shop 0")["schema"]["tables"][0]["name"] == "items"


def test_a_surrogate_pair_is_ordinary_text(make_dataset: MakeDataset, append: Append) -> None:
    folder = make_dataset(1)
    append(folder / layout.SCENARIO, '{"name": "Emoji 1", "description": "\\ud83c\\udf72"}')
    with AwmDataset.open(folder) as source:
        assert source.scenario("emoji 1").description == "🍲"


@pytest.mark.parametrize("file", [layout.DB, layout.SAMPLE, layout.ENVS])
def test_a_scenario_without_a_row_is_listed_reported_and_not_buildable(make_dataset: MakeDataset, file: str) -> None:
    folder = make_dataset(2)
    path = folder / file
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "Corner Shop 1" not in line))
    with AwmDataset.open(folder) as source:
        assert len(source.scenarios()) == 2
        assert source.report("corner_shop_1").counts == {"missing_row": 1}
        assert source.report("corner_shop_0").problems == ()
        with pytest.raises(DatasetError, match=f"{file} has no usable row for corner_shop_1"):
            source.payload("corner_shop_1")
        assert source.payload("corner_shop_0")["scenario"] == "corner_shop_0"


def test_a_scenario_without_tasks_is_open_ended_only(make_dataset: MakeDataset, append: Append) -> None:
    folder = make_dataset(1)
    append(folder / layout.SCENARIO, {"name": "Bare 1"})
    with AwmDataset.open(folder) as source:
        assert source.task("bare 1").text is None
        with pytest.raises(UnknownTaskError, match="has no tasks; reset without one"):
            source.task("bare 1", 0)


def test_a_verifier_of_another_task_is_reported(make_dataset: MakeDataset, append: Append) -> None:
    folder = make_dataset(1)
    file = folder / "gen_verifier.jsonl"
    row = json.loads(file.read_text().splitlines()[0])
    lines = [json.dumps(row | {"task": "Something else"}), json.dumps(row | {"task_idx": 10})]
    file.write_text("\n".join(lines))
    with AwmDataset.open(folder) as source:
        assert [(problem.kind, problem.line) for problem in source.problems] == [
            ("task_mismatch", 1),
            ("task_mismatch", 2),
        ]
        assert "but there are 10 tasks" in source.problems[1].detail
        assert source.verifier("corner shop 0", 0, "sql") is not None
        assert source.verifier("corner shop 0", 1, "sql") is None


@pytest.mark.parametrize("file", layout.REQUIRED)
def test_a_missing_file_is_named(make_dataset: MakeDataset, file: str) -> None:
    folder = make_dataset(1)
    (folder / file).unlink()
    with pytest.raises(DatasetError, match=f"lacks {file}; put the whole dataset there"):
        AwmDataset.open(folder)


def test_gen_spec_may_be_absent(make_dataset: MakeDataset) -> None:
    folder = make_dataset(1)
    (folder / layout.SPEC).unlink()
    with AwmDataset.open(folder) as source:
        assert source.problems == []
        assert layout.SPEC not in source.manifest["files"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=f"no dataset folder at {tmp_path}/nowhere"):
        AwmDataset.open(tmp_path / "nowhere")


def test_the_dataset_digest_is_of_the_files(make_dataset: MakeDataset, append: Append) -> None:
    folder = make_dataset(2)
    with AwmDataset.open(folder) as source:
        first = source.dataset_digest
        assert source.manifest["epoch"] == layout.EPOCH
        assert source.manifest["files"] == {name: sha256((folder / name).read_bytes()) for name in layout.FILES}
        assert first == digest_of(source.manifest)
    append(folder / layout.SPEC, {"scenario": "Corner Shop 0 "})
    with AwmDataset.open(folder) as source:
        assert source.dataset_digest != first


def test_solutions_beside_the_data_are_read(make_dataset: MakeDataset) -> None:
    folder = make_dataset(1)
    good = {"calls": [["list_items", {"page": 1}]], "final_answer": "One."}
    bad = {"calls": [["list_items"]], "final_answer": "One."}
    solutions = {"Corner Shop 0": {"2": good, "3": bad, "11": good, "x": good}}
    (folder / layout.SOLUTIONS).write_text(json.dumps(solutions))
    with AwmDataset.open(folder) as source:
        solution = source.solution("corner shop 0", 2)
        assert solution is not None
        assert [(call.name, call.arguments) for call in solution.calls] == [("list_items", {"page": 1})]
        assert source.solution("corner shop 0", 3) is None
        report = source.report("corner shop 0")
        assert (report.solutions, report.counts) == (1, {"unusable_row": 3})


def test_solutions_that_are_not_json_are_reported(make_dataset: MakeDataset) -> None:
    folder = make_dataset(1)
    (folder / layout.SOLUTIONS).write_text("[")
    with AwmDataset.open(folder) as source:
        assert [(problem.kind, problem.file) for problem in source.problems] == [("unparsable_row", layout.SOLUTIONS)]


POLICY = {"scenario": "Corner Shop 0", "task_idx": 2, "writable_tables": ["items"], "forbidden_tools": ["wipe"]}


def test_policies_beside_the_data_are_read_and_are_part_of_it(make_dataset: MakeDataset, append: Append) -> None:
    folder = make_dataset(2)
    with AwmDataset.open(folder) as source:
        bare = source.dataset_digest
        assert source.policy("corner shop 0", 2) is None
    append(folder / layout.POLICIES, POLICY)
    append(folder / layout.POLICIES, {"scenario": "corner_shop_1", "task_idx": 0, "writable_tables": []})
    append(folder / layout.POLICIES, {"scenario": "corner_shop_1", "task_idx": 1, "forbidden_tools": ["wipe"]})
    with AwmDataset.open(folder) as source:
        assert source.problems == []
        assert source.policy("Corner Shop 0", 2) == TaskPolicy(writable_tables=("items",), forbidden_tools=("wipe",))
        assert source.policy("Corner Shop 0", 1) is None
        assert source.policy("Corner Shop 1", 0) == TaskPolicy(writable_tables=())
        assert source.policy("Corner Shop 1", 1) == TaskPolicy(writable_tables=None, forbidden_tools=("wipe",))
        assert source.task("corner shop 0", 2).verifiers == ("code", "sql")
        assert source.report("corner shop 0").verifiers == {"code": 10, "sql": 10}
        assert source.manifest["files"][layout.POLICIES] == sha256((folder / layout.POLICIES).read_bytes())
        assert source.dataset_digest != bare
        with pytest.raises(UnknownTaskError, match="has tasks 0 to 9"):
            source.policy("corner shop 0", 10)


@pytest.mark.parametrize(
    ("change", "kind", "detail"),
    [
        ({"writable_tables": "items"}, "unusable_row", "task 2: writable_tables: input should be a valid tuple"),
        ({"writable_tables": [7]}, "unusable_row", "task 2: writable_tables.0: input should be a valid string"),
        ({"forbidden_tools": [""]}, "unusable_row", "task 2: forbidden_tools.0: string should have at least 1"),
        ({"forbidden_tools": ["t"] * 257}, "unusable_row", "task 2: forbidden_tools: tuple should have at most 256"),
        ({"writeable_tables": []}, "unusable_row", "task 2: writeable_tables: extra inputs are not permitted"),
        ({"task_idx": "2"}, "unusable_row", "task_idx is '2', not a whole number from 0"),
        ({"task_idx": 10}, "task_mismatch", "policy for task 10, but there are 10 tasks"),
        ({"scenario": "Elsewhere 1"}, "unlisted_scenario", "elsewhere_1 is not in gen_scenario.jsonl"),
        ({"scenario": None}, "unparsable_row", "no scenario name"),
    ],
)
def test_a_bad_policy_is_reported_with_file_and_line(
    make_dataset: MakeDataset, append: Append, change: dict[str, Any], kind: str, detail: str
) -> None:
    folder = make_dataset(1)
    number = append(folder / layout.POLICIES, POLICY | change)
    with AwmDataset.open(folder) as source:
        (problem,) = source.problems
        assert (problem.kind, problem.file) == (kind, layout.POLICIES)
        assert problem.line == (None if kind == "unlisted_scenario" else number)
        assert detail in problem.detail
        assert all(source.policy("corner shop 0", index) is None for index in range(10))


def test_of_two_policies_the_first_counts(make_dataset: MakeDataset, append: Append) -> None:
    folder = make_dataset(1)
    append(folder / layout.POLICIES, POLICY)
    append(folder / layout.POLICIES, POLICY | {"writable_tables": ["items", "orders"]})
    with AwmDataset.open(folder) as source:
        assert source.report("corner shop 0").counts == {"duplicate_row": 1}
        assert source.policy("corner shop 0", 2) == TaskPolicy(writable_tables=("items",), forbidden_tools=("wipe",))


def test_provenance_is_read_or_is_the_folder(make_dataset: MakeDataset) -> None:
    folder = make_dataset(1)
    with AwmDataset.open(folder) as source:
        assert (source.provenance.source, source.provenance.licence) == (str(folder), "unknown")
    (folder / "provenance.json").write_text('{"source": "somewhere", "commit": "abc", "licence": "CC-BY-4.0"}')
    with AwmDataset.open(folder) as source:
        assert source.provenance.commit == "abc"
    (folder / "provenance.json").write_text("{}")
    with pytest.raises(DatasetError, match=r"provenance\.json does not say where the data came from"):
        AwmDataset.open(folder)


def test_a_payload_that_has_no_digest_says_which(make_dataset: MakeDataset, append: Append) -> None:
    folder = make_dataset(1)
    append(folder / layout.SCENARIO, {"name": "Big 1"})
    append(folder / layout.DB, {"scenario": "Big 1", "db_schema": {"tables": [], "rows": 2**60}})
    append(folder / layout.SAMPLE, {"scenario": "Big 1", "sample_data": []})
    append(folder / layout.ENVS, {"scenario": "Big 1", "full_code": "pass"})
    with AwmDataset.open(folder) as source, pytest.raises(DatasetError, match=r"scenario big_1 .* has no digest"):
        source.payload_digest("Big 1")


def test_threads_share_a_dataset(make_dataset: MakeDataset) -> None:
    wrong: list[str] = []

    def read(source: AwmDataset) -> None:
        for number in range(40):
            name = f"corner_shop_{number % 8}"
            if source.payload(name)["scenario"] != name:
                wrong.append(name)

    with AwmDataset.open(make_dataset(8)) as source:
        threads = [threading.Thread(target=read, args=(source,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
