"""The multi-turn categories of the Berkeley Function Calling Leaderboard, read from its package `bfcl-eval`.

Nothing of the package is imported or run: data are JSON lines, and calls and signatures are read by `ast`.

Source: Patil et al., The Berkeley Function Calling Leaderboard (BFCL): From Tool Use to Agentic Evaluation of Large
Language Models, ICML 2025; https://github.com/ShishirPatil/gorilla.
"""

import ast
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from quintain.errors import DatasetError
from quintain.tasks.base import JsonObject, ToolCall

SOURCES: Final = "eval_checker/multi_turn_eval/func_source_code"
"""Folder of the classes within the package."""

_STATELESS: Final = "MathAPI"
_BACKEND: Final = "constants/executable_backend_config.py"
_PROMPTS: Final = "constants/default_prompts.py"
_MORE_TOOLS: Final = "DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC"


class Category(StrEnum):
    """A multi-turn category of version 4."""

    BASE = "base"
    MISS_FUNC = "miss_func"
    MISS_PARAM = "miss_param"
    LONG_CONTEXT = "long_context"


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    role: str
    content: str


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    question: list[list[_Message]]
    initial_config: dict[str, JsonObject] = {}
    involved_classes: list[str]
    excluded_function: list[str] = []
    missed_function: dict[str, list[str]] = {}


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    ground_truth: list[list[str]]


@dataclass(frozen=True)
class Entry:
    """One entry: what the user says, turn by turn, and the calls that are the reference of each turn."""

    name: str
    category: Category
    classes: tuple[str, ...]
    config: Mapping[str, JsonObject]
    excluded: tuple[str, ...]
    appears: Mapping[int, tuple[str, ...]]
    """Functions that appear late, by turn from 0."""
    turns: tuple[str, ...]
    reference: tuple[tuple[ToolCall, ...], ...]

    @property
    def long_context(self) -> bool:
        """Whether the classes fill their state and results with what is beside the point."""
        return self.category is Category.LONG_CONTEXT


