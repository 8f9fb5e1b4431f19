"""Annotations as JSON Schema, and JSON values as what the annotations ask for."""

import collections.abc
import dataclasses
import datetime
import enum
import json
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

from .plain import stable
from .problems import CodeError, MismatchError

Schema = dict[str, Any]
_SCALARS = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
_LISTS = (list, collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Iterable,
          collections.abc.Collection)  # fmt: skip
_SETS = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_TIMES = {datetime.datetime: "date-time", datetime.date: "date", datetime.time: "time"}


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a value looks like in JSON, and how JSON becomes the value. `convert` raises MismatchError."""

    schema: Schema
    convert: Callable[[Any], Any]


ANYTHING = Shape({}, lambda value: value)


def shape_of(annotation: Any, inside: tuple[Any, ...] = ()) -> Shape:
    """The shape that an annotation asks for.

    Raises:
        CodeError: it has none; the message names the annotation.
    """
    if annotation is Any or annotation is object:
        return ANYTHING
    annotation = type(None) if annotation is None else annotation
    if annotation in _SCALARS:
        return _scalar(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _annotated(arguments, inside)
    if origin in (typing.Union, types.UnionType):
        return _union([shape_of(one, inside) for one in arguments], arguments)
    if origin is typing.Literal:
        return _choice(arguments, dict(zip(map(_key, arguments), arguments, strict=True)))
    if isinstance(annotation, typing.NewType):
        return shape_of(annotation.__supertype__, inside)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _enum(annotation)
    if annotation in _TIMES:
        return _time(annotation)
    container = _container(origin or annotation, arguments, inside)
    if container is not None:
        return container
    if typing.is_typeddict(annotation):
        return _typed_dict(annotation, _within(annotation, inside))
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return _dataclass(annotation, _within(annotation, inside))
    raise CodeError(f"{said(annotation)} cannot be described as JSON; {_DESCRIBABLE}")


_DESCRIBABLE = (
    "there are str, int, float, bool, None, Any, list, tuple, set, dict, unions, Literal, Enum, date and time, "
    "dataclasses and TypedDict"
)


def said(annotation: Any) -> str:
    """An annotation as people write it."""
    return annotation.__name__ if isinstance(annotation, type) else stable(str(annotation)).replace("typing.", "")


def hints_of(thing: Any, what: str) -> dict[str, Any]:
    """The annotations of a function or class, resolved.

    Raises:
        CodeError: one names what is not there.
    """
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except Exception as error:
        raise CodeError(f"{what}: an annotation cannot be resolved ({stable(str(error))}); correct it") from None


def refuse(value: Any, wanted: str) -> MismatchError:
    """The error that a value is not what is wanted."""
    return MismatchError(f"{_key(value)[:100]} is not {wanted}")


def _key(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError):
        return stable(repr(value))


def _within(annotation: Any, inside: tuple[Any, ...]) -> tuple[Any, ...]:
    if annotation in inside:
        raise CodeError(f"{said(annotation)} holds itself, and cannot be written out as a schema; use dict or str")
    return (*inside, annotation)


def _scalar(kind: Any) -> Shape:
    name = _SCALARS[kind]

    def convert(value: Any) -> Any:
        if kind is float and type(value) is int:
            return float(value)
        if kind is int and type(value) is float and value.is_integer():
            return int(value)
        if type(value) is not kind:
            raise refuse(value, name)
        return value

    return Shape({"type": name}, convert)


def _annotated(arguments: Sequence[Any], inside: tuple[Any, ...]) -> Shape:
    found = shape_of(arguments[0], inside)
    told = next((one for one in arguments[1:] if isinstance(one, str)), None)
    return found if told is None else Shape({**found.schema, "description": told}, found.convert)


def _union(shapes: Sequence[Shape], arguments: Sequence[Any]) -> Shape:
    ordered = sorted(zip(shapes, arguments, strict=True), key=lambda one: one[1] is float)  # 1 is an int before a float

    def convert(value: Any) -> Any:
        for one, _ in ordered:
            try:
                return one.convert(value)
            except MismatchError:
                continue
        raise refuse(value, "any of " + ", ".join(map(said, arguments)))

    return Shape({"anyOf": [one.schema for one in shapes]}, convert)


def _choice(values: Sequence[Any], known: dict[str, Any]) -> Shape:
    kinds = {type(one) for one in values}
    if not kinds <= set(_SCALARS):
        raise CodeError("the values of a Literal or an Enum are to be texts, numbers, booleans or None")
    schema: Schema = {"enum": list(values)}
    if len(kinds) == 1:
        schema = {"type": _SCALARS[kinds.pop()], **schema}

    def convert(value: Any) -> Any:
        try:
            return known[_key(value)]
        except KeyError:
            raise refuse(value, "one of " + ", ".join(map(_key, values))) from None

    return Shape(schema, convert)


def _enum(kind: type[enum.Enum]) -> Shape:
    members = list(kind)
    values = [one.value for one in members]
    if not all(type(one) in _SCALARS for one in values):
        values = [one.name for one in members]
    return _choice(values, dict(zip(map(_key, values), members, strict=True)))


def _time(kind: Any) -> Shape:
    def convert(value: Any) -> Any:
        try:
            return kind.fromisoformat(value)
        except (TypeError, ValueError):
            raise refuse(value, f"a {_TIMES[kind]} in ISO 8601") from None

    return Shape({"type": "string", "format": _TIMES[kind]}, convert)


def _container(origin: Any, arguments: Sequence[Any], inside: tuple[Any, ...]) -> Shape | None:
    if origin in _LISTS:
        return _array(shape_of(arguments[0], inside) if arguments else ANYTHING, list)
    if origin in _SETS:
        found = _array(
            shape_of(arguments[0], inside) if arguments else ANYTHING, frozenset if origin is frozenset else set
        )
        return Shape({**found.schema, "uniqueItems": True}, found.convert)
    if origin is tuple:
        if not arguments or arguments[-1] is Ellipsis:
            return _array(shape_of(arguments[0], inside) if arguments else ANYTHING, tuple)
        return _tuple([shape_of(one, inside) for one in arguments])
    if origin in _MAPS:
        return _map(*(arguments or (str, Any)), inside=inside)
    return None


def _array(item: Shape, make: Callable[[list[Any]], Any]) -> Shape:
    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            raise refuse(value, "an array")
        try:
            return make([item.convert(one) for one in value])
        except TypeError:
            raise refuse(value, "an array of what a set can hold") from None

    schema: Schema = {"type": "array"}
    return Shape(schema | {"items": item.schema} if item.schema else schema, convert)


def _tuple(items: Sequence[Shape]) -> Shape:
    count = len(items)

    def convert(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != count:
            raise refuse(value, f"an array of {count}")
        return tuple(one.convert(part) for one, part in zip(items, value, strict=True))

    schema = {"type": "array", "prefixItems": [one.schema for one in items], "minItems": count, "maxItems": count}
    return Shape(schema, convert)


def _map(key: Any, value: Any, inside: tuple[Any, ...]) -> Shape:
    if key not in (str, int, Any):
        raise CodeError(f"a dict with keys of {said(key)} cannot be described as JSON; use str or int keys")
    item = shape_of(value, inside)

    def convert(given: Any) -> Any:
        if not isinstance(given, dict):
            raise refuse(given, "an object")
        try:
            return {int(name) if key is int else name: item.convert(one) for name, one in given.items()}
        except ValueError:
            raise refuse(given, "an object whose keys are integers") from None

    schema: Schema = {"type": "object"}
    return Shape(schema | {"additionalProperties": item.schema} if item.schema else schema, convert)


def _fields(shapes: dict[str, Shape], required: list[str], make: Callable[[dict[str, Any]], Any], name: str) -> Shape:
    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise refuse(value, f"an object, of {name}")
        if missing := [one for one in required if one not in value]:
            raise refuse(value, f"a whole {name}: {', '.join(missing)} is missing")
        if strange := [one for one in value if one not in shapes]:
            raise refuse(value, f"a {name}, which has no {', '.join(strange)}")
        try:
            return make({key: shapes[key].convert(one) for key, one in value.items()})
        except MismatchError:
            raise
        except Exception as error:  # a dataclass's own checks
            raise refuse(value, f"a {name}: {stable(str(error))[:200]}") from None

    properties = {key: one.schema for key, one in shapes.items()}
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return Shape(schema | {"required": required} if required else schema, convert)


def _typed_dict(kind: Any, inside: tuple[Any, ...]) -> Shape:
    hints = {name: _bare(hint) for name, hint in hints_of(kind, said(kind)).items()}
    shapes = {name: shape_of(hint, inside) for name, hint in hints.items()}
    return _fields(shapes, [name for name in hints if name in kind.__required_keys__], dict, said(kind))


def _bare(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Required, typing.NotRequired):
        return typing.get_args(hint)[0]
    return hint


def _dataclass(kind: Any, inside: tuple[Any, ...]) -> Shape:
    hints = hints_of(kind, said(kind))
    fields = [one for one in dataclasses.fields(kind) if one.init]
    shapes = {one.name: shape_of(hints[one.name], inside) for one in fields}
    missing = dataclasses.MISSING
    required = [one.name for one in fields if one.default is missing and one.default_factory is missing]
    return _fields(shapes, required, lambda values: kind(**values), said(kind))
