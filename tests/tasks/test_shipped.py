"""The shipped pack: whole, and its verifiers strict. What the apps do is tested where they run."""

import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quintain.tasks import AwmDataset, Solution, Verifier, open_pack

TASKS = {
    "outdoor_marketplace_1": 10,
    "vet_clinic_1": 10,
    "parcel_desk_1": 5,
    "recipe_box_1": 4,
    "tool_library_1": 4,
}
ALL = [(name, index) for name, count in TASKS.items() for index in range(count)]
FAILING = {"parcel_desk_1": (2, 1), "recipe_box_1": (1, 0), "tool_library_1": (3, 0)}
ANSWERED = {
    "outdoor_marketplace_1": {2, 9},
    "vet_clinic_1": {2, 7, 9},
    "parcel_desk_1": {3},
    "recipe_box_1": {1},
    "tool_library_1": {2},
}
"""Tasks that ask for an answer and no change."""


@pytest.fixture(scope="module")
def pack() -> Iterator[AwmDataset]:
    with open_pack() as source:
        yield source


def build(payload: dict[str, Any], path: Path) -> tuple[int, int]:
    """The scenario's seed database; returns how many statements failed and foreign keys are violated."""
    failed = 0
    tables = payload["schema"]["tables"]
    statements = itertools.chain(
        *([table["ddl"], *table["indexes"]] for table in tables),
        *(table["insert_statements"] for table in payload["sample"]["tables"]),
    )
    connection = sqlite3.connect(path)
    try:
        for statement in statements:
            try:
                connection.execute(statement)
            except sqlite3.Error:
                failed += 1
        connection.commit()
        return failed, len(connection.execute("PRAGMA foreign_key_check").fetchall())
    finally:
        connection.close()


def verdict(verifier: Verifier, initial: Path, final: Path, answer: str | None = None) -> Any:
    """The pack's verifiers are our own code, so a test may run them here."""
    namespace: dict[str, Any] = {}
    exec(verifier.code, namespace)
    arguments = (str(initial), str(final)) if verifier.mode == "sql" else (str(initial), str(final), answer)
    return namespace[verifier.function_name](*arguments)


def code_verifier(pack: AwmDataset, name: str, index: int) -> Verifier:
    found = pack.verifier(name, index, "code")
    assert found is not None
    return found


def solution_of(pack: AwmDataset, name: str, index: int) -> Solution:
    found = pack.solution(name, index)
    assert found is not None
    return found


def test_the_pack_is_whole(pack: AwmDataset) -> None:
    assert {scenario.name: len(scenario.tasks) for scenario in pack.scenarios()} == TASKS
    assert pack.problems == []
    assert pack.provenance.licence == "Apache-2.0"
    for name, count in TASKS.items():
        report = pack.report(name)
        assert (report.verifiers["code"], report.solutions) == (count, count)
        assert report.verifiers["sql"] >= 1


@pytest.mark.parametrize(("name", "index"), ALL)
def test_solutions_call_tools_that_the_app_declares(pack: AwmDataset, name: str, index: int) -> None:
    code = pack.payload(name)["code"]
    solution = solution_of(pack, name, index)
    assert solution.calls
    for call in solution.calls:
        assert f'operation_id="{call.name}"' in code


@pytest.mark.parametrize("name", TASKS)
def test_seed_data_fails_only_where_the_readme_says(pack: AwmDataset, name: str, tmp_path: Path) -> None:
    assert build(pack.payload(name), tmp_path / "initial.db") == FAILING.get(name, (0, 0))


@pytest.mark.parametrize(("name", "index"), ALL)
def test_doing_nothing_is_not_complete(pack: AwmDataset, name: str, index: int, tmp_path: Path) -> None:
    initial = tmp_path / "initial.db"
    build(pack.payload(name), initial)
    verifier = code_verifier(pack, name, index)
    for answer in (None, "", "Done."):
        assert verdict(verifier, initial, initial, answer) == {"result": "others"}
    for other in pack.verifiers(name, index):
        if other.mode == "sql":
            assert verdict(other, initial, initial)


