"""Values that fit a JSON Schema, drawn at random: for agents that know of a tool no more than its schema."""

import random
import re
import string
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeGuard

JsonObject = dict[str, Any]

_MAX_DEPTH: Final = 6
_OPTIONAL: Final = 0.5
_SPAN: Final = 100
_EPOCH: Final = datetime(2026, 2, 10, tzinfo=UTC)


def arguments(schema: Mapping[str, Any], dice: random.Random) -> JsonObject:
    """Arguments of a tool: all that its schema requires, and some of the others."""
    return _object(dict(schema), _Drawing(dict(schema), dice), 0)


def sample(schema: Any, dice: random.Random) -> Any:
    """A value that fits a schema.

    Heeded are types, enumerations, constants, the bounds of numbers, strings and lists, formats, `$ref` within the
    schema, and allOf, anyOf and oneOf with what stands beside them. A pattern is met where a documented value, a
    format or a plain word meets it; `not`, `if` and `patternProperties` are not looked at.
    """
    return _Drawing(schema if isinstance(schema, dict) else {}, dice).value(schema, 0)


class _Drawing:
    def __init__(self, root: JsonObject, dice: random.Random) -> None:
        self.root = root
        self.dice = dice

    def value(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict):  # `true` allows anything
            return self.dice.randrange(_SPAN)
        schema = self.plain(schema)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self.dice.choice(schema["enum"])
        return _BY_TYPE.get(self._type(schema), _string)(schema, self, depth)

    def plain(self, schema: JsonObject) -> JsonObject:
        """A schema without references and unions, of which one branch is taken."""
        for _ in range(_MAX_DEPTH * 4):
            if "$ref" in schema:
                found = self._found(schema["$ref"])
                schema = _merged(found, {name: value for name, value in schema.items() if name != "$ref"})
            elif schema.get("allOf"):
                rest = {name: value for name, value in schema.items() if name != "allOf"}
                for part in schema["allOf"]:
                    rest = _merged(rest, part if isinstance(part, dict) else {})
                schema = rest
            elif (union := next((name for name in ("anyOf", "oneOf") if schema.get(name)), None)) is not None:
                branch = self.dice.choice(schema[union])
                rest = {name: value for name, value in schema.items() if name != union}
                schema = _merged(rest, branch if isinstance(branch, dict) else {})
            else:
                break
        return schema

    def _found(self, reference: Any) -> JsonObject:
        found: Any = self.root
        for step in str(reference).removeprefix("#").split("/")[1:]:
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def _type(self, schema: JsonObject) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self.dice.choice(kind)
        if kind is None:
            kind = next((name for name, words in _TELLING.items() if words & schema.keys()), "string")
        return str(kind)


_TELLING: Final = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}


def _merged(one: JsonObject, other: JsonObject) -> JsonObject:
    """A schema that asks for what two ask for, as far as both can be had by naming."""
    merged = one | other
    if isinstance(one.get("properties"), dict) and isinstance(other.get("properties"), dict):
        merged["properties"] = one["properties"] | other["properties"]
    if isinstance(one.get("required"), list) and isinstance(other.get("required"), list):
        merged["required"] = [*one["required"], *(name for name in other["required"] if name not in one["required"])]
    for name, stricter in (("minimum", max), ("maximum", min), ("minLength", max), ("maxLength", min)):
        if name in one and name in other:
            merged[name] = stricter(one[name], other[name])
    return merged


def _object(schema: JsonObject, drawing: _Drawing, depth: int) -> JsonObject:
    schema = drawing.plain(schema)
    known = schema.get("properties") or {}
    required = [name for name in schema.get("required") or [] if isinstance(name, str)]
    chosen = list(required)
    if depth < _MAX_DEPTH:
        chosen += [name for name in known if name not in required and drawing.dice.random() < _OPTIONAL]
    for name in known:
        if len(chosen) >= schema.get("minProperties", 0):
            break
        if name not in chosen:
            chosen.append(name)
    return {name: drawing.value(known.get(name, True), depth + 1) for name in chosen}


