"""Calls that exercise an application broadly: each tool with required arguments only, each optional one alone, all."""

from collections.abc import Iterable, Iterator
from typing import Any

from .tools import Argument, Operation

_MAX_CALLS = 500
_ORDER = ("GET", "POST", "PUT", "PATCH", "DELETE")
_MAX_DEPTH = 6

Call = tuple[str, dict[str, Any]]


def calls(operations: Iterable[Operation]) -> list[Call]:
    """The calls, reads first and deletions last."""
    ordered = sorted(operations, key=lambda operation: _ORDER.index(operation.method))
    return [(operation.name, arguments) for operation in ordered for arguments in _variants(operation)][:_MAX_CALLS]


def _variants(operation: Operation) -> Iterator[dict[str, Any]]:
    required = {one.name: _value(one) for one in operation.arguments if one.required}
    optional = {one.name: _value(one) for one in operation.arguments if not one.required}
    yield required
    for name, value in optional.items():
        yield required | {name: value}
    if len(optional) > 1:
        yield required | optional


def _value(argument: Argument) -> Any:
    found = _documented(argument.source)
    return sample(argument.schema) if found is None else found


def _documented(source: dict[str, Any]) -> Any:
    """The first documented example, in any of the ways OpenAPI has for it."""
    if source.get("example") is not None:
        return source["example"]
    examples = source.get("examples")
    if isinstance(examples, dict):
        return next((one["value"] for one in examples.values() if isinstance(one, dict) and "value" in one), None)
    return examples[0] if isinstance(examples, list) and examples else None


def sample(schema: Any, depth: int = 0) -> Any:
    """A value that a schema allows, as documented where it is."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return None
    for found in (_documented(schema), schema.get("default"), schema.get("const")):
        if found is not None:
            return found
    if schema.get("enum"):
        return schema["enum"][0]
    for union in ("anyOf", "oneOf", "allOf"):
        for option in schema.get(union) or ():
            if option.get("type") != "null":
                return sample(option, depth + 1)
    return _of_type(schema, depth)


def _of_type(schema: dict[str, Any], depth: int) -> Any:
    kind = schema.get("type")
    if kind == "object":
        return {name: sample(value, depth + 1) for name, value in schema.get("properties", {}).items()}
    if kind == "array":
        return [sample(schema.get("items"), depth + 1)]
    if kind in ("integer", "number"):
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        return max(1, low + 1 if "exclusiveMinimum" in schema else low)
    if kind == "boolean":
        return True
    return _string(schema) if kind == "string" else None


def _string(schema: dict[str, Any]) -> str:
    known = {
        "date-time": "2026-02-10T00:00:00Z",
        "date": "2026-02-10",
        "time": "09:00:00",
        "email": "user@example.com",
        "uri": "https://example.com",
        "uuid": "00000000-0000-4000-8000-000000000001",
    }
    text = known.get(schema.get("format", ""), "sample")
    return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]
