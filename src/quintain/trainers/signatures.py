"""Tools as Python functions: names, signatures and Google docstrings made of JSON Schemas.

Trainers read a tool from a typed function and make a JSON Schema of it again. What a type hint cannot say (bounds,
formats, the fields of an object) goes into the argument's description. A tool's names and texts are its scenario's, and
are treated as untrusted.
"""

import inspect
import json
import keyword
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, Final, Literal, Union

from quintain.contracts.tools import Tool

JsonObject = dict[str, Any]

_MAX_DEPTH: Final = 8
_MAX_SHAPE_CHARS: Final = 600
_TYPES: Final[Mapping[str, Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}
_BOUNDS: Final = ("format", "pattern", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf",
                  "minLength", "maxLength", "minItems", "maxItems")  # fmt: skip
_HEADINGS: Final = re.compile(r"\b(Args|Returns|Raises):")


@dataclass(frozen=True)
class Parameter:
    """One argument of a tool, as a function has it."""

    name: str
    """What the function calls it."""
    key: str
    """What the tool calls it."""
    hint: Any
    description: str
    required: bool
    nullable: bool
    """Whether the tool's own schema takes null."""
    default: Any = None


@dataclass(frozen=True)
class ToolFunction:
    """A tool as a Python function."""

    name: str
    """An identifier, other than every other tool's of its set."""
    tool: Tool
    parameters: tuple[Parameter, ...]

    @property
    def signature(self) -> inspect.Signature:
        """Of a method; arguments are by keyword, since a model names them."""
        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        rest = [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=one.hint,
                default=inspect.Parameter.empty if one.required else one.default,
            )
            for one in self.parameters
        ]
        return inspect.Signature([first, *rest], return_annotation=str)

    @property
    def annotations(self) -> dict[str, Any]:
        """Type hints by the arguments' names, and the result's."""
        return {**{one.name: one.hint for one in self.parameters}, "return": str}

    @property
    def docstring(self) -> str:
        """A Google docstring."""
        text = _plain(self.tool.description) or f"Call {_plain(self.tool.name)}."
        lines = [text, ""]
        if self.parameters:
            lines += ["Args:", *(f"    {one.name}: {one.description}" for one in self.parameters), ""]
        return "\n".join([*lines, "Returns:", "    What the tool answered.", ""])

    def arguments(self, given: Mapping[str, Any]) -> JsonObject:
        """What the tool is called with: its own names, and no null that only stands for an argument left out."""
        known = {one.name: one for one in self.parameters}
        made: JsonObject = {}
        for name, value in given.items():
            one = known.get(name)
            if one is not None and value is None and not one.required and not one.nullable:
                continue
            made[name if one is None else one.key] = value
        return made


def tool_functions(tools: Iterable[Tool], taken: Container[str] = ()) -> tuple[ToolFunction, ...]:
    """Tools as functions whose names are identifiers, differ, are not private, and are not among `taken`."""
    tools = tuple(tools)
    names = identifiers([tool.name for tool in tools], taken, "tool")
    return tuple(
        ToolFunction(name, tool, _parameters(tool.input_schema)) for tool, name in zip(tools, names, strict=True)
    )


def identifiers(names: Iterable[str], taken: Container[str] = (), prefix: str = "argument") -> list[str]:
    """A public identifier for each name, in order: the name itself where it is one, else the nearest that is free."""
    names = list(names)
    free = [name if _usable(name, taken) else None for name in names]
    used = {name for name in free if name is not None}
    made = list[str]()
    kept = set[str]()
    for name, own in zip(names, free, strict=True):
        if own is not None and own not in kept:
            kept.add(own)
            made.append(own)
            continue
        near = _near(name, prefix)
        candidates = chain([near, f"{near}_"], (f"{near}_{number}" for number in count(2)))
        found = next(one for one in candidates if one not in used and _usable(one, taken))
        used.add(found)
        made.append(found)
    return made


def _usable(name: str, taken: Container[str]) -> bool:
    return (
        name.isascii() and name.isidentifier() and not keyword.iskeyword(name) and name[0] != "_" and name not in taken
    )