@pytest.mark.parametrize(("name", "index"), [(name, index) for name, index in ALL if index in ANSWERED[name]])
def test_an_answer_counts_only_with_the_database_untouched(
    pack: AwmDataset, name: str, index: int, tmp_path: Path
) -> None:
    initial, final = tmp_path / "initial.db", tmp_path / "final.db"
    build(pack.payload(name), initial)
    verifier, answer = code_verifier(pack, name, index), solution_of(pack, name, index).final_answer
    assert verdict(verifier, initial, initial, answer) == {"result": "complete"}
    for table in pack.payload(name)["schema"]["tables"]:
        final.write_bytes(initial.read_bytes())
        connection = sqlite3.connect(final)
        try:
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table["name"],)).fetchone()
            if found is None:
                continue
            connection.execute(f"DELETE FROM {table['name']} WHERE id = (SELECT max(id) FROM {table['name']})")
            connection.commit()
        finally:
            connection.close()
        assert verdict(verifier, initial, final, answer) == {"result": "others"}, table["name"]


DONE = {
    ("outdoor_marketplace_1", 0): ["INSERT INTO cart_items (user_id, product_id, quantity) VALUES (1, 3, 2)"],
    ("outdoor_marketplace_1", 6): [
        "UPDATE addresses SET is_default = 0 WHERE user_id = 1",
        "INSERT INTO addresses (user_id, label, recipient_name, street, city, state, postal_code, country, is_default)"
        " VALUES (1, 'Office', 'Mara Lindqvist', '900 SW 5th Ave', 'Portland', 'OR', '97204', 'US', 1)",
    ],
    ("outdoor_marketplace_1", 8): [
        "INSERT INTO return_requests (order_item_id, user_id, reason, refund_amount) VALUES (2, 1, 'Wrong size', 138)"
    ],
    ("vet_clinic_1", 4): [
        "INSERT INTO refill_requests (prescription_id, pickup_clinic_id) VALUES (1, 3)",
        "UPDATE prescriptions SET refills_remaining = refills_remaining - 1 WHERE id = 1",
    ],
    ("vet_clinic_1", 6): ["UPDATE users SET preferred_clinic_id = 2, sms_reminders = 0 WHERE id = 1"],
    ("vet_clinic_1", 8): ["UPDATE appointments SET scheduled_at = '2026-02-27 15:00' WHERE id = 1"],
    ("parcel_desk_1", 2): ["UPDATE pickup_slots SET parcel_id = 1, is_open = 0 WHERE id = 3"],
    ("recipe_box_1", 0): [
        "INSERT INTO comments (recipe_id, user_id, parent_id, body) VALUES (1, 1, 3, 'Perfekt mit Röstzwiebeln! 🧅')"
    ],
    ("tool_library_1", 3): ["INSERT INTO reservations (tool_id, member_id) VALUES (4, 1)"],
}
"""What these tasks' solutions do to the database, said in SQL."""


@pytest.mark.parametrize(("name", "index"), DONE)
def test_the_work_is_complete_and_any_damage_beside_it_is_not(
    pack: AwmDataset, name: str, index: int, tmp_path: Path
) -> None:
    initial, final, damaged = (tmp_path / f"{stem}.db" for stem in ("initial", "final", "damaged"))
    build(pack.payload(name), initial)
    final.write_bytes(initial.read_bytes())
    run(final, DONE[name, index])
    verifier, answer = code_verifier(pack, name, index), solution_of(pack, name, index).final_answer
    assert verdict(verifier, initial, final, answer) == {"result": "complete"}
    for statement in damages(final):
        damaged.write_bytes(final.read_bytes())
        run(damaged, [statement])
        assert verdict(verifier, initial, damaged, answer) == {"result": "others"}, statement


def run(path: Path, statements: list[str]) -> None:
    connection = sqlite3.connect(path)
    try:
        for statement in statements:
            assert connection.execute(statement).rowcount > 0, statement
        connection.commit()
    finally:
        connection.close()


def damages(path: Path) -> list[str]:
    """One row of every table deleted."""
    connection = sqlite3.connect(path)
    try:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    finally:
        connection.close()
    return [f"DELETE FROM {table} WHERE id = (SELECT min(id) FROM {table})" for (table,) in tables]


@pytest.mark.parametrize(("name", "index"), ALL)
def test_a_policy_names_tables_and_tools_that_there_are(pack: AwmDataset, name: str, index: int) -> None:
    policy, payload = pack.policy(name, index), pack.payload(name)
    assert policy is not None
    assert policy.writable_tables is not None
    assert set(policy.writable_tables) <= {table["name"] for table in payload["schema"]["tables"]}
    assert (policy.writable_tables == ()) is (index in ANSWERED[name])
    for tool in policy.forbidden_tools:
        assert f'operation_id="{tool}"' in payload["code"]
    assert not {call.name for call in solution_of(pack, name, index).calls} & set(policy.forbidden_tools)
