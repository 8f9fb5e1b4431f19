"""The published layout of AgentWorldModel data: eight JSON-lines files, one row per scenario or verifier.

Source: the `Snowflake/AgentWorldModel-1K` dataset. Rows of one scenario stand at different places in different
files, so they are joined by normalised scenario name. Where several rows claim one place, the first usable one in
file order counts (it is the one the public harness scores with) and the others are reported. `solutions.json` and
`quintain_policies.jsonl` are Quintain's own additions, both optional.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from quintain.errors import DatasetError
from quintain.tasks.base import JsonObject, TaskPolicy, VerifierMode, normalised

EPOCH = "2026-02-10T00:00:00Z"
"""The instant at which the clock of every AWM episode starts."""

LAYOUT = "awm/1"
SCENARIO, TASKS, DB, SAMPLE = "gen_scenario.jsonl", "gen_tasks.jsonl", "gen_db.jsonl", "gen_sample.jsonl"
SPEC, ENVS = "gen_spec.jsonl", "gen_envs.jsonl"
VERIFIER_FILES: dict[str, VerifierMode] = {"gen_verifier.jsonl": "sql", "gen_verifier.pure_code.jsonl": "code"}
FILES = (SCENARIO, TASKS, DB, SAMPLE, SPEC, ENVS, *VERIFIER_FILES)
REQUIRED = tuple(name for name in FILES if name != SPEC)
PAYLOAD_FILES = (DB, SAMPLE, ENVS)
SOLUTIONS = "solutions.json"
POLICIES = "quintain_policies.jsonl"
"""One row per task that declares bounds: `scenario`, `task_idx`, and the fields of `TaskPolicy`."""

_CONTENT: dict[str, tuple[str, type | tuple[type, ...]]] = {
    TASKS: ("tasks", list),
    DB: ("db_schema", dict),
    SAMPLE: ("sample_data", (dict, list)),
    ENVS: ("full_code", str),
}
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


class UnparsableRow(ValueError):
    """A line that is not a JSON object with a scenario name."""


class UnusableRow(ValueError):
    """A row of a known scenario whose content cannot be used."""

    def __init__(self, scenario: str, message: str) -> None:
        super().__init__(message)
        self.scenario = scenario


@dataclass(frozen=True)
class Row:
    """A checked row: which scenario (normalised) and task it belongs to, and the whole object."""

    scenario: str
    task_idx: int | None
    content: JsonObject


def present_files(folder: Path) -> tuple[str, ...]:
    """The layout's files that a folder holds, and Quintain's policies.

    Raises:
        DatasetError: not a folder, or a required file is missing.
    """
    if not folder.is_dir():
        raise DatasetError(f"no dataset folder at {folder}; name a folder that holds {REQUIRED[0]} and its siblings")
    missing = [name for name in REQUIRED if not (folder / name).is_file()]
    if missing:
        raise DatasetError(
            f"{folder} lacks {', '.join(missing)}; put the whole dataset there, or let it be downloaded again"
        )
    return tuple(name for name in (*FILES, POLICIES) if (folder / name).is_file())


def lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Every line of a file as (line number from 1, byte offset, bytes). Only a newline ends a line."""
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield number, offset, line
            offset += len(line)


def parse(file: str, line: bytes) -> Row:
    """Read and check one line.

    Raises:
        UnparsableRow: not a JSON object with a scenario name.
        UnusableRow: the scenario's name is there, but not the content that the file is for.
    """
    row = _json_object(line)
    name = row.get("name" if file == SCENARIO else "scenario")
    scenario = normalised(name) if isinstance(name, str) else ""
    if not scenario:
        raise UnparsableRow("no scenario name")
    if _SURROGATE_ESCAPE.search(line) and not _encodable(row):
        raise UnusableRow(scenario, "text with half of a surrogate pair, which UTF-8 cannot carry")
    if file in VERIFIER_FILES:
        return Row(scenario, _verifier_index(scenario, row), row)
    if file == POLICIES:
        task_idx = _task_index(scenario, row)
        task_policy(scenario, row)
        return Row(scenario, task_idx, row)
    if file in _CONTENT:
        key, kind = _CONTENT[file]
        if not isinstance(row.get(key), kind) or (kind is str and not row[key].strip()):
            raise UnusableRow(scenario, f"no usable {key}")
    if file == TASKS and not all(isinstance(task, str) for task in row["tasks"]):
        raise UnusableRow(scenario, "tasks are not all text")
    return Row(scenario, None, row)


def _json_object(line: bytes) -> JsonObject:
    try:
        row: Any = json.loads(line.removeprefix(b"\xef\xbb\xbf"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UnparsableRow(f"not JSON: {error or type(error).__name__}") from error
    if not isinstance(row, dict):
        raise UnparsableRow(f"a {type(row).__name__} instead of an object")
    return row


def task_policy(scenario: str, row: JsonObject) -> TaskPolicy:
    """The policy in a row of `POLICIES`.

    Raises:
        UnusableRow: it is none; the message names the first thing wrong with it.
    """
    said = {key: value for key, value in row.items() if key not in ("scenario", "task_idx")}
    try:
        return TaskPolicy.model_validate(said)
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ".".join(str(part) for part in wrong["loc"])
        detail = f"task {row.get('task_idx')}: {place[:200]}: {wrong['msg'][:1].lower()}{wrong['msg'][1:]}"
        raise UnusableRow(scenario, detail) from error


def _task_index(scenario: str, row: JsonObject) -> int:
    task_idx = row.get("task_idx")
    if not isinstance(task_idx, int) or isinstance(task_idx, bool) or task_idx < 0:
        raise UnusableRow(scenario, f"task_idx is {task_idx!r}, not a whole number from 0")
    return task_idx


def _verifier_index(scenario: str, row: JsonObject) -> int:
    task_idx = _task_index(scenario, row)
    verification = row.get("verification")
    code = verification.get("code") if isinstance(verification, dict) else None
    if not isinstance(code, str) or not code.strip():
        raise UnusableRow(scenario, f"task {task_idx} has no verifier code")
    return task_idx


def _encodable(row: JsonObject) -> bool:
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
