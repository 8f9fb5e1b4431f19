"""BFCL's multi-turn entries as a pack: one environment for each set of classes, of kind `python`."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from quintain.contracts.tools import RESPOND
from quintain.errors import DatasetError
from quintain.tasks.base import JsonObject, ToolCall
from quintain.tasks.importers.bfcl import BfclPackage, Category, Entry
from quintain.tasks.importers.bfcl_inside import bfcl_verifier

_INSIDE: Final = Path(__file__).parent / "bfcl_inside"
_ENTRY: Final = "bfcl_classes"
_DOCS: Final = "functions.json"
_NAMESPACE: Final = "bfcl_eval/eval_checker/multi_turn_eval/func_source_code"
_LONG: Final = f"{_NAMESPACE.replace('/', '.')}.long_context"
_NO_REFERENCE: Final = "EXPECTED: dict[str, Any] = {}\n"
_TYPES: Final = {"dict": "object", "float": "number", "tuple": "array"}
_MAX_INTEGER: Final = 2**53 - 1
_CITATION: Final = (
    "Patil, Mao, Yan, Ji, Suresh, Stoica, Gonzalez: The Berkeley Function Calling Leaderboard (BFCL): From Tool Use to "
    "Agentic Evaluation of Large Language Models. ICML 2025. Data and classes are those of the package bfcl-eval "
    "{version} (Apache-2.0, https://github.com/ShishirPatil/gorilla), made into this pack by `quintain import bfcl`."
)


@dataclass(frozen=True)
class BfclEnvironment:
    """What entries share: category, classes in their order, and the functions that nobody sees."""

    category: Category
    classes: tuple[str, ...]
    excluded: tuple[str, ...]
    entries: tuple[Entry, ...]

    @property
    def folder(self) -> str:
        """Its folder in the pack, which is also its scenario's name."""
        words = [_snake(name) for name in self.classes] + [f"no_{name}" for name in self.excluded]
        return "_".join(("bfcl", self.category, *words))


class BfclPack:
    """A pack of entries."""

    def __init__(self, package: BfclPackage, entries: Sequence[Entry]) -> None:
        """Raises DatasetError where there are none."""
        if not entries:
            raise DatasetError("none of the entries wanted is there; name categories and tasks that there are")
        groups: dict[tuple[Category, tuple[str, ...], tuple[str, ...]], list[Entry]] = {}
        for entry in entries:
            groups.setdefault((entry.category, entry.classes, entry.excluded), []).append(entry)
        self._package = package
        self.environments = [BfclEnvironment(*key, tuple(found)) for key, found in groups.items()]

    def write(self, folder: Path) -> None:
        """Write everything but what the references come to, into a new folder.

        Raises:
            DatasetError: it is there already, or the package's functions cannot be described.
        """
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            raise DatasetError(f"{folder} is there already; name a folder that is not") from None
        about = {
            "apiVersion": "quintain.dev/v1alpha1",
            "kind": "Pack",
            "name": "bfcl-multi-turn",
            "title": "Berkeley Function Calling Leaderboard v4, multi-turn",
            "description": _CITATION.format(version=self._package.version),
            "licence": "Apache-2.0",
            "source": f"bfcl-eval {self._package.version}, https://github.com/ShishirPatil/gorilla",
            "environments": [one.folder for one in self.environments],
        }
        (folder / "pack.yaml").write_text(_yaml(about))
        for one in self.environments:
            place = folder / one.folder
            place.mkdir()
            for name, text in self._files(one).items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_text(text, encoding="utf-8")

    def expect(self, folder: Path, one: BfclEnvironment, states: Sequence[JsonObject]) -> None:
        """Write an environment's verifier, with the final states that its references came to, in order.

        Raises:
            DatasetError: they are not what the references come to.
        """
        wanted = {entry.name: expected(entry, state) for entry, state in zip(one.entries, states, strict=True)}
        (folder / one.folder / "verifier.py").write_text(verifier_text(wanted), encoding="utf-8")

    def _files(self, one: BfclEnvironment) -> dict[str, str]:
        document, docs = self._document(one)
        files = {
            "environment.yaml": _yaml(document),
            "tasks.yaml": _yaml([_task(entry) for entry in one.entries]),
            "verifier.py": verifier_text({entry.name: [] for entry in one.entries}),
            _DOCS: json.dumps(docs, indent=1, ensure_ascii=False) + "\n",
            "bfcl_tools.py": (_INSIDE / "bfcl_tools.py").read_text(),
        }
        imports, made = [], []
        for name in one.classes:
            module = self._package.module(name)
            source = self._package.source(module)
            imports.append(f"from {module} import {name} as _{name}")
            made.append(f"{name} = tools_of(_{name})")
            files[f"{module.replace('.', '/')}.py"] = source
            if _LONG in source:
                files[f"{_NAMESPACE}/long_context.py"] = self._package.source(_LONG)
        lines = ["# ruff: noqa", *imports, "from bfcl_tools import CallFailed, tools_of", "", *made]
        return files | {f"{_ENTRY}.py": "\n".join(lines) + "\n"}

    def _document(self, one: BfclEnvironment) -> tuple[JsonObject, list[JsonObject]]:
        docs = {doc["name"]: _described(doc) for name in one.classes for doc in self._package.docs(name)}
        public = [name for of in one.classes for name in self._package.parameters(of)]
        loosened = _loosened(one.entries, docs)
        exclude = [name for name in public if name in one.excluded or name not in docs]
        document = {
            "kind": "python",
            "title": f"BFCL {one.category.replace('_', ' ')}: {', '.join(one.classes)}",
            "description": loosened,
            "entry": [f"{_ENTRY}:{name}" for name in one.classes],
            "load": "_load_task",
            "state": {name: ["attributes"] for name in one.classes},
            "docs": _DOCS,
            "errors": ["CallFailed"],
        }
        if exclude:
            document["exclude"] = exclude
        return document, [doc for name, doc in docs.items() if name not in exclude]


