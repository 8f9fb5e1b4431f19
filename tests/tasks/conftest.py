"""A dataset of any size in the published layout, made on the spot."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quintain.tasks import layout

MakeDataset = Callable[..., Path]


def rows(number: int, padding: int) -> dict[str, dict[str, Any]]:
    """The rows of one scenario, by file."""
    title = f"Corner Shop {number}"
    filler = f"# {title} " + "x" * padding
    table = {"name": "items", "ddl": "CREATE TABLE items (id INTEGER PRIMARY KEY);", "indexes": []}
    inserts = {"table_name": "items", "insert_statements": [f"INSERT INTO items VALUES ({number});"]}
    return {
        layout.SCENARIO: {"name": title, "description": f"Shop number {number}.\u2028Open all day."},
        layout.TASKS: {"scenario": title, "tasks": [f"Task {index} of shop {number}" for index in range(10)]},
        layout.DB: {"scenario": title, "db_schema": {"tables": [table]}},
        layout.SAMPLE: {"scenario": title, "sample_data": {"tables": [inserts]}},
        layout.SPEC: {"scenario": title, "api_spec": {}},
        layout.ENVS: {"scenario": title, "full_code": filler},
    }


def verifier_rows(number: int, mode: str) -> list[dict[str, Any]]:
    function = "verify_task_completion" if mode == "code" else "verify_task"
    return [
        {
            "scenario": f"corner_shop_{number}",
            "task_idx": index,
            "task": f"Task {index} of shop {number}",
            "verification": {
                "code": f"def {function}(initial_db_path, final_db_path, final_answer=None):\n    return {index}\n",
                "raw_response": json.dumps({"reasoning": "why", "success_criteria": f"{mode} {index}"}),
            },
        }
        for index in range(10)
    ]


def write(path: Path, lines: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


@pytest.fixture
def make_dataset(tmp_path: Path) -> MakeDataset:
    def make(scenarios: int = 3, padding: int = 0) -> Path:
        folder = tmp_path / "data"
        folder.mkdir()
        numbered = [rows(number, padding) for number in range(scenarios)]
        for position, file in enumerate(name for name in layout.FILES if name not in layout.VERIFIER_FILES):
            # every file in another order, as published
            turn = position * 7 % max(scenarios, 1)
            write(folder / file, [shop[file] for shop in numbered[turn:] + numbered[:turn]])
        for file, mode in layout.VERIFIER_FILES.items():
            write(folder / file, [row for number in reversed(range(scenarios)) for row in verifier_rows(number, mode)])
        return folder

    return make


@pytest.fixture
def append() -> Callable[[Path, str | bytes | dict[str, Any]], int]:
    """Append a line to a file and return its number."""

    def append_line(path: Path, line: str | bytes | dict[str, Any]) -> int:
        text = json.dumps(line) if isinstance(line, dict) else line
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        with path.open("ab") as file:
            file.write(data + b"\n")
        return path.read_bytes().count(b"\n")

    return append_line
