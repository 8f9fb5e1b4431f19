"""A pack as a task source."""

import base64
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quintain.errors import DatasetError, ExpressionError, UnknownTaskError
from quintain.tasks import PackSource, TaskPolicy
from quintain.tasks.manifest import TaskEntry

from .conftest import ENVIRONMENT, PACK, TASKS, VERIFIER, MakePack


def test_what_an_environment_and_its_tasks_are(make_pack: MakePack) -> None:
    with PackSource.open(make_pack()) as pack:
        (scenario,) = pack.scenarios()
        assert (scenario.name, scenario.title, scenario.kind) == ("shop", "Shop", "mock")
        assert scenario.tasks == ("Refund ${order}, $${n} and ${total} for ${picks}.", "Say hello.")
        assert pack.scenario("SHOP") == scenario
        ref = pack.task("Shop", 0, 5)
        assert (ref.kind, ref.difficulty, ref.tags, ref.verifiers) == ("mock", 3, ("retail", "safety"), ("code",))
        assert ref.variables is not None
        total = ref.variables["n"] * 10
        assert ref.start == {"orders": {"refunds": total}}
        picks = '["' + '","'.join(ref.variables["picks"]) + '"]'
        assert ref.text == f"Refund {ref.variables['order']}, ${{n}} and {total} for {picks}."
        solution = pack.solution("shop", 0, 5)
        assert solution is not None
        assert solution.calls[0].arguments == {"order": ref.variables["order"], "total": total}
        assert solution.final_answer == str(total)
        assert pack.policy("shop", 0) == TaskPolicy(forbidden_tools=("delete_all",))
        assert pack.policy("shop", 1) is None
        plain = pack.task("shop", 1, 5)
        assert (plain.start, plain.variables, plain.difficulty) == (None, None, None)
        assert pack.task("shop").kind == "mock"
        assert pack.provenance.licence == "Apache-2.0"
        assert pack.provenance.source == "https://example.org/corner"
        report = pack.report("shop")
        assert (report.tasks, report.solutions, report.verifiers) == (2, 2, {"code": 2})


def test_each_task_names_its_function_of_the_one_file(make_pack: MakePack) -> None:
    pack = PackSource.open(make_pack())
    first, second = (pack.verifiers("shop", index)[0] for index in range(2))
    assert first.code == second.code == VERIFIER
    assert (first.function_name, second.function_name) == ("verify_refund", "verify_greeting")
    assert first.digest != second.digest
    assert pack.verifier("shop", 0, "sql") is None


def test_the_payload_is_the_environments_and_its_files(make_pack: MakePack) -> None:
    pack = PackSource.open(
        make_pack(
            {"shop/tree/a.txt": "words", "shop/b.bin": b"\xff\x00", "shop/README.md": "#", "shop/tree/README.md": "r"}
        )
    )
    assert pack.payload("shop") == {
        "scenario": "shop",
        "kind": "mock",
        "epoch": "2026-02-10T00:00:00Z",
        "environment": {"kind": "mock", "state": {"open": "no", "since": "2026-02-10"}},
        "files": {
            "tree/a.txt": "words",
            "tree/README.md": "r",
            "b.bin": {"base64": base64.b64encode(b"\xff\x00").decode()},
        },
    }
    assert pack.payload_digest("shop") == PackSource.open(pack.folder).payload_digest("shop")


def test_a_database_has_the_payload_of_an_awm_scenario(make_pack: MakePack) -> None:
    pack = PackSource.open(
        make_pack(
            {
                "shop/environment.yaml": "kind: database\ntitle: Shop\n",
                "shop/app.py": "app = 1\n",
                "shop/schema.sql": "-- tables\nCREATE TABLE t (a TEXT);\nCREATE INDEX i\n  ON t (a);\n",
                "shop/data.sql": "INSERT INTO t VALUES ('a;b');\n-- the end\n",
            }
        )
    )
    payload = pack.payload("shop")
    assert {key: payload[key] for key in ("scenario", "database", "code", "epoch")} == {
        "scenario": "shop", "database": "shop.db", "code": "app = 1\n", "epoch": "2026-02-10T00:00:00Z"
    }  # fmt: skip
    ddl = [table["ddl"] for table in payload["schema"]["tables"]]
    assert ddl == ["-- tables\nCREATE TABLE t (a TEXT);", "CREATE INDEX i\n  ON t (a);"]
    assert payload["sample"]["tables"] == [{"insert_statements": ["INSERT INTO t VALUES ('a;b');"]}]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**53 - 1))