def reference_calls(entry: Entry) -> list[ToolCall]:
    """The reference solution: each turn's calls, and between turns what the agent says."""
    calls: list[ToolCall] = []
    for index, turn in enumerate(entry.reference):
        calls += turn
        if index < len(entry.reference) - 1:
            said = "Done." if turn else "I cannot do that with what I have."
            calls.append(ToolCall(name=RESPOND, arguments={"message": said}))
    return calls


def start_of(entry: Entry, *, withhold: bool = True) -> JsonObject:
    """The start map of an entry; without `withhold` all functions are there from the first turn."""
    start: JsonObject = {
        name: {"config": _config(entry.config.get(name, {})), "long_context": entry.long_context}
        for name in entry.classes
    }
    conversation: JsonObject = {"messages": list(entry.turns[1:])}
    if withhold and entry.appears:
        conversation["withhold"] = {str(turn + 1): list(names) for turn, names in entry.appears.items()}
    return start | {"conversation": conversation}


def _config(config: JsonObject) -> JsonObject | str:
    """As JSON text where it has integers that a pack's documents cannot have."""
    text = json.dumps(config)
    whole = [int(one) for one in re.findall(r"\d{16,}", text)]
    return text if any(one > _MAX_INTEGER for one in whole) else config


def expected(entry: Entry, state: JsonObject) -> list[JsonObject | None]:
    """What the verifier asks of each turn, from the final state of the reference played with nothing withheld.

    Raises:
        DatasetError: the turns are not those of the reference.
    """
    turns = state.get("turns", [])
    played = [[(call["tool"], call["arguments"]) for call in turn["calls"]] for turn in turns]
    wanted = [[(call.name, call.arguments) for call in turn] for turn in entry.reference]
    if played != wanted:
        raise DatasetError(f"{entry.name}: its reference could not be played as it stands")
    return [_expected(turn) if turn["calls"] else None for turn in turns]


def _expected(turn: JsonObject) -> JsonObject:
    calls = turn["calls"]
    if refused := [call for call in calls if call["status"] not in ("ok", "tool_error")]:
        raise DatasetError(f"the reference's {refused[0]['tool']} was not done: {refused[0]['result']}")
    return {
        "state": bfcl_verifier.state_digests(turn["state"]),
        "responses": [bfcl_verifier.response_digest(call["result"]) for call in calls],
        "calls": [f"{call['tool']}({json.dumps(call['arguments'])})"[:200] for call in calls],
    }


