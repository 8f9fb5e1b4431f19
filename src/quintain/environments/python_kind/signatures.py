"""Public methods of a class, or public functions of a module, as tools."""

import asyncio
import inspect
import json
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .code import Entry
from .docs import Doc
from .plain import shown
from .problems import CodeError, MismatchError
from .shapes import ANYTHING, Shape, hints_of, shape_of

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Params):\s*$")
_ANY_SECTION = re.compile(r"^[A-Z][A-Za-z ]*:\s*$")
_ARGUMENT = re.compile(r"^(\s+)(\*{0,2}\w+)\s*(\([^)]*\))?\s*:\s*(.*)$")


@dataclass(frozen=True)
class Tool:
    """One tool: the method behind it, and how its arguments are made from JSON."""

    entry: str
    name: str
    description: str
    input_schema: dict[str, Any]
    shapes: Mapping[str, Shape]
    by_position: tuple[str, ...]

    @property
    def listed(self) -> dict[str, Any]:
        """As the platform is told of it."""
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments as the method takes them.

        Raises:
            MismatchError: one is not what its annotation asks for, is missing or not known.
        """
        required = self.input_schema.get("required", ())
        if missing := [name for name in required if name not in given]:
            raise MismatchError(f"{', '.join(missing)} is missing")
        converted = {}
        for name, value in given.items():
            if name not in self.shapes:
                raise MismatchError(f"there is no argument {name[:100]!r}")
            try:
                converted[name] = self.shapes[name].convert(value)
            except MismatchError as error:
                raise MismatchError(f"{name}: {error}") from None
        return converted

    def call(self, holder: Any, arguments: dict[str, Any]) -> Any:
        """Call the method of an object, or the function of a module."""
        positional = []
        for name in self.by_position:
            if name not in arguments:
                break
            positional.append(arguments.pop(name))
        result = getattr(holder, self.name)(*positional, **arguments)
        return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result


async def _awaited(result: Any) -> Any:
    return await result


def tools_of(entry: Entry, exclude: frozenset[str], docs: Mapping[str, Doc]) -> Iterator[Tool]:
    """The tools of an entry, in the order of definition; a base class's come first.

    Raises:
        CodeError: a method cannot be described; the message names file, method and parameter.
    """
    for name, function, bound in _methods(entry):
        if name not in exclude:
            yield _tool(entry, name, function, bound, docs.get(name))


def _methods(entry: Entry) -> Iterator[tuple[str, Any, bool]]:
    """Name, function, and whether its first parameter is the object or class itself."""
    if not entry.is_class:
        for name, value in vars(entry.made_of).items():
            own = isinstance(value, types.FunctionType) and value.__module__ == entry.module.__name__
            if own and not name.startswith("_"):
                yield name, value, False
        return
    assert isinstance(entry.made_of, type)
    names: dict[str, None] = {}
    for kind in reversed(entry.made_of.__mro__[:-1]):
        names |= dict.fromkeys(name for name in vars(kind) if not name.startswith("_"))
    for name in names:
        found = inspect.getattr_static(entry.made_of, name)
        if isinstance(found, staticmethod):
            yield name, found.__func__, False
        elif isinstance(found, classmethod):
            yield name, found.__func__, True
        elif isinstance(found, types.FunctionType):
            yield name, found, True


def _tool(entry: Entry, name: str, function: Any, bound: bool, doc: Doc | None) -> Tool:
    code = inspect.unwrap(function).__code__
    where = f"{code.co_filename}:{code.co_firstlineno}: {name}"
    parameters = list(inspect.signature(function).parameters.values())[1 if bound else 0 :]
    open_ended = [one.name for one in parameters if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    if open_ended:
        raise CodeError(f"{where}: *{open_ended[0]} cannot be described; name the parameters, or exclude {name}")
    hints = hints_of(function, where)
    text, told = described(inspect.getdoc(function) or "")
    properties: dict[str, Any] = {}
    shapes: dict[str, Shape] = {}
    required = []
    for one in parameters:
        given = None if doc is None else doc.properties.get(one.name)
        shapes[one.name] = shape = _shape(one, hints, given, f"{where}: {one.name}")
        schema = dict(shape.schema if given is None else given)
        if given is None and one.name in told:
            schema["description"] = told[one.name]
        if one.default is one.empty:
            required.append(one.name)
        elif "default" not in schema and (default := _default(one.default)) is not None:
            schema["default"] = json.loads(default)
        properties[one.name] = schema
    if doc is not None:
        doc.check(where, properties)
        text = doc.description or text
        required = [one for one in properties if one in required or one in doc.required]
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    positional = tuple(one.name for one in parameters if one.kind is one.POSITIONAL_ONLY)
    return Tool(entry.name, name, text, schema | {"required": required} if required else schema, shapes, positional)


def _shape(one: inspect.Parameter, hints: Mapping[str, Any], given: Any, where: str) -> Shape:
    if one.name not in hints:
        if given is None:
            raise CodeError(
                f"{where} has no annotation; annotate it, describe it in a docs file, or exclude the method"
            )
        return ANYTHING
    try:
        return shape_of(hints[one.name])
    except CodeError as error:
        if given is None:
            raise CodeError(f"{where}: {error}; or describe it in a docs file, or exclude the method") from None
        return ANYTHING


def _default(value: Any) -> str | None:
    """A default as JSON; None where it has no form as JSON that an agent could send."""
    if value is None or isinstance(value, str | int | float | bool | list | dict | tuple):
        text = json.dumps(value) if isinstance(value, str) else shown(value)
        try:
            json.loads(text)
        except ValueError:
            return None
        return text
    inner = getattr(value, "value", None)
    return None if inner is None else _default(inner)


def described(doc: str) -> tuple[str, dict[str, str]]:
    """A docstring without its section of arguments, and what that says of each (Google style)."""
    kept: list[str] = []
    told: dict[str, str] = {}
    current, indent, among = "", 0, False
    for line in doc.splitlines():
        if _ANY_SECTION.match(line):
            among = _SECTION.match(line) is not None
            if among:
                continue
        if not among or (line and not line[0].isspace()):
            among = False
            kept.append(line)
            continue
        found = _ARGUMENT.match(line)
        if found and (not current or len(found[1]) <= indent):
            indent, current = len(found[1]), found[2].lstrip("*")
            told[current] = found[4].strip()
        elif current and line.strip():
            told[current] = f"{told[current]} {line.strip()}".strip()
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return text, {name: words for name, words in told.items() if words}