class BfclPackage:
    """The package `bfcl-eval` where it is installed or unpacked."""

    def __init__(self, root: Path) -> None:
        """`root` is its folder `bfcl_eval`.

        Raises:
            DatasetError: it is none, or of a version with another layout.
        """
        self.root = root
        constants = _constants(self.read(_BACKEND), _BACKEND)
        prefix = str(constants.get("BACKEND_PATH_PREFIX", ""))
        modules = constants.get("CLASS_FILE_PATH_MAPPING")
        docs = constants.get("MULTI_TURN_FUNC_DOC_FILE_MAPPING")
        if not isinstance(modules, dict) or not isinstance(docs, dict) or not prefix.endswith("func_source_code"):
            raise DatasetError(f"{root / _BACKEND} does not name classes and their files; this layout is not known")
        self._modules: dict[str, str] = modules
        self._docs: dict[str, str] = docs
        self._parameters: dict[str, dict[str, tuple[str, ...]]] = {}

    @classmethod
    def at(cls, folder: Path | None) -> Self:
        """The package in a folder, or the one that this interpreter has where none is given.

        Raises:
            DatasetError: there is none.
        """
        if folder is not None:
            return cls(folder / "bfcl_eval" if (folder / "bfcl_eval").is_dir() else folder)
        found = find_spec("bfcl_eval")
        if found is None or not found.submodule_search_locations:
            raise DatasetError("bfcl-eval is not installed here; name the folder that it lies in with --from")
        return cls(Path(found.submodule_search_locations[0]))

    @property
    def version(self) -> str:
        """By the folder of its metadata; `unknown` where that is not beside it."""
        found = sorted(self.root.parent.glob("bfcl_eval-*.dist-info"))
        return found[-1].name.removeprefix("bfcl_eval-").removesuffix(".dist-info") if found else "unknown"

    @property
    def more_tools(self) -> str:
        """What the user says in a turn in which functions appear."""
        text = _constants(self.read(_PROMPTS), _PROMPTS).get(_MORE_TOOLS)
        if not isinstance(text, str):
            raise DatasetError(f"{self.root / _PROMPTS} has no {_MORE_TOOLS}; this layout is not known")
        return text

    def read(self, path: str) -> str:
        """A file of the package.

        Raises:
            DatasetError: it is not there.
        """
        try:
            return (self.root / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DatasetError(f"{self.root / path} cannot be read ({error}); name the folder of bfcl-eval") from error

    def lines(self, path: str) -> Iterator[Any]:
        """The values of a file of JSON lines."""
        for number, line in enumerate(self.read(path).splitlines(), 1):
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise DatasetError(f"{self.root / path}:{number}: not JSON ({error})") from error

    def module(self, name: str) -> str:
        """A class's module, by its full name."""
        try:
            return str(self._modules[name])
        except KeyError:
            raise DatasetError(f"{self.root / _BACKEND} names no class {name!r}") from None

    def source(self, module: str) -> str:
        """The source of a class's module."""
        return self.read(f"{SOURCES}/{module.rpartition('.')[2]}.py")

    def docs(self, name: str) -> list[JsonObject]:
        """The function docs of a class, in their order."""
        if name not in self._docs:
            raise DatasetError(f"{self.root / _BACKEND} names no function docs of {name!r}")
        return list(self.lines(f"data/multi_turn_func_doc/{self._docs[name]}"))

    def parameters(self, name: str) -> dict[str, tuple[str, ...]]:
        """The public methods of a class, in order, with the names of their parameters."""
        if name not in self._parameters:
            self._parameters[name] = _methods(self.source(self.module(name)), name)
        return self._parameters[name]


def read_entries(package: BfclPackage, category: Category, only: Collection[str] | None = None) -> list[Entry]:
    """The entries of a category, in their order; `only` names those that are wanted.

    Raises:
        DatasetError: the package's files are not of the layout that is known here; says where.
    """
    file = f"BFCL_v4_multi_turn_{category}.json"
    try:
        answers = {one.id: one for one in map(_Answer.model_validate, package.lines(f"data/possible_answer/{file}"))}
        rows = [_Row.model_validate(one) for one in package.lines(f"data/{file}")]
    except ValidationError as error:
        raise DatasetError(f"{file}: an entry is not of the form known here: {str(error)[:500]}") from error
    wanted = [row for row in rows if only is None or row.id in only]
    for row in wanted:
        if row.id not in answers or len(answers[row.id].ground_truth) != len(row.question):
            raise DatasetError(f"{file}: {row.id} has not as many reference turns as turns")
    more = package.more_tools
    return [_entry(package, category, row, answers[row.id].ground_truth, more) for row in wanted]


def _entry(package: BfclPackage, category: Category, row: _Row, answers: list[list[str]], more: str) -> Entry:
    methods: dict[str, tuple[str, ...]] = {}
    for name in row.involved_classes:
        methods |= package.parameters(name)
    turns = ["\n\n".join(message.content for message in turn) or more for turn in row.question]
    return Entry(
        name=row.id,
        category=category,
        classes=tuple(row.involved_classes),
        config={name: one for name, one in row.initial_config.items() if name != _STATELESS},
        excluded=tuple(row.excluded_function),
        appears={int(turn): tuple(names) for turn, names in row.missed_function.items()},
        turns=tuple(turns),
        reference=tuple(tuple(parsed_call(call, methods, row.id) for call in turn) for turn in answers),
    )


def parsed_call(text: str, methods: Mapping[str, Sequence[str]], where: str) -> ToolCall:
    """A call as it is written in Python, with literals for arguments; positions become names by the signature.

    Raises:
        DatasetError: it is no such call.
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError("no call of a function")
        names = methods.get(call.func.id)
        if names is None or len(call.args) > len(names):
            raise ValueError("no function of the classes takes these arguments")
        arguments = {name: ast.literal_eval(one) for name, one in zip(names, call.args, strict=False)}
        for keyword in call.keywords:
            if keyword.arg is None or keyword.arg in arguments:
                raise ValueError("arguments that are not by name, or twice")
            arguments[keyword.arg] = ast.literal_eval(keyword.value)
        json.dumps(arguments)
    except (SyntaxError, ValueError, TypeError) as error:
        raise DatasetError(f"{where}: {text[:200]!r} is no call with literal arguments: {error}") from error
    return ToolCall(name=call.func.id, arguments=arguments)


def _methods(source: str, name: str) -> dict[str, tuple[str, ...]]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            found = [one for one in node.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")]
            return {one.name: tuple(arg.arg for arg in (*one.args.args, *one.args.kwonlyargs)[1:]) for one in found}
    raise DatasetError(f"the class {name} is not in its module; this layout is not known")


def _constants(source: str, where: str) -> JsonObject:
    """The module's constants whose values are literals, or texts put together of such."""
    found: JsonObject = {}
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise DatasetError(f"{where} is no Python: {error}") from error
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = _value(node.value, found)
            except ValueError:
                continue
    return found


def _value(node: ast.expr, known: JsonObject) -> Any:
    if isinstance(node, ast.Dict):
        return {_value(key, known): _value(one, known) for key, one in zip(node.keys, node.values, strict=True) if key}
    if isinstance(node, ast.JoinedStr):
        return "".join(str(_value(one, known)) for one in node.values)
    if isinstance(node, ast.FormattedValue):
        return _value(node.value, known)
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    return ast.literal_eval(node)
