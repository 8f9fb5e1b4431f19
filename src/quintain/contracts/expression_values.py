"""The values that expressions are given and come to: JSON, of bounded size and depth."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, NamedTuple

MAX_DEPTH: Final = 32
"""Deepest nesting of brackets in an expression, and of lists and maps in a value."""

MAX_SIZE: Final = 256 * 1024
"""Largest value, and all that an expression is given together: characters of its strings and keys, and its parts."""

_INTEGERS: Final = range(-(2**63), 2**63)


NUMBER: Final = 256
"""Weight of a number, a boolean or null: what a copy of a value takes, in quarters of a nanosecond."""

TEXT: Final = 512
"""Weight of a text without its characters, each of which weighs 1."""

LIST: Final = 512
"""Weight of a list without what is in it."""

MAP: Final = 1536
"""Weight of a map without what is in it."""

KEY: Final = 768
"""Weight of a map's key without its characters."""


class Sizes(NamedTuple):
    """How large a value is."""

    longest: int
    """Length of the longest list or map in it."""
    parts: int
    """Values in it, and itself."""
    characters: int
    """Those of all texts and keys."""
    weight: int
    """What a copy of it takes."""


def checked(value: Any, depth: int) -> Sizes:
    """How large a value is.

    Raises:
        ValueError: it is no JSON value of the size and depth that expressions take.
    """
    longest = size = parts = texts = lists = maps = keys = 0
    stack: list[tuple[Any, int]] = [(value, depth - 1)]
    while stack:
        one, at = stack.pop()
        parts += 1
        size += 1
        if one is None or one is True or one is False:
            continue
        if isinstance(one, str):
            texts += 1
            size += len(one)
        elif isinstance(one, int):
            if one not in _INTEGERS:
                raise ValueError(f"{str(one)[:40]} is over 64 bits")
        elif isinstance(one, float):
            if not isfinite(one):
                raise ValueError(f"{one} is no number that JSON has")
        elif isinstance(one, list | tuple | dict | Mapping):
            longest = max(longest, len(one)) if at > 0 or isinstance(one, list | tuple) else longest
            if at >= MAX_DEPTH:
                raise ValueError(f"lists and maps nest deeper than {MAX_DEPTH}")
            if size + len(one) > MAX_SIZE:
                raise ValueError(_TOO_LARGE)
            if isinstance(one, list | tuple):
                lists += 1
                stack.extend((item, at + 1) for item in one)
            else:
                maps, keys = maps + 1, keys + len(one)
                size += sum(map(_key_length, one))
                stack.extend((item, at + 1) for item in one.values())
        else:
            raise ValueError(f"a value of type {type(one).__name__} is no JSON value; convert it, as with string(…)")
        if size > MAX_SIZE:
            raise ValueError(_TOO_LARGE)
    numbers = parts - texts - lists - maps
    weight = size - parts + NUMBER * numbers + TEXT * texts + LIST * lists + MAP * maps + KEY * keys
    return Sizes(longest, parts, size - parts, weight)


_TOO_LARGE: Final = f"what it is given or comes to is larger than {MAX_SIZE} characters; take less"


def _key_length(key: Any) -> int:
    if not isinstance(key, str):
        raise ValueError(f"a map has the key {key!r}, which is no string; write it in quotes")
    return len(key)


def ordered(value: Any) -> Any:
    """The value with every map's keys in order: CEL's maps have none."""
    if isinstance(value, dict):
        return {key: ordered(value[key]) for key in sorted(value)}
    return [ordered(item) for item in value] if isinstance(value, list) else value


def keys_of(value: Any) -> list[Any]:
    if not isinstance(value, dict):
        raise TypeError(f"keys need a map, not {type(value).__name__}")
    return sorted(value)


def in_order(value: Any) -> list[Any]:
    """What a macro goes through: a list as it is, of a map its keys in order."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return sorted(value)
    raise TypeError(f"a macro goes through a list or a map, not {type(value).__name__}")
