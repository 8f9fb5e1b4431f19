"""A pack's files read as one: checked against their models and against each other, with everything that is wrong."""

import ast
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from quintain.contracts.expressions import expressions_in
from quintain.errors import ExpressionError
from quintain.tasks.base import DATABASE, WORKSPACE, HiddenTests, JsonObject, normalised
from quintain.tasks.packs.documents import Document, PackProblem, Path, read_document
from quintain.tasks.packs.files import PackFiles, as_json
from quintain.tasks.packs.models import EnvironmentFile, PackFile, TaskTemplate, problems_of

PACK, ENVIRONMENT, TASKS_FILE, VERIFIER = "pack.yaml", "environment.yaml", "tasks.yaml", "verifier.py"
TESTS = "tests/"
APP, SCHEMA, DATA = "app.py", "schema.sql", "data.sql"
M = TypeVar("M", bound=BaseModel)
_OWN: Final = frozenset({ENVIRONMENT, TASKS_FILE, VERIFIER, "README.md"})


@dataclass(frozen=True)
class PackEnvironment:
    """One environment of a pack."""

    name: str
    folder: str
    about: EnvironmentFile
    payload: JsonObject
    tasks: tuple[TaskTemplate, ...]
    verifier: str
    tests: JsonObject = field(default_factory=dict)
    """Files of the folder tests/, which is no part of the payload; empty for kinds that have none."""

    def hidden_tests(self, index: int) -> HiddenTests | None:
        """A task's hidden tests, or None."""
        given = self.tasks[index].tests
        if given is None:
            return None
        files = self.tests if given.files is None else given.files
        return HiddenTests(
            files=dict(files), command=given.command, timeout_s=given.timeout_s, in_process=given.in_process
        )

    def place(self, index: int) -> str:
        """A task as messages name it: its file and its name."""
        return f"{self.folder}/{TASKS_FILE}: {self.tasks[index].name}"


@dataclass
class PackReading:
    """What was read, and what is wrong with it; only without problems is it a pack."""

    files: PackFiles
    pack: PackFile | None = None
    environments: list[PackEnvironment] = field(default_factory=list)
    problems: list[PackProblem] = field(default_factory=list)


def read_pack(files: PackFiles) -> PackReading:
    """Read a pack's files; problems are collected and not raised."""
    reading = PackReading(files)
    if PACK not in files:
        reading.problems.append(PackProblem(PACK, None, "", "is missing; a pack's folder has one"))
        return reading
    document = read_document(files[PACK], PACK)
    reading.pack = _model(PackFile, document.value, document, reading.problems)
    if reading.pack is None:
        return reading
    folders = reading.pack.environments or files.folders
    if not folders:
        reading.problems.append(PackProblem(PACK, None, "", "no folder holds an environment.yaml; add an environment"))
    seen: dict[str, str] = {}
    for index, folder in enumerate(folders):
        name = normalised(folder)
        if folder not in files.folders or not name:
            detail = f"{folder!r} is no folder with an environment.yaml; correct it"
            reading.problems.append(document.problem(("environments", index), detail))
        elif name in seen:
            detail = f"{folder!r} is the same name as {seen[name]!r} ({name}); rename one folder"
            reading.problems.append(document.problem(("environments", index), detail))
        else:
            seen[name] = folder
            found = _environment(name, folder, files.under(folder), reading.pack, reading.problems)
            if found is not None:
                reading.environments.append(found)
    return reading


