"""The tools that a document declares, and their arguments: JSON Schema 2020-12, without what could cost much.

A schema is written out (`$ref` is refused, and `patternProperties` with it), its patterns are matched in linear time,
and `format` is only told. Integers have 64 bits.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints

from quintain.contracts.tools import Tool
from quintain.contracts.untrusted import json_problem
from quintain.environments.inprocess.findings import Finding, Place, Strict
from quintain.environments.inprocess.patterns import found, pattern_problem

JsonObject = dict[str, Any]

MAX_ARGUMENTS_BYTES: Final = 64 * 1024
"""Largest arguments of a call, in characters of JSON."""

MAX_DEPTH: Final = 24
"""How deeply arguments and state may nest."""

MAX_TOOLS: Final = 200

_MAX_SCHEMA: Final = 64 * 1024
_MAX_TOLD: Final = 3
_RESERVED: Final = frozenset({"verify", "done", "__list_scenarios__"})
_INTEGERS: Final = range(-(2**63), 2**63)
_REFUSED: Final = frozenset(
    "$ref $dynamicRef $recursiveRef $anchor $dynamicAnchor $id $schema $vocabulary patternProperties".split()
)
_VALUES: Final = frozenset("enum const default examples".split())
_BY_NAME: Final = frozenset("properties dependentSchemas $defs".split())
_NOTHING: Final[JsonObject] = {"type": "object", "properties": {}}


class ToolModel(Strict):
    """One tool as a document has it; kinds add to it."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$", max_length=64)]
    description: Annotated[str, StringConstraints(max_length=10_000)] = ""
    input_schema: JsonObject = Field(default_factory=lambda: dict(_NOTHING))

    @property
    def tool(self) -> Tool:
        """The tool as an agent is told of it."""
        return Tool(name=self.name, description=self.description, input_schema=self.input_schema)


def tool_findings(tools: Iterable[ToolModel], at: Place = ("tools",)) -> Iterator[Finding]:
    """What is wrong with names and schemas."""
    names: set[str] = set()
    for index, tool in enumerate(tools):
        place = (*at, index)
        if tool.name in names:
            yield Finding((*place, "name"), f"a second tool is called {tool.name!r}; take another name")
        if tool.name in _RESERVED:
            yield Finding((*place, "name"), f"{tool.name!r} is a name of the platform's own; take another")
        names.add(tool.name)
        yield from schema_findings(tool.input_schema, (*place, "input_schema"))


def schema_findings(schema: JsonObject, at: Place) -> Iterator[Finding]:
    """What is wrong with the schema of a tool's arguments."""
    if problem := json_problem(schema) or depth_problem(schema):
        yield Finding(at, problem)
    elif (size := len(json.dumps(schema))) > _MAX_SCHEMA:
        yield Finding(at, f"the schema has {size} characters, over {_MAX_SCHEMA}; shorten it")
    elif schema.get("type") != "object":
        yield Finding(at, "arguments are an object; begin the schema with type: object")
    else:
        refused = list(_refused(schema, at))
        yield from refused
        if not refused:
            for error in sorted(_of_schemas().iter_errors(schema), key=lambda one: [*map(str, one.path)]):
                yield Finding((*at, *error.path), f"no JSON Schema: {error.message[:300]}; correct it")


def _refused(schema: Any, at: Place) -> Iterator[Finding]:
    if isinstance(schema, list):
        for index, one in enumerate(schema):
            yield from _refused(one, (*at, index))
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        place = (*at, key)
        if key in _REFUSED:
            yield Finding(place, f"{key} is not supported in a tool's schema; write it out")
        elif key == "pattern" and isinstance(value, str):
            if problem := pattern_problem(value):
                yield Finding(place, problem)
        elif key in _BY_NAME and isinstance(value, dict):
            for name, one in value.items():
                yield from _refused(one, (*place, name))
        elif key not in _VALUES:
            yield from _refused(value, place)


class ArgumentCheck:
    """Checks the arguments of one tool."""

    def __init__(self, tool: Tool, max_bytes: int = MAX_ARGUMENTS_BYTES) -> None:
        """`max_bytes` bounds the arguments, as characters of JSON."""
        self._max_bytes = max_bytes
        self._schema = tool.input_schema
        self._validator = _validator_class()(tool.input_schema)

    def problem(self, arguments: JsonObject) -> str | None:
        """Why they are not accepted, or None."""
        if problem := json_problem(arguments) or depth_problem(arguments):
            return problem
        if (size := len(json.dumps(arguments, ensure_ascii=False))) > self._max_bytes:
            return f"they have {size} characters, over {self._max_bytes}; send less"
        errors = sorted(
            self._validator.iter_errors(arguments), key=lambda one: ([str(x) for x in one.path], one.message)
        )
        told = (f"{'.'.join(map(str, one.path)) or 'the arguments'}: {one.message[:300]}" for one in errors[:_MAX_TOLD])
        return "; ".join(told) or None

    def typed(self, arguments: JsonObject) -> JsonObject:
        """Accepted arguments, numbers as their schema has them: 2.0 is 2 for an integer, 2 is 2.0 for a number."""
        return dict(_typed(arguments, self._schema))


def depth_problem(value: Any) -> str | None:
    """Why a JSON value cannot be given to expressions, or None."""
    pending = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        if depth > MAX_DEPTH:
            return f"nested deeper than {MAX_DEPTH} levels; flatten it"
        if isinstance(item, int) and item not in _INTEGERS:
            return f"{str(item)[:40]} is over 64 bits; send a smaller integer"
        if isinstance(item, dict):
            pending.extend((child, depth + 1) for child in item.values())
        elif isinstance(item, list):
            pending.extend((child, depth + 1) for child in item)
    return None


def _typed(value: Any, schema: Any) -> Any:
    if not isinstance(schema, dict):
        return value
    if isinstance(value, dict):
        known = schema.get("properties")
        known = known if isinstance(known, Mapping) else {}
        return {key: _typed(one, known.get(key, schema.get("additionalProperties"))) for key, one in value.items()}
    if isinstance(value, list):
        return [_typed(one, schema.get("items")) for one in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if schema.get("type") == "number":
        return float(value)
    whole = schema.get("type") == "integer" and _INTEGERS.start <= value < _INTEGERS.stop
    return int(value) if whole else value


@lru_cache(maxsize=1)
def _of_schemas() -> Any:
    """Checks that a schema is one."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(Draft202012Validator.META_SCHEMA)


@lru_cache(maxsize=1)
def _validator_class() -> Any:
    """JSON Schema 2020-12 as it is checked here; imported when a document is first read, since that takes a while."""
    from jsonschema import Draft202012Validator, ValidationError, validators

    def pattern(validator: Any, wanted: str, instance: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(instance, "string") and not found(wanted, instance):
            yield ValidationError(f"{instance[:100]!r} does not match {wanted!r}")

    def unique(validator: Any, wanted: bool, instance: Any, schema: Any) -> Iterator[Any]:
        if not wanted or not validator.is_type(instance, "array"):
            return
        if len({json.dumps(_plain(one), sort_keys=True) for one in instance}) < len(instance):
            yield ValidationError("has an element twice")

    extend: Any = validators.extend
    return extend(Draft202012Validator, {"pattern": pattern, "uniqueItems": unique})


def _plain(value: Any) -> Any:
    """The value with whole floats as integers: JSON has one kind of number."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