def test_a_seed_has_one_task_and_its_solution(make_pack: MakePack, seed: int) -> None:
    one, other = PackSource.open(make_pack()), PackSource.open(make_pack())
    ref = one.task("shop", 0, seed)
    assert ref == other.task("shop", 0, seed) == one.task("shop", 0, seed)
    assert one.solution("shop", 0, seed) == other.solution("shop", 0, seed)
    assert ref.variables is not None
    drawn = ref.variables
    assert drawn["order"] in ("A17", "B42", "C99")
    assert len(set(drawn["picks"])) == 2
    assert set(drawn["picks"]) < {"x", "y", "z"}
    assert sorted(drawn["list"]) == [1, 2, 3]
    assert 1 <= drawn["n"] <= 500
    assert drawn["total"] == drawn["n"] * 10
    assert 1 <= drawn["price"] <= 9.5
    assert round(drawn["price"], 2) == drawn["price"]
    assert isinstance(drawn["price"], float)


def test_seeds_vary_a_task_and_never_its_payload(make_pack: MakePack) -> None:
    pack = PackSource.open(make_pack())
    assert len({pack.task("shop", 0, seed).text for seed in range(20)}) > 15
    assert len({pack.task("shop", 1, seed).text for seed in range(20)}) == 1


def test_what_a_seed_draws_is_the_same_everywhere(make_pack: MakePack) -> None:
    drawn = PackSource.open(make_pack()).task("shop", 0, 7).variables
    assert drawn == {"order": "B42", "picks": ["z", "x"], "list": [2, 3, 1], "n": 280, "price": 6.48, "total": 2800}


def test_another_variable_after_them_leaves_what_is_drawn_before(make_pack: MakePack) -> None:
    before = PackSource.open(make_pack()).task("shop", 0, 3).variables
    more = TASKS.replace(
        '    total: {value: "${n * 10}"}\n', '    total: {value: "${n * 10}"}\n    m: {integer: [1, 9]}\n'
    )
    after = PackSource.open(make_pack({"shop/tasks.yaml": more})).task("shop", 0, 3).variables
    assert after is not None
    assert before == {name: value for name, value in after.items() if name != "m"}


def test_the_dataset_is_every_file(make_pack: MakePack) -> None:
    digest = PackSource.open(make_pack()).dataset_digest
    assert PackSource.open(make_pack()).dataset_digest == digest
    assert PackSource.open(make_pack({"shop/README.md": "more"})).dataset_digest != digest
    pack = PackSource.open(make_pack())
    assert pack.dataset_of("shop") == pack.dataset_digest
    assert set(pack.manifest["files"]) == {
        "pack.yaml", "shop/environment.yaml", "shop/tasks.yaml", "shop/verifier.py", "shop/README.md"
    }  # fmt: skip


def test_what_is_not_there_is_told_with_what_is(make_pack: MakePack) -> None:
    pack = PackSource.open(make_pack())
    with pytest.raises(UnknownTaskError, match="did you mean shop"):
        pack.scenario("shopp")
    for ask in (pack.task, pack.verifiers, pack.solution, pack.policy, pack.template):
        with pytest.raises(UnknownTaskError, match="tasks 0 to 1"):
            ask("shop", 2)


def test_a_task_is_registered_for_all_its_seeds(make_pack: MakePack) -> None:
    pack = PackSource.open(make_pack())
    entry = TaskEntry.of(pack, "shop", 0)
    assert entry == TaskEntry.of(PackSource.open(make_pack()), "shop", 0)
    for part, other in (("n: {integer: [1, 500]}", "n: {integer: [1, 400]}"), ("refunds:", "refund:")):
        changed = PackSource.open(make_pack({"shop/tasks.yaml": TASKS.replace(part, other)}))
        assert TaskEntry.of(changed, "shop", 0).changes(entry) == ("text",)


def test_the_order_of_environments_is_the_packs(make_pack: MakePack) -> None:
    other = {"Tea Room/environment.yaml": ENVIRONMENT, "Tea Room/tasks.yaml": "[]\n"}
    assert [one.name for one in PackSource.open(make_pack(other)).scenarios()] == ["tea_room", "shop"]
    listed = PACK + "environments: [shop, Tea Room]\n"
    assert [one.name for one in PackSource.open(make_pack({"pack.yaml": listed})).scenarios()] == ["shop", "tea_room"]


def test_a_draw_that_cannot_be_made_names_its_place(make_pack: MakePack) -> None:
    for draw, told in (
        ("{integer: [5, 1]}", "from 5 to 1"),
        ("{sample: [[a], 2]}", "2 of 1"),
        ("{choice: []}", "list of 1"),
        ("{number: [1, 2]}", "[lowest, highest, decimals]"),
        ('{value: "${1.5 * 2}"}', "float * int"),
    ):
        pack = PackSource.open(
            make_pack({"shop/tasks.yaml": TASKS.replace("{integer: [1, 500]}", draw).replace("n * 10", "1")})
        )
        with pytest.raises((DatasetError, ExpressionError)) as caught:
            pack.task("shop", 0)
        assert told in str(caught.value)
        assert "shop/tasks.yaml: refund.variables.n" in str(caught.value)


def test_a_folder_that_is_no_pack(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"pack\.yaml: is missing"):
        PackSource.open(tmp_path)
    with pytest.raises(DatasetError, match="cannot be read"):
        PackSource.open(tmp_path / "nowhere")