def _environment(
    name: str, folder: str, files: Mapping[str, bytes], pack: PackFile, problems: list[PackProblem]
) -> PackEnvironment | None:
    before = len(problems)
    document = read_document(files[ENVIRONMENT], f"{folder}/{ENVIRONMENT}")
    about, rest = _about(document, problems)
    tasks = _tasks(folder, files, problems)
    verifier = _verifier(folder, files, tasks, problems)
    if about is None or len(problems) > before:
        return None
    tests: JsonObject = {}
    if about.kind == DATABASE:
        payload = _database(name, folder, files, problems)
        for key in rest:
            problems.append(document.problem((key,), "is no field of a database; take it away"))
    else:
        kept = {path: as_json(data) for path, data in files.items() if path not in _OWN}
        tests = {path.removeprefix(TESTS): kept.pop(path) for path in list(kept) if _hidden(about.kind, path)}
        payload = {"scenario": name, "kind": about.kind, "environment": {"kind": about.kind, **rest}, "files": kept}
    problems.extend(_tests_problems(about, folder, tasks, tests))
    if len(problems) > before:
        return None
    payload["epoch"] = pack.epoch
    return PackEnvironment(name, folder, about, payload, tuple(task for _, task in tasks), verifier, tests)


def _hidden(kind: str, path: str) -> bool:
    return kind == WORKSPACE and path.startswith(TESTS)


def _about(document: Document, problems: list[PackProblem]) -> tuple[EnvironmentFile | None, JsonObject]:
    if document.problems or not isinstance(document.value, dict):
        return _model(EnvironmentFile, document.value, document, problems), {}
    common = {key: value for key, value in document.value.items() if key in EnvironmentFile.model_fields}
    rest = {key: value for key, value in document.value.items() if key not in common}
    return _model(EnvironmentFile, common, document, problems), rest


def _model(model: type[M], value: Any, document: Document, problems: list[PackProblem]) -> M | None:
    problems.extend(document.problems)
    if document.problems:
        return None
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems.extend(problems_of(error, document))
        return None


_Placed = tuple[int, TaskTemplate]
"""A task and its line."""


def _tasks(folder: str, files: Mapping[str, bytes], problems: list[PackProblem]) -> list[_Placed]:
    file = f"{folder}/{TASKS_FILE}"
    if TASKS_FILE not in files:
        problems.append(PackProblem(file, None, "", "is missing; add it, if only with []"))
        return []
    document = read_document(files[TASKS_FILE], file)
    problems.extend(document.problems)
    if document.problems:
        return []
    if not isinstance(document.value, list):
        problems.append(document.problem((), "holds no list of tasks; begin each with `- name:`"))
        return []
    names: dict[str, int] = {}
    tasks: list[_Placed] = []
    for index, given in enumerate(document.value):
        problems.extend(_task_problems(given, index, document))
        try:
            task = TaskTemplate.model_validate(given)
        except ValidationError as error:
            problems.extend(problems_of(error, document, (index,)))
            continue
        if task.name in names:
            problems.append(document.problem((index, "name"), f"{task.name!r} is task {names[task.name]} too; rename"))
        names.setdefault(task.name, index)
        problems.extend(_bounds_problems(task, index, document))
        tasks.append((document.lines.get((index,), 1), task))
    return tasks


def _tests_problems(
    about: EnvironmentFile, folder: str, tasks: list[_Placed], tests: JsonObject
) -> Iterator[PackProblem]:
    for line, task in tasks:
        if task.tests is None:
            continue
        if about.kind != WORKSPACE:
            detail = f"an environment of kind {about.kind} has no hidden tests; name a function as verify"
        elif task.tests.files is None and not tests:
            detail = f"there is no file in {TESTS}, and none is given; write the tests"
        elif not task.tests.in_process and any(
            path.rpartition("/")[2] == "__init__.py" for path in task.tests.files or tests
        ):
            detail = "tests are no packages, since their files go before they run; take each __init__.py away"
        else:
            continue
        yield PackProblem(f"{folder}/{TASKS_FILE}", line, f"{task.name}.tests", detail)


def _bounds_problems(task: TaskTemplate, index: int, document: Document) -> Iterator[PackProblem]:
    try:
        task.policy  # noqa: B018  # its limits are checked as it is made
    except ValidationError as error:
        for item in error.errors(include_url=False):
            yield document.problem((index, *item["loc"]), f"{str(item['msg']).lower()}; correct it")


