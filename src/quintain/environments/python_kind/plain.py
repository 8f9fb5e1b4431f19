"""Python values as JSON: the state, where equal values are equal bytes, and results as an agent reads them."""

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import math
import re
import types
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from .problems import CodeError

MAX_STATE = 2 * 2**20
"""Bytes of JSON that a state may have."""

_MAX_DEPTH = 60
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_dumps = json.dumps
_NOT_STATE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def state_text(values: Mapping[str, Any]) -> str:
    """Values by name as canonical JSON: sorted keys, ASCII, no spaces.

    Raises:
        CodeError: one of them has no form as JSON, or they are too large together.
    """
    try:
        plain = _Plain().mapping(values, "", 0, [])
        text = _dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (RecursionError, ValueError, TypeError, AttributeError) as error:
        raise CodeError(f"the state cannot be kept: {stable(str(error))}") from None
    if len(text) > MAX_STATE:
        raise CodeError(f"the state has {len(text)} bytes, over {MAX_STATE}; keep less in attributes")
    return text


def shown(value: Any) -> str:
    """A result as text: a text as it is, else compact JSON, else a representation without addresses."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, types.GeneratorType | map | filter | zip):
        value = list(value)
    try:
        return _dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        plain = _Plain().value(value, "the result", 0, [])
        if isinstance(plain, str):
            return plain
        return _dumps(plain, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (CodeError, TypeError, ValueError, RecursionError, AttributeError):
        return stable(repr(value))


def stable(text: str) -> str:
    """A text without addresses of objects, which differ from process to process."""
    return _ADDRESS.sub("", text)


def public(thing: Any) -> dict[str, Any]:
    """An object's public attributes, in no certain order; what `__getstate__` says where its class has its own."""
    own = getattr(type(thing), "__getstate__", None)
    if own is not None and own is not getattr(object, "__getstate__", None):
        said = thing.__getstate__()
        if not isinstance(said, dict):
            raise CodeError(f"{type(thing).__name__}.__getstate__ returned no dict; return what is to be kept by name")
        return said
    found = dict(getattr(thing, "__dict__", {}))
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(thing, name):
                found[name] = getattr(thing, name)
    return {name: value for name, value in found.items() if not name.startswith("_")}


class _Plain:
    """One conversion. `above` is what a value stands in: each object and container with its place."""

    def value(self, value: Any, at: str, depth: int, above: list[tuple[Any, str]]) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, enum.Enum):
            return self.value(value.value, at, depth, above)
        if isinstance(value, str | int):
            return str(value) if isinstance(value, str) else int(value)
        if isinstance(value, float):
            return _number(float(value))
        if isinstance(value, bytes | bytearray):
            return {"_bytes": bytes(value).hex()}
        if isinstance(value, datetime.datetime | datetime.date | datetime.time):
            return value.isoformat()
        if isinstance(value, datetime.timedelta):
            return _number(value.total_seconds())
        if isinstance(value, decimal.Decimal | uuid.UUID):
            return str(value)
        return self._composed(value, at, depth, above)

    def _composed(self, value: Any, at: str, depth: int, above: list[tuple[Any, str]]) -> Any:
        for one, where in above:
            if one is value:
                if isinstance(value, Mapping | list | tuple | set | frozenset):
                    raise CodeError(f"{at} holds itself (it is {where}); keep what has no cycles")
                return {"_ref": where}
        if depth > _MAX_DEPTH:
            raise CodeError(f"{at} nests deeper than {_MAX_DEPTH}; flatten it")
        within = [*above, (value, at)]
        if isinstance(value, Mapping):
            return self.mapping(value, at, depth, within)
        if isinstance(value, set | frozenset):
            return sorted(self._each(sorted(value, key=repr), at, depth, within), key=_order)
        if isinstance(value, list | tuple | collections.deque):
            return self._each(value, at, depth, within)
        if isinstance(value, _NOT_STATE) or not hasattr(type(value), "__mro__"):
            raise CodeError(f"{at} is {_named(value)}; {_ADVICE}")
        if not hasattr(value, "__dict__") and not hasattr(type(value), "__slots__"):
            raise CodeError(f"{at} is {_named(value)}; {_ADVICE}")
        if type(value).__module__ in _LIBRARIES:
            raise CodeError(f"{at} is {_named(value)}; {_ADVICE}")
        return self._object(value, at, depth, within)

    def mapping(self, value: Mapping[Any, Any], at: str, depth: int, above: list[tuple[Any, str]]) -> dict[str, Any]:
        """A mapping; its keys become texts."""
        found: dict[str, Any] = {}
        for key, one in value.items():
            name = key if type(key) is str else self._key(key, at)
            if name in found:
                raise CodeError(f"{at} has two keys that are {name!r} as texts; keep one")
            found[name] = self.value(one, f"{at}.{name}" if at else name, depth + 1, above)
        return found

    def _key(self, key: Any, at: str) -> str:
        plain = self.value(key, f"a key of {at}", 0, [])
        return plain if isinstance(plain, str) else _dumps(plain, sort_keys=True, separators=(",", ":"))

    def _each(self, values: Iterable[Any], at: str, depth: int, above: list[tuple[Any, str]]) -> list[Any]:
        return [self.value(one, f"{at}[{index}]", depth + 1, above) for index, one in enumerate(values)]

    def _object(self, value: Any, at: str, depth: int, above: list[tuple[Any, str]]) -> dict[str, Any]:
        if dataclasses.is_dataclass(value):
            held = {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.name[0] != "_"}
        else:
            held = public(value)
        return {"_type": type(value).__name__, **self.mapping(held, at, depth, above)}


_ADVICE = "name in `state` the attributes that are to be kept, or begin its name with an underscore"
_LIBRARIES = frozenset({"random", "threading", "_thread", "re", "io", "_io", "socket", "itertools", "logging"})


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _named(value: Any) -> str:
    return f"a {type(value).__name__}, which is no data"


def _order(value: Any) -> str:
    return _dumps(value, sort_keys=True)