def _near(name: str, prefix: str) -> str:
    word = re.sub(r"\W+", "_", name[:200], flags=re.ASCII).strip("_") or prefix
    return f"{prefix}_{word}" if word[0].isdigit() else word


def _parameters(schema: JsonObject) -> tuple[Parameter, ...]:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return ()
    required = schema.get("required")
    required = set(filter(_is_text, required)) if isinstance(required, list) else set()
    names = identifiers(properties, taken=("self",))
    return tuple(
        _parameter(name, key, inner if isinstance(inner, dict) else {}, key in required)
        for name, (key, inner) in zip(names, properties.items(), strict=True)
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _parameter(name: str, key: str, schema: JsonObject, required: bool) -> Parameter:
    hint = type_hint(schema)
    nullable = _takes_null(schema)
    default = schema.get("default")
    if not required and default is None and not nullable:
        hint = Union[hint, None]  # noqa: UP007 - not every hint has an operator
    return Parameter(name, key, hint, _described(key, schema, required), required, nullable, default)


def _takes_null(schema: JsonObject) -> bool:
    if schema.get("nullable") is True or not schema:
        return True
    kind = schema.get("type")
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return True
    if isinstance(schema.get("enum"), list) and None in schema["enum"]:
        return True
    return any(isinstance(one, dict) and one.get("type") == "null" for one in _alternatives(schema))


def _alternatives(schema: JsonObject) -> list[Any]:
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            return list(schema[word])
    return []


def type_hint(schema: Any, depth: int = 0) -> Any:
    """The type hint nearest to a JSON Schema; `Any` where there is none."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return Any
    hint = _hint(schema, depth)
    if schema.get("nullable") is True and hint is not Any:
        return Union[hint, None]  # noqa: UP007
    return hint


def _hint(schema: JsonObject, depth: int) -> Any:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list):
        scalar = values and all(value is None or type(value) in (str, int, float, bool) for value in values)
        return Literal[tuple(values)] if scalar else Any
    if alternatives := _alternatives(schema):
        return _union([type_hint(one, depth + 1) for one in alternatives])
    if isinstance(schema.get("allOf"), list):
        return type_hint(schema["allOf"][0], depth + 1) if len(schema["allOf"]) == 1 else Any
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union([type_hint({**schema, "type": one}, depth + 1) for one in kind])
    if kind == "array" and isinstance(schema.get("items"), dict):
        return list[type_hint(schema["items"], depth + 1)]  # type: ignore[misc]
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return dict[str, type_hint(schema["additionalProperties"], depth + 1)]  # type: ignore[misc]
    return _TYPES.get(kind, Any) if isinstance(kind, str) else Any


def _union(hints: list[Any]) -> Any:
    if not hints or Any in hints:
        return Any
    return Union[tuple(hints)]  # noqa: UP007


def _described(key: str, schema: JsonObject, required: bool) -> str:
    told = schema.get("description") or schema.get("title")
    text = " ".join(_plain(told if isinstance(told, str) else "").split()) or _plain(key).replace("_", " ").strip()
    more = [f"{word} {_json(schema[word])}" for word in _BOUNDS if word in schema]
    if shape := _shape(schema):
        more.append(f"fields {shape}")
    if not required and schema.get("default") is not None:
        more.append(f"default {_json(schema['default'])}")
    if more:
        text = f"{text} [{'; '.join(more)}]"
    return text or "an argument"


def _shape(schema: JsonObject) -> str:
    """The fields of an object, or of the objects in an array, in short."""
    if isinstance(schema.get("items"), dict):
        schema = schema["items"]
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return ""
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    fields = {
        name if name in required else f"{name}?": one.get("type", "any") if isinstance(one, dict) else "any"
        for name, one in properties.items()
    }
    return _json(fields)


def _json(value: Any) -> str:
    text = " ".join(_plain(json.dumps(value, default=str)).split())
    return text if len(text) <= _MAX_SHAPE_CHARS else f"{text[:_MAX_SHAPE_CHARS]}..."


def _plain(text: str) -> str:
    """A text in which nothing is taken for a docstring's section or a list of choices."""
    lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
    return re.sub(r"\(choices:", "(choices -", _HEADINGS.sub(r"\1 -", lines), flags=re.IGNORECASE)