def _task_problems(given: Any, index: int, document: Document) -> Iterator[PackProblem]:
    """Expressions that are none, and those that ask for variables that are not drawn before them."""
    if not isinstance(given, dict):
        return
    known: set[str] = set()
    variables = given.get("variables")
    for name, draw in variables.items() if isinstance(variables, dict) else ():
        yield from _expression_problems(draw, (index, "variables", name), known, document)
        known.add(name)
    for part in ("text", "start", "solution", "answer"):
        yield from _expression_problems(given.get(part), (index, part), known, document)


def _expression_problems(value: Any, path: Path, known: set[str], document: Document) -> Iterator[PackProblem]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _expression_problems(item, (*path, key), known, document)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _expression_problems(item, (*path, index), known, document)
    elif isinstance(value, str) and "${" in value:
        try:
            for expression in expressions_in(value):
                if unknown := sorted(expression.names - known):
                    there = ", ".join(sorted(known)) or "none"
                    detail = f"`{expression.text}` asks for {', '.join(unknown)}; drawn before it: {there}"
                    yield document.problem(path, detail)
        except ExpressionError as error:
            yield document.problem(path, f"{error}; correct it")


def _verifier(folder: str, files: Mapping[str, bytes], tasks: list[_Placed], problems: list[PackProblem]) -> str:
    file = f"{folder}/{VERIFIER}"
    if VERIFIER not in files:
        if any(task.verify is not None for _, task in tasks):
            problems.append(PackProblem(file, None, "", "is missing; it holds the functions that tasks name"))
        return ""
    try:
        code = files[VERIFIER].decode()
        module = ast.parse(code)
    except (SyntaxError, ValueError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        problems.append(PackProblem(file, line, "", f"not Python: {getattr(error, 'msg', None) or error}; correct it"))
        return ""
    functions = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
    for line, task in tasks:
        if task.verify is not None and task.verify not in functions:
            detail = f"{VERIFIER} has no function {task.verify}; write it, or name another"
            problems.append(PackProblem(f"{folder}/{TASKS_FILE}", line, f"{task.name}.verify", detail))
    return code


def _database(name: str, folder: str, files: Mapping[str, bytes], problems: list[PackProblem]) -> JsonObject:
    """The payload of an Agent World Model scenario: app.py, schema.sql, and data.sql where there is one."""
    texts: dict[str, str] = {DATA: ""}
    for file in (APP, SCHEMA, DATA):
        if file in files:
            try:
                texts[file] = files[file].decode()
            except UnicodeDecodeError:
                problems.append(PackProblem(f"{folder}/{file}", None, "", "not UTF-8; save it as UTF-8"))
        elif file != DATA:
            problems.append(PackProblem(f"{folder}/{file}", None, "", "is missing; a database environment has one"))
    for file in files:
        if file not in {*_OWN, APP, SCHEMA, DATA}:
            problems.append(PackProblem(f"{folder}/{file}", None, "", "is read by nothing; take it away"))
    statements = {file: _statements(texts.get(file, ""), f"{folder}/{file}", problems) for file in (SCHEMA, DATA)}
    return {
        "scenario": name,
        "database": f"{name}.db",
        "code": texts.get(APP, ""),
        "schema": {"tables": [{"ddl": one} for one in statements[SCHEMA]]},
        "sample": {"tables": [{"insert_statements": statements[DATA]}]},
    }


def _statements(text: str, file: str, problems: list[PackProblem]) -> list[str]:
    """The SQL statements of a file, each with its semicolon."""
    found: list[str] = []
    begun, start = "", 1
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if not begun.strip():
            begun, start = "", number
        begun += line
        if sqlite3.complete_statement(begun):
            found.append(begun.strip())
            begun = ""
    if begun.strip() and not all(line.lstrip().startswith("--") or not line.strip() for line in begun.splitlines()):
        problems.append(PackProblem(file, start, "", "the last statement has no end; close it with a semicolon"))
    return found