def _array(schema: JsonObject, drawing: _Drawing, depth: int) -> list[Any]:
    least = schema.get("minItems", 0)
    most = max(least, min(schema.get("maxItems", least + 3), least + 3 if depth < _MAX_DEPTH else least))
    first = schema.get("prefixItems") or []
    items: list[Any] = []
    wanted = drawing.dice.randint(least, most)
    for _ in range(20 * wanted):  # an item that was there already is drawn again
        if len(items) == wanted:
            break
        item = drawing.value(first[len(items)] if len(items) < len(first) else schema.get("items", True), depth + 1)
        if not schema.get("uniqueItems") or item not in items:
            items.append(item)
    return items


def _bounds(schema: JsonObject, step: float) -> tuple[float, float]:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    # drafts before 6 have booleans there
    if above is True or below is True:
        above, below = low if above is True else None, high if below is True else None
    if _is_number(above):
        low = above + step if low is None else max(low, above + step)
    if _is_number(below):
        high = below - step if high is None else min(high, below - step)
    if low is None:
        low = 0 if high is None else min(0, high - _SPAN)
    return low, low + _SPAN if high is None else max(low, high)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _integer(schema: JsonObject, drawing: _Drawing, _: int) -> int:
    low, high = _bounds(schema, 1)
    unit = schema.get("multipleOf") or 1
    unit = int(unit) if unit >= 1 and unit == int(unit) else 1
    first, last = -(-int(-(-low // 1)) // unit), int(high // 1) // unit
    return drawing.dice.randint(first, max(first, last)) * unit


def _number(schema: JsonObject, drawing: _Drawing, depth: int) -> float:
    if schema.get("multipleOf"):
        return _integer(schema | {"multipleOf": max(1, schema["multipleOf"])}, drawing, depth)
    low, high = _bounds(schema, 0.0)
    for _ in range(20):
        found = round(drawing.dice.uniform(low, high), 2)
        if low <= found <= high and found not in (schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")):
            return found
    return (low + high) / 2


def _string(schema: JsonObject, drawing: _Drawing, _: int) -> str:
    dice, pattern = drawing.dice, schema.get("pattern")
    least = schema.get("minLength", 0)
    most = max(least, schema.get("maxLength", max(least, 12)))
    made = _FORMATS.get(schema.get("format", ""))
    word = "".join(dice.choices(string.ascii_lowercase, k=dice.randint(max(least, min(3, most)), min(most, least + 9))))
    drawn = made(dice) if made is not None else word
    if not isinstance(pattern, str):
        return drawn
    told = [schema.get("example"), schema.get("default"), *(schema.get("examples") or [])]
    candidates = [one for one in told if isinstance(one, str)]
    candidates += [drawn, word, word.upper(), str(dice.randrange(10**4)), *(one(dice) for one in _FORMATS.values())]
    return next((one for one in candidates if least <= len(one) and _meets(pattern, one)), drawn)


def _meets(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return True


def _moment(dice: random.Random) -> datetime:
    return _EPOCH + timedelta(seconds=dice.randrange(365 * 86_400))


_FORMATS: Final[dict[str, Callable[[random.Random], str]]] = {
    "date": lambda dice: _moment(dice).date().isoformat(),
    "date-time": lambda dice: _moment(dice).isoformat().replace("+00:00", "Z"),
    "time": lambda dice: _moment(dice).time().isoformat(),
    "duration": lambda dice: f"PT{dice.randint(1, 90)}M",
    "email": lambda dice: f"user{dice.randrange(1000)}@example.com",
    "uri": lambda dice: f"https://example.com/{dice.randrange(1000)}",
    "url": lambda dice: f"https://example.com/{dice.randrange(1000)}",
    "hostname": lambda dice: f"host{dice.randrange(1000)}.example.com",
    "ipv4": lambda dice: f"192.0.2.{dice.randrange(256)}",
    "ipv6": lambda dice: f"2001:db8::{dice.randrange(1, 0xFFFF):x}",
    "uuid": lambda dice: str(uuid.UUID(int=dice.getrandbits(128), version=4)),
}

_BY_TYPE: Final[dict[str, Callable[[JsonObject, _Drawing, int], Any]]] = {
    "object": _object,
    "array": _array,
    "integer": _integer,
    "number": _number,
    "boolean": lambda _, drawing, __: drawing.dice.random() < 0.5,
    "null": lambda *_: None,
    "string": _string,
}