def verifier_text(wanted: Mapping[str, Sequence[JsonObject | None]]) -> str:
    """verifier.py of an environment, with what its tasks' references came to."""
    code = (_INSIDE / "bfcl_verifier.py").read_text()
    if _NO_REFERENCE not in code:
        raise AssertionError("the verifier's code has no place for what is expected")
    held = json.dumps(json.dumps(wanted, sort_keys=True))
    functions = [
        f"\n\ndef verify_{task}(final_state: dict[str, Any]) -> dict[str, Any]:\n"
        f'    return judged("{task}", final_state)\n'
        for task in wanted
    ]
    return code.replace(_NO_REFERENCE, f"EXPECTED: dict[str, Any] = json.loads(\n    {held}\n)\n") + "".join(functions)


def _task(entry: Entry) -> JsonObject:
    return {
        "name": entry.name,
        "tags": ["bfcl", entry.category.replace("_", "-"), "multi-turn"],
        "text": _literal(entry.turns[0]),
        "start": _literal(start_of(entry)),
        "solution": [{"tool": call.name, "arguments": _literal(call.arguments)} for call in reference_calls(entry)],
        "answer": "Done.",
        "verify": f"verify_{entry.name}",
    }


def _literal(value: Any) -> Any:
    """A value in which `${` stands for itself."""
    if isinstance(value, str):
        return re.sub(r"\$\{", "$${", value)
    if isinstance(value, Mapping):
        return {key: _literal(one) for key, one in value.items()}
    return [_literal(one) for one in value] if isinstance(value, list) else value


def _described(doc: JsonObject) -> JsonObject:
    parameters = doc.get("parameters")
    if not isinstance(doc.get("name"), str) or not isinstance(parameters, dict):
        raise DatasetError(f"a function's doc is not of the form known here: {str(doc)[:200]}")
    return {"name": doc["name"], "description": doc.get("description", ""), "parameters": _schema(parameters)}


def _schema(schema: Any) -> Any:
    """A schema of BFCL's dialect as JSON Schema. A list of types keeps numbers as they are sent: 5 is not made 5.0."""
    if not isinstance(schema, dict):
        return schema
    found: JsonObject = {}
    for key, value in schema.items():
        if key == "type" and isinstance(value, str):
            kind = _TYPES.get(value, value)
            if kind != "any":
                found[key] = {"number": ["number", "integer"], "integer": ["integer"]}.get(kind, kind)
        elif key == "properties" and isinstance(value, dict):
            found[key] = {name: _schema(one) for name, one in value.items()}
        elif key in ("items", "additionalProperties"):
            found[key] = _schema(value)
        elif key != "optional":
            found[key] = value
    return found


_PYTHON: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def _loosened(entries: Sequence[Entry], docs: Mapping[str, JsonObject]) -> str:
    """Take the type from parameters for which a reference gives another one; says which those are."""
    found: dict[str, None] = {}
    for name, parameter, value in _arguments(entries):
        schema = docs.get(name, {}).get("parameters", {}).get("properties", {}).get(parameter, {})
        kinds = schema.get("type", [])
        allowed = [one for kind in ([kinds] if isinstance(kinds, str) else kinds) for one in _PYTHON.get(kind, ())]
        wrong = isinstance(value, bool) and bool not in allowed
        if allowed and (wrong or not isinstance(value, tuple(allowed))):
            del schema["type"]
            found[f"{name}.{parameter}"] = None
    return f"Any type is taken, as references give others than documented: {', '.join(found)}." if found else ""


def _arguments(entries: Sequence[Entry]) -> Iterator[tuple[str, str, Any]]:
    for entry in entries:
        for turn in entry.reference:
            for call in turn:
                for parameter, value in call.arguments.items():
                    yield call.name, parameter, value


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removesuffix("API")).lower()


class _Quoted(yaml.SafeDumper):
    """Every text in quotes, so that it is one by any version of YAML; and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", text) and text.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_Quoted.add_representer(str, _text)


def _yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Quoted, sort_keys=False, width=110, allow_unicode=True)
